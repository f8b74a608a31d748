"""Which events count through a View: distrust, policies, verdicts, retractions, tombstones, declarations, by example.

The log is a list of events folded in memory; the clock ticks once per event.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from strategies import BASE, CODEC, SPACE, STEP, event_id, folded, record

from schemas import events as ev
from schemas.errors import InvalidInput, InvalidView
from schemas.events import Value
from schemas.times import EARLIEST, instant
from streams import keys
from streams.ports import Position
from streams.reads import Bounds, Reads
from streams.values import digest_of
from streams.view import ResolvedView, View

ALICE, SLOT = "user:alice", "employer"
LATER = BASE + 1000 * STEP


class Log:
    """Events in order; `said` gives back the event's id."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []

    def said(self, cls: type[ev.Event], actor: str = "agent:a", **fields: Any) -> bytes:
        identity = event_id(len(self.events) + 1)
        self.events.append(cls(event_id=identity, space=SPACE, actor=actor, recorded_at=BASE, **fields))
        return identity

    def fact(self, value: Value, actor: str = "agent:a", entity: str = ALICE, **fields: Any) -> bytes:
        return self.said(ev.FactAsserted, actor, entity=entity, slot=SLOT, value=value, **fields)

    def declare(self, cardinality: str, kind: str | None = None, actor: str = "agent:a") -> bytes:
        return self.said(ev.SlotDeclared, actor, slot=SLOT, cardinality=cardinality, entity_kind=kind)

    def policy(self, *rules: tuple[str, str, bool]) -> bytes:
        made = tuple(ev.PolicyRule(actors=a, starting_trust=t, may_verify=m) for a, t, m in rules)  # type: ignore[arg-type]
        return self.said(ev.PolicySet, "user:admin", rules=made)

    def reads(self) -> Reads:
        return Reads(folded([record(event, n, BASE + n * STEP) for n, event in enumerate(self.events)])[0], 0, CODEC)

    def lens(self, as_of: int | None = None, **fields: Any) -> ResolvedView:
        return ResolvedView(Position(0, len(self.events) - 1 if as_of is None else as_of), LATER, **fields)

    def answer(self, as_of: int | None = None, *, entity: str = ALICE, **fields: Any) -> Any:
        """The value believed long after all was said; a list of values where there may be many."""
        found = self.reads().get(SPACE, entity, SLOT, self.lens(as_of, **fields))
        if isinstance(found, list):
            return [belief.value for belief in found]
        return None if found is None else found.value

    def trust(self, as_of: int | None = None) -> str | None:
        found = self.reads().get(SPACE, ALICE, SLOT, self.lens(as_of))
        assert not isinstance(found, list)
        return None if found is None else found.trust


@pytest.fixture
def log() -> Log:
    return Log()


# -- distrust


def test_distrust_of_an_actor_takes_back_everything(log: Log) -> None:
    log.fact("A", "agent:good")
    log.fact("B", "agent:bad")
    log.said(ev.ActorDistrusted, about="agent:bad")
    assert (log.answer(), log.answer(as_of=1)) == ("A", "B")


def test_distrust_since_an_event_takes_it_and_what_follows(log: Log) -> None:
    log.fact("A", "agent:bad")
    second = log.fact("B", "agent:bad")
    log.fact("C", "agent:bad")
    log.said(ev.ActorDistrusted, about="agent:bad", since_event=second)
    assert log.answer() == "A"


def test_distrust_since_another_actors_event(log: Log) -> None:
    log.fact("A", "agent:bad")
    other = log.fact("X", "agent:good", valid_from=BASE - STEP)
    log.fact("B", "agent:bad")
    log.said(ev.ActorDistrusted, about="agent:bad", since_event=other)
    assert log.answer() == "A"


def test_distrust_since_a_time_is_inclusive(log: Log) -> None:
    log.fact("A", "agent:bad")
    log.fact("B", "agent:bad")
    log.said(ev.ActorDistrusted, about="agent:bad", since_time=BASE + STEP)
    assert log.answer() == "A"
    log.said(ev.ActorDistrusted, about="agent:bad", since_time=BASE + STEP + 1)
    assert log.answer() == "B"


def test_the_latest_word_about_an_actor_wins(log: Log) -> None:
    log.fact("A", "agent:bad")
    log.said(ev.ActorDistrusted, about="agent:bad")
    log.said(ev.ActorTrusted, about="agent:bad")
    assert log.answer() == "A"
    log.said(ev.ActorDistrusted, about="agent:bad")
    assert log.answer() is None


def test_distrust_is_not_annulled_by_distrust_of_its_writer(log: Log) -> None:
    log.fact("A", "agent:bad")
    log.said(ev.ActorDistrusted, "user:admin", about="agent:bad")
    log.said(ev.ActorDistrusted, "agent:other", about="user:admin")
    assert log.answer() is None
    assert log.answer(without_actors=("user:admin",)) is None


