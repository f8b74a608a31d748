"""Writing what changes many answers at once: it is shown what it would change, asked, and only then written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from projectors.surfaces.params import Settings
from projectors.surfaces.telling import tell

if TYPE_CHECKING:
    from schemas.events import Event
    from streams import Memory, Receipt
    from streams.compare import Difference
    from streams.making import Making


def asking_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--yes` and `--dry-run`."""
    yes = click.option("--yes", "-y", is_flag=True, help="Write it without asking.")
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what it would change.")
    return yes(dry_run(command))


def making(settings: Settings) -> Making:
    """Makes events, so that the very event that was shown is the one that is written."""
    from schemas.checks import DEFAULT_MAX_VALUE_BYTES
    from streams.making import Making

    return Making(settings.actor, {}, DEFAULT_MAX_VALUE_BYTES)


def confirmed(question: str, yes: bool) -> None:
    """Ends the command unless somebody says yes: with code 1 when they say no, 2 when nobody can be asked. All of the
    question goes to stderr, whoever reads the answers."""
    from projectors.surfaces import output
    from schemas.errors import InvalidInput

    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(
            "nothing was written: that is to be confirmed, and stdin is no terminal", hint="--yes writes without asking"
        )
    output.ask(f"{question} [y/N]: ")
    answer = sys.stdin.readline()
    if not answer:
        raise EOFError
    if answer.strip().lower() not in ("y", "yes"):
        output.note("nothing was written")
        raise click.exceptions.Exit(1)


def refuse_wrong(memory: Memory, event: Event) -> None:
    """
    Raises:
        InvalidEvent: the event would not be taken.
    """
    problem = memory.check([event])[0]
    if problem is not None:
        raise problem


def shown_and_written(
    settings: Settings,
    memory: Memory,
    event: Event,
    branches: Iterable[str],
    question: str,
    *,
    yes: bool,
    dry_run: bool,
    wait: bool,
) -> Receipt | None:
    """Show what the event would change on these branches, ask, write it, and tell the receipt. None: a dry run."""
    from projectors.surfaces import output
    from streams import View

    refuse_wrong(memory, event)
    changes = {branch: memory.preview(event.space, [event], View(branch=branch)) for branch in branches}
    if not settings.json:
        for branch, found in changes.items():
            where = f"on {output.word(branch)}" if len(changes) > 1 or branch != "main" else ""
            show_changes(found, where, but=[event])
    if dry_run:
        if settings.json:
            output.document({"changes": changes})
        return None
    confirmed(question, yes)
    receipt = memory.append([event])[0]
    tell(settings, memory, receipt, wait, changes=changes)
    return receipt


def show_changes(found: Sequence[Difference], where: str, *, but: Collection[Event]) -> None:
    """Each slot that would answer otherwise; the events `but` are about to be written, and not told one by one."""
    from projectors.surfaces.output import counted, line
    from projectors.surfaces.render_why import difference_lines

    slots = counted(len(found), "slot") if found else "no answer"
    line(f"changes {slots} {where}".rstrip() + (":" if found else ""))
    for one in found:
        for text in difference_lines(one, but=but):
            line(f"  {text}")
