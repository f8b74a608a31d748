"""The commands that ask: get, entity, history, timeline, sessions and replay. None of them writes anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from projectors.surfaces.params import (
    Settings,
    as_point,
    common,
    entity_argument,
    named,
    slot_argument,
    space_argument,
)
from projectors.surfaces.telling import nothing, show_beliefs, show_slots
from projectors.surfaces.viewing import looking, viewing

if TYPE_CHECKING:
    from datetime import datetime

    from streams import Position, Recorded, View


@click.command(short_help="What is believed of a slot.")
@space_argument
@entity_argument
@slot_argument
@viewing
@click.option("--value-only", is_flag=True, help="Print the bare value, text without quotes; one line for each.")
@common
@click.pass_obj
def get(settings: Settings, space: str, entity: str, slot: str, view: View, value_only: bool) -> None:
    """What is believed of ENTITY's SLOT.

    Code 1 when nothing is. A slot declared to hold many answers all its values.

    \b
    Examples:
      slotlog get acme/support user:alice employer
      slotlog get acme/support user:alice employer --as-of 120
      slotlog get acme/support user:alice employer --valid-at 2026-03-01T00:00:00Z
      slotlog get acme/support user:alice employer --without-actor agent:intern --json
    """
    from projectors.surfaces import output
    from streams.answers import beliefs_of

    with looking(settings, space, view) as memory:
        answer = memory.get(space, entity, slot, view)
    beliefs = beliefs_of(answer)
    if settings.json:
        output.document(answer)
    elif value_only:
        for belief in beliefs:
            output.line(belief.value if isinstance(belief.value, str) else output.value(belief.value))
    else:
        show_beliefs(beliefs)
    if not beliefs:
        nothing(settings, f"nothing is believed of {output.word(entity)} {output.word(slot)}")


@click.command(short_help="All that is believed of an entity.")
@space_argument
@entity_argument
@viewing
@common
@click.pass_obj
def entity(settings: Settings, space: str, entity: str, view: View) -> None:
    """Every slot of ENTITY of which anything is believed. Slots with slashes in their names are shown as a tree.

    \b
    Examples:
      slotlog entity acme/support user:alice
      slotlog entity acme/support user:alice --trust verified
      slotlog entity acme/support user:alice --json | jq -r '.employer.value'
    """
    from projectors.surfaces import output

    with looking(settings, space, view) as memory:
        found = memory.entity(space, entity, view)
    if settings.json:
        output.document(found)
    else:
        show_slots(found)
    if not found:
        nothing(settings, f"nothing is believed of {output.word(entity)}")


@click.command(short_help="A slot's intervals in valid time, drawn to scale.")
@space_argument
@entity_argument
@slot_argument
@click.option(
    "--along",
    type=click.Choice(("valid-time", "offsets")),
    default="valid-time",
    help="Intervals in valid time (default), or how the answer for one instant changed as events came in.",
)
@viewing
@common
@click.pass_obj
def history(settings: Settings, space: str, entity: str, slot: str, along: str, view: View) -> None:
    """The intervals of ENTITY's SLOT, drawn to scale, and what ended each.

    --as-of draws what was known then. With --along offsets, --valid-at is the instant whose answer is followed.

    \b
    Examples:
      slotlog history acme/support user:alice employer
      slotlog history acme/support user:alice employer --as-of 120
      slotlog history acme/support user:alice employer --along offsets
    """
    from projectors.surfaces import output
    from projectors.surfaces.render import change_lines, lanes

    empty = f"nothing was ever believed of {output.word(entity)} {output.word(slot)}"
    with looking(settings, space, view) as memory:
        if along == "offsets":
            changes = memory.changes(space, entity, slot, view)
            if settings.json:
                output.document(changes)
            for text in () if settings.json else change_lines(changes):
                output.line(output.fitted(text, settings.width))
            return None if changes else nothing(settings, empty)
        beliefs = memory.history(space, entity, slot, view)
    if settings.json:
        output.document(beliefs)
    elif beliefs:
        for text in lanes(beliefs, output.width(settings.width)):
            output.line(text)
    return None if beliefs else nothing(settings, empty)


@click.command(short_help="Every event that counts, in order.")
@space_argument
@click.option("--entity", callback=named("entity"), metavar="NAME", help="Only events about this entity.")
@click.option("--slot", callback=named("slot"), metavar="NAME", help="Only events about this slot of the entity.")
@viewing
@common
@click.pass_obj
def timeline(settings: Settings, space: str, entity: str | None, slot: str | None, view: View) -> None:
    """Every event of SPACE that counts through the view, one line each, in order.

    A line has the offset, the append time, the actor and what the event says; --json gives all of it, one JSON line an
    event.

    \b
    Examples:
      slotlog timeline acme/support
      slotlog timeline acme/support --entity user:alice --slot employer
      slotlog timeline acme/support --without-actor agent:intern --json
    """
    if slot is not None and entity is None:
        raise click.UsageError("--slot needs --entity")
    with looking(settings, space, view) as memory:
        _print_events(settings, memory.timeline(space, entity, slot, view))


@click.command(short_help="The sessions of a space.")
@space_argument
@common
@click.pass_obj
def sessions(settings: Settings, space: str) -> None:
    """The sessions of SPACE, in the order of their first events.

    \b
    Examples:
      slotlog sessions acme/support
      slotlog sessions acme/support --json | jq -r '.[].name'
    """
    from projectors.surfaces import output

    with settings.open(create=False) as memory:
        found = memory.sessions(space)
    if settings.json:
        output.document(found)
    elif found:
        rows = [
            (
                output.word(one.name),
                "" if one.agent is None else output.word(one.agent),
                f"{one.events:,}",
                str(one.first.offset),
                str(one.last.offset),
                "open" if not one.ended else output.printable(one.outcome or "ended"),
            )
            for one in found
        ]
        output.table(("SESSION", "AGENT", "EVENTS", "FIRST", "LAST", "OUTCOME"), rows)
    if not found:
        nothing(settings, f"{output.word(space)} has no session")


@click.command(short_help="The log read again, all of a space or one session.")
@space_argument
@click.option("--session", callback=named("session"), metavar="NAME", help="Only this session.")
@click.option(
    "--start", callback=as_point, metavar="POINT", help="Where to begin, inclusive: an offset, P:OFFSET or a time."
)
@click.option("--end", callback=as_point, metavar="POINT", help="Where to stop, exclusive.")
@common
@click.pass_obj
def replay(
    settings: Settings,
    space: str,
    session: str | None,
    start: int | Position | datetime | None,
    end: int | Position | datetime | None,
) -> None:
    """The events of SPACE, or of one session, read again from the log in order.

    --json gives one JSON line an event: its position, append time and the event itself, which `slotlog append` takes.

    \b
    Examples:
      slotlog replay acme/support --session run-7
      slotlog replay acme/support --start 1000 --end 1100
      slotlog replay acme/support --start 2026-03-01T00:00:00Z --json
      slotlog replay acme/support --json | jq -c .event | slotlog --store ./other append
    """
    with settings.open(create=False) as memory:
        _print_events(settings, memory.replay(space, session, start, end))


def _print_events(settings: Settings, events: Iterable[Recorded]) -> None:
    from projectors.surfaces import output
    from projectors.surfaces.render import event_line

    found = False
    for recorded in events:
        found = True
        if settings.json:
            output.document(recorded)
        else:
            output.line(output.fitted(event_line(recorded), settings.width))
    if not found:
        nothing(settings, "no event")
