"""`slotlog branch`: lines of memory that are made, compared, merged, rolled back and deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from projectors.surfaces.confirming import (
    asking_options,
    confirmed,
    making,
    refuse_wrong,
    show_changes,
    shown_and_written,
)
from projectors.surfaces.params import (
    Settings,
    as_event_or_point,
    cause_option,
    common,
    event_id_option,
    named,
    reason_option,
    session_option,
    space_argument,
    wait_option,
    writing,
)
from projectors.surfaces.telling import nothing, tell
from projectors.surfaces.viewing import view_options

if TYPE_CHECKING:
    from streams import Memory, Position, View
    from streams.merging import MergePlan

_Point = str | int | datetime


def _branch_argument(name: str) -> Callable[..., Any]:
    return click.argument(name, callback=named("branch"))


def _checked_slots(
    _: click.Context, __: click.Parameter, slots: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    from schemas.checks import check_name

    for entity, slot in slots:
        check_name("entity", entity)
        check_name("slot", slot)
    return slots


@click.group(short_help="Lines of memory: fork, merge, roll back.", invoke_without_command=True)
@common
@click.pass_context
def branch(context: click.Context) -> None:
    """Branches of memory. Each shows what it said itself, what was merged into it, and what its parent showed when it
    was forked. Which one a command reads or writes it says with --branch; there is none that is checked out.

    SLOTLOG_BRANCH, or `branch` in slotlog.toml, is the one in use where a command does not say, else it is main.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@branch.command("list", short_help="The branches of a space.")
@space_argument
@click.option("--deleted", is_flag=True, help="Also those that were deleted.")
@common
@click.pass_obj
def list_(settings: Settings, space: str, deleted: bool) -> None:
    """The branches of SPACE, main first, then as they were forked. The one in use has a star.

    \b
    Examples:
      slotlog branch list acme/support
      slotlog branch list acme/support --deleted --json | jq -r '.[].name'
    """
    from projectors.surfaces import output

    with settings.open(create=False) as memory:
        found = memory.branches(space, deleted=deleted)
    if settings.json:
        output.document(found)
        return
    rows = [
        (
            ("* " if one.name == settings.branch else "  ") + output.word(one.name),
            "" if one.parent is None else output.word(one.parent),
            *("" if place is None else str(place) for place in (one.fork, one.forked_at, one.deleted_at)),
        )
        for one in found
    ]
    output.table(("  BRANCH", "FROM", "SHOWS IT UP TO", "FORKED AT", "DELETED AT"), rows)


@branch.command(short_help="Fork a branch.")
@space_argument
@_branch_argument("name")
@click.option(
    "--from", "parent", callback=named("branch"), metavar="BRANCH", help="What to fork. Default: the one in use."
)
@click.option(
    "--at",
    callback=as_event_or_point,
    metavar="EVENT_ID|POINT",
    help="The last event of its parent that it shows: an event, or the last one by an offset or a time. Default: now.",
)
@session_option
@cause_option
@event_id_option
@wait_option
@writing
@click.pass_obj
def create(
    settings: Settings, /, space: str, name: str, parent: str | None, at: _Point | None, wait: bool, **fields: Any
) -> None:
    """Fork the branch NAME. What becomes of its parent later changes nothing there. A name is never used again.

    \b
    Examples:
      slotlog branch create acme/support idea
      slotlog branch create acme/support deeper --from idea
      slotlog branch create acme/support yesterday --at 2026-03-01T00:00:00Z
      slotlog remember acme/support user:alice employer Globex --branch idea
    """
    with settings.open(create=at is None) as memory:
        event_id = None if at is None else _event_by(memory, space, at, "--at")
        receipt = memory.fork(space, name, parent=parent or settings.branch, at=event_id, **fields)
        tell(settings, memory, receipt, wait)


@branch.command(short_help="Merge a branch into another.")
@space_argument
@_branch_argument("source")
@click.option("--into", callback=named("branch"), metavar="BRANCH", help="Default: the one in use.")
@click.option("--ours", is_flag=True, help="Where slots conflict, keep what INTO believes.")
@click.option("--theirs", is_flag=True, help="Where slots conflict, take what SOURCE believes.")
@click.option(
    "--only",
    nargs=2,
    multiple=True,
    callback=_checked_slots,
    metavar="ENTITY SLOT",
    help="Merge only this slot. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only show what it would do.")
