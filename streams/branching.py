"""What a branch shows: offsets, from the rows of a space's branches. Pure.

A branch shows what it said itself, what it had merged, and what its parent showed at the fork. A merge brings what the
other branch said or had merged by then, never what that one inherited; it adds and takes nothing away. A rollback to
an event hides what the branch said, and the merges and rollbacks it made, after that event and before the rollback:
what a hidden merge brought is not there, and a hidden rollback hides nothing, so the newest is looked at first. What
becomes of a parent or of a merged branch later changes nothing here. Names are never used again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from schemas import events as ev
from schemas.errors import InvalidView
from schemas.times import Micros
from streams.rows import BranchRow, Step

MAIN = "main"

BranchingEvent = ev.BranchForked | ev.BranchMerged | ev.BranchRolledBack | ev.BranchDeleted
BRANCHING = (ev.BranchForked, ev.BranchMerged, ev.BranchRolledBack, ev.BranchDeleted)
"""Events that make a branch or change what one shows."""

Span = tuple[int, int]
"""Offsets from the first, inclusive, to the second, exclusive."""
Slot = tuple[str, str]
"""(entity, slot)."""
StepCounts = Callable[[str, Step], bool]
"""Whether a step of the named branch counts: its actor is neither distrusted nor left out."""


class Spans:
    """Offsets per branch: sorted spans that do not touch."""

    __slots__ = ("of_branch",)

    def __init__(self, of_branch: Mapping[str, tuple[Span, ...]]) -> None:
        self.of_branch = dict(of_branch)

    def __contains__(self, place: tuple[str, int]) -> bool:
        spans = self.of_branch.get(place[0], ())
        found = bisect_right(spans, place[1], key=lambda span: span[0]) - 1
        return found >= 0 and place[1] < spans[found][1]

    def __bool__(self) -> bool:
        return bool(self.of_branch)

    def __or__(self, other: Spans) -> Spans:
        """Those of either."""
        if not other or not self:
            return self or other
        names = self.of_branch.keys() | other.of_branch.keys()
        return Spans({name: united((*self.of_branch.get(name, ()), *other.of_branch.get(name, ()))) for name in names})

    def __sub__(self, other: Spans) -> Spans:
        """Those of this that are not of the other."""
        left = {name: _without(spans, other.of_branch.get(name, ())) for name, spans in self.of_branch.items()}
        return Spans({name: spans for name, spans in left.items() if spans})


def united(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same offsets, as sorted spans that do not touch."""
    found: list[Span] = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        elif start < stop:
            found.append((start, stop))
    return tuple(found)


def _without(spans: Iterable[Span], holes: Iterable[Span]) -> tuple[Span, ...]:
    left = list(spans)
    for first, last in holes:
        left = [
            piece
            for start, stop in left
            for piece in ((start, min(stop, first)), (max(start, last), stop))
            if piece[0] < piece[1]
        ]
    return tuple(left)


_NOTHING = Spans({})


class Shown:
    """What a branch shows: `everywhere` in any slot, and in those of `only` what a merge of them alone brought."""

    __slots__ = ("everywhere", "only")

    def __init__(self, everywhere: Spans, only: Mapping[Slot, Spans]) -> None:
        self.everywhere = everywhere
        self.only = only

    def in_slot(self, slot: Slot | None) -> Spans:
        """What it shows of one slot; None: of what is about none."""
        return self.everywhere if slot is None or slot not in self.only else self.everywhere | self.only[slot]

    def joined(self, other: Shown, slots: Iterable[Slot] | None = None) -> Shown:
        """This and all of another, or only what the other shows in some slots."""
        brought = other.only if slots is None else {slot: other.in_slot(slot) for slot in slots}
        only = {slot: self.only.get(slot, _NOTHING) | spans for slot, spans in brought.items()}
        return Shown(self.everywhere | other.everywhere if slots is None else self.everywhere, {**self.only, **only})


