"""The fine print of belief, one example each: what is believed of a slot, given the facts and ends that stand.

Offsets are places in the list of claims; instants are small numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from schemas.events import Value
from streams.belief import FOREVER, Claim, Run, contested, runs
from streams.rows import ClaimRow


class Said(NamedTuple):
    """A fact or an end before it has its offset."""

    at: int
    value: Value | None
    until: int | None
    verified: bool
    actor: str
    ended: bool


def fact(value: Value, at: int, until: int | None = None, *, verified: bool = False, actor: str = "a") -> Said:
    return Said(at, value, until, verified, actor, False)


def end(at: int, value: Value | None = None, *, verified: bool = False) -> Said:
    return Said(at, value, None, verified, "a", True)


def claims(*said: Said) -> list[Claim]:
    return [
        Claim(
            one.at,
            offset,
            FOREVER if one.until is None else one.until,
            one.verified,
            ClaimRow(one.ended, one.value, one.until, offset.to_bytes(16), one.actor, 0, offset),
        )
        for offset, one in enumerate(said)
    ]


def told(*said: Said, cardinality: str = "one") -> list[tuple[Value, int, int | None]]:
    """(value, from, to) of every run; to None: for ever."""
    return [
        (run.value, run.start, None if run.stop == FOREVER else run.stop) for run in runs(claims(*said), cardinality)
    ]


def rival(*said: Said, at: int, cardinality: str = "one") -> int | None:
    """Offset of the claim that contests what is believed at `at`."""
    made = claims(*said)
    (run,) = [run for run in runs(made, cardinality) if run.start <= at < run.stop]
    found = contested(run, made, at, cardinality)
    return None if found is None else found.offset


def only(*said: Said) -> Run:
    (run,) = runs(claims(*said), "one")
    return run


# -- order


def test_nothing_said_is_nothing_believed() -> None:
    assert told() == []
    assert told(end(5)) == []
    assert told(cardinality="many") == []


def test_an_equal_time_goes_to_the_later_offset() -> None:
    assert told(fact("A", 5), fact("B", 5)) == [("B", 5, None)]


def test_an_equal_time_end_cuts_only_what_came_before_it() -> None:
    assert told(fact("A", 5), end(5)) == []
    assert told(end(5), fact("A", 5)) == [("A", 5, None)]


def test_a_late_correction_does_not_displace_a_newer_fact() -> None:
    assert told(fact("new", 10), fact("old", 3)) == [("old", 3, 10), ("new", 10, None)]


def test_a_bounded_interval_lets_the_earlier_fact_return() -> None:
    assert told(fact("home", 0), fact("away", 5, 8)) == [("home", 0, 5), ("away", 5, 8), ("home", 8, None)]


def test_a_fact_about_the_future_waits() -> None:
    assert told(fact("now", 0), fact("then", 100)) == [("now", 0, 100), ("then", 100, None)]


def test_an_end_in_the_future_waits() -> None:
    assert told(fact("A", 0), end(100)) == [("A", 0, 100)]


def test_to_and_from_and_back_is_three_runs() -> None:
    assert told(fact("A", 0), fact("B", 5), fact("A", 9)) == [("A", 0, 5), ("B", 5, 9), ("A", 9, None)]


@pytest.mark.parametrize("value", ["", 0, 0.0, False])
def test_a_falsy_value_is_a_value(value: Value) -> None:
    assert told(fact("A", 0), fact(value, 5)) == [("A", 0, 5), (value, 5, None)]
    assert only(fact(value, 0)).value == value


def test_near_twins_are_four_values() -> None:
    found = told(fact(1, 0), fact(1.0, 1), fact(True, 2), fact("1", 3))
    assert [(type(value), start, stop) for value, start, stop in found] == [
        (int, 0, 1), (float, 1, 2), (bool, 2, 3), (str, 3, None)
    ]  # fmt: skip


# -- runs


def test_the_same_value_again_is_one_run_from_its_first() -> None:
    run = only(fact("A", 0, actor="a"), fact("A", 5, actor="b"))
    assert (run.start, run.stop, run.corroborations) == (0, FOREVER, 2)
    assert (run.top_at(3).offset, run.top_at(5).offset) == (0, 1)


def test_one_actor_twice_is_one_corroboration() -> None:
    assert only(fact("A", 0, actor="a"), fact("A", 5, actor="a")).corroborations == 1


def test_disjoint_repeats_are_two_runs() -> None:
    assert told(fact("A", 0, 3), fact("A", 5, 8)) == [("A", 0, 3), ("A", 5, 8)]
    found = runs(claims(fact("A", 0, 3, actor="a"), fact("A", 5, 8, actor="b")), "one")
    assert [run.corroborations for run in found] == [1, 1]


def test_touching_runs_are_one() -> None:
    run = only(fact("A", 0, 5, actor="a"), fact("A", 5, 8, actor="b"))
    assert (run.start, run.stop, run.corroborations) == (0, 8, 2)


def test_a_repeat_after_an_end_is_a_second_run() -> None:
    assert told(fact("A", 0), end(5), fact("A", 6)) == [("A", 0, 5), ("A", 6, None)]


def test_touching_runs_are_one_even_with_an_end_at_the_joint() -> None:
    run = only(fact("A", 0), end(5), fact("A", 5))
    assert (run.start, run.stop) == (0, FOREVER)


def test_a_hidden_repeat_counts_as_no_run_of_its_own() -> None:
    assert told(fact("B", 0, verified=True), fact("A", 1), fact("A", 2)) == [("B", 0, None)]


# -- ends


def test_an_end_stops_what_ranks_below_it_and_nothing_returns() -> None:
    assert told(fact("A", 0), fact("B", 2), end(5)) == [("A", 0, 2), ("B", 2, 5)]


def test_an_end_that_names_a_value_lets_another_return() -> None:
    assert told(fact("A", 0), fact("B", 2), end(5, "B")) == [("A", 0, 2), ("B", 2, 5), ("A", 5, None)]


def test_an_end_of_a_value_no_longer_believed_changes_what_returns() -> None:
    assert told(fact("A", 0), fact("B", 2, 8), end(5, "A")) == [("A", 0, 2), ("B", 2, 8)]


def test_an_end_names_a_value_exactly() -> None:
    assert told(fact(1, 0), end(5, True)) == [(1, 0, None)]
    assert told(fact(1, 0), end(5, 1.0)) == [(1, 0, None)]
    assert told(fact("", 0), end(5, "")) == [("", 0, 5)]


def test_an_end_before_a_fact_does_not_stop_it() -> None:
    assert told(end(5), fact("A", 6)) == [("A", 6, None)]
    assert told(fact("A", 6), end(5)) == [("A", 6, None)]


def test_the_earliest_end_that_outranks_stops() -> None:
    assert told(fact("A", 0), end(9), end(5)) == [("A", 0, 5)]


# -- trust


def test_a_verified_fact_yields_only_to_a_verified_one() -> None:
    said = (fact("A", 0, verified=True), fact("B", 5))
    assert told(*said) == [("A", 0, None)]
    assert told(*said, fact("C", 9, verified=True)) == [("A", 0, 9), ("C", 9, None)]


def test_the_latest_that_lost_for_trust_alone_contests() -> None:
    said = (fact("A", 0, verified=True), fact("B", 5), fact("C", 7))
    assert [rival(*said, at=at) for at in (4, 5, 7)] == [None, 1, 2]


def test_its_own_value_again_contests_nothing() -> None:
    assert rival(fact("A", 0, verified=True), fact("B", 5), fact("A", 7), at=8) is None
    assert rival(fact("A", 0, verified=True), fact("A", 7), at=8) is None


def test_a_rival_that_no_longer_holds_contests_nothing() -> None:
    assert rival(fact("A", 0, verified=True), fact("B", 5, 6), at=8) is None
    assert rival(fact("A", 0, verified=True), fact("B", 5), end(6, "B"), at=8) is None


def test_a_candidate_end_contests_a_verified_fact() -> None:
    said = (fact("A", 0, verified=True), end(5))
    assert told(*said) == [("A", 0, None)]
    assert rival(*said, at=6) == 1
    assert rival(*said[:1], end(5, "B"), at=6) is None


def test_a_candidate_belief_is_contested_by_nothing() -> None:
    assert rival(fact("A", 0), fact("B", 5), at=6) is None


def test_a_verified_end_hides_later_candidates_until_one_is_verified() -> None:
    said = (fact("A", 0), end(5, verified=True), fact("B", 9))
    assert told(*said) == [("A", 0, 5)]
    assert told(*said, fact("C", 12, verified=True)) == [("A", 0, 5), ("C", 12, None)]


def test_a_verified_end_hides_no_candidate_before_it() -> None:
    assert told(fact("B", 3, 4), end(5, verified=True)) == [("B", 3, 4)]


def test_a_verified_end_of_a_value_hides_only_that_value() -> None:
    assert told(end(5, "A", verified=True), fact("A", 6), fact("B", 7)) == [("B", 7, None)]


# -- many values


def test_many_values_are_believed_side_by_side() -> None:
    assert told(fact("A", 0), fact("B", 2), cardinality="many") == [("A", 0, None), ("B", 2, None)]


def test_many_are_told_by_start_then_offset() -> None:
    found = told(fact("A", 5), fact("B", 3), fact("C", 3), cardinality="many")
    assert [value for value, _, _ in found] == ["B", "C", "A"]


def test_an_end_without_a_value_stops_all_of_many() -> None:
    assert told(fact("A", 0), fact("B", 2), end(5), cardinality="many") == [("A", 0, 5), ("B", 2, 5)]


def test_an_end_with_a_value_stops_one_of_many() -> None:
    assert told(fact("A", 0), fact("B", 2), end(5, "A"), cardinality="many") == [("A", 0, 5), ("B", 2, None)]


def test_of_many_another_value_contests_nothing() -> None:
    said = (fact("A", 0, verified=True), fact("B", 5), end(7, "A"))
    made = claims(*said)
    run = next(run for run in runs(made, "many") if run.value == "A")
    assert contested(run, made, 6, "many") is None
    found = contested(run, made, 8, "many")
    assert found is not None
    assert found.offset == 2


# -- what ends a run


def test_what_ended_a_run_is_named() -> None:
    first, second = runs(claims(fact("A", 0), fact("B", 5)), "one")
    assert (first.closed_by and first.closed_by.offset, second.closed_by) == (1, None)
    ended = only(fact("A", 0), end(5))
    assert ended.closed_by is not None
    assert ended.closed_by.row.ended
    assert only(fact("A", 0, 5)).closed_by is None


def test_many_claims_are_swept_once() -> None:
    """A thousand overlapping intervals, against asking instant by instant."""
    said = [fact(f"v{n % 7}", n, n + 50 + n % 13, verified=n % 11 == 0) for n in range(1000)]
    made = claims(*said)
    found = runs(made, "one")
    for at in range(0, 1100, 7):
        holding = [claim for claim in made if claim.at <= at < claim.until]
        top = max(holding, key=lambda claim: claim.rank, default=None)
        within = [run for run in found if run.start <= at < run.stop]
        assert [run.value for run in within] == ([] if top is None else [top.row.value])
        assert [run.top_at(at) for run in within] == ([] if top is None else [top])
