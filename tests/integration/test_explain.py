"""explain, diff, known_at and schema, asked through the façade."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from quick_folder import quick_folder

from schemas.errors import InvalidView, NotFound
from streams import Belief, Memory, Receipt, new_event_id
from streams.compare import Difference
from streams.explain import ExplainedClaim, Explanation
from streams.view import View

SPACE = "acme/support"
ALICE = "user:alice"


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with quick_folder() as folder, Memory.open(folder, actor="agent:planner") as opened:
        yield opened


def claim_of(explanation: Explanation, receipt: Receipt) -> ExplainedClaim:
    return next(one for one in explanation.claims if one.recorded.position == receipt.position)


# -- explain


def test_every_outcome_and_its_reason(memory: Memory) -> None:
    """One slot in which each thing that may become of a claim has become of one."""
    facts: dict[str, Receipt] = {}

    def remember(name: str, **fields: Any) -> None:
        facts[name] = memory.remember(SPACE, ALICE, "employer", name, **fields)

    remember("believed", valid_from=day(20))
    remember("outranked", valid_from=day(19))
    remember("expired", valid_from=day(15), valid_to=day(16))
    remember("ended", valid_from=day(5))
    remember("not yet valid", valid_from=day(40))
    remember("rejected", valid_from=day(25))
    remember("forbidden", valid_from=day(25))
    remember("retracted", valid_from=day(25))
    remember("distrusted", valid_from=day(25), actor="agent:bad")
    remember("left out", valid_from=day(25), actor="agent:odd")
    facts["in force"] = memory.end(SPACE, ALICE, "employer", at=day(10))
    facts["not yet in force"] = memory.end(SPACE, ALICE, "employer", at=day(50))
    rejected = memory.review(SPACE, facts["rejected"].event_id, "rejected", reason="no such company")
    forbidden = memory.forbid(SPACE, ALICE, "employer", "Forbidden")
    retracted = memory.forget(SPACE, event_id=facts["retracted"].event_id, reason="typo")
    distrusted = memory.distrust(SPACE, "agent:bad")
    last = memory.observe(SPACE, "user", "done")
    later = memory.remember(SPACE, ALICE, "employer", "unknown then", valid_from=day(26))

    view = View(as_of=last.position, valid_at=day(30), without_actors=("agent:odd",))
    found = memory.explain(SPACE, ALICE, "employer", view)
    assert {name: claim_of(found, receipt).outcome for name, receipt in facts.items()} == {name: name for name in facts}
    assert all(one.recorded.position != later.position for one in found.claims)

    because = {name: claim_of(found, receipt).because for name, receipt in facts.items()}
    assert {name: one.event_id for name, one in because.items() if one is not None} == {
        "outranked": facts["believed"].event_id,
        "ended": facts["in force"].event_id,
    }
    said = {name: claim_of(found, receipt).said for name, receipt in facts.items()}
    assert {name: [(one.recorded.position, one.verdict) for one in them] for name, them in said.items() if them} == {
        "rejected": [(rejected.position, "rejected")],
        "retracted": [(retracted.position, None)],
    }
    assert all(one.counts for them in said.values() for one in them)
    decided = {name: claim_of(found, receipt).decided_by for name, receipt in facts.items()}
    assert {name: one.position for name, one in decided.items() if one is not None} == {
        "rejected": rejected.position,
        "forbidden": forbidden.position,
        "retracted": retracted.position,
        "distrusted": distrusted.position,
    }
    assert said["retracted"][0].recorded.event.reason == "typo"  # type: ignore[attr-defined]

    assert (found.entity, found.slot, found.cardinality) == (ALICE, "employer", "one")
    assert isinstance(found.answer, Belief)
    assert found.answer == memory.get(SPACE, ALICE, "employer", view)
    assert found.answer.event_id == facts["believed"].event_id
    assert memory.explain(SPACE, ALICE, "employer", found.view.view()) == found


def test_claims_are_told_newest_rank_first(memory: Memory) -> None:
    for number in (1, 3, 2):
        memory.remember(SPACE, ALICE, "employer", f"e{number}", valid_from=day(number))
    verified = memory.remember(SPACE, ALICE, "employer", "e0", valid_from=day(0))
    memory.review(SPACE, verified.event_id, "verified")
    found = memory.explain(SPACE, ALICE, "employer")
    assert [one.recorded.event.value for one in found.claims] == ["e0", "e3", "e2", "e1"]  # type: ignore[attr-defined]
    assert [one.trust for one in found.claims] == ["verified", "candidate", "candidate", "candidate"]
    assert [one.outcome for one in found.claims] == ["believed", "outranked", "outranked", "outranked"]
    through_verified = memory.explain(SPACE, ALICE, "employer", View(trust="verified"))
    assert [one.outcome for one in through_verified.claims] == ["believed", *["not verified"] * 3]


def test_what_was_said_and_does_not_count_is_told_as_such(memory: Memory) -> None:
    """Verdicts of one who may not verify, and retractions by a distrusted actor."""
    rules = [{"actors": "agent:eager", "starting_trust": "candidate", "may_verify": False}]
    memory.policy(SPACE, rules)
    fact = memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.review(SPACE, fact.event_id, "rejected", actor="agent:eager")
    memory.review(SPACE, fact.event_id, "verified", actor="user:ana")
    memory.forget(SPACE, ALICE, "employer", actor="agent:bad")
    memory.distrust(SPACE, "agent:bad")
    found = claim_of(memory.explain(SPACE, ALICE, "employer"), fact)
    assert (found.outcome, found.trust) == ("believed", "verified")
    assert [(one.recorded.event.actor, one.verdict, one.counts) for one in found.said] == [
        ("agent:eager", "rejected", False),
        ("user:ana", "verified", True),
        ("agent:bad", None, False),
    ]
    early = claim_of(memory.explain(SPACE, ALICE, "employer", View(as_of=fact.position)), fact)
    assert early.said == ()


def test_explain_many_values(memory: Memory) -> None:
    memory.declare(SPACE, "tag", cardinality="many")
    facts = {value: memory.remember(SPACE, ALICE, "tag", value, valid_from=day(at)) for at, value in enumerate("abc")}
    again = memory.remember(SPACE, ALICE, "tag", "a", valid_from=day(5), actor="user:ana")
    end = memory.end(SPACE, ALICE, "tag", value="b", at=day(9))
    found = memory.explain(SPACE, ALICE, "tag", View(valid_at=day(10)))
    assert found.cardinality == "many"
    assert isinstance(found.answer, list)
    assert [belief.value for belief in found.answer] == ["a", "c"]
    assert {name: claim_of(found, fact).outcome for name, fact in facts.items()} == {
        "a": "outranked",
        "b": "ended",
        "c": "believed",
    }
    assert claim_of(found, again).outcome == "believed"
    outranking, ending = claim_of(found, facts["a"]).because, claim_of(found, facts["b"]).because
    assert outranking is not None
    assert ending is not None
    assert (outranking.event_id, ending.event_id) == (again.event_id, end.event_id)


def test_explain_a_slot_of_which_nothing_was_said(memory: Memory) -> None:
    found = memory.explain(SPACE, ALICE, "employer")
    assert (found.answer, found.claims, found.cardinality) == (None, (), "one")


def test_a_fact_that_a_later_instant_will_end_is_still_believed(memory: Memory) -> None:
    fact = memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    end = memory.end(SPACE, ALICE, "employer", at=day(10))
    found = memory.explain(SPACE, ALICE, "employer", View(valid_at=day(10) - timedelta(microseconds=1)))
    assert (claim_of(found, fact).outcome, claim_of(found, end).outcome) == ("believed", "not yet in force")
    found = memory.explain(SPACE, ALICE, "employer", View(valid_at=day(10)))
    assert (claim_of(found, fact).outcome, claim_of(found, end).outcome) == ("ended", "in force")


# -- diff


def told(differences: list[Difference]) -> list[tuple[str, str, object, object]]:
    def values(answer: Any) -> object:
        beliefs = answer if isinstance(answer, list) else [answer] if answer is not None else []
        return [(belief.value, belief.trust) for belief in beliefs]

    return [(one.entity, one.slot, values(one.before), values(one.after)) for one in differences]


def essence(answer: Any) -> list[str]:
    """Values with their types, and trust; `1` and `True` are two values."""
    beliefs = answer if isinstance(answer, list) else [answer] if answer is not None else []
    return sorted(f"{belief.value!r} {belief.trust}" for belief in beliefs)


def test_diff_between_offsets_times_and_views(memory: Memory) -> None:
    first = memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    memory.remember(SPACE, ALICE, "city", "Paris", valid_from=day(0), actor="agent:bad")
    memory.remember(SPACE, "user:bob", "city", "Rome", valid_from=day(4))
    early = View(as_of=first.position, valid_at=day(9))
    late = View(valid_at=day(9))
    acme, paris, rome = [("Acme", "candidate")], [("Paris", "candidate")], [("Rome", "candidate")]
    assert told(memory.diff(SPACE, early, late)) == [(ALICE, "city", [], paris), ("user:bob", "city", [], rome)]
    assert told(memory.diff(SPACE, late, early)) == [(ALICE, "city", paris, []), ("user:bob", "city", rome, [])]
    assert told(memory.diff(SPACE, View(valid_at=day(1)), late)) == [("user:bob", "city", [], rome)]
    assert told(memory.diff(SPACE, late, View(valid_at=day(9), without_actors=("agent:bad",)))) == [
        (ALICE, "city", paris, [])
    ]
    memory.review(SPACE, first.event_id, "verified")
    assert told(memory.diff(SPACE, late, View(valid_at=day(9), trust="verified"))) == [
        (ALICE, "city", paris, []),
        ("user:bob", "city", rome, []),
    ]
    assert told(memory.diff(SPACE, early, late))[1] == (ALICE, "employer", acme, [("Acme", "verified")])
    assert memory.diff(SPACE, late) == []
    assert memory.diff("acme/empty", View()) == []
    with pytest.raises(InvalidView, match="as_of 99 is past the end: the last offset is 3"):
        memory.diff(SPACE, View(as_of=99))


@pytest.mark.parametrize("rule", ["declare", "distrust", "policy"])
@pytest.mark.parametrize("later_rules", [0, 1, 3])
def test_diff_sees_a_rule_between_even_when_others_follow(memory: Memory, rule: str, later_rules: int) -> None:
    """A rule touches no slot by name; the newest one may lie after both Views, and another one between them."""
    for value in ("a", "b"):
        memory.remember(SPACE, ALICE, "tag", value, valid_from=day(0), actor="agent:bad")
    start = memory.observe(SPACE, "user", "before the rule")
    if rule == "declare":
        memory.declare(SPACE, "tag", cardinality="many")
    elif rule == "distrust":
        memory.distrust(SPACE, "agent:bad")
    else:
        rules = [{"actors": "*", "starting_trust": "rejected", "may_verify": True}]
        memory.policy(SPACE, rules)
        memory.remember(SPACE, ALICE, "tag", "c", valid_from=day(0))
    end = memory.observe(SPACE, "user", "after the rule")
    for number in range(later_rules):
        memory.distrust(SPACE, f"agent:nobody{number}")
    b, both = [("b", "candidate")], [("a", "candidate"), ("b", "candidate")]
    wanted = {"declare": [(ALICE, "tag", b, both)], "distrust": [(ALICE, "tag", b, [])], "policy": []}[rule]
    view_a, view_b = View(as_of=start.position, valid_at=day(9)), View(as_of=end.position, valid_at=day(9))
    assert told(memory.diff(SPACE, view_a, view_b)) == wanted


def test_diff_is_the_full_comparison_over_random_histories(memory: Memory) -> None:
    """Whatever was written, diff names exactly the slots whose answers differ, with those answers."""
    seed = time.time_ns()
    chance = random.Random(seed)
    entities, slots, actors = ("user:a", "user:b", "team:c"), ("x", "y"), ("agent:1", "agent:2")
    ids: list[str] = []
    for _ in range(120):
        event: dict[str, Any] = {
            "event_id": str(new_event_id()), "space": SPACE, "actor": chance.choice(actors),
            "entity": chance.choice(entities), "slot": chance.choice(slots),
        }  # fmt: skip
        about_event = {key: event[key] for key in ("event_id", "space", "actor")}
        kind = chance.choices(
            ("fact", "end", "forget", "review", "retract", "forbid", "allow", "declare", "distrust", "trust"),
            (10, 2, 1, 3, 1, 2, 1, 1, 1, 1),
        )[0]
        if kind == "fact":
            valid_from = f"2026-01-{chance.randint(1, 20):02}T00:00:00Z"
            event |= {"type": "FactAsserted", "value": chance.choice(("a", "b", 1, True)), "valid_from": valid_from}
            ids.append(event["event_id"])
        elif kind == "end":
            event |= {"type": "FactEnded", "at": f"2026-01-{chance.randint(1, 20):02}T00:00:00Z"}
        elif kind in ("forbid", "allow"):
            event |= {"type": f"Value{'Forbidden' if kind == 'forbid' else 'Allowed'}", "value": "A"}
        elif kind == "declare":
            event = about_event | {"type": "SlotDeclared", "slot": "x", "cardinality": chance.choice(("one", "many"))}
        elif kind in ("distrust", "trust"):
            about = chance.choice(actors)
            event = about_event | {"type": f"Actor{'Distrusted' if kind == 'distrust' else 'Trusted'}", "about": about}
        elif not ids:
            continue
        elif kind == "review":
            verdict = chance.choice(("verified", "rejected", "candidate"))
            event = about_event | {"type": "FactReviewed", "target": chance.choice(ids), "verdict": verdict}
        elif kind == "retract":
            event = about_event | {"type": "FactRetracted", "target": chance.choice(ids)}
        else:
            event |= {"type": "FactRetracted"}
        if memory.check([event]) == [None]:
            memory.append([event])
    last = memory.info().partitions[0].next - 1

    for _ in range(60):
        views = [
            View(
                as_of=chance.randint(0, last),
                valid_at=day(chance.choice((10, 10, 18))),
                trust=chance.choice(("candidate", "candidate", "verified")),
                without_actors=chance.choice(((), (), ("agent:1",))),
            )
            for _ in range(2)
        ]
        if chance.random() < 0.6:  # nothing but the offset differs
            views[1] = View(views[1].as_of, views[0].valid_at, "main", None, views[0].trust, views[0].without_actors)
        wanted = []
        for entity in sorted(entities):
            for slot in slots:
                before, after = (memory.get(SPACE, entity, slot, view) for view in views)
                if essence(before) != essence(after):
                    wanted.append((entity, slot, before, after))
        found = [(one.entity, one.slot, one.before, one.after) for one in memory.diff(SPACE, *views)]
        assert found == wanted, f"seed {seed}: {views}"


# -- known_at


def test_known_at_is_what_was_seen(memory: Memory) -> None:
    acme = memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    assert memory.get(SPACE, ALICE, "employer") is not None
    memory.append([{"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "employer", "value": "Globex"}])
    decided = memory.remember(SPACE, ALICE, "email", "alice@acme.example")
    known = memory.known_at(SPACE, decided.event_id)
    assert (known.assumed, known.view.as_of) == (False, acme.position)
    belief = memory.get(SPACE, ALICE, "employer", known.view.view())
    assert isinstance(belief, Belief)
    assert belief.value == "Acme"
    recorded = next(one for one in memory.timeline(SPACE) if one.position == decided.position)
    assert known.view.view().valid_at == recorded.append_time
    assert memory.known_at(SPACE, str(decided.event_id)) == known


def test_known_at_without_seen_is_everything_before_it_and_says_so(memory: Memory) -> None:
    first = memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.remember("acme/other", ALICE, "employer", "elsewhere")
    second = memory.remember(SPACE, ALICE, "city", "Paris")
    known = memory.known_at(SPACE, second.event_id)
    assert (known.assumed, known.view.as_of) == (True, first.position)
    known = memory.known_at(SPACE, first.event_id)
    assert (known.assumed, known.view.as_of.offset) == (True, -1)
    assert memory.get(SPACE, ALICE, "employer", known.view.view()) is None
    unknown = new_event_id()
    with pytest.raises(NotFound, match=f"no event {unknown} is known in space 'acme/support'"):
        memory.known_at(SPACE, unknown)


def test_known_at_of_a_seen_that_is_not_known_is_assumed(memory: Memory) -> None:
    """A producer may have been shown an event of another log."""
    first = memory.remember(SPACE, ALICE, "employer", "Acme")
    odd = {"type": "Observed", "space": SPACE, "role": "user", "text": "hi", "seen": str(new_event_id())}
    [receipt] = memory.append([odd])
    known = memory.known_at(SPACE, receipt.event_id)
    assert (known.assumed, known.view.as_of) == (True, first.position)


def test_a_write_after_a_rebuild_still_says_what_was_seen(memory: Memory) -> None:
    first = memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.get(SPACE, ALICE, "employer")
    memory.rebuild()
    second = memory.remember(SPACE, ALICE, "city", "Paris")
    assert memory.known_at(SPACE, second.event_id).assumed is False
    assert memory.known_at(SPACE, second.event_id).view.as_of == first.position


def test_a_write_after_an_as_of_between_events_of_the_space(memory: Memory) -> None:
    """An offset may be another space's; what was seen is then the newest event of this one before it."""
    first = memory.remember(SPACE, ALICE, "employer", "Acme")
    between = memory.remember("acme/other", ALICE, "employer", "elsewhere")
    memory.remember(SPACE, ALICE, "employer", "Globex")
    memory.get(SPACE, ALICE, "employer", View(as_of=between.position))
    decided = memory.remember(SPACE, ALICE, "city", "Paris")
    known = memory.known_at(SPACE, decided.event_id)
    assert (known.assumed, known.view.as_of) == (False, first.position)


