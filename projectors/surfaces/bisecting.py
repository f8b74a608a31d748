"""`slotlog bisect`: the event at which something became so, found by halving."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from projectors.surfaces.params import (
    Settings,
    as_point,
    common,
    json_value_option,
    named,
    space_argument,
    value_of,
)
from projectors.surfaces.viewing import looking, view_is_given, view_options

if TYPE_CHECKING:
    from schemas.events import Value
    from streams import Memory, Position, View
    from streams.bisecting import Found

_HOLDS, _DOES_NOT, _SKIP = 0, 1, 125
_Holds = Callable[["Position"], bool | None]


@click.command(short_help="Find the event that made something so.")
@space_argument
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--entity", callback=named("entity"), metavar="NAME", help="The entity that is asked about.")
@click.option("--slot", callback=named("slot"), metavar="NAME", help="The slot that is asked about.")
@click.option("--value", metavar="VALUE", help="The value that is believed from then on. Default: any.")
@json_value_option
@click.option(
    "--from", "start", callback=as_point, metavar="POINT", help="Where it is not so yet. Default: before all events."
)
@click.option("--to", "stop", callback=as_point, metavar="POINT", help="Where it is so. Default: now.")
@view_options("as_of")
@common
@click.pass_obj
def bisect(
    settings: Settings,
    space: str,
    command: tuple[str, ...],
    entity: str | None,
    slot: str | None,
    value: str | None,
    json_value: bool,
    start: int | datetime | None,
    stop: int | datetime | None,
    view: View,
) -> None:
    """Find the event of SPACE at which --slot of --entity came to have --value, or at which COMMAND began to succeed.

    It asks as of the event in the middle, then in the middle of the half where the answer changes, and so on. Where it
    came and went more than once, one of the events at which it came is found. It must not be so at --from, and be so
    at --to.

    COMMAND runs with SLOTLOG_AS_OF, SLOTLOG_SPACE and SLOTLOG_STORE in its environment, so that every slotlog in it
    that takes --as-of answers as of that event. Its code says whether it is so: 0 yes, 1 no, 125 can't tell; any other
    ends the search. What it prints goes to stderr.

    \b
    Examples:
      slotlog bisect acme/support --entity user:alice --slot employer --value Globex
      slotlog bisect acme/support --entity user:alice --slot seats --value 42 --json-value --from 120
      slotlog bisect acme/support -- sh -c 'slotlog get acme/support user:alice employer | grep -q Globex'
    """
    from schemas.errors import InvalidInput

    asked = [name for name, text in (("--entity", entity), ("--slot", slot), ("--value", value)) if text is not None]
    if command and (asked or view_is_given(click.get_current_context(), by_environment=False)):
        raise click.UsageError("COMMAND asks by itself: --entity, --slot, --value and the options of a view go without")
    if not command and (entity is None or slot is None):
        raise click.UsageError("--entity and --slot, or a COMMAND behind --, say what to look for")
    wanted = None if value is None else value_of(value, json_value, "--value")
    with looking(settings, space, view) as memory:
        search = _Search(memory, space, view, start, stop)
        if command:
            holds: _Holds = _of_command(settings, space, command)
        else:
            assert entity is not None
            assert slot is not None
            holds = _of_belief(memory, space, entity, slot, wanted, view)
        if search.last.offset < 0:
            raise InvalidInput(f"{_word(space)} has no event by then")
        found = search.run(holds)
        _show(settings, memory, space, search, found)


class _Search:
    """The offsets between which the event is looked for."""

    def __init__(
        self, memory: Memory, space: str, view: View, start: int | datetime | None, stop: int | datetime | None
    ) -> None:
        self._memory = memory
        self._space = space
        self.last = self._by(stop)
        self.before = type(self.last)(self.last.partition, -1) if start is None else self._by(start)
        self.forked_at = next(
            (one.forked_at.offset for one in memory.branches(space) if one.name == view.branch and one.forked_at), -1
        )

    def run(self, holds: _Holds) -> Found:
        """Where it became so.

        Raises:
            InvalidInput: it is so at the start already, is not at the end, or that can't be told.
        """
        from schemas.errors import InvalidInput
        from streams.bisecting import first_at_which

        def known(offset: int) -> bool | None:
            if offset < self.forked_at:  # the branch was not there
                return False
            return holds(self.at(offset))

        for point, wanted, where in ((self.before.offset, False, "--from"), (self.last.offset, True, "--to")):
            answer = known(point)
            if answer is not wanted:
                told = {True: "it is so already", False: "it is not so", None: "it can't be told"}[answer]
                hint = f"name a {where} at which it is {'' if wanted else 'not '}so"
                raise InvalidInput(f"{told} at {where}, {self.at(point)}", hint=hint)
        return first_at_which(self.before.offset, self.last.offset, lambda offset: self._by(offset).offset, known)

    def at(self, offset: int) -> Position:
        return type(self.last)(self.last.partition, offset)

    def _by(self, point: int | datetime | None) -> Position:
        """The place of the last event by a point."""
        from streams import View

        return self._memory.resolve(self._space, View(as_of=point)).as_of


def _of_belief(memory: Memory, space: str, entity: str, slot: str, wanted: Value | None, view: View) -> _Holds:
    import msgspec

    from streams.answers import beliefs_of

    def holds(position: Position) -> bool:
        answer = memory.get(space, entity, slot, msgspec.structs.replace(view, as_of=position))
        believed = [(type(one.value), one.value) for one in beliefs_of(answer)]
        return bool(believed) if wanted is None else (type(wanted), wanted) in believed

    return holds


def _of_command(settings: Settings, space: str, command: Sequence[str]) -> _Holds:
    given = {**os.environ, "SLOTLOG_SPACE": space, "SLOTLOG_STORE": settings.store_name}

    def holds(position: Position) -> bool | None:
        from schemas.errors import InvalidInput

        done = subprocess.run(
            command,
            env={**given, "SLOTLOG_AS_OF": str(position)},
            stdin=subprocess.DEVNULL,
            stdout=2,
            check=False,
        )
        if done.returncode not in (_HOLDS, _DOES_NOT, _SKIP):
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
            raise InvalidInput(
                f"{command[0]} ended with {how} as of {position}", hint="0 says that it is so, 1 that not, 125 skips"
            )
        return None if done.returncode == _SKIP else done.returncode == _HOLDS

    return holds


def _show(settings: Settings, memory: Memory, space: str, search: _Search, found: Found) -> None:
    from projectors.surfaces import output
    from projectors.surfaces.render_why import event_lines

    (event,) = memory.replay(space, start=found.first, end=found.first + 1)
    if settings.json:
        undecided = [search.at(offset) for offset in found.undecided]
        output.document({"found": event, "steps": found.probes, "undecided": undecided})
    else:
        output.line(f"so since {search.at(found.first)}, found in {output.counted(found.probes, 'step')}")
        for text in event_lines(event):
            output.line(f"  {text}")
    if found.undecided:
        places = ", ".join(str(search.at(offset)) for offset in found.undecided)
        output.note(f"it may be an earlier one, which could not be told: {places}")


def _word(text: str) -> str:
    from projectors.surfaces.output import word

    return word(text)
