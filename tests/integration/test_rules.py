"""Verdicts, tombstones, declarations, the trust policy and distrust, asked through the façade: what counts, and why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quick_folder import quick_folder

from schemas.errors import InvalidEvent, InvalidInput, InvalidView
from streams import Belief, Memory, Receipt, new_event_id
from streams.view import View

SPACE = "acme/support"
ALICE = "user:alice"
PLANNER = "agent:planner"


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with quick_folder() as folder, Memory.open(folder, actor=PLANNER) as opened:
        opened.info()  # takes the tables, so that receipts say what became of an event
        yield opened


def belief_of(memory: Memory, view: View = View(), slot: str = "employer", entity: str = ALICE) -> Belief | None:
    answer = memory.get(SPACE, entity, slot, view)
    assert not isinstance(answer, list)
    return answer


def value_of(memory: Memory, view: View = View(), slot: str = "employer", entity: str = ALICE) -> object:
    belief = belief_of(memory, view, slot, entity)
    return None if belief is None else belief.value


def values_of(memory: Memory, view: View = View(), slot: str = "tag", entity: str = ALICE) -> list[object]:
    answer = memory.get(SPACE, entity, slot, view)
    assert isinstance(answer, list)
    return [belief.value for belief in answer]


def before(receipt: Receipt) -> View:
    """What was known just before this event, about the present."""
    return View(as_of=receipt.position.offset - 1, valid_at=datetime.now(UTC))


# -- verdicts


@pytest.mark.parametrize(
    ("verdicts", "value", "trust"),
    [
        ((), "Acme", "candidate"),
        (("verified",), "Acme", "verified"),
        (("candidate",), "Acme", "candidate"),
        (("rejected",), None, None),
        (("verified", "rejected"), None, None),
        (("rejected", "verified"), "Acme", "verified"),
        (("rejected", "candidate"), "Acme", "candidate"),
        (("verified", "rejected", "candidate"), "Acme", "candidate"),
    ],
)
def test_the_last_verdict_wins(memory: Memory, verdicts: tuple[Any, ...], value: object, trust: object) -> None:
    fact = memory.remember(SPACE, ALICE, "employer", "Acme")
    for verdict in verdicts:
        memory.review(SPACE, fact.event_id, verdict, reason="looked it up")
    belief = belief_of(memory)
    assert (None if belief is None else (belief.value, belief.trust)) == (None if value is None else (value, trust))
    assert value_of(memory, View(trust="verified")) == (value if trust == "verified" else None)


def test_a_verdict_is_not_known_before_it_was_given(memory: Memory) -> None:
    fact = memory.remember(SPACE, ALICE, "employer", "Acme")
    verdict = memory.review(SPACE, fact.event_id, "rejected")
    assert value_of(memory) is None
    assert value_of(memory, before(verdict)) == "Acme"


def test_verified_yields_only_to_verified_and_says_what_it_did_not_yield_to(memory: Memory) -> None:
    acme = memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    memory.review(SPACE, acme.event_id, "verified")
    memory.remember(SPACE, ALICE, "employer", "Globex", valid_from=day(1))
    rival = memory.remember(SPACE, ALICE, "employer", "Initech", valid_from=day(2), actor="agent:other")
    belief = belief_of(memory)
    assert belief is not None
    assert (belief.value, belief.trust) == ("Acme", "verified")
    assert belief.contested is not None
    assert (belief.contested.event_id, belief.contested.value) == (rival.event_id, "Initech")
    assert (belief.contested.actor, belief.contested.ended) == ("agent:other", False)
    memory.review(SPACE, rival.event_id, "verified")
    belief = belief_of(memory)
    assert belief is not None
    assert (belief.value, belief.contested) == ("Initech", None)
    assert value_of(memory, View(valid_at=day(1))) == "Acme"


def test_a_candidate_end_contests_a_verified_fact_and_a_verified_one_ends_it(memory: Memory) -> None:
    acme = memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    memory.review(SPACE, acme.event_id, "verified")
    end = memory.end(SPACE, ALICE, "employer", at=day(3))
    belief = belief_of(memory)
    assert belief is not None
    assert belief.contested is not None
    assert (belief.value, belief.contested.event_id, belief.contested.ended) == ("Acme", end.event_id, True)
    memory.review(SPACE, end.event_id, "verified")
    assert value_of(memory) is None
    assert value_of(memory, View(valid_at=day(2))) == "Acme"


def test_a_verified_end_hides_later_candidates_until_one_is_verified(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    end = memory.end(SPACE, ALICE, "employer", at=day(1))
    memory.review(SPACE, end.event_id, "verified")
    later = memory.remember(SPACE, ALICE, "employer", "Globex", valid_from=day(5))
    assert value_of(memory) is None
    memory.review(SPACE, later.event_id, "verified")
    assert value_of(memory) == "Globex"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m, fact: m.review(SPACE, new_event_id(), "verified"), "target: no event .* is known in space 'acme/"),
        (lambda m, fact: m.review(SPACE, "yesterday", "verified"), "target: 'yesterday' is no event id"),
        (lambda m, fact: m.review(SPACE, fact, "fine"), "verdict: invalid enum value 'fine'"),
        (lambda m, fact: m.review("acme/other", fact, "verified"), "target: no event .* in space 'acme/other'"),
        (
            lambda m, fact: m.review(SPACE, m.observe(SPACE, "user", "hi").event_id, "verified"),
            "target: event .* is a Observed, no fact and no end",
        ),
        (lambda m, fact: m.declare(SPACE, "s", cardinality="several"), "cardinality: invalid enum value 'several'"),
        (lambda m, fact: m.declare(SPACE, "", cardinality="one"), "slot: is empty"),
        (lambda m, fact: m.forbid(SPACE, ALICE, "s", None), "value: give either the value or its keyed hash"),
        (lambda m, fact: m.distrust(SPACE, ""), "about: is empty"),
        (lambda m, fact: m.distrust(SPACE, PLANNER, since="yesterday"), "since_event: 'yesterday' is no event id"),
        (lambda m, fact: m.distrust(SPACE, PLANNER, since=new_event_id()), "since_event: no event .* is known"),
        (
            lambda m, fact: m.distrust(SPACE, PLANNER, since=datetime(2026, 1, 1)),
            "since 2026-01-01T00:00:00 has no zone",
        ),
        (lambda m, fact: m.policy(SPACE, None), "rules: must be a list of rules, not NoneType"),
        (lambda m, fact: m.policy(SPACE, {"actors": "*"}), "rules: must be a list of rules, not dict"),
        (lambda m, fact: m.policy(SPACE, ["user:*"]), r"rules\[0\]: expected object, got str"),
        (
            lambda m, fact: m.policy(SPACE, [{"actors": "*", "starting_trust": "verified"}]),
            r"rules\[0\]\.may_verify: is missing",
        ),
        (
            lambda m, fact: m.policy(SPACE, [{"actors": "*", "starting_trust": "high", "may_verify": True}]),
            r"rules\[0\]\.starting_trust: invalid enum value 'high'",
        ),
        (
            lambda m, fact: m.policy(SPACE, [{"actors": "*", "starting_trust": "verified", "may_verify": "yes"}]),
            r"rules\[0\]\.may_verify: expected bool, got str",
        ),
        (
            lambda m, fact: m.policy(
                SPACE,
                [
                    {"actors": "*", "starting_trust": "verified", "may_verify": True},
                    {"actor": "*", "starting_trust": "verified", "may_verify": True},
                ],
            ),
            r"rules\[1\]\.actor",
        ),
        (
            lambda m, fact: m.policy(SPACE, [{"actors": "", "starting_trust": "verified", "may_verify": True}]),
            r"rules\[0\]\.actors: is empty",
        ),
    ],
)
def test_bad_input_is_refused_by_name_and_nothing_is_written(memory: Memory, ask: Any, message: str) -> None:
    fact = memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.observe(SPACE, "user", "so that the last event is one in every case")
    with pytest.raises(InvalidInput, match=message):
        ask(memory, fact.event_id)
    types = [type(one.event).__name__ for one in memory.timeline(SPACE)]
    assert set(types) == {"FactAsserted", "Observed"}


# -- tombstones

SPELLINGS = [
    ("Acme", "acme"),
    ("Acme", "ＡＣＭＥ"),
    ("Acme", "A\u200bc\u2060me"),
    ("Acme", "\ufeffAcme"),
    ("Acme", "  Acme\t"),
    ("Acme Corp", "acme \u00a0\n corp"),
    ("Straße", "STRASSE"),
    ("İstanbul", "i\u0307stanbul"),
    ("ﬁle", "FILE"),
    ("é", "e\u0301"),
    ("Ⅷ", "viii"),
    (42, "42"),
    ("42", 42),
    ("４２", 42),
    (True, "true"),
    ("TRUE", True),
    (False, "False"),
    (1.5, "1.5"),
    (0.1, "0.1"),
    (2.0, "2.0"),
]


@pytest.mark.parametrize("first", ["assertion", "tombstone"])
def test_a_tombstone_covers_every_spelling_and_is_lifted_in_any(memory: Memory, first: str) -> None:
    """Set and lifted in one spelling, asserted in another; before the assertion and after it."""
    for number, (forbidden, said) in enumerate(SPELLINGS):
        _forbid_and_allow(memory, f"user:{number}", forbidden, said, first)


def _forbid_and_allow(memory: Memory, entity: str, forbidden: Any, said: Any, first: str) -> None:
    if first == "assertion":
        receipt = memory.remember(SPACE, entity, "employer", said)
        assert receipt.status == "applied"
    memory.forbid(SPACE, entity, "employer", forbidden, reason="court order")
    if first == "tombstone":
        receipt = memory.remember(SPACE, entity, "employer", said)
        assert receipt.status == "blocked"
        assert str(receipt.reason).startswith("the value is forbidden since ")
    assert value_of(memory, entity=entity) is None
    assert memory.history(SPACE, entity, "employer") == []
    memory.allow(SPACE, entity, "employer", said)
    assert value_of(memory, entity=entity) == said
    memory.forbid(SPACE, entity, "employer", said)
    memory.allow(SPACE, entity, "employer", forbidden)
    assert value_of(memory, entity=entity) == said


@pytest.mark.parametrize(
    ("forbidden", "said"),
    [("Acme", "Acme Corp"), (1, 1.0), (1, True), ("", "0"), (0, False), ("Acme", "Аcme"), ("1.50", 1.5), (1, "one")],
)
def test_another_value_is_not_covered(memory: Memory, forbidden: Any, said: Any) -> None:
    """`1.0` is JSON's other number, and a Cyrillic letter another letter."""
    memory.forbid(SPACE, ALICE, "employer", forbidden)
    assert memory.remember(SPACE, ALICE, "employer", said).status == "applied"
    assert value_of(memory) == said


