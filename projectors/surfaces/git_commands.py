"""`slotlog git`: the commits of a repository onto the log, by hand or by git's own hooks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from projectors.surfaces.params import DEFAULT_TIMEOUT_S, Settings, common, named, space_argument, stdin, writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.git_hooks import Hook
    from streams.git_sync import Synced
    from streams.repository import Repository

_repo_option = click.option(
    "--repo", "path", default=".", metavar="PATH", help="A folder inside the repository. Default: where you are."
)


@click.group(short_help="Record the commits of a repository.", invoke_without_command=True)
@common
@click.pass_context
def git(context: click.Context) -> None:
    """Record the commits of a repository, so that what was known at a commit can be told where no clone is at hand,
    and what was pinned to a commit survives a rebase."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@git.command(short_help="Record what is new.")
@space_argument
@_repo_option
@writing
@click.pass_obj
def sync(settings: Settings, space: str, path: str) -> None:
    """Record in SPACE every commit that leads to HEAD and that it does not know, and what became of commits that facts
    are pinned to: by cherry-picks and squash merges of their changes. Doing it again changes nothing.

    \b
    Examples:
      slotlog git sync acme/shop
      slotlog git sync acme/shop --repo ~/src/shop
    """
    from projectors.surfaces import output

    repository = _repository(path)
    done = _synced(settings, space, repository, (), quick=False)
    if settings.json:
        output.document({"repo": repository.name, "head": repository.head(), **done._asdict()})
        return
    output.line(f"{output.counted(done.appended, 'commit')} recorded, {done.mapped:,} found again under another id")
    if done.pending:
        commits = output.counted(done.pending, "commit")
        output.note(f"not part of HEAD, nor is their change: {commits} that facts are pinned to")


@git.command("install-hooks", short_help="Let git record them by itself.")
@space_argument
@_repo_option
@writing
@click.pass_obj
def install_hooks(settings: Settings, space: str, path: str) -> None:
    """Have git record in SPACE what is new after each commit, merge, rewrite and checkout.

    --store, --actor and --timeout are kept in the hooks as they are given here. Hooks that are there already stay, and
    run after ours. They work in the background: git waits for nothing, and what went wrong is told by the next one, and
    by `slotlog git status`. With SLOTLOG_HOOKS=wait in the environment git waits, with SLOTLOG_HOOKS=off nothing runs.

    \b
    Examples:
      slotlog git install-hooks acme/shop
      slotlog git install-hooks acme/shop --store ~/memory --actor hook:git
    """
    hooks = _repository(path).install_hooks(_command(settings, space))
    _show(settings, hooks)


@git.command("uninstall-hooks", short_help="Take that back.")
@_repo_option
@common
@click.pass_obj
def uninstall_hooks(settings: Settings, path: str) -> None:
    """Take out of git's hooks what install-hooks put in, and nothing else.

    \b
    Example:
      slotlog git uninstall-hooks
    """
    _show(settings, _repository(path).uninstall_hooks())


@git.command(short_help="What is recorded, and which hooks are there.")
@click.argument("space", callback=named("space"), required=False)
@_repo_option
@common
@click.pass_obj
def status(settings: Settings, space: str | None, path: str) -> None:
    """Show the repository, its hooks, and with SPACE what is recorded there of it. Code 1 when the last hook did not
    work, or HEAD is not recorded in SPACE.

    \b
    Examples:
      slotlog git status
      slotlog git status acme/shop --json
    """
    from projectors.surfaces import output

    repository = _repository(path)
    head, hooks, trouble = repository.head(), repository.hooks_status(), repository.hooks_trouble()
    found: dict[str, object] = {"repo": repository.name, "head": head}
    is_recorded = True
    if space is not None:
        with settings.open(create=False) as memory:
            is_recorded = head is None or bool(memory.commits(space, [head]))
            pinned = memory.pinned(space)
        found |= {"recorded": is_recorded, "pinned_commits": len(pinned)}
    if settings.json:
        output.document({**found, "trouble": trouble, "hooks": [_plain(hook) for hook in hooks]})
    else:
        output.line(f"{output.word(repository.name)} at {head or 'no commit yet'}")
        if space is not None:
            commits = output.counted(len(pinned), "commit")
            output.line(f"HEAD is {'' if is_recorded else 'not '}recorded; facts are pinned to {commits}")
        _table(hooks)
        if trouble is not None:
            output.problem(f"the last hook did not work: {trouble}")
    if trouble is not None or not is_recorded:
        raise click.exceptions.Exit(1)