def test_distrust_reaches_declarations_policies_tombstones_and_retractions(log: Log) -> None:
    fact = log.fact("A", "agent:good")
    log.declare("many", actor="agent:bad")
    log.said(ev.ValueForbidden, "agent:bad", entity=ALICE, slot=SLOT, value="A")
    log.said(ev.FactRetracted, "agent:bad", target=fact)
    assert log.answer() == []
    log.said(ev.ActorDistrusted, "user:admin", about="agent:bad")
    assert log.answer() == "A"


def test_actors_left_out_are_left_out_of_this_view_only(log: Log) -> None:
    log.fact("A", "agent:a")
    log.fact("B", "agent:b")
    assert log.answer(without_actors=("agent:b",)) == "A"
    assert log.answer(without_actors=("agent:a", "agent:b")) is None
    assert log.answer() == "B"


# -- trust


def test_the_last_visible_verdict_wins(log: Log) -> None:
    fact = log.fact("A")
    verdicts = ("verified", "rejected", "candidate")
    for verdict in verdicts:
        log.said(ev.FactReviewed, "user:ana", target=fact, verdict=verdict)
    assert [log.trust(as_of) for as_of in range(4)] == ["candidate", "verified", None, "candidate"]


def test_a_verdict_counts_as_long_as_its_actor_does(log: Log) -> None:
    fact = log.fact("A")
    log.said(ev.FactReviewed, "user:ana", target=fact, verdict="rejected")
    log.said(ev.ActorDistrusted, about="user:ana")
    assert log.answer() == "A"


def test_a_policy_holds_for_facts_after_it(log: Log) -> None:
    log.fact("before")
    log.policy(("agent:*", "verified", True))
    assert log.trust() == "candidate"
    log.fact("after")
    assert (log.answer(), log.trust()) == ("after", "verified")
    log.policy()
    assert log.trust() == "verified"


def test_the_first_rule_that_matches_applies(log: Log) -> None:
    log.policy(("agent:*", "rejected", False), ("agent:a", "verified", True))
    log.fact("A", "agent:a")
    log.fact("B", "user:ana", valid_from=BASE - STEP)
    assert log.answer() == "B"


def test_verdicts_of_who_may_not_verify_do_not_count(log: Log) -> None:
    log.policy(("agent:*", "candidate", False))
    fact = log.fact("A")
    log.said(ev.FactReviewed, "agent:b", target=fact, verdict="verified")
    assert log.trust() == "candidate"
    log.said(ev.FactReviewed, "agent:b", target=fact, verdict="rejected")
    assert log.trust() == "candidate"
    log.said(ev.FactReviewed, "user:ana", target=fact, verdict="verified")
    assert log.trust() == "verified"


def test_a_view_of_verified_facts_only(log: Log) -> None:
    fact = log.fact("A")
    log.fact("B")
    assert log.answer(trust="verified") is None
    log.said(ev.FactReviewed, "user:ana", target=fact, verdict="verified")
    assert log.answer(trust="verified") == "A"


def test_a_verified_belief_tells_its_rival(log: Log) -> None:
    fact = log.fact("A")
    log.fact("B", "agent:b")
    log.said(ev.FactReviewed, "user:ana", target=fact, verdict="verified")
    belief = log.reads().get(SPACE, ALICE, SLOT, log.lens())
    assert belief is not None
    assert not isinstance(belief, list)
    assert belief.contested is not None
    assert (belief.value, belief.contested.value, belief.contested.actor) == ("A", "B", "agent:b")


# -- retractions


def test_a_retraction_is_a_correction_not_an_end(log: Log) -> None:
    log.fact("A")
    wrong = log.fact("B")
    log.said(ev.FactRetracted, target=wrong)
    assert [belief.value for belief in log.reads().history(SPACE, ALICE, SLOT, log.lens())] == ["A"]
    assert log.answer(as_of=1) == "B"


def test_a_retraction_by_name_reaches_what_is_known_and_nothing_later(log: Log) -> None:
    log.fact("A")
    log.fact("B")
    log.said(ev.FactRetracted, entity=ALICE, slot=SLOT)
    assert log.answer() is None
    log.fact("A")
    assert log.answer() == "A"


def test_a_retraction_with_a_value_reaches_exactly_it(log: Log) -> None:
    log.fact(1.0)
    log.fact(1)
    log.said(ev.FactRetracted, entity=ALICE, slot=SLOT, value=1)
    assert repr(log.answer()) == "1.0"


def test_a_retraction_with_a_value_leaves_an_end_without_one(log: Log) -> None:
    log.fact("A")
    log.said(ev.FactEnded, entity=ALICE, slot=SLOT)
    log.said(ev.FactRetracted, entity=ALICE, slot=SLOT, value="A")
    assert log.answer() is None
    log.said(ev.FactRetracted, entity=ALICE, slot=SLOT)
    assert log.answer() is None