class Branches:
    """The branches of one space, by the rows that the fold made of them."""

    def __init__(self, rows: Mapping[str, BranchRow]) -> None:
        self.rows = rows

    def begun(self, branch: str, offset: int) -> bool:
        """Whether the branch was forked by an offset, inclusive."""
        row = self.rows.get(branch)
        return branch == MAIN or (row is not None and row.forked_at <= offset)

    def deleted(self, branch: str, offset: int) -> bool:
        """Whether it was deleted by an offset, inclusive."""
        row = self.rows.get(branch)
        return row is not None and row.deleted_at is not None and row.deleted_at <= offset

    @property
    def offsets(self) -> set[int]:
        """Offsets of all that made or changed a branch."""
        ends = {row.deleted_at for row in self.rows.values() if row.deleted_at is not None}
        forks = {row.forked_at for row in self.rows.values() if row.forked_at >= 0}
        return ends | forks | {step.offset for row in self.rows.values() for step in row.steps}

    def refuse_unknown(self, branch: str, offset: int) -> None:
        """
        Raises:
            InvalidView: no such branch was there at the offset.
        """
        row = self.rows.get(branch)
        if branch != MAIN and (row is None or row.forked_at < 0):
            known = ", ".join(sorted({MAIN, *self.rows}))
            raise InvalidView(f"the space has no branch {branch!r}", hint=f"it has {known}")
        if row is None:
            return
        if not self.begun(branch, offset):
            raise InvalidView(
                f"branch {branch!r} was forked at offset {row.forked_at}, after the offset {offset} asked for"
            )
        if self.deleted(branch, offset):
            raise InvalidView(
                f"branch {branch!r} was deleted at offset {row.deleted_at}",
                hint="as_of before that still shows it",
            )

    def shown(self, branch: str, limit: int, counts: StepCounts) -> Shown:
        """What the branch shows of the events up to offset `limit`, inclusive."""
        known: dict[tuple[str, int], Shown] = {}
        found = Shown(Spans({}), {})
        for name, last in self.line(branch, limit):
            found = found.joined(self._said(name, last, counts, known))
        return found

    def said(self, branch: str, limit: int, counts: StepCounts) -> Shown:
        """What the branch itself said or had merged of the events up to offset `limit`, inclusive: what a merge of it
        brings."""
        return self._said(branch, limit, counts, {})

    def line(self, branch: str, limit: int) -> list[tuple[str, int]]:
        """The branch, its parent and so on, each with the last offset up to which this branch shows it."""
        found, row = [(branch, limit)], self.rows.get(branch)
        while row is not None and row.parent is not None:
            limit = min(limit, row.cut)
            found.append((row.parent, limit))
            row = self.rows.get(row.parent)
        return found

    def _said(self, branch: str, limit: int, counts: StepCounts, known: dict[tuple[str, int], Shown]) -> Shown:
        """What the branch itself said or had merged, and no rollback hides."""
        if (branch, limit) in known:
            return known[branch, limit]
        row = self.rows.get(branch, BranchRow())
        hidden, steps = self._rolled_back(branch, limit, counts)
        own = _without(united([(max(row.forked_at, 0), limit + 1)]), hidden)
        found = Shown(Spans({branch: own} if own else {}), {})
        for step in steps:
            if step.source is not None:
                found = found.joined(self._said(step.source, step.cut, counts, known), step.slots)
        known[branch, limit] = found
        return found

    def _rolled_back(self, branch: str, limit: int, counts: StepCounts) -> tuple[tuple[Span, ...], list[Step]]:
        """What the branch's rollbacks hide of its own, and the steps that they leave."""
        row = self.rows.get(branch, BranchRow())
        hidden: tuple[Span, ...] = ()
        left = []
        for step in reversed(row.steps):
            if step.offset > limit or not counts(branch, step) or _within(step.offset, hidden):
                continue
            left.append(step)
            if step.source is None:
                hidden = united((*hidden, (step.cut + 1, step.offset)))
        return hidden, left

    def steps_that_count(self, branch: str, limit: int, counts: StepCounts) -> list[Step]:
        """The merges and rollbacks up to offset `limit` that no rollback hides; newest first."""
        return self._rolled_back(branch, limit, counts)[1]

    def rolled_back_at(
        self, branch: str, place: tuple[str, int], slot: Slot | None, limit: int, counts: StepCounts
    ) -> int | None:
        """Offset of the rollback of the branch that hides an event about the slot, by its branch and offset, which that
        one said or had merged; None where none does."""
        left = self.steps_that_count(branch, limit, counts)

        def hiding(offset: int) -> int | None:
            found = [step.offset for step in left if step.source is None and step.cut < offset < step.offset]
            return min(found, default=None)

        if place[0] == branch:
            return hiding(place[1])
        for step in self.rows.get(branch, BranchRow()).steps:
            if step.source is None or step.offset > limit or not counts(branch, step):
                continue
            brought = Shown(Spans({}), {}).joined(self.said(step.source, step.cut, counts), step.slots)
            if place in brought.in_slot(slot) and (found := hiding(step.offset)) is not None:
                return found
        return None


