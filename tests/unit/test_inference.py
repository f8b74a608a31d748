"""What a slot looks like, and when it is suggested to hold many values: each kind of evidence, and what is none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from schemas import events as ev
from schemas.codec import Codec
from streams import inference
from streams.envelope import message
from streams.fold import fold
from streams.inference import SlotSchema, schema
from streams.overlay import Empty, Overlay
from streams.ports import Batch, Position, Record
from streams.reads import Reads
from streams.rows import Head
from streams.view import ResolvedView

SPACE = "acme/support"
LATER = 2_000_000_000_000_000
Said = tuple[Any, ...]
"""(actor, value), with the session and the stated beginning where they are given."""


def schema_of(
    events: Iterable[ev.Event], *, without: tuple[str, ...] = (), trust: str = "candidate"
) -> list[SlotSchema]:
    codec = Codec()
    records = []
    for offset, event in enumerate(events):
        key, value, headers = message(event, codec)
        records.append(Record(0, offset, offset, key, value, headers))
    rows, head = Overlay(Empty()), Head("log", 0, 1)
    fold(Batch(records, len(records)), rows, head, codec)
    view = ResolvedView(Position(0, len(records) - 1), LATER, "main", trust, without)
    return schema(Reads(rows, 0, codec), SPACE, view)


def fact(number: int, entity: str, said: Said) -> ev.FactAsserted:
    actor, value, session, valid_from = (*said, None, None)[:4]
    return ev.FactAsserted(
        event_id=number.to_bytes(16, "big"), space=SPACE, actor=actor, recorded_at=0, session=session,
        entity=entity, slot="s", value=value, valid_from=valid_from,
    )  # fmt: skip


def suggested(said: list[Said], entities: int = 2) -> inference.Suggestion:
    """Of a slot of which the same was said for each entity."""
    facts = [(f"user:{entity}", one) for entity in range(entities) for one in said]
    [found] = schema_of(fact(number, entity, one) for number, (entity, one) in enumerate(facts, 1))
    return found.suggested


SIDE_BY_SIDE: list[list[Said]] = [
    [("a", "x", "run"), ("a", "y", "run")],
    [("a", "x", "run", 5), ("a", "y", "run", 5)],
    [("a", 1, "run"), ("a", True, "run")],
]
NO_EVIDENCE: list[list[Said]] = [
    [("a", "x")],
    [("a", "x", "run"), ("a", "x", "run")],
    [("a", "x"), ("a", "y"), ("a", "z")],
    [("a", "x"), ("a", "x"), ("a", "y"), ("a", "y")],
    [("a", "x", "run-1"), ("a", "y", "run-2")],
    [("a", "x", "run", 5), ("a", "y", "run", 6)],
    [("a", "x", "run"), ("b", "y", "run")],
    [("a", "x"), ("b", "y"), ("b", "x")],
    [("a", "x"), ("a", "y"), ("a", "x")],
    [("a", 1), ("a", 1.0), ("a", 1)],
    [("a", "x", None, 5), ("a", "y", None, 6), ("a", "x", None, 7)],
]


@pytest.mark.parametrize("said", SIDE_BY_SIDE, ids=str)
def test_values_said_side_by_side_suggest_many(said: list[Said]) -> None:
    found = suggested(said)
    assert (found.cardinality, found.entities, found.with_values_side_by_side) == ("many", 2, 2)
    assert found.with_several_values == 2


@pytest.mark.parametrize("said", NO_EVIDENCE, ids=str)
def test_a_change_of_mind_suggests_one(said: list[Said]) -> None:
    found = suggested(said)
    assert (found.cardinality, found.entities, found.with_values_side_by_side) == ("one", 2, 0)
    assert found.with_several_values == (2 if len({(type(one[1]), one[1]) for one in said}) > 1 else 0)


@pytest.mark.parametrize(
    ("entities", "side_by_side", "cardinality"),
    [(1, 1, "one"), (2, 2, "many"), (10, 2, "many"), (11, 2, "one"), (15, 3, "many"), (16, 3, "one"), (3, 0, "one")],
)
def test_enough_entities_are_two_and_a_fifth_of_all(entities: int, side_by_side: int, cardinality: str) -> None:
    facts = []
    for number in range(entities):
        facts.append(fact(len(facts) + 1, f"user:{number}", ("a", "x", "run")))
        run = "run" if number < side_by_side else "later"
        facts.append(fact(len(facts) + 1, f"user:{number}", ("a", "y", run)))
    [found] = schema_of(facts)
    evidence = found.suggested
    assert (evidence.entities, evidence.with_values_side_by_side) == (entities, side_by_side)
    assert evidence.cardinality == cardinality


@pytest.mark.parametrize(("several", "cardinality"), [(4, "many"), (5, "many"), (6, "one")])
def test_enough_are_four_fifths_of_those_that_could_show_it(several: int, cardinality: str) -> None:
    """Of 100 entities, 4 say several values side by side and the rest of `several` one after the other."""
    facts = []
    for number in range(100):
        facts.append(fact(len(facts) + 1, f"user:{number}", ("a", "x", "run")))
        if number < several:
            facts.append(fact(len(facts) + 1, f"user:{number}", ("a", "y", "run" if number < 4 else "later")))
    [found] = schema_of(facts)
    assert (found.suggested.with_several_values, found.suggested.with_values_side_by_side) == (several, 4)
    assert found.suggested.cardinality == cardinality


@pytest.mark.parametrize(
    ("ends", "evidence"),
    [([], 0), (["x"], 2), (["y", "x"], 2), (["never said"], 0), ([None, "x"], 0)],
    ids=str,
)
def test_an_end_of_one_value_among_several_suggests_many(ends: list[Any], evidence: int) -> None:
    events: list[ev.Event] = []
    for entity in ("user:a", "user:b"):
        events += [fact(len(events) + number, entity, ("a", value)) for number, value in enumerate("xy", 1)]
        for value in ends:
            fields: dict[str, Any] = {"entity": entity, "slot": "s", "value": value}
            identity = (len(events) + 1).to_bytes(16, "big")
            events.append(ev.FactEnded(event_id=identity, space=SPACE, actor="a", recorded_at=0, **fields))
    [found] = schema_of(events)
    assert found.suggested.with_one_of_several_ended == evidence
    assert found.suggested.cardinality == ("many" if evidence else "one")


def test_only_facts_that_stand_count() -> None:
    """Neither ends, nor what was left out, rejected, forbidden or retracted is any evidence."""
    events: list[ev.Event] = []

    def add(cls: type[ev.Event], **fields: Any) -> bytes:
        identity = (len(events) + 1).to_bytes(16, "big")
        events.append(cls(**{"event_id": identity, "space": SPACE, "actor": "a", "recorded_at": 0} | fields))
        return identity

    def claim(entity: str, value: Any, **fields: Any) -> bytes:
        return add(ev.FactAsserted, entity=entity, slot="s", value=value, session="run", **fields)

    for entity in ("user:a", "user:b"):
        claim(entity, "kept")
        add(ev.FactReviewed, target=claim(entity, "rejected"), verdict="rejected")
        add(ev.FactRetracted, target=claim(entity, "retracted"))
        claim(entity, "forbidden")
        add(ev.ValueForbidden, entity=entity, slot="s", value="FORBIDDEN")
        claim(entity, "left out", actor="b")
        add(ev.FactEnded, entity=entity, slot="s", value="ended", session="run")
    [found] = schema_of(events, without=("b",))
    assert (found.facts, found.values, found.types, found.suggested.cardinality) == (2, 1, {"string": 2}, "one")
    assert schema_of(events, trust="verified") == []


def test_a_busy_slot_is_looked_at_once() -> None:
    """Three thousand values of one actor: they are compared in step with their number, not with its square."""
    compared = 0

    class Counting(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    facts = [fact(number, "user:a", ("a", Counting(number))) for number in range(1, 3_001)]
    assert not inference._side_by_side(facts)
    assert compared < 10 * len(facts)