@session_option
@writing
@click.pass_obj
def merge(
    settings: Settings,
    space: str,
    source: str,
    into: str | None,
    ours: bool,
    theirs: bool,
    only: tuple[tuple[str, str], ...],
    dry_run: bool,
    session: str | None,
) -> None:
    """Show on a branch what SOURCE said or had merged since it was forked.

    A slot conflicts when both branches said something about it and believe different things. Conflicts are shown with
    what was believed when the branches parted, and where each side has it from; with any of them nothing is written,
    and the code is 1, unless --ours or --theirs settles them, or --only leaves them out. Never is one passed over.

    \b
    Examples:
      slotlog branch merge acme/support idea
      slotlog branch merge acme/support idea --dry-run
      slotlog branch merge acme/support idea --theirs
      slotlog branch merge acme/support idea --into other --only user:alice employer --only user:bob plan
    """
    from projectors.surfaces import output
    from streams.merging import Merged

    if ours and theirs:
        raise click.UsageError("--ours and --theirs settle conflicts in opposite ways: give one of them")
    take: Literal["ours", "theirs"] | None = "ours" if ours else "theirs" if theirs else None
    into = into or settings.branch
    with settings.open(create=False) as memory:
        plan = memory.merge_plan(space, source, into=into, take=take, only=only or None, session=session)
        receipts = () if dry_run or not plan.events else tuple(memory.append(plan.events))
        if settings.json:
            output.document(Merged(plan, receipts))
        else:
            _show_merge(plan, take, some=bool(only))
            if receipts:
                what = f"merged {_word(source)} into {_word(into)}"
                output.line(
                    f"{what} with {output.counted(len(receipts), 'event')}, the first at {receipts[0].position}"
                )
                _tell_undo(memory, space, into, receipts[0].position)
            elif dry_run and plan.events:
                output.line(f"nothing was written; it would be {output.counted(len(plan.events), 'event')}")
    if plan.conflicts and take is None:
        if not settings.json:
            output.note("nothing was written: --ours or --theirs settles conflicts, --only merges other slots")
        raise click.exceptions.Exit(1)


def _show_merge(plan: MergePlan, take: str | None, *, some: bool) -> None:
    from projectors.surfaces import output
    from projectors.surfaces.render_branches import conflict_lines

    if plan.conflicts:
        count = "1 slot conflicts" if len(plan.conflicts) == 1 else f"{len(plan.conflicts):,} slots conflict"
        output.line(f"{count}{'' if take is None else f', settled by taking {take}'}:")
        for conflict in plan.conflicts:
            for text in conflict_lines(conflict, plan.source, plan.into):
                output.line(f"  {text}")
    if plan.events:
        for entity, slot in plan.idle:
            output.note(f"{output.word(plan.source)} says nothing new of {output.word(entity)} {output.word(slot)}")
        show_changes(plan.changes, f"on {output.word(plan.into)}", but=plan.events)
    elif not plan.conflicts:
        what = f"all that {output.word(plan.source)} says" + (" of these slots" if some else "")
        output.line(f"nothing to merge: {output.word(plan.into)} shows {what}")


@branch.command(short_help="Take back what a branch said.")
@space_argument
@_branch_argument("name")
@click.option(
    "--to",
    callback=as_event_or_point,
    required=True,
    metavar="EVENT_ID|POINT",
    help="The last event that stays: an event, or the last one by an offset or a time.",
)
@reason_option
@asking_options
@session_option
@cause_option
@wait_option
@writing
@click.pass_obj
def rollback(
    settings: Settings,
    /,
    space: str,
    name: str,
    to: _Point,
    yes: bool,
    dry_run: bool,
    wait: bool,
    **fields: Any,
) -> None:
    """Hide what the branch NAME itself said or had merged after an event, up to now. What it inherits stays.

    It shows what that would change, asks, and tells how to undo it: by a rollback to the event before this one.
    The log keeps all of it, and answers as of an earlier offset still show it.

    \b
    Examples:
      slotlog branch rollback acme/support main --to 120
      slotlog branch rollback acme/support idea --to 0195d0a4-7c00-7000-8000-000000000007 --reason "wrong track"
      slotlog branch rollback acme/support main --to 2026-03-01T00:00:00Z --yes
    """
    with settings.open(create=False) as memory:
        event = making(settings).rollback(space, name, _event_by(memory, space, to, "--to"), **fields)
        question = f"Roll {_word(name)} back?"
        receipt = shown_and_written(settings, memory, event, [name], question, yes=yes, dry_run=dry_run, wait=wait)
        if receipt is not None and not settings.json:
            _tell_undo(memory, space, name, receipt.position)


