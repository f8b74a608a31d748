"""The shortcut for busy slots answers exactly what the sweep over all claims answers."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from schemas import events as ev
from streams import hot
from streams.belief import FOREVER, Claim, runs
from streams.branching import Branches
from streams.distrust import Rule
from streams.hot import HotSlot, HotView
from streams.ports import Position
from streams.rows import BranchRow, ClaimRow, Mark, Step
from streams.view import STANDS, Judge, ResolvedView

ACTORS = ("agent:a", "agent:b", "user:c")
VALUES = ("x", "y", 1, True)

claims = st.builds(
    lambda ended, value, at, length, actor, retracted: (ended, value, at, length, actor, retracted),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(VALUES),
    st.integers(0, 12),
    st.sampled_from([None, None, 1, 2, 5]),
    st.sampled_from(ACTORS),
    st.sampled_from([None, None, None, 1, 4]),
)


def built(drawn: list[tuple], whole_ends: list[bool]) -> list[tuple[tuple[int, int], ClaimRow]]:
    """Claims as rows, the n-th at offset n."""
    found = []
    for offset, (ended, value, at, length, actor, retracted) in enumerate(drawn):
        row = ClaimRow(
            ended,
            None if ended and whole_ends[offset % len(whole_ends)] else value,
            None if ended or length is None else at + length,
            offset.to_bytes(16, "big"),
            actor,
            offset,
            offset,
            retractions=() if retracted is None else (Mark(offset + retracted, offset + retracted, "user:c"),),
        )
        found.append(((at, offset), row))
    return sorted(found, key=lambda one: one[0])


def made(rows: list[tuple[tuple[int, int], ClaimRow]], grow: bool) -> HotSlot:
    """The slot at once, or claim by claim, each first without what was said about it later."""
    if not grow:
        return HotSlot(rows)
    slot = HotSlot(rows[:1])
    for key, row in sorted(rows[1:], key=lambda one: one[0][1]):
        slot.put(key, msgspec.structs.replace(row, retractions=()))
        slot.put(key, row)
    return slot


@examples(300)
@given(
    st.lists(claims, min_size=1, max_size=14),
    st.lists(st.booleans(), min_size=1, max_size=3),
    st.integers(0, 16),
    st.sampled_from([(), ("agent:a",), ("agent:a", "agent:b")]),
    st.sampled_from([None, 0, 3, 6]),
    st.sampled_from([None, "x"]),
    st.sampled_from([1, 2, 3, 256]),
    st.booleans(),
)
def test_the_shortcut_is_the_sweep(drawn, whole_ends, limit, without, distrusted, forbidden, size, grow):
    rows = built(drawn, whole_ends)
    rules = []
    if distrusted is not None:
        event = ev.ActorDistrusted(event_id=bytes(16), space="s", actor="user:c", recorded_at=0, about="agent:b")
        rules = [Rule(0, 0, event, distrusted)]
    judge = Judge(ResolvedView(Position(0, limit), 0, without_actors=without), rules)
    covered = None if forbidden is None else lambda value: value == forbidden
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hot, "CHUNK_CLAIMS", size)
        slot = made(rows, grow)
    check(slot, rows, judge, covered)


def check(slot, rows, judge, covered):
    """The shortcut answers at every instant what the sweep over the rows does."""
    view = HotView(slot, judge, covered)
    assert view.answers
    standing = [
        Claim(at, offset, FOREVER if row.until is None else row.until, False, row)
        for (at, offset), row in rows
        if judge.standing(row, offset) in STANDS and not (covered and row.value is not None and covered(row.value))
    ]
    expected = runs(standing, "one")
    for instant in range(-1, 20):
        swept = next((run for run in expected if run.start <= instant < run.stop), None)
        found = view.run_at(instant)
        assert (found is None) == (swept is None)
        if found is not None and swept is not None:
            assert found._replace(tops=()) == swept._replace(tops=())
            assert found.top_at(instant) == swept.top_at(instant)
            assert found.tops == swept.tops


@examples(300)
@given(
    st.lists(claims, min_size=1, max_size=14),
    st.lists(st.sampled_from(["main", "main", "idea"]), min_size=1, max_size=4),
    st.lists(st.sampled_from([None, "ours", "theirs", "unknown"]), min_size=1, max_size=4),
    st.integers(0, 14),
    st.integers(0, 14),
    st.sampled_from(["main", "idea"]),
    st.booleans(),
    st.sampled_from([1, 2, 3, 256]),
    st.booleans(),
)
def test_the_shortcut_is_the_sweep_on_branches_and_at_commits(
    drawn, branches, shas, forked_at, rolled_back_to, branch, at_commit, size, grow
):
    rows = [
        (key, msgspec.structs.replace(row, branch=branches[key[1] % len(branches)], sha=shas[key[1] % len(shas)]))
        for key, row in built(drawn, [False])
    ]
    steps = (Step(14, 0, "user:c", None, rolled_back_to),)
    known = Branches({"idea": BranchRow(forked_at, "main", forked_at, steps=steps), "main": BranchRow(steps=steps)})
    leads = {"ours": True, "theirs": False, "unknown": None}.__getitem__ if at_commit else None
    judge = Judge(ResolvedView(Position(0, 14), 0, branch), [], known, leads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hot, "CHUNK_CLAIMS", size)
        slot = made(rows, grow)
    check(slot, rows, judge, None)