class Problem(NamedTuple):
    """Why an event can't be: the code of its quarantine, the field that is wrong, and the whole sentence."""

    code: str
    field: str
    text: str


def problem_of_branch(branches: Branches, branch: str) -> str | None:
    """Why nothing can be said on a branch now, or taken from it; None when it is there."""
    row = branches.rows.get(branch)
    if branch != MAIN and row is None:
        return f"the space has no branch {branch!r}"
    if row is not None and row.deleted_at is not None:
        return f"branch {branch!r} was deleted at offset {row.deleted_at}"
    return None


def changed(
    rows: Mapping[str, BranchRow],
    event: BranchingEvent,
    offset: int,
    append_time: Micros,
    offset_of: Callable[[bytes], int],
) -> BranchRow | Problem:
    """The row of the event's branch after the event at `offset`, or why it can't be. `offset_of` gives the offset of a
    known event and raises for any other."""
    row = rows.get(event.branch, BranchRow())
    sha = None if event.code is None else event.code.sha
    match event:
        case ev.BranchForked(branch=branch, parent=parent, at=at):
            if branch == MAIN or branch in rows:
                return Problem("branch_taken", "branch", f"the name {branch!r} is taken: names are never used again")
            cut = offset if at is None else offset_of(at)
            problem = _cannot_take(rows, parent, cut, "parent")
            return problem or BranchRow(offset, parent, cut)
        case ev.BranchMerged(branch=branch, from_branch=source, at=at, slots=slots):
            if source == branch:
                return Problem("invalid", "from_branch", f"branch {branch!r} can't be merged into itself")
            cut = offset if at is None else offset_of(at)
            only = None if slots is None else tuple((one.entity, one.slot) for one in slots)
            step = Step(offset, append_time, event.actor, sha, cut, source, only)
            return _cannot_take(rows, source, cut, "from_branch") or _with_step(row, step)
        case ev.BranchRolledBack(to=to):
            return _with_step(row, Step(offset, append_time, event.actor, sha, offset_of(to)))
        case ev.BranchDeleted(branch=branch):
            if branch == MAIN:
                return Problem("invalid", "branch", "main can't be deleted")
            return msgspec.structs.replace(row, deleted_at=offset)


def _cannot_take(rows: Mapping[str, BranchRow], branch: str, cut: int, field: str) -> Problem | None:
    branches = Branches(rows)
    problem = problem_of_branch(branches, branch)
    if problem is not None:
        return Problem("unknown_branch", field, problem)
    if not branches.begun(branch, cut):
        return Problem("invalid", "at", f"branch {branch!r} was not there yet at offset {cut}")
    return None


def _with_step(row: BranchRow, step: Step) -> BranchRow:
    return msgspec.structs.replace(row, steps=(*row.steps, step))


def slot_of(event: ev.Event) -> Slot | None:
    """(entity, slot) that an event names; None for one that names neither, or another event."""
    entity, slot = getattr(event, "entity", None), getattr(event, "slot", None)
    return None if entity is None or slot is None else (entity, slot)


def _within(offset: int, spans: Iterable[Span]) -> bool:
    return any(start <= offset < stop for start, stop in spans)
