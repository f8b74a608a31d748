"""What a space's slots look like: types, counts, the declared cardinality, and a suggested one with its evidence. Pure.

The suggestion governs nothing: a slot holds many values only once it is declared to. It rests on one observation: who
says a second value of a slot that holds one means the first no longer holds, and does not come back to the first.
So a slot is suggested to hold many when enough of its entities have values that one actor said side by side: two in
one session with the same or no stated beginning, or one said again by the same actor after another one of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from schemas import events as ev
from streams.reads import Reads
from streams.values import identity
from streams.view import STANDS, ResolvedView

MANY_SHARE = 0.2
MANY_ENTITIES = 2
_TYPES = {bool: "boolean", int: "long", float: "double", str: "string"}


class Suggestion(msgspec.Struct, frozen=True):
    """A cardinality and what it rests on, counted in entities: with any fact, with several values, and with values
    that one actor said side by side."""

    cardinality: ev.Cardinality
    entities: int
    with_several_values: int
    with_values_side_by_side: int


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
    values: set[object] = set()
    types: dict[str, int] = {}


def schema(reads: Reads, space: str, resolved: ResolvedView) -> list[SlotSchema]:
    """Every slot with a fact that stands, or a declaration; by name. Reads every fact of the space."""
    judge = reads.judge(space, resolved)
    seen: dict[str, _Seen] = {}
    for entity, slot in reads.slots(space):
        facts = [
            claim
            for claim, standing in reads.claims(space, entity, slot, judge)
            if standing in STANDS and not claim.row.ended
        ]
        if facts:
            events = [reads.event_at(space, claim.offset).event for claim in sorted(facts, key=lambda one: one.offset)]
            _count(seen.setdefault(slot, _Seen()), [event for event in events if isinstance(event, ev.FactAsserted)])
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


def _count(seen: _Seen, facts: list[ev.FactAsserted]) -> None:
    seen.facts += len(facts)
    seen.entities += 1
    distinct = {identity(fact.value) for fact in facts}
    seen.values |= distinct
    seen.several += len(distinct) > 1
    seen.side_by_side += len(distinct) > 1 and any(_side_by_side(of_actor) for of_actor in _by_actor(facts))
    for fact in facts:
        name = _TYPES[type(fact.value)]
        seen.types[name] = seen.types.get(name, 0) + 1


def _by_actor(facts: Iterable[ev.FactAsserted]) -> Iterator[list[ev.FactAsserted]]:
    groups: dict[str, list[ev.FactAsserted]] = {}
    for fact in facts:
        groups.setdefault(fact.actor, []).append(fact)
    return iter(groups.values())


def _side_by_side(facts: list[ev.FactAsserted]) -> bool:
    """Whether one actor, in the order it spoke, said two values at once or came back to an earlier one."""
    together: dict[tuple[str, int | None], set[object]] = {}
    said: set[object] = set()
    last: object = None
    for fact in facts:
        value = identity(fact.value)
        if fact.session is not None:
            together.setdefault((fact.session, fact.valid_from), set()).add(value)
        if value in said and last != value and fact.valid_from is None:
            return True
        said.add(value)
        last = value
    return any(len(values) > 1 for values in together.values())


def _suggestion(seen: _Seen) -> Suggestion:
    many = seen.side_by_side >= MANY_ENTITIES and seen.side_by_side >= MANY_SHARE * seen.entities
    return Suggestion("many" if many else "one", seen.entities, seen.several, seen.side_by_side)
