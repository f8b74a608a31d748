"""Edges of belief and of the View's rules that nothing else pins: each was found as a change that no test noticed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from schemas import events as ev
from schemas.errors import InvalidView
from schemas.events import Value
from schemas.times import LATEST
from streams.belief import FOREVER, Claim, Run, contested, runs
from streams.distrust import Origin, Rule
from streams.ports import Position
from streams.rows import ClaimRow, Mark
from streams.values import normal_form
from streams.view import Judge, ResolvedView, View, refuse_unanswerable


def fact(
    offset: int, at: int, value: Value = "A", until: int = FOREVER, *, verified: bool = False, actor: str = "a"
) -> Claim:
    row = ClaimRow(False, value, None if until == FOREVER else until, offset.to_bytes(16), actor, 0, offset)
    return Claim(at, offset, until, verified, row)


def end(offset: int, at: int, value: Value | None = None, *, verified: bool = False) -> Claim:
    return Claim(at, offset, FOREVER, verified, ClaimRow(True, value, None, offset.to_bytes(16), "a", 0, offset))


def told(*claims: Claim, cardinality: str = "one") -> list[tuple[Value, int, int]]:
    return [(run.value, run.start, run.stop) for run in runs(claims, cardinality)]


def closer(run: Run) -> int | None:
    """Offset of what closed a run."""
    return None if run.closed_by is None else run.closed_by.offset


# -- for ever


def test_for_ever_begins_after_the_last_instant() -> None:
    assert (type(FOREVER), FOREVER) == (int, LATEST + 1)
    assert told(fact(0, 0, until=LATEST)) == [("A", 0, LATEST)]


# -- what closes a run


def test_an_interval_that_ends_as_another_begins_is_closed_by_nothing() -> None:
    first, second = runs([fact(0, 0, "A", 5), fact(1, 5, "B")], "one")
    assert (closer(first), closer(second)) == (None, None)


def test_an_end_at_the_instant_at_which_the_interval_ends_anyway_closes_nothing() -> None:
    (run,) = runs([fact(0, 0, "A", 5), end(1, 5)], "one")
    assert (run.stop, closer(run)) == (5, None)
    (run,) = runs([fact(0, 0, "A", 5), end(1, 4)], "one")
    assert (run.stop, closer(run)) == (4, 1)


def test_an_end_as_another_fact_begins_is_what_closed_the_run() -> None:
    first, second = runs([fact(0, 0), end(1, 5), fact(2, 5, "B")], "one")
    assert (closer(first), second.value) == (1, "B")


def test_a_fact_that_outranks_is_what_closed_the_run() -> None:
    first, second = runs([fact(0, 0, "A", 9), fact(1, 5, "B", 7)], "one")[:2]
    assert (closer(first), closer(second)) == (1, None)


def test_a_gap_after_an_interval_is_closed_by_nothing() -> None:
    first, _ = runs([fact(0, 0, "A", 5), fact(1, 8, "B")], "one")
    assert (first.stop, closer(first)) == (5, None)


@pytest.mark.parametrize("values", [(None, None), (None, "A"), ("A", None), ("A", "A")], ids=repr)
def test_of_ends_at_one_instant_the_first_on_the_log_closed_the_run(values: tuple[str | None, str | None]) -> None:
    (run,) = runs([fact(0, 0), end(1, 5, values[0]), end(2, 5, values[1])], "one")
    assert (run.stop, closer(run)) == (5, 1)


def test_the_earliest_end_counts_whatever_it_names() -> None:
    for first, second in ((None, "A"), ("A", None)):
        (run,) = runs([fact(0, 0), end(1, 5, first), end(2, 4, second)], "one")
        assert (run.stop, closer(run)) == (4, 2)


def test_the_earliest_end_counts_whatever_its_rank() -> None:
    (run,) = runs([fact(0, 0), end(1, 4, verified=True), end(2, 5)], "one")
    assert (run.stop, closer(run)) == (4, 1)
    (run,) = runs([fact(0, 0), end(1, 4), end(2, 5, verified=True)], "one")
    assert (run.stop, closer(run)) == (4, 1)


def test_an_earlier_end_that_ranks_below_the_fact_does_not_cut_it() -> None:
    assert told(end(0, 3), fact(1, 4), end(2, 9)) == [("A", 4, 9)]
    assert told(end(0, 3), fact(1, 4), end(2, 9, "A")) == [("A", 4, 9)]
    assert told(fact(0, 4, verified=True), end(1, 5), end(2, 9, verified=True)) == [("A", 4, 9)]


# -- tops and corroborations


def test_a_run_names_each_first_contender_once() -> None:
    (run,) = runs([fact(0, 0, verified=True), fact(1, 5, "B", 7)], "one")
    assert run.tops == ((0, run.tops[0][1]),)
    (run,) = runs([fact(0, 0), fact(1, 5, until=7), fact(2, 6, until=9)], "one")
    assert [(since, top.offset) for since, top in run.tops] == [(0, 0), (5, 1), (6, 2), (9, 0)]
    assert [run.top_at(at).offset for at in (0, 4, 5, 6, 8, 9, 100)] == [0, 0, 1, 2, 2, 0, 0]


def test_the_next_run_s_contender_is_not_of_this_one() -> None:
    first, second = runs([fact(0, 0), fact(1, 5, "B")], "one")
    assert [[(since, top.offset) for since, top in run.tops] for run in (first, second)] == [[(0, 0)], [(5, 1)]]


def test_more_runs_than_small_integers() -> None:
    found = runs([fact(number, number, "AB"[number % 2], actor="ab"[number % 2]) for number in range(800)], "one")
    assert [(run.value, run.corroborations) for run in found] == [("A", 1), ("B", 1)] * 400
    (run,) = runs([fact(number, number, actor=f"actor-{number}") for number in range(800)], "one")
    assert run.corroborations == 800


def test_a_claim_that_an_end_cut_before_it_began_corroborates_nothing() -> None:
    said = [fact(0, 0, verified=True), end(1, 3, verified=True), fact(2, 3, verified=True), fact(3, 5, actor="b")]
    (run,) = runs(said, "one")
    assert (run.start, run.stop, run.corroborations) == (0, FOREVER, 1)


def test_who_claims_the_value_only_before_or_after_the_run_does_not_corroborate_it() -> None:
    found = runs([fact(0, 0, "A", 5), fact(1, 5, actor="b"), fact(2, 5, "B", actor="c")], "one")
    assert [(run.value, run.corroborations) for run in found] == [("A", 1), ("B", 1)]
    again = [fact(0, 0, "A", 3, actor="a"), fact(1, 3, "B", 5), fact(2, 5, "A", 9, actor="b")]
    assert [(run.value, run.corroborations) for run in runs(again, "one")] == [("A", 1), ("B", 1), ("A", 1)]


def test_an_actor_with_two_claims_counts_until_both_are_over() -> None:
    claims = [fact(0, 0, until=3), fact(1, 1, until=9), fact(2, 3, "B", 4), fact(3, 9, "B", 10), fact(4, 10)]
    assert [(run.value, run.corroborations) for run in runs(claims, "one")] == [
        ("A", 1), ("B", 1), ("A", 1), ("B", 1), ("A", 1)
    ]  # fmt: skip


def test_a_claim_that_ends_where_the_next_run_starts_is_not_of_it() -> None:
    claims = [fact(0, 0, until=4, actor="b"), fact(1, 2, "B", 4, actor="c"), fact(2, 4, until=9)]
    assert [(run.value, run.start, run.corroborations) for run in runs(claims, "one")] == [
        ("A", 0, 1), ("B", 2, 1), ("A", 4, 1)
    ]  # fmt: skip


def test_an_interval_that_is_cut_to_nothing_is_no_contender() -> None:
    assert told(fact(0, 5), end(1, 5), fact(2, 9, "B")) == [("B", 9, FOREVER)]
    (run,) = runs([fact(0, 5, actor="a"), end(1, 5), fact(2, 5, actor="b")], "one")
    assert run.corroborations == 1


def test_of_many_runs_that_start_together_come_by_offset() -> None:
    found = runs([fact(2, 3, "A"), fact(1, 3, "B"), fact(0, 3, "C")], "many")
    assert [run.value for run in found] == ["C", "B", "A"]


# -- contested


def test_a_rival_counts_from_its_instant_to_its_end_exclusive() -> None:
    claims = [fact(0, 0, verified=True), fact(1, 5, "B", 8)]
    (run,) = runs(claims, "one")
    rivals = [contested(run, claims, at, "one") for at in (4, 5, 7, 8)]
    assert [None if rival is None else rival.offset for rival in rivals] == [None, 1, 1, None]


def test_an_end_of_another_value_contests_nothing_but_hides_its_rival() -> None:
    claims = [fact(0, 0, verified=True), fact(1, 5, "B"), end(2, 6, "B")]
    (run,) = runs(claims, "one")
    assert contested(run, claims, 5, "one") == claims[1]
    assert contested(run, claims, 6, "one") is None


def test_of_equal_instants_the_later_offset_contests() -> None:
    claims = [fact(0, 0, verified=True), fact(1, 5, "B"), fact(2, 5, "C")]
    (run,) = runs(claims, "one")
    assert contested(run, claims, 5, "one") == claims[2]


# -- who counts


def rule(offset: int, cls: type[ev.Event], actor: str = "user:admin", since: int = 0, **fields: Any) -> Rule:
    event = cls(event_id=offset.to_bytes(16), space="s", actor=actor, recorded_at=0, **fields)
    return Rule(offset, 100 + offset, event, since)


def judge(*rules: Rule, limit: int = 10, **fields: Any) -> Judge:
    return Judge(ResolvedView(Position(0, limit), 0, **fields), rules)


def ever(about: str, offset: int = 3) -> Rule:
    return rule(offset, ev.ActorDistrusted, about=about)


def by(actor: str, offset: int = 0, append_time: int = 0) -> Origin:
    return Origin(offset, append_time, actor, "main", None)


def test_who_is_distrusted_for_ever_is_so_from_the_first_offset() -> None:
    event = ever("bad").event
    distrust = Rule(3, 103, event)
    assert distrust.since_offset == 0
    assert not judge(distrust).counts(by("bad", 0, 0))


def test_the_last_offset_of_a_view_counts() -> None:
    assert [judge(limit=7).counts(by("a", offset, 0)) for offset in (6, 7, 8)] == [True, True, False]
    assert [judge(ever("a", 7), limit=limit).counts(by("a", 0, 0)) for limit in (6, 7)] == [
        True,
        False,
    ]


def test_nobody_is_hidden_until_somebody_is_left_out_or_distrusted() -> None:
    assert not judge().may_hide({"bad"})
    assert judge(without_actors=("bad",)).may_hide({"bad", "good"})
    assert not judge(without_actors=("bad",)).may_hide({"good"})
    assert judge(ever("bad")).may_hide({"bad", "good"})
    assert not judge(ever("bad")).may_hide({"good"})
    assert judge(ever("bad"), without_actors=("bad",)).may_hide({"bad"})
    assert not judge(ever("bad"), rule(4, ev.ActorTrusted, about="bad")).may_hide({"bad"})


def test_all_is_hidden_when_each_actor_is() -> None:
    assert not judge().hides_all({"bad"}, 0)
    left_out = judge(without_actors=("bad", "worse"))
    assert left_out.hides_all({"bad"}, 0)
    assert left_out.hides_all({"bad", "worse"}, 0)
    assert not left_out.hides_all({"bad", "good"}, 0)
    assert judge(ever("bad")).hides_all({"bad"}, 0)
    assert not judge(ever("bad")).hides_all({"good"}, 0)


def test_distrust_since_an_event_hides_what_begins_there_or_later() -> None:
    since = judge(rule(9, ev.ActorDistrusted, since=5, about="bad", since_event=bytes(16)))
    assert [since.hides_all({"bad"}, offset) for offset in (4, 5, 6)] == [False, True, True]
    assert [since.counts(by("bad", offset, 0)) for offset in (4, 5, 6)] == [True, False, False]
    also = judge(rule(9, ev.ActorDistrusted, since=5, about="bad", since_event=bytes(16)), without_actors=("bad",))
    assert also.hides_all({"bad"}, 0)


def test_distrust_since_a_time_says_nothing_about_offsets() -> None:
    since = judge(rule(9, ev.ActorDistrusted, about="bad", since_time=50))
    assert not since.hides_all({"bad"}, 0)
    assert not since.hides_all({"bad"}, 9)
    assert [since.counts(by("bad", 0, time)) for time in (49, 50, 51)] == [True, False, False]
    also = judge(rule(9, ev.ActorDistrusted, about="bad", since_time=50), without_actors=("bad",))
    assert also.hides_all({"bad"}, 0)


def test_the_event_that_distrusts_is_known() -> None:
    since = judge(rule(9, ev.ActorDistrusted, since=5, about="bad", since_event=bytes(16)))
    assert (since.distrusted_at(by("bad", 7)), since.distrusted_at(by("good", 7))) == (9, None)
    assert judge(ever("bad"), ever("bad", 6)).distrusted_at(by("bad")) == 6


def policy(offset: int, trust: str, actor: str = "user:admin", *, may_verify: bool = True) -> Rule:
    made = ev.PolicyRule(actors="*", starting_trust=trust, may_verify=may_verify)  # type: ignore[arg-type]
    return rule(offset, ev.PolicySet, actor, rules=(made,))


def claim(offset: int, **fields: Any) -> ClaimRow:
    return ClaimRow(False, "A", None, offset.to_bytes(16), "agent:a", 100 + offset, offset, **fields)


def test_the_policy_is_the_newest_that_counts() -> None:
    assert judge().policy == ()
    both = (policy(2, "verified"), policy(4, "rejected", "user:other"))
    assert [one.starting_trust for one in judge(*both).policy] == ["rejected"]
    assert [one.starting_trust for one in judge(*both, limit=3).policy] == ["verified"]
    assert [one.starting_trust for one in judge(*both, without_actors=("user:other",)).policy] == ["verified"]
    assert judge(*both, limit=1).policy == ()


def test_who_may_start_verified() -> None:
    both = (policy(2, "verified"), policy(4, "rejected", "user:other"))
    assert judge(*both).may_start_verified({"agent:a"})
    assert not judge(*both).may_start_verified(set())
    assert not judge(*both, limit=1).may_start_verified({"agent:a"})
    assert not judge(both[1]).may_start_verified({"agent:a"})
    one = ev.PolicyRule(actors="user:*", starting_trust="verified", may_verify=True)
    assert not judge(rule(2, ev.PolicySet, rules=(one,))).may_start_verified({"agent:a"})
    assert judge(rule(2, ev.PolicySet, rules=(one,))).may_start_verified({"agent:a", "user:b"})


def test_a_policy_holds_for_what_comes_after_it() -> None:
    set_at_3 = judge(policy(3, "verified"))
    assert [set_at_3.standing(claim(offset), offset) for offset in (2, 3, 4)] == ["candidate", "candidate", "verified"]
    assert judge(policy(3, "rejected")).standing(claim(4), 4) == "rejected"


def test_a_verdict_is_judged_by_the_policy_before_it() -> None:
    silenced = judge(policy(3, "candidate", may_verify=False))
    for offset, counts in ((2, True), (3, True), (4, False)):
        mark = Mark(offset, 0, "user:u", "verified")
        assert silenced.verdict_counts(mark) == counts
        trust = "verified" if counts else "candidate"
        assert silenced.standing(claim(0, reviews=(mark,)), 0) == trust


def test_only_a_mark_that_counts_counts() -> None:
    hidden = judge(without_actors=("user:u",))
    mark = Mark(1, 0, "user:u", "verified")
    assert (hidden.verdict_counts(mark), judge().verdict_counts(mark)) == (False, True)
    assert (hidden.retraction_counts(mark), judge().retraction_counts(mark)) == (False, True)
    assert hidden.standing(claim(0, retractions=(mark,)), 0) == "candidate"
    assert judge().standing(claim(0, retractions=(mark,)), 0) == "retracted"
    assert judge(limit=0).standing(claim(0, retractions=(mark,)), 0) == "candidate"
    # one without a verdict says nothing about trust
    assert judge().trust(claim(0, reviews=(mark, Mark(2, 0, "user:v"))), 0) == "verified"


def test_why_a_claim_does_not_count() -> None:
    assert judge(limit=3).standing(claim(4), 4) == "not known"
    assert judge(without_actors=("agent:a",)).standing(claim(4), 4) == "left out"
    assert judge(ever("agent:a"), without_actors=("agent:a",)).standing(claim(4), 4) == "left out"
    assert judge(ever("agent:a")).standing(claim(4), 4) == "distrusted"
    assert judge(trust="verified").standing(claim(4), 4) == "not verified"
    assert judge(policy(1, "rejected"), trust="verified").standing(claim(4), 4) == "rejected"
    assert judge(policy(1, "verified"), trust="verified").standing(claim(4), 4) == "verified"


def test_a_declaration_of_another_slot_or_kind_says_nothing() -> None:
    declared = judge(
        rule(1, ev.SlotDeclared, slot="other", cardinality="many"),
        rule(2, ev.SlotDeclared, slot="tag", cardinality="many", entity_kind="org"),
    )
    assert declared.cardinality("user:u", "tag") == "one"
    assert declared.cardinality("org:o", "tag") == "many"
    assert declared.cardinality("org:o", "other") == "many"
    assert len(declared.declarations) == 2
    # an entity without a colon has no kind, whatever its name
    assert declared.cardinality("org", "tag") == "one"


def test_the_newest_declaration_that_counts_wins_and_one_for_the_kind_beats_it() -> None:
    def declared(offset: int, cardinality: str, kind: str | None = None, actor: str = "user:admin") -> Rule:
        return rule(offset, ev.SlotDeclared, actor, slot="tag", cardinality=cardinality, entity_kind=kind)

    general = (declared(1, "many"), declared(2, "one"))
    assert judge(*general).cardinality("user:u", "tag") == "one"
    assert judge(*general, limit=1).cardinality("user:u", "tag") == "many"
    assert judge(*general, declared(3, "many", actor="bad"), without_actors=("bad",)).cardinality("u", "tag") == "one"
    assert judge(declared(1, "many", "user"), declared(2, "one")).cardinality("user:u", "tag") == "many"
    assert judge(declared(1, "many", "user"), declared(2, "one", "user")).cardinality("user:u", "tag") == "one"
    assert judge(declared(1, "one", "user"), declared(2, "many", "user")).cardinality("user:u", "tag") == "many"
    assert judge(declared(1, "many"), declared(2, "one", "org")).cardinality("user:u", "tag") == "many"


def test_declarations_come_by_offset_whatever_their_slots() -> None:
    slots = ("b", "a", "b", "c", "a")
    asked = judge(*(rule(n, ev.SlotDeclared, slot=slot, cardinality="many") for n, slot in enumerate(slots)), limit=3)
    assert [one.slot for one in asked.declarations] == ["b", "a", "b", "c"]


def test_zero_is_one_value_to_a_tombstone_whatever_its_sign() -> None:
    assert normal_form(-0.0) == normal_form(0.0)
    assert normal_form(-1.5) != normal_form(1.5)


# -- views are values


@pytest.mark.parametrize("view", [View(trust="a"), View(trust="z")], ids=repr)
def test_there_is_no_other_trust(view: View) -> None:
    with pytest.raises(InvalidView):
        refuse_unanswerable(view)


@pytest.mark.parametrize("view", [View(), ResolvedView(Position(0, 1), 2)], ids=["View", "ResolvedView"])
def test_a_view_is_a_frozen_value_without_room_for_more(view: View | ResolvedView) -> None:
    assert hash(view) == hash(copy.copy(view))
    assert not hasattr(view, "__dict__")
    with pytest.raises(AttributeError):
        view.trust = "verified"  # type: ignore[misc]


@pytest.mark.parametrize(("given", "said"), [("agent:x", "not one text"), (7, "not 7")])
def test_actors_left_out_are_several_names(given: Any, said: str) -> None:
    with pytest.raises(InvalidView, match=said):
        refuse_unanswerable(View(without_actors=given))


def test_a_resolved_view_keeps_every_part() -> None:
    resolved = ResolvedView(Position(3, 5), 7, "branch", "verified", ("a", "b"))
    view = resolved.view()
    assert (view.as_of, view.without_actors) == (Position(3, 5), ("a", "b"))
    assert (view.branch, view.trust) == ("branch", "verified")
    assert view.valid_at is not None
    assert view.valid_at.timestamp() == pytest.approx(7e-6)