@git.command(hidden=True)
@click.option("--space", required=True, callback=named("space"))
@click.argument("kind", type=click.Choice(("post-commit", "post-merge", "post-rewrite", "post-checkout")))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@writing
@click.pass_obj
def hook(settings: Settings, space: str, kind: str, arguments: Sequence[str]) -> None:
    """What git's hooks run. Trouble is one line on stderr, and code 1; the hooks see to it that git goes on."""
    from projectors.surfaces import output
    from schemas.errors import SlotlogError
    from streams.repository import Repository, rewritten

    try:
        pairs = rewritten(stdin().read().decode().splitlines()) if kind == "post-rewrite" else ()
        repository = Repository.find(".") or _repository(os.environ.get("GIT_DIR", "."))
        _synced(settings, space, repository, pairs, quick=True)
    except (SlotlogError, OSError) as error:
        output.note(f"slotlog: {kind}: {output.printable(str(error))}")
        raise click.exceptions.Exit(1) from error


def _synced(
    settings: Settings, space: str, repository: Repository, rewritten: Sequence[tuple[str, str]], *, quick: bool
) -> Synced:
    from schemas.checks import DEFAULT_MAX_VALUE_BYTES
    from streams.git_sync import sync
    from streams.making import Making

    actor = Making(settings.actor, {}, DEFAULT_MAX_VALUE_BYTES).actor
    with settings.open(create=True) as memory:
        return sync(memory, space, repository, actor=actor, rewritten=rewritten, quick=quick)


def _repository(path: str) -> Repository:
    from schemas.errors import InvalidInput
    from streams.repository import Repository

    found = Repository.find(path)
    if found is None:
        raise InvalidInput(
            f"{path} is in no git repository", hint="name one with --repo, and see that git is installed"
        )
    return found


def _command(settings: Settings, space: str) -> list[str]:
    """What a hook runs. It runs in another folder than this one, where no module of the repository must be imported."""
    program = [sys.executable, "-P", "-m", "projectors.surfaces.cli"]
    given = [f"--store={_lasting(settings.store_name)}"]
    if settings.actor is not None:
        given.append(f"--actor={settings.actor}")
    if settings.timeout != DEFAULT_TIMEOUT_S:
        given.append(f"--timeout={settings.timeout:g}")
    return [*program, *given, "git", "hook", f"--space={space}"]


def _lasting(store: str) -> str:
    """The store's name, so that it means the same in any folder."""
    from schemas.errors import InvalidInput
    from streams.stores import kafka_address

    if "://" not in store:
        return os.path.abspath(os.path.expanduser(store))
    if store.startswith("kafka://") and not kafka_address(store).state.is_absolute():
        raise InvalidInput(f"the state folder of {store} is relative, and hooks run elsewhere", hint="name it in full")
    return store


def _show(settings: Settings, hooks: Sequence[Hook]) -> None:
    from projectors.surfaces import output

    if settings.json:
        output.document([_plain(hook) for hook in hooks])
    else:
        _table(hooks)


def _table(hooks: Sequence[Hook]) -> None:
    from projectors.surfaces import output

    told = {"installed": "installed", "absent": "none", "other": "another's"}
    output.table(("HOOK", "STATE", "FILE"), [(one.kind, told[one.state], output.word(str(one.path))) for one in hooks])


def _plain(hook: Hook) -> dict[str, object]:
    return {**hook._asdict(), "path": str(hook.path)}