def test_the_empty_string_can_be_forbidden_and_covers_white_space(memory: Memory) -> None:
    memory.forbid(SPACE, ALICE, "note", "")
    assert memory.remember(SPACE, ALICE, "note", " \u200b\n").status == "blocked"
    assert value_of(memory, slot="note") is None


def test_a_tombstone_is_of_one_slot_of_one_entity(memory: Memory) -> None:
    for entity, slot in ((ALICE, "employer"), (ALICE, "client"), ("user:bob", "employer")):
        memory.remember(SPACE, entity, slot, "Acme")
    memory.remember("acme/other", ALICE, "employer", "Acme")
    memory.forbid(SPACE, ALICE, "employer", "Acme")
    assert value_of(memory) is None
    assert value_of(memory, slot="client") == "Acme"
    assert value_of(memory, entity="user:bob") == "Acme"
    other = memory.get("acme/other", ALICE, "employer")
    assert isinstance(other, Belief)


def test_a_tombstone_lets_the_next_value_through_and_as_of_before_it_nothing_changed(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    memory.remember(SPACE, ALICE, "employer", "Globex", valid_from=day(1))
    tombstone = memory.forbid(SPACE, ALICE, "employer", "GLOBEX")
    belief = belief_of(memory)
    assert belief is not None
    assert (belief.value, belief.valid_to) == ("Acme", None)
    assert value_of(memory, before(tombstone)) == "Globex"


def test_a_tombstone_covers_an_end_of_that_value_too(memory: Memory) -> None:
    """An end that names a forbidden value does not stand; it would concern that value only, so nothing else changes."""
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    memory.end(SPACE, ALICE, "employer", value="Acme", at=day(2))
    memory.forbid(SPACE, ALICE, "employer", "acme")
    assert value_of(memory, View(valid_at=day(1))) is None
    memory.allow(SPACE, ALICE, "employer", "acme")
    assert value_of(memory, View(valid_at=day(1))) == "Acme"
    assert value_of(memory) is None


def test_allow_without_a_tombstone_changes_nothing(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme")
    assert memory.allow(SPACE, ALICE, "employer", "Acme").status == "applied"
    assert value_of(memory) == "Acme"


# -- declarations


def test_many_from_a_declaration_on_and_one_as_of_before(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "tag", "a", valid_from=day(0))
    memory.remember(SPACE, ALICE, "tag", "b", valid_from=day(1))
    declared = memory.declare(SPACE, "tag", cardinality="many", value_type="string", description="labels")
    assert values_of(memory) == ["a", "b"]
    assert value_of(memory, before(declared), slot="tag") == "b"
    assert [run.value for run in memory.history(SPACE, ALICE, "tag", View(as_of=declared.position.offset - 1))] == [
        "a",
        "b",
    ]
    back = memory.declare(SPACE, "tag", cardinality="one")
    assert value_of(memory, slot="tag") == "b"
    assert values_of(memory, View(as_of=back.position.offset - 1, valid_at=day(2))) == ["a", "b"]


@pytest.mark.parametrize("order", ["general first", "kind first"])
def test_a_declaration_for_a_kind_beats_a_general_one_whatever_the_order(memory: Memory, order: str) -> None:
    declarations: list[dict[str, Any]] = [{"cardinality": "many"}, {"cardinality": "one", "entity_kind": "user"}]
    for declaration in declarations if order == "general first" else reversed(declarations):
        memory.declare(SPACE, "tag", **declaration)
    for entity in (ALICE, "team:red", "user", "user-x:1"):
        memory.remember(SPACE, entity, "tag", "a")
        memory.remember(SPACE, entity, "tag", "b")
    assert value_of(memory, slot="tag") == "b"
    assert values_of(memory, entity="team:red") == ["a", "b"]
    assert values_of(memory, entity="user-x:1") == ["a", "b"]


def test_many_answers_an_empty_list_and_ends_value_by_value(memory: Memory) -> None:
    memory.declare(SPACE, "tag", cardinality="many")
    assert values_of(memory) == []
    for number, value in enumerate(("c", "a", 1, True, "b")):
        memory.remember(SPACE, ALICE, "tag", value, valid_from=day(number))
    memory.remember(SPACE, ALICE, "tag", "a", valid_from=day(-1))
    memory.end(SPACE, ALICE, "tag", value=1, at=day(8))
    assert values_of(memory) == ["a", "c", True, "b"]
    memory.end(SPACE, ALICE, "tag", at=day(9))
    assert values_of(memory) == []
    assert values_of(memory, View(valid_at=day(8))) == ["a", "c", True, "b"]


# -- the policy


def policy(memory: Memory, *rules: tuple[str, str, bool], actor: str | None = None) -> Receipt:
    made = [{"actors": actors, "starting_trust": trust, "may_verify": may} for actors, trust, may in rules]
    return memory.policy(SPACE, made, actor=actor)


def test_a_policy_starts_new_facts_only(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "old", "x", actor="user:ana")
    policy(memory, ("user:*", "verified", True), ("agent:bad", "rejected", True))
    memory.remember(SPACE, ALICE, "new", "x", actor="user:ana")
    memory.remember(SPACE, ALICE, "by-agent", "x")
    memory.remember(SPACE, ALICE, "by-bad", "x", actor="agent:bad")
    trusts = {slot: belief.trust for slot, belief in memory.entity(SPACE, ALICE).items() if isinstance(belief, Belief)}
    assert trusts == {"old": "candidate", "new": "verified", "by-agent": "candidate"}
    changed = policy(memory, ("user:*", "candidate", True))
    memory.remember(SPACE, ALICE, "newest", "x", actor="user:ana")
    trusts = {slot: belief.trust for slot, belief in memory.entity(SPACE, ALICE).items() if isinstance(belief, Belief)}
    assert trusts == {"old": "candidate", "new": "verified", "by-agent": "candidate", "newest": "candidate"}
    assert belief_of(memory, View(as_of=changed.position), slot="new") is not None


def test_the_first_rule_that_matches_applies(memory: Memory) -> None:
    policy(memory, ("agent:a", "candidate", True), ("agent:*", "rejected", True), ("*", "verified", True))
    for actor in ("agent:a", "agent:b", "user:c", "Agent:d"):
        memory.remember(SPACE, ALICE, actor, "x", actor=actor)
    trusts = {slot: belief.trust for slot, belief in memory.entity(SPACE, ALICE).items() if isinstance(belief, Belief)}
    assert trusts == {"agent:a": "candidate", "user:c": "verified", "Agent:d": "verified"}


def test_who_may_not_verify_moves_no_trust(memory: Memory) -> None:
    """The policy at the verdict's own offset decides: one given before counts, and one given under it never will."""
    earlier = memory.remember(SPACE, ALICE, "earlier", "x")
    memory.review(SPACE, earlier.event_id, "verified", actor="agent:eager")
    policy(memory, ("agent:eager", "candidate", False))
    later = memory.remember(SPACE, ALICE, "later", "x")
    memory.review(SPACE, later.event_id, "verified", actor="agent:eager")
    rejected = memory.remember(SPACE, ALICE, "rejected", "x")
    memory.review(SPACE, rejected.event_id, "rejected", actor="agent:eager")
    policy(memory)
    found = {slot: belief.trust for slot, belief in memory.entity(SPACE, ALICE).items() if isinstance(belief, Belief)}
    assert found == {"earlier": "verified", "later": "candidate", "rejected": "candidate"}


def test_a_verdict_beats_the_starting_trust(memory: Memory) -> None:
    policy(memory, ("*", "verified", True))
    fact = memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.review(SPACE, fact.event_id, "rejected")
    assert value_of(memory) is None


# -- distrust


def test_distrust_of_everything_and_trust_again(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme", actor="user:ana", valid_from=day(0))
    memory.remember(SPACE, ALICE, "employer", "Evil", actor="agent:bad", valid_from=day(1))
    distrusted = memory.distrust(SPACE, "agent:bad", reason="poisoned")
    assert value_of(memory) == "Acme"
    assert value_of(memory, before(distrusted)) == "Evil"
    memory.remember(SPACE, ALICE, "employer", "Worse", actor="agent:bad", valid_from=day(2))
    assert value_of(memory) == "Acme"
    memory.trust(SPACE, "agent:bad")
    assert value_of(memory) == "Worse"


def test_distrust_since_an_event_includes_it(memory: Memory) -> None:
    facts = [memory.remember(SPACE, ALICE, "employer", value, actor="agent:bad") for value in "abc"]
    memory.distrust(SPACE, "agent:bad", since=facts[1].event_id)
    assert value_of(memory) == "a"
    memory.distrust(SPACE, "agent:bad", since=facts[2].event_id)
    assert value_of(memory) == "b", "the newest word replaces the one before, also where it takes back"
    memory.distrust(SPACE, "agent:bad")
    assert value_of(memory) is None


def test_distrust_since_a_time_goes_by_the_append_time(memory: Memory) -> None:
    """Inclusive, and whatever instants the facts speak of."""
    for value in "ab":
        memory.remember(SPACE, ALICE, "employer", value, actor="agent:bad", valid_from=day(5))
    first, second = (one.append_time for one in memory.timeline(SPACE))
    memory.distrust(SPACE, "agent:bad", since=second)
    if first < second:
        assert value_of(memory) == "a"
    memory.distrust(SPACE, "agent:bad", since=second + timedelta(microseconds=1))
    assert value_of(memory) == "b"
    memory.distrust(SPACE, "agent:bad", since=first)
    assert value_of(memory) is None


def test_distrust_of_a_distruster_annuls_nothing(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Evil", actor="agent:bad")
    memory.distrust(SPACE, "agent:bad", actor="user:ana")
    memory.distrust(SPACE, "user:ana", actor="agent:bad")
    assert value_of(memory) is None
    assert value_of(memory, View(without_actors=("user:ana",))) is None
    memory.trust(SPACE, "agent:bad", actor="user:ana")
    assert value_of(memory) == "Evil", "words about an actor are never annulled by distrust of who wrote them"


def _declare(memory: Memory) -> None:
    memory.declare(SPACE, "employer", cardinality="many", actor="agent:bad")


def _policy(memory: Memory) -> None:
    policy(memory, ("*", "rejected", True), actor="agent:bad")


def _forbid(memory: Memory) -> None:
    memory.forbid(SPACE, ALICE, "employer", "Acme", actor="agent:bad")


def _retract(memory: Memory) -> None:
    memory.forget(SPACE, ALICE, "employer", actor="agent:bad")


def _review(memory: Memory) -> None:
    fact = next(memory.timeline(SPACE, ALICE, "employer"))
    memory.review(SPACE, str(fact.event.event_id.hex()), "rejected", actor="agent:bad")


def _end(memory: Memory) -> None:
    memory.end(SPACE, ALICE, "employer", actor="agent:bad")


@pytest.mark.parametrize("rule", [_declare, _policy, _forbid, _retract, _review, _end])
@pytest.mark.parametrize("how", ["distrust", "without_actors"])
def test_what_a_distrusted_actor_ruled_no_longer_counts(memory: Memory, rule: Any, how: str) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme", actor="user:ana", valid_from=day(0))
    rule(memory)
    memory.remember(SPACE, ALICE, "employer", "Acme", actor="user:bob", valid_from=day(-1))
    memory.remember(SPACE, ALICE, "city", "Paris", actor="user:bob", valid_from=day(-1))
    ruled = memory.entity(SPACE, ALICE)
    view = View()
    if how == "distrust":
        memory.distrust(SPACE, "agent:bad")
    else:
        view = View(without_actors=("agent:bad", "agent:bad", "nobody"))
    after = memory.entity(SPACE, ALICE, view)
    plain = after["employer"]
    assert isinstance(plain, Belief)
    assert (plain.value, plain.valid_from, plain.valid_to, plain.corroborations) == ("Acme", day(-1), None, 2)
    assert list(after) == ["city", "employer"]
    without_views = {slot: str(one) for slot, one in ruled.items()}
    assert without_views != {slot: str(one) for slot, one in after.items()}, "the rule had an effect before"


def test_without_actors_leaves_the_log_as_it_is(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme", actor="user:ana", valid_from=day(0))
    memory.remember(SPACE, ALICE, "employer", "Evil", actor="agent:bad", valid_from=day(1))
    assert value_of(memory, View(without_actors=["agent:bad"])) == "Acme"
    assert value_of(memory, View(without_actors=("agent:bad", "user:ana"))) is None
    assert value_of(memory) == "Evil"
    with pytest.raises(InvalidView, match="without_actors must be several names, not one text"):
        memory.get(SPACE, ALICE, "employer", View(without_actors="agent:bad"))


def test_trust_rejected_is_no_least_trust(memory: Memory) -> None:
    with pytest.raises(InvalidView, match="trust 'rejected' is no least trust"):
        memory.get(SPACE, ALICE, "employer", View(trust="rejected"))


# -- retractions by name


def test_a_retraction_reaches_what_is_extracted_later_from_before_it(memory: Memory) -> None:
    """A derived fact counts as recorded at the root of its causes, so re-extraction brings nothing back."""
    turn = memory.observe(SPACE, "user", "I work at Acme")
    first = memory.remember(SPACE, ALICE, "employer", "Acme", cause=turn.event_id, origin="extracted", engine="x@1")
    memory.forget(SPACE, ALICE, "employer", reason="that was a joke")
    memory.remember(SPACE, ALICE, "employer", "Acme", cause=turn.event_id, origin="extracted", engine="x@2")
    assert value_of(memory) is None
    memory.remember(SPACE, ALICE, "employer", "Acme Inc", cause=first.event_id, origin="extracted", engine="y@1")
    assert value_of(memory) is None, "through two links"
    memory.end(SPACE, ALICE, "employer", cause=turn.event_id)
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    assert value_of(memory) == "Acme", "a new statement, which the derived end does not touch"


def test_a_retraction_does_not_reach_new_statements_nor_what_derives_from_them(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.forget(SPACE, ALICE, "employer")
    later = memory.observe(SPACE, "user", "I really do work at Acme")
    memory.remember(SPACE, ALICE, "employer", "Acme", cause=later.event_id, origin="extracted", engine="x@1")
    assert value_of(memory) == "Acme"


def test_a_cause_that_is_not_known_is_no_link(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.forget(SPACE, ALICE, "employer")
    memory.remember(SPACE, ALICE, "employer", "Globex", cause=new_event_id())
    assert value_of(memory) == "Globex"


@pytest.mark.parametrize(
    ("value", "left"), [("Acme", "acme"), ("acme", "Acme"), (None, None), (1, 1.0), (True, 1), ("1", 1)]
)
def test_a_retraction_with_a_value_reaches_exactly_that_value(memory: Memory, value: Any, left: Any) -> None:
    turn = memory.observe(SPACE, "user", "said something")
    for said in (left, value) if value is not None else ("Acme",):
        memory.remember(SPACE, ALICE, "employer", said)
    memory.forget(SPACE, ALICE, "employer", value)
    belief = belief_of(memory)
    assert (None if belief is None else (type(belief.value), belief.value)) == (
        None if left is None else (type(left), left)
    )
    if value is not None:
        memory.remember(SPACE, ALICE, "employer", value, cause=turn.event_id)
        belief = belief_of(memory)
        assert belief is not None
        assert type(belief.value) is type(left)
        memory.remember(SPACE, ALICE, "employer", "a third", cause=turn.event_id)
        assert value_of(memory) == "a third", "another value of the same root"


def test_a_retraction_of_an_end_brings_the_fact_back(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    end = memory.end(SPACE, ALICE, "employer", at=day(1))
    assert value_of(memory) is None
    memory.forget(SPACE, event_id=end.event_id)
    assert value_of(memory) == "Acme"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SPACE, ALICE, "employer", "Acme Inc"), "entity: no fact or end of user:alice employer = 'Acme Inc' is known"),
        ((SPACE, "user:bob", "employer"), "entity: no fact or end of user:bob employer is known"),
        ((SPACE, ALICE), "target: nothing is named"),
        ((SPACE,), "target: nothing is named"),
    ],
)
def test_a_retraction_that_names_nothing_known_is_refused(
    memory: Memory, arguments: tuple[Any, ...], message: str
) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme")
    with pytest.raises(InvalidEvent, match=message):
        memory.forget(*arguments)
    assert value_of(memory) == "Acme"
