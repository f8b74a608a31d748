"""The commands that ask why: explain, known and schema. None of them writes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from projectors.surfaces.params import (
    Settings,
    common,
    entity_argument,
    named,
    slot_argument,
    space_argument,
)
from projectors.surfaces.telling import nothing, show_beliefs, show_slots
from projectors.surfaces.viewing import looking, viewing

if TYPE_CHECKING:
    from streams import Belief, Memory, View


@click.command(short_help="Why a slot answers as it does.")
@space_argument
@entity_argument
@slot_argument
@viewing
@common
@click.pass_obj
def explain(settings: Settings, space: str, entity: str, slot: str, view: View) -> None:
    """Why ENTITY's SLOT answers as it does: the answer, then every claim about it, the highest rank first.

    Of each claim: its outcome (believed, outranked, ended, retracted, forbidden …) and the claim that decided it, its
    event, actor, session and cause, and every verdict or retraction. Code 1 when there is no claim.

    \b
    Examples:
      slotlog explain acme/support user:alice employer
      slotlog explain acme/support user:alice employer --as-of 120
      slotlog explain acme/support user:alice employer --json | jq -r '.claims[] | [.outcome, .trust] | @tsv'
    """
    from projectors.surfaces import output
    from projectors.surfaces.render_why import explanation_lines

    with looking(settings, space, view) as memory:
        found = memory.explain(space, entity, slot, view)
    if settings.json:
        output.document(found)
    elif found.claims:
        for text in explanation_lines(found):
            output.line(text)
    if not found.claims:
        nothing(settings, f"nothing was ever claimed of {output.word(entity)} {output.word(slot)}")


@click.command(short_help="What the writer of an event could know.")
@space_argument
@click.argument("event_id", metavar="EVENT_ID")
@click.option("--entity", callback=named("entity"), metavar="NAME", help="Show what was believed of it then.")
@click.option("--slot", callback=named("slot"), metavar="NAME", help="Only this slot of the entity.")
@common
@click.pass_obj
def known(settings: Settings, space: str, event_id: str, entity: str | None, slot: str | None) -> None:
    """What whoever wrote EVENT_ID could know: a view, as the options that ask through it.

    It ends at the newest event that the writer had been shown. Where the event does not say, it ends right before the
    event itself, and is marked as assumed. With --entity code 1 means that nothing was believed.

    \b
    Examples:
      slotlog known acme/support 0195d0a4-7c00-7000-8000-000000000007
      slotlog known acme/support 0195d0a4-7c00-7000-8000-000000000007 --entity user:alice --slot employer
    """
    from projectors.surfaces import output
    from projectors.surfaces.render_why import known_lines
    from streams.answers import beliefs_of

    if slot is not None and entity is None:
        raise click.UsageError("--slot needs --entity")
    with settings.open(create=False) as memory:
        found = memory.known_at(space, event_id)
        answer = None if entity is None else _answer(memory, space, entity, slot, found.view.view())
    if settings.json:
        asked = {} if entity is None else {"answer": answer}
        output.document({"view": found.view, "assumed": found.assumed, **asked})
    else:
        for text in known_lines(found, settings.branch, settings.isolates):
            output.line(text)
        if answer:
            output.line()
            if isinstance(answer, dict):
                show_slots(answer)
            else:
                show_beliefs(beliefs_of(answer))
    if entity is not None and not answer:
        about = output.word(entity) + ("" if slot is None else f" {output.word(slot)}")
        nothing(settings, f"nothing was believed of {about}")


def _answer(
    memory: Memory, space: str, entity: str, slot: str | None, view: View
) -> Belief | list[Belief] | dict[str, Belief | list[Belief]] | None:
    return memory.entity(space, entity, view) if slot is None else memory.get(space, entity, slot, view)


@click.command(short_help="The slots of a space, and what they hold.")
@space_argument
@viewing
@common
@click.pass_obj
def schema(settings: Settings, space: str, view: View) -> None:
    """Every slot of SPACE: facts, entities, distinct values, their types, and whether it holds one value or many.

    What is declared governs; what is suggested only rests on values that one actor said side by side, and governs
    nothing until `slotlog declare` says so. Reads every fact of the space.

    \b
    Examples:
      slotlog schema acme/support
      slotlog schema acme/support --json | jq -r '.[] | select(.declared == null) | .slot'
    """
    from projectors.surfaces import output
    from projectors.surfaces.render_why import SCHEMA_HEADS, schema_row

    with looking(settings, space, view) as memory:
        found = memory.schema(space, view)
    if settings.json:
        output.document(found)
    elif found:
        output.table(SCHEMA_HEADS, map(schema_row, found))
    if not found:
        nothing(settings, f"{output.word(space)} has no slot")