@branch.command("diff", short_help="What two branches answer differently.")
@space_argument
@_branch_argument("first")
@click.argument("second", callback=named("branch"), required=False)
@view_options("branch")
@common
@click.pass_obj
def diff_(settings: Settings, space: str, first: str, second: str | None, view: View) -> None:
    """The slots whose value, or its trust, differs between the branches FIRST (`-`) and SECOND (`+`, default: the one
    in use), through views that are otherwise the same. `slotlog diff` compares any two views.

    \b
    Examples:
      slotlog branch diff acme/support main idea
      slotlog branch diff acme/support idea --as-of 120 --json
    """
    import msgspec

    from projectors.surfaces.comparing import compare

    second = second or settings.branch
    if first == second:
        raise click.UsageError(f"{_word(first)} is the branch in use, and does not differ from itself: name another")
    sides = (msgspec.structs.replace(view, branch=name) for name in (first, second))
    compare(settings, space, *sides)


@branch.command(short_help="What made and changed a branch.")
@space_argument
@_branch_argument("name")
@common
@click.pass_obj
def log(settings: Settings, space: str, name: str) -> None:
    """The events that made the branch NAME, were merged into it, rolled it back and deleted it, in order. One that a
    rollback hides, or whose actor is distrusted, is marked.

    What was said on a branch: slotlog timeline SPACE --branch NAME.

    \b
    Examples:
      slotlog branch log acme/support idea
      slotlog branch log acme/support main --json | jq -r '.[] | select(.counts) | .recorded.event.type'
    """
    from projectors.surfaces import output
    from projectors.surfaces.render import event_line

    with settings.open(create=False) as memory:
        found = memory.branch_log(space, name)
    if settings.json:
        output.document(found)
    for one in () if settings.json else found:
        text = event_line(one.recorded) + ("" if one.counts else "  (does not count)")
        output.line(output.fitted(text, settings.width))
    if not found:
        nothing(settings, f"nothing was merged into {output.word(name)}, and nothing rolled it back")


@branch.command(short_help="Hide a branch for good.")
@space_argument
@_branch_argument("name")
@click.option("--yes", "-y", is_flag=True, help="Delete it without asking.")
@reason_option
@session_option
@cause_option
@wait_option
@writing
@click.pass_obj
def delete(settings: Settings, /, space: str, name: str, yes: bool, wait: bool, **fields: Any) -> None:
    """Hide the branch NAME. It asks first.

    Its events stay on the log, answers as of an earlier offset show it, and what was merged from it stays, like
    branches that were forked from it. Its name is never used again.

    \b
    Examples:
      slotlog branch delete acme/support idea
      slotlog branch delete acme/support idea --yes --reason "merged"
    """
    with settings.open(create=False) as memory:
        event = making(settings).delete_branch(space, name, **fields)
        refuse_wrong(memory, event)
        confirmed(f"Delete {_word(name)} for good? Its name can't be used again.", yes)
        tell(settings, memory, memory.append([event])[0], wait)


def _event_by(memory: Memory, space: str, point: _Point | Position, option: str) -> str:
    """The id of an event, or of the last one that the space had by a point."""
    from schemas.errors import InvalidView
    from schemas.jsonform import id_text
    from streams import View

    if isinstance(point, str):
        return point
    try:
        place = memory.resolve(space, View(as_of=point)).as_of
    except InvalidView as error:
        raise InvalidView(f"{option}: {str(error).removeprefix('as_of ')}", hint=error.hint) from error
    if place.offset < 0:
        raise InvalidView(f"{option}: {_word(space)} had no event by then")
    (found,) = memory.replay(space, start=place.offset, end=place.offset + 1)
    return id_text(found.event.event_id)


def _tell_undo(memory: Memory, space: str, name: str, position: Position) -> None:
    """How to take back what was just written at a position."""
    import shlex

    from projectors.surfaces.output import note

    before = _event_by(memory, space, type(position)(position.partition, position.offset - 1), "--to")
    note(f"to undo it: slotlog branch rollback {shlex.quote(space)} {shlex.quote(name)} --to {before}")


def _word(name: str) -> str:
    from projectors.surfaces.output import word

    return word(name)