def test_a_retracted_end_gives_the_fact_back(log: Log) -> None:
    log.fact("A")
    ended = log.said(ev.FactEnded, entity=ALICE, slot=SLOT)
    log.said(ev.FactRetracted, target=ended)
    assert log.answer() == "A"


def test_what_is_derived_again_from_before_a_retraction_stays_retracted(log: Log) -> None:
    turn = log.said(ev.Observed, role="user", text="I work at Acme")
    log.fact("A", cause=turn)
    log.said(ev.FactRetracted, entity=ALICE, slot=SLOT, value="A")
    log.fact("A", "engine:rules@2", cause=turn)
    assert log.answer() is None
    log.fact("B", cause=turn)
    assert log.answer() == "B"


def test_a_chain_of_causes_counts_from_its_root(log: Log) -> None:
    turn = log.said(ev.Observed, role="user", text="I work at Acme")
    log.fact("A")
    log.said(ev.FactRetracted, entity=ALICE, slot=SLOT)
    summary = log.said(ev.Observed, role="assistant", text="Alice works at Acme", cause=turn)
    log.fact("A", cause=summary)
    assert log.answer() is None


def test_a_cause_that_is_not_known_is_no_link(log: Log) -> None:
    log.fact("A")
    log.said(ev.FactRetracted, entity=ALICE, slot=SLOT)
    log.fact("A", cause=event_id(9_999))
    assert log.answer() == "A"


def test_a_retraction_by_id_reaches_no_other_fact(log: Log) -> None:
    turn = log.said(ev.Observed, role="user", text="I work at Acme")
    first = log.fact("A", cause=turn)
    log.said(ev.FactRetracted, target=first)
    log.fact("A", cause=turn)
    assert log.answer() == "A"


@pytest.mark.parametrize("cls", [ev.FactRetracted, ev.FactReviewed, ev.FactPinned])
def test_what_names_nothing_known_does_not_count(log: Log, cls: type[ev.Event]) -> None:
    more: dict[str, Any] = {ev.FactReviewed: {"verdict": "rejected"}, ev.FactPinned: {"pinned": True}}.get(cls, {})
    log.fact("A")
    log.said(cls, target=event_id(9_999), **more)
    turn = log.said(ev.Observed, role="user", text="hello")
    log.said(cls, target=turn, **more)
    assert [one.code for one in log.reads().quarantined()] == ["unknown_target"] * 2
    assert log.answer() == "A"


# -- tombstones


def test_a_forbidden_value_is_never_believed_until_allowed(log: Log) -> None:
    log.fact("Safe")
    log.fact("Acme")
    log.said(ev.ValueForbidden, entity=ALICE, slot=SLOT, value="acme")
    assert log.answer() == "Safe"
    log.fact("ＡＣＭＥ")
    log.fact("Ac\u200bme ")
    assert log.answer() == "Safe"
    log.said(ev.ValueAllowed, entity=ALICE, slot=SLOT, value="ACME")
    assert log.answer() == "Ac\u200bme "


def test_a_tombstone_belongs_to_its_slot(log: Log) -> None:
    log.fact("Acme", entity="user:bob")
    log.fact("Acme")
    log.said(ev.ValueForbidden, entity=ALICE, slot=SLOT, value="Acme")
    assert (log.answer(), log.answer(entity="user:bob")) == (None, "Acme")


def test_a_tombstone_by_hash_is_the_same(log: Log) -> None:
    log.fact(42)
    digest = digest_of(keys.slot_part(SPACE, ALICE, SLOT), "42")
    log.said(ev.ValueForbidden, entity=ALICE, slot=SLOT, value_hash=digest)
    assert log.answer() is None
    log.said(ev.ValueAllowed, entity=ALICE, slot=SLOT, value=42)
    assert log.answer() == 42


# -- declarations


def test_an_undeclared_slot_holds_one_value(log: Log) -> None:
    log.fact("A")
    log.fact("B")
    assert log.answer() == "B"


def test_a_declaration_changes_reads_from_its_offset_on(log: Log) -> None:
    log.fact("A")
    log.fact("B")
    log.declare("many")
    assert (log.answer(), log.answer(as_of=1)) == (["A", "B"], "B")


def test_the_newest_declaration_wins(log: Log) -> None:
    log.fact("A")
    for cardinality in ("many", "one"):
        log.declare(cardinality)
    assert log.answer() == "A"
    log.declare("many")
    assert log.answer() == ["A"]


