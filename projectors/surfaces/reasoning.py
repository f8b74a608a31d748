"""The commands that ask why, and what would be otherwise: explain, diff, known and schema. None writes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from projectors.surfaces.params import (
    Settings,
    as_point,
    as_time,
    common,
    entity_argument,
    named,
    slot_argument,
    space_argument,
    trust_choice,
    viewing,
)
from projectors.surfaces.telling import nothing, show_beliefs, show_slots

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

    with settings.open(create=False) as memory:
        found = memory.explain(space, entity, slot, view)
    if settings.json:
        output.document(found)
    elif found.claims:
        for text in explanation_lines(found):
            output.line(text)
    if not found.claims:
        nothing(settings, f"nothing was ever claimed of {output.word(entity)} {output.word(slot)}")


_of_each = (
    ("valid_at", {"callback": as_time, "metavar": "TIME"}, "the instant asked about"),
    ("trust", {"type": trust_choice}, "the least trust that counts"),
    ("without_actor", {"multiple": True, "metavar": "NAME"}, "leave out what NAME wrote"),
)


def _comparing(command: Any) -> Any:
    """The options of the two views: of both, and of each."""
    options = [
        click.option("--before", callback=as_point, metavar="POINT", help="The first view's --as-of. Default: now."),
        click.option("--after", callback=as_point, metavar="POINT", help="The second view's --as-of. Default: now."),
    ]
    for side, which in (("", "both views"), ("before_", "the first view"), ("after_", "the second view")):
        for name, kind, text in _of_each:
            flag = f"--{side}{name}".replace("_", "-")
            told = f"Of {which}: {text}." + (" Repeatable." if "multiple" in kind else "")
            options.append(click.option(flag, f"{side}{name}", help=told, **kind))
    for option in reversed(options):
        command = option(command)
    return command


@click.command(short_help="What two views answer differently.")
@space_argument
@_comparing
@common
@click.pass_obj
def diff(settings: Settings, /, space: str, **given: Any) -> None:
    """The slots of SPACE whose value, or its trust, differs between two views, the first `-` and the second `+`.

    Each view is of the present, unless an option says otherwise. A view as of an offset asks about the append time
    there, so that facts that began or ended since then differ too; --valid-at asks both about one instant.

    As with every read, code 0 means that there was something to tell, and 1 that nothing differs: the other way round
    from diff(1).

    \b
    Examples:
      slotlog diff acme/support --before 120
      slotlog diff acme/support --before 2026-03-01T00:00:00Z --after 2026-04-01T00:00:00Z
      slotlog diff acme/support --after-without-actor agent:intern
      slotlog diff acme/support --after-trust verified --json | jq -r '.[].slot'
    """
    from projectors.surfaces import output
    from projectors.surfaces.render_why import difference_lines

    first, second = _view_of("before", given), _view_of("after", given)
    if first == second:
        raise click.UsageError("the two views are the same: --before, --after or an option of one of them is missing")
    with settings.open(create=False) as memory:
        found = memory.diff(space, first, second)
    if settings.json:
        output.document(found)
    else:
        for one in found:
            for text in difference_lines(one):
                output.line(text)
    if not found:
        nothing(settings, "nothing differs")


def _view_of(side: str, given: dict[str, Any]) -> View:
    """The view of one side: what is given for it, else for both; actors left out of both are left out of each."""
    from streams import View

    return View(
        as_of=given[side],
        valid_at=given[f"{side}_valid_at"] or given["valid_at"],
        trust=given[f"{side}_trust"] or given["trust"] or "candidate",
        without_actors=tuple(sorted({*given["without_actor"], *given[f"{side}_without_actor"]})),
    )


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
        for text in known_lines(found):
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

    with settings.open(create=False) as memory:
        found = memory.schema(space, view)
    if settings.json:
        output.document(found)
    elif found:
        output.table(SCHEMA_HEADS, map(schema_row, found))
    if not found:
        nothing(settings, f"{output.word(space)} has no slot")
