"""`slotlog`: the command line. Here are the program itself, its exit codes, and how every error is told."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from projectors.surfaces.params import Settings, actor_option, json_option, store_option, timeout_option

DONE, NOTHING, WRONG_INPUT, TRY_LATER, STORE_TROUBLE, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 4, 130, 141

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


SECTIONS = {
    "Write": {**dict.fromkeys(("remember", "end", "forget", "observe"), "writing"), "append": "appending"},
    "Read": {
        **dict.fromkeys(("get", "entity", "history", "timeline", "sessions", "replay"), "reading"),
        "ls": "walking",
    },
    "Ask why": {
        "explain": "reasoning",
        "diff": "comparing",
        "bisect": "bisecting",
        **dict.fromkeys(("known", "schema"), "reasoning"),
    },
    "Rule what counts": {
        **dict.fromkeys(("review", "forbid", "allow", "declare", "policy"), "ruling"),
        **dict.fromkeys(("distrust", "trust"), "distrusting"),
    },
    "Branch": {"branch": "branching", "git": "git_commands"},
    "Look after": {
        "info": "tending",
        **dict.fromkeys(("verify", "doctor"), "proving"),
        **dict.fromkeys(("rebuild", "digest", "quarantine", "topic"), "tending"),
    },
    "Move": dict.fromkeys(("copy", "export", "import"), "moving"),
    "Fleet": {**dict.fromkeys(("serve", "workers"), "serving"), "worker": "working"},
    "Begin": {"demo": "demo", "completion": "completing"},
}
"""Every command, in the order in which they are shown, and the module beside this one that has it under its name."""

COMMANDS = {name: module for section in SECTIONS.values() for name, module in section.items()}


class Program(click.Group):
    """The group of all commands. Only the one that runs is imported, and it ends in one of the documented codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found: click.Command = getattr(import_module(f"projectors.surfaces.{COMMANDS[cmd_name]}"), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for heading, names in SECTIONS.items():
            shown = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{name:<{widest}}", "" if one is None else one.get_short_help_str(100)) for name, one in shown]
                )

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command. With `standalone_mode` errors are told on stderr and the process ends; without, they are
        raised, and the return value is the code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra) or DONE
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # it was closed before we began
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
            with suppress(AttributeError):  # a terminal without UTF-8 shows \uXXXX
                getattr(sys, name).reconfigure(errors="backslashreplace")
        sys.exit(
            self._ended(
                lambda: super(Program, self).main(args, prog_name, complete_var, standalone_mode=False, **extra)
            )
        )

    def _ended(self, run: Callable[[], Any]) -> int:
        """The exit code, after the error, if any, was told."""
        try:
            code = run() or DONE
            sys.stdout.flush()
        except SystemExit as ended:  # so click ends for a broken pipe, and with 0 once a shell was told completions
            code = READER_GONE if ended.code else DONE
        except BrokenPipeError:
            code = READER_GONE
        except Exception as error:
            code = told(error)
            if code is None:
                raise
        if code == READER_GONE or not _is_written():
            _let_go_of_stdout()
        return int(code or DONE)


def told(error: Exception) -> int | None:
    """Tell `error` on stderr and return its exit code; None for one that is a bug of ours."""
    from projectors.surfaces import output
    from schemas import errors

    hint: str | None = None
    match error:
        case click.exceptions.Abort():
            with suppress(OSError):
                output.note("interrupted")
            return INTERRUPTED
        case click.ClickException():
            text, code = error.format_message(), WRONG_INPUT
            context = getattr(error, "ctx", None)
            hint = None if context is None else f"{context.command_path} --help shows how it is written"
            if isinstance(error, click.NoSuchOption) and error.option_name[1:2].isdigit():
                hint = "put -- before an argument that begins with -"
        case errors.SlotlogError():
            text, hint = str(error), error.hint
            if isinstance(error, errors.InvalidInput):
                code = WRONG_INPUT
            else:
                code = TRY_LATER if isinstance(error, errors.Unavailable) else STORE_TROUBLE
        case OSError():
            place = "" if error.filename is None else f": {error.filename}"
            text = f"{error.strerror or error}{place}"
            code = STORE_TROUBLE if error.errno in _NO_ROOM else WRONG_INPUT
        case _:
            return None
    with suppress(OSError):
        output.problem(text, hint)
    return code


def _is_written() -> bool:
    """Whether nothing is left in the buffer of stdout. That it can't be written was told by then."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        return False
    return True


def _let_go_of_stdout() -> None:
    """Nobody reads on, or nothing can be written: what is still in the buffer must not raise again when the interpreter
    ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("slotlog")
    except PackageNotFoundError:
        found = "(run from a checkout that is not installed)"
    click.echo(f"slotlog {found}")
    context.exit()


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "obj": None},
)
@store_option(envvar="SLOTLOG_STORE")
@actor_option(envvar="SLOTLOG_ACTOR")
@timeout_option()
@json_option()
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version, and end."
)
@click.pass_context
def main(context: click.Context) -> None:
    """Memory for fleets of AI agents: one log of events, and every answer as of any moment of it.

    --store, --actor, --timeout and --json may stand before the command or after it. A TIME is RFC 3339 with an offset,
    like 2026-03-01T09:00:00Z. A POINT is an offset, PARTITION:OFFSET or a TIME. Answers go to stdout, everything else
    to stderr. A file slotlog.toml holds store, actor, branch and branch_isolation for its folder and all below.

    \b
    Exit codes:
      0    done
      1    answered with nothing; some lines were refused; a merge conflicts; no to a question;
           a topic's setting is wrong
      2    what was given is wrong
      3    try again later: the store is busy, or its broker can't be reached
      4    the store is damaged, full, changed or too new; verify or doctor found something wrong
      130  interrupted
      141  whoever read the output went away

    \b
    Start here:
      slotlog demo
      slotlog remember acme/support user:alice employer Acme
      slotlog get acme/support user:alice employer
    """
    context.ensure_object(Settings)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


if __name__ == "__main__":
    main()