def test_a_write_after_an_answer_as_of_nothing_has_seen_nothing(memory: Memory) -> None:
    memory.remember("acme/other", ALICE, "employer", "elsewhere")
    first = memory.remember(SPACE, ALICE, "employer", "Acme")
    assert memory.get(SPACE, ALICE, "employer", View(as_of=0)) is None
    decided = memory.remember(SPACE, ALICE, "city", "Paris")
    known = memory.known_at(SPACE, decided.event_id)
    assert (known.assumed, known.view.as_of) == (True, first.position)


def test_a_timeline_and_a_replay_go_on_over_a_rebuild(memory: Memory) -> None:
    """Both are read page by page, and the tables may be let go of between two pages."""
    events = 2_100
    fact = {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "n", "session": "run-1"}
    memory.append([fact | {"value": number} for number in range(events)])
    for told_one_by_one in (memory.timeline(SPACE), memory.replay(SPACE), memory.replay(SPACE, "run-1")):
        first = list(islice(told_one_by_one, 10))
        memory.rebuild()
        assert len(first) + sum(1 for _ in told_one_by_one) == events


# -- schema


def test_schema_counts_types_values_and_declarations(memory: Memory) -> None:
    for entity, value in ((ALICE, 1), (ALICE, 1.0), (ALICE, "1"), ("user:bob", True), ("user:bob", 1)):
        memory.remember(SPACE, entity, "n", value)
    retracted = memory.remember(SPACE, "user:eve", "n", 9)
    memory.forget(SPACE, event_id=retracted.event_id)
    memory.end(SPACE, "user:bob", "n")
    memory.declare(SPACE, "n", cardinality="one", value_type="long", description="a count")
    before = memory.declare(SPACE, "n", cardinality="many", entity_kind="team")
    memory.declare(SPACE, "only-declared", cardinality="many")
    n, declared_only = memory.schema(SPACE)
    assert (n.slot, n.facts, n.entities, n.values) == ("n", 5, 2, 4)
    assert n.types == {"boolean": 1, "double": 1, "long": 2, "string": 1}
    assert n.declared is not None
    assert (n.declared.cardinality, n.declared.value_type, n.declared.description) == ("one", "long", "a count")
    assert {kind: one.cardinality for kind, one in n.declared_kinds.items()} == {"team": "many"}
    assert (declared_only.slot, declared_only.facts, declared_only.types) == ("only-declared", 0, {})
    assert declared_only.declared is not None
    [earlier] = memory.schema(SPACE, View(as_of=before.position.offset - 1))
    assert earlier.declared_kinds == {}
    assert memory.schema("acme/empty") == []


def test_a_suggestion_tells_its_evidence_and_governs_nothing(memory: Memory) -> None:
    for entity in ("user:a", "user:b", "user:c"):
        for value in ("x", "y"):
            memory.remember(SPACE, entity, "tag", value, session=f"run-{entity}", valid_from=day(0))
            memory.remember(SPACE, entity, "city", value)
    tag = next(one for one in memory.schema(SPACE) if one.slot == "tag")
    city = next(one for one in memory.schema(SPACE) if one.slot == "city")
    assert (tag.suggested.cardinality, tag.declared) == ("many", None)
    assert (tag.suggested.entities, tag.suggested.with_several_values, tag.suggested.with_values_side_by_side) == (
        3,
        3,
        3,
    )
    assert (city.suggested.cardinality, city.suggested.with_several_values) == ("one", 3)
    assert city.suggested.with_values_side_by_side == 0
    belief = memory.get(SPACE, "user:a", "tag")
    assert isinstance(belief, Belief), "nothing is declared, so the slot still answers one value"
    assert belief.value == "y"
