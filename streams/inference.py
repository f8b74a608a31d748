"""What a space's slots look like: types, counts, the declared cardinality, and a suggested one with its evidence. Pure.

The suggestion governs nothing: a slot holds many values only once it is declared to. `many` rests on what was said: one
actor said several values in one session with the same or no stated beginning, or an end named one value while another
was held. `one` rests on nothing but the absence of that: a slot whose values are added one by one looks just like one
whose value changes. ops/bench/cardinality.py measures how often the suggestion is wrong.
"""

from __future__ import annotations

import msgspec

from schemas import events as ev
from streams.reads import Reads
from streams.values import identity
from streams.view import STANDS, ResolvedView

MANY_ENTITIES = 2
MANY_SHARE = 0.2
MANY_SHARE_OF_SEVERAL = 0.8
_TYPES = {bool: "boolean", int: "long", float: "double", str: "string"}


class Suggestion(msgspec.Struct, frozen=True):
    """A cardinality and what it rests on, counted in entities: with any fact, with several values, with values that one
    actor said side by side, and with an end that named one value while another was held."""

    cardinality: ev.Cardinality
    entities: int
    with_several_values: int
    with_values_side_by_side: int
    with_one_of_several_ended: int


class SlotSchema(msgspec.Struct, frozen=True):
    """One slot of a space as its standing facts have it. `types` counts facts by type; `declared` is None where the
    slot was not declared for all entities; `declared_kinds` holds what was declared for one kind of entity."""

    slot: str
    facts: int
    entities: int
    values: int
    types: dict[str, int]
    declared: ev.SlotDeclared | None
    declared_kinds: dict[str, ev.SlotDeclared]
    suggested: Suggestion


class _Seen(msgspec.Struct):
    facts: int = 0
    entities: int = 0
    several: int = 0
    side_by_side: int = 0
    one_ended: int = 0
    values: set[object] = set()
    types: dict[str, int] = {}


def schema(reads: Reads, space: str, resolved: ResolvedView) -> list[SlotSchema]:
    """Every slot with a fact that stands, or a declaration; by name. Reads every fact of the space."""
    judge = reads.judge(space, resolved)
    seen: dict[str, _Seen] = {}
    for entity, slot in reads.slots(space):
        standing = [claim for claim, worth in reads.claims(space, entity, slot, judge) if worth in STANDS]
        if any(not claim.row.ended for claim in standing):
            offsets = sorted(claim.offset for claim in standing)
            _count(seen.setdefault(slot, _Seen()), [reads.event_at(space, offset).event for offset in offsets])
    declared: dict[str, dict[str | None, ev.SlotDeclared]] = {}
    for event in judge.declarations:
        declared.setdefault(event.slot, {})[event.entity_kind] = event
    return [
        SlotSchema(
            slot,
            one.facts,
            one.entities,
            len(one.values),
            dict(sorted(one.types.items())),
            declared.get(slot, {}).get(None),
            {kind: event for kind, event in declared.get(slot, {}).items() if kind is not None},
            _suggestion(one),
        )
        for slot, one in sorted({**{name: _Seen() for name in declared}, **seen}.items())
    ]


def _count(seen: _Seen, events: list[ev.Event]) -> None:
    """Count one entity's facts and ends, in the order they were said."""
    facts = [event for event in events if isinstance(event, ev.FactAsserted)]
    distinct = {identity(fact.value) for fact in facts}
    seen.facts += len(facts)
    seen.entities += 1
    seen.values |= distinct
    seen.several += len(distinct) > 1
    seen.side_by_side += _side_by_side(facts)
    seen.one_ended += _one_of_several_ended(events)
    for fact in facts:
        name = _TYPES[type(fact.value)]
        seen.types[name] = seen.types.get(name, 0) + 1


def _side_by_side(facts: list[ev.FactAsserted]) -> bool:
    """Whether one actor said several values in one session with the same or no stated beginning."""
    together: dict[tuple[str, str, int | None], set[object]] = {}
    for fact in facts:
        if fact.session is not None:
            together.setdefault((fact.actor, fact.session, fact.valid_from), set()).add(identity(fact.value))
    return any(len(values) > 1 for values in together.values())


def _one_of_several_ended(events: list[ev.Event]) -> bool:
    """Whether an end named one of several values that were said before it and not ended since."""
    held: set[object] = set()
    for event in events:
        if isinstance(event, ev.FactAsserted):
            held.add(identity(event.value))
        elif isinstance(event, ev.FactEnded):
            if event.value is None:
                held.clear()
                continue
            if identity(event.value) in held and len(held) > 1:
                return True
            held.discard(identity(event.value))
    return False


def _suggestion(seen: _Seen) -> Suggestion:
    enough = min(MANY_SHARE * seen.entities, MANY_SHARE_OF_SEVERAL * seen.several)
    said = seen.side_by_side >= max(MANY_ENTITIES, enough)
    cardinality: ev.Cardinality = "many" if said or seen.one_ended >= MANY_ENTITIES else "one"
    return Suggestion(cardinality, seen.entities, seen.several, seen.side_by_side, seen.one_ended)
