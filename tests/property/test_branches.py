"""Branches of memory and commits of the code against the reference: every read, over random histories and views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import pytest
from comparing import check_changes, check_entity, check_slot, lens_of, resolved
from hypothesis import given
from hypothesis import strategies as st
from reference import Lens, Space
from strategies import (
    BASE,
    BRANCHES,
    CODEC,
    ENTITIES,
    PARENTS,
    SHAS,
    SLOTS,
    SPACE,
    STEP,
    History,
    Step,
    branched,
    built,
    busy_slots,
    examples,
    folded,
    histories,
    pinned,
)

from schemas.errors import InvalidView
from streams import ancestry
from streams.reads import Bounds, Reads
from streams.view import View

PAIRS = [(entity, slot) for entity in ENTITIES[:2] for slot in SLOTS]
lines = st.sampled_from(("main", *BRANCHES))


@dataclass(frozen=True)
class Ancestors:
    """All that a clone reaches from one commit."""

    shas: frozenset[str]
    boundary: tuple[str, ...]

    def __contains__(self, sha: object) -> bool:
        return sha in self.shas


@dataclass
class Copy:
    """A clone that has some of the commits of `PARENTS`."""

    shas: frozenset[str]
    parents: dict[str, tuple[str, ...]] = field(default_factory=lambda: PARENTS)

    def reachable(self, sha: str) -> Ancestors | None:
        if sha not in self.shas:
            return None
        found, waiting = set(), [sha]
        while waiting:
            one = waiting.pop()
            if one in self.shas and one not in found:
                found.add(one)
                waiting += self.parents[one]
        missing = {parent for one in found for parent in self.parents[one]} - self.shas
        return Ancestors(frozenset(found), tuple(missing))

    def has(self, shas: Iterable[str]) -> set[str]:
        return set(shas) & self.shas


def lenses(last: int, oracle: Space) -> st.SearchStrategy[Lens]:
    """Lenses of branches that are there by then."""
    ats = st.integers(-1, 11).map(lambda step: BASE + step * STEP)
    drawn = st.builds(
        Lens,
        st.one_of(st.just(last), st.integers(-1, last)),
        ats,
        st.sampled_from(("candidate", "verified")),
        st.sampled_from(((), (), ("agent:a",))),
        lines,
    )
    return drawn.map(lambda lens: lens if oracle.exists(lens.branch, lens.as_of) else replace(lens, branch="main"))


def check_timeline(reads: Reads, oracle: Space, lens: Lens) -> None:
    given = [one.position.offset for one in reads.timeline(SPACE, resolved(lens))]
    assert given == [entry.offset for entry in oracle.through(lens).visible], f"timeline {lens}"


@examples(150)
@given(steps=histories(of=branched, max_size=26), data=st.data())
def test_reads_on_branches_agree_with_the_reference(steps: list[Step], data: st.DataObject) -> None:
    history = built(steps)
    rows, head = folded(history.records())
    oracle, reads = history.reference(), Reads(rows, 0, CODEC)
    for _ in range(3):
        lens = data.draw(lenses(head.next_offset - 1, oracle))
        for entity, slot in PAIRS:
            check_slot(reads, SPACE, oracle, lens, entity, slot)
        check_entity(reads, SPACE, oracle, lens, ENTITIES[0])
        check_timeline(reads, oracle, lens)


@examples(60)
@given(steps=histories(of=branched, max_size=24), data=st.data(), chunk=st.sampled_from((1, 2, 5)))
def test_busy_slots_on_branches_agree_with_the_reference(steps: list[Step], data: st.DataObject, chunk: int) -> None:
    history = built(steps)
    rows, head = folded(history.records())
    oracle = history.reference()
    with busy_slots(chunk=chunk):
        reads = Reads(rows, 0, CODEC)
        for _ in range(3):
            lens = data.draw(lenses(head.next_offset - 1, oracle))
            check_slot(reads, SPACE, oracle, lens, ENTITIES[0], SLOTS[0])


@examples(50)
@given(steps=histories(of=branched, max_size=14), data=st.data())
def test_changes_on_branches_agree_with_the_reference(steps: list[Step], data: st.DataObject) -> None:
    history = built(steps)
    rows, head = folded(history.records())
    oracle = history.reference()
    lens = data.draw(lenses(head.next_offset - 1, oracle))
    check_changes(Reads(rows, 0, CODEC), SPACE, oracle, lens, ENTITIES[0], SLOTS[0])


@examples(100)
@given(steps=histories(of=branched, max_size=14))
def test_what_counts_is_what_the_reference_lets_count(steps: list[Step]) -> None:
    """Each event of the history, at its own offset: forks of taken names, deleted branches, unknown events."""
    history = built(steps)
    rows, _ = folded(history.records())
    oracle, reads = history.reference(), Reads(rows, 0, CODEC)
    counted = {one.position.offset for one in reads.events(SPACE, 0, len(history.events))}
    assert counted == {offset for offset, fate in oracle.fates.items() if fate == "counts"}


@examples(80)
@given(steps=histories(of=branched, max_size=14), branch=lines, data=st.data())
def test_a_view_of_a_branch_that_is_not_there_is_refused(steps: list[Step], branch: str, data: st.DataObject) -> None:
    history = built(steps)
    rows, head = folded(history.records())
    oracle, reads = history.reference(), Reads(rows, 0, CODEC)
    as_of = data.draw(st.integers(-1, head.next_offset - 1))
    bounds = Bounds(0, head.next_offset, BASE + 100 * STEP)
    if oracle.exists(branch, as_of):
        found = reads.resolve(SPACE, View(as_of=as_of, branch=branch), bounds)
        assert found.branch == branch
    else:
        with pytest.raises(InvalidView, match="branch"):
            reads.resolve(SPACE, View(as_of=as_of, branch=branch), bounds)


@examples(120)
@given(
    steps=histories(of=pinned, max_size=26),
    data=st.data(),
    clone=st.one_of(st.none(), st.frozensets(st.sampled_from(SHAS))),
    one_by_one=st.sampled_from((1, 2, 256)),
    at_once=st.sampled_from((2, 200_000)),
)
def test_reads_at_commits_agree_with_the_reference(
    steps: list[Step], data: st.DataObject, clone: frozenset[str] | None, one_by_one: int, at_once: int
) -> None:
    """With a clone that has some of the commits, or none; with the log's commits, read one by one, or at once as far as
    that goes; and with both."""
    with patch.multiple(ancestry, _ONE_BY_ONE=one_by_one, _AT_ONCE_MAX=at_once):
        _check_reads_at_commits(built(steps), data, clone)


def _check_reads_at_commits(history: History, data: st.DataObject, clone: frozenset[str] | None) -> None:
    rows, head = folded(history.records())
    oracle = history.reference()
    reads = Reads(rows, 0, CODEC, clone=None if clone is None else Copy(clone))
    for _ in range(3):
        drawn = data.draw(lenses(head.next_offset - 1, oracle))
        shas = tuple(sorted(data.draw(st.sets(st.sampled_from(SHAS), min_size=1, max_size=2))))
        lens = replace(drawn, shas=shas, clone=tuple((sha, PARENTS[sha]) for sha in sorted(clone or ())))
        for entity, slot in PAIRS[:2]:
            check_slot(reads, SPACE, oracle, lens, entity, slot)
        check_timeline(reads, oracle, lens)
        _check_resolved(reads, history, oracle, lens)


def _check_resolved(reads: Reads, history: History, oracle: Space, lens: Lens) -> None:
    bounds = Bounds(0, len(history.events), BASE + 100 * STEP)
    view = reads.resolve(SPACE, resolved(lens).view(), bounds)
    assert lens_of(view).shas == lens.shas
    assert view.hidden == oracle.through(lens).hidden
    assert reads.resolve(SPACE, view.view(), bounds) == view
