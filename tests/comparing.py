"""Answers of the product beside those of the reference, in one shape."""

from __future__ import annotations

import dataclasses
from typing import Any

import reference

from schemas.times import micros
from streams.answers import Answer, Belief, Change
from streams.memory import Memory
from streams.ports import Position
from streams.reads import Reads
from streams.view import ResolvedView

Shape = tuple[Any, ...]


class FromMemory:
    """The reads of a Memory, asked through a resolved view, as Reads are."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def get(self, space: str, entity: str, slot: str, view: ResolvedView) -> Answer:
        return self._memory.get(space, entity, slot, view.view())

    def entity(self, space: str, entity: str, view: ResolvedView) -> dict[str, Belief | list[Belief]]:
        return self._memory.entity(space, entity, view.view())

    def history(self, space: str, entity: str, slot: str, view: ResolvedView) -> list[Belief]:
        return self._memory.history(space, entity, slot, view.view())

    def changes(self, space: str, entity: str, slot: str, view: ResolvedView) -> list[Change]:
        return self._memory.changes(space, entity, slot, view.view())


AnyReads = Reads | FromMemory


def resolved(lens: reference.Lens) -> ResolvedView:
    head, *others = lens.shas or (None,)
    without = tuple(sorted(set(lens.without)))
    return ResolvedView(Position(0, lens.as_of), lens.at, lens.branch, lens.trust, without, head, tuple(others))


def lens_of(view: ResolvedView) -> reference.Lens:
    return reference.Lens(view.as_of.offset, view.valid_at, view.trust, view.without_actors, view.branch, view.shas)


def shape(belief: Belief) -> Shape:
    """What must be equal. The type of a value is part of it."""
    return (
        type(belief.value).__name__,
        belief.value,
        micros(belief.valid_from),
        None if belief.valid_to is None else micros(belief.valid_to),
        belief.position.offset,
        belief.event_id.bytes,
        belief.actor,
        belief.trust,
        belief.corroborations,
        None if belief.contested is None else belief.contested.position.offset,
    )


def expected(belief: reference.Belief) -> Shape:
    top = belief.top
    return (
        type(belief.value).__name__,
        belief.value,
        belief.start,
        belief.stop,
        top.entry.offset,
        top.event.event_id,
        top.event.actor,
        "verified" if top.verified else "candidate",
        belief.corroborations,
        belief.contested,
    )


def check_slot(
    reads: AnyReads, space: str, oracle: reference.Space, lens: reference.Lens, entity: str, slot: str
) -> None:
    """get and history of one slot, through one lens."""
    view, through = resolved(lens), oracle.through(lens)
    answer = reads.get(space, entity, slot, view)
    many = through.cardinality(entity, slot) == "many"
    assert isinstance(answer, list) == many, f"{entity} {slot} holds {'many' if many else 'one'} {lens}"
    given = answer if isinstance(answer, list) else [] if answer is None else [answer]
    check_beliefs(given, through.get(entity, slot), f"get {entity} {slot} {lens}")
    check_beliefs(
        reads.history(space, entity, slot, view), through.history(entity, slot), f"history {entity} {slot} {lens}"
    )


def check_beliefs(given: list[Belief], wanted: list[reference.Belief], what: str) -> None:
    assert [shape(belief) for belief in given] == [expected(belief) for belief in wanted], what
    for belief, oracle in zip(given, wanted, strict=True):
        named = belief.superseded_by
        if oracle.ended_by:
            assert named is not None, f"superseded_by is missing: {what}"
            assert named.position.offset in oracle.ended_by, f"superseded_by: {what}"
        else:
            assert named is None, f"superseded_by: {what}"


def check_entity(reads: AnyReads, space: str, oracle: reference.Space, lens: reference.Lens, entity: str) -> None:
    """All slots of an entity: those of which anything is believed, in the order of their names."""
    through = oracle.through(lens)
    wanted = {
        slot: [expected(belief) for belief in beliefs]
        for known, slot in oracle.pairs()
        if known == entity and (beliefs := through.get(entity, slot))
    }
    given = reads.entity(space, entity, resolved(lens))
    found = {
        slot: [shape(belief) for belief in (answer if isinstance(answer, list) else [answer])]
        for slot, answer in given.items()
    }
    assert found == wanted, f"entity {entity} {lens}"
    assert list(given) == sorted(given, key=str.encode)


def check_changes(
    reads: AnyReads, space: str, oracle: reference.Space, lens: reference.Lens, entity: str, slot: str
) -> None:
    """The answer along offsets: asked at each offset of the space, told where it differs from the one before."""
    wanted: list[tuple[int, list[Shape]]] = []
    before: list[Shape] = []
    for entry in oracle.entries:
        if entry.offset > lens.as_of or not oracle.begun(lens.branch, entry.offset):
            continue
        then = oracle.through(dataclasses.replace(lens, as_of=entry.offset))
        now = [expected(belief) for belief in then.get(entity, slot)]
        if [_essence(one) for one in now] != [_essence(one) for one in before]:
            wanted.append((entry.offset, now))
        before = now
    given = [
        (change.position.offset, [shape(belief) for belief in change.beliefs])
        for change in reads.changes(space, entity, slot, resolved(lens))
    ]
    assert given == wanted, f"changes {entity} {slot} {lens}"


def _essence(one: Shape) -> Shape:
    """Type, value, interval, event and trust: what a change is a change of."""
    return (*one[:4], one[5], one[7])