@pytest.mark.parametrize("order", [("many", "one"), ("one", "many")])
def test_a_declaration_for_a_kind_beats_a_general_one(log: Log, order: tuple[str, str]) -> None:
    log.fact("A")
    log.fact("A", entity="org:acme")
    log.declare(order[0], kind="user")
    log.declare(order[1])
    many = order[0] == "many"
    assert isinstance(log.answer(), list) == many
    assert isinstance(log.answer(entity="org:acme"), list) != many


def test_many_without_any_is_an_empty_list(log: Log) -> None:
    log.declare("many")
    assert log.answer() == []
    assert log.reads().entity(SPACE, ALICE, log.lens()) == {}


def test_the_empty_string_is_a_belief_and_no_fact_is_none(log: Log) -> None:
    log.fact("")
    belief = log.reads().get(SPACE, ALICE, SLOT, log.lens())
    assert belief is not None
    assert not isinstance(belief, list)
    assert belief.value == ""
    assert log.answer(entity="user:bob") is None
    assert list(log.reads().entity(SPACE, ALICE, log.lens())) == [SLOT]


# -- views as asked for


def _bounds(log: Log, now: int = LATER, first: int = 0) -> Bounds:
    return Bounds(first, len(log.events), now)


@pytest.mark.parametrize(
    ("as_of", "offset"),
    [(BASE - 1, -1), (BASE, 0), (BASE + STEP - 1, 0), (BASE + STEP, 1), (LATER, 2)],
)
def test_a_time_is_the_last_offset_the_space_had_by_then(log: Log, as_of: int, offset: int) -> None:
    for value in ("A", "B", "C"):
        log.fact(value)
    resolved = log.reads().resolve(SPACE, View(as_of=instant(as_of)), _bounds(log))
    assert (resolved.as_of, resolved.valid_at) == (Position(0, offset), as_of)


def test_an_offset_has_its_own_append_time_for_instant(log: Log) -> None:
    for value in ("A", "B", "C"):
        log.fact(value)
    reads = log.reads()
    assert reads.resolve(SPACE, View(as_of=1), _bounds(log)).valid_at == BASE + STEP
    assert reads.resolve(SPACE, View(as_of=-1), _bounds(log)).valid_at == EARLIEST
    assert reads.resolve(SPACE, View(as_of=Position(0, 2)), _bounds(log)).valid_at == BASE + 2 * STEP


def test_without_as_of_the_instant_is_now_or_the_log_if_it_is_ahead(log: Log) -> None:
    log.fact("A")
    reads = log.reads()
    assert reads.resolve(SPACE, View(), _bounds(log)).valid_at == LATER
    assert reads.resolve(SPACE, View(), _bounds(log, now=BASE - STEP)).valid_at == BASE


def test_a_time_with_any_offset_is_the_same_instant(log: Log) -> None:
    log.fact("A")
    zones = [UTC, timezone(timedelta(hours=9)), timezone(-timedelta(hours=3, minutes=30))]
    found = {
        log.reads().resolve(SPACE, View(valid_at=instant(BASE).astimezone(zone)), _bounds(log)).valid_at
        for zone in zones
    }
    assert found == {BASE}


@pytest.mark.parametrize(
    "view",
    [
        View(as_of=3),
        View(as_of=-2),
        View(as_of=True),
        View(as_of=Position(1, 0)),
        View(as_of=instant(LATER + 1)),
        View(trust="rejected"),
        View(trust="sure"),
        View(branch="other"),
        View(at_sha="abc"),
        View(without_actors="agent:a"),  # type: ignore[arg-type]
        View(as_of=datetime(2026, 1, 1)),
        View(valid_at=datetime(2026, 1, 1)),
    ],
    ids=repr,
)
def test_what_can_not_be_answered_is_an_error(log: Log, view: View) -> None:
    for value in ("A", "B", "C"):
        log.fact(value)
    with pytest.raises(InvalidInput):
        log.reads().resolve(SPACE, view, _bounds(log))


def test_as_of_on_an_empty_log_is_an_error(log: Log) -> None:
    with pytest.raises(InvalidView, match="empty"):
        log.reads().resolve(SPACE, View(as_of=0), _bounds(log))


@pytest.mark.parametrize("as_of", [0, instant(BASE)], ids=["offset", "time"])
def test_before_the_first_retained_offset_is_an_error(log: Log, as_of: Any) -> None:
    for value in ("A", "B", "C"):
        log.fact(value)
    with pytest.raises(InvalidView, match="retained"):
        log.reads().resolve(SPACE, View(as_of=as_of), _bounds(log, first=2))


def test_a_resolved_view_asks_for_exactly_itself(log: Log) -> None:
    log.fact("A")
    asked = View(trust="verified", without_actors=("b", "a", "b"))
    resolved = log.reads().resolve(SPACE, asked, _bounds(log))
    assert resolved.without_actors == ("a", "b")
    log.fact("B")
    assert log.reads().resolve(SPACE, resolved.view(), _bounds(log, now=LATER + STEP)) == resolved
