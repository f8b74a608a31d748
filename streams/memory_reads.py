"""The verbs that read. Each brings the space's tables to the end of the log first, so it sees what was acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from schemas import events as ev
from schemas.errors import InvalidInput, InvalidView, NotFound
from schemas.jsonform import parse_id
from schemas.times import Micros, micros
from streams import clock
from streams.answers import (
    Answer,
    Belief,
    Branch,
    BranchChange,
    Change,
    Known,
    KnownCommit,
    Quarantined,
    Recorded,
    Session,
)
from streams.branching import MAIN, Branches
from streams.memory import Memory, Point
from streams.partitions import Partitions
from streams.ports import Position
from streams.reads import Bounds, Reads
from streams.replay import replay_session, replay_space
from streams.rows import BranchRow
from streams.view import Fixed, ResolvedView, View, refuse_unanswerable

if TYPE_CHECKING:
    from streams.compare import Difference
    from streams.drafting import Draft
    from streams.explain import Explanation
    from streams.inference import SlotSchema
    from streams.merging import MergePlan, Side
    from streams.tree import Node

_PAGE_EVENTS = 500
SEEN_SPACES_MAX = 10_000
"""Of so many spaces, those of the last answers that were others, it is known what was seen."""


class Reading(Partitions, Memory):
    """Reading verbs of `Memory`, from the tables and the log."""

    def get(self, space: str, entity: str, slot: str, view: View = View()) -> Answer:
        with self._locked(space):
            reads, resolved = self._resolved(space, view)
            return reads.get(space, entity, slot, resolved)

    def entity(self, space: str, entity: str, view: View = View()) -> dict[str, Belief | list[Belief]]:
        with self._locked(space):
            reads, resolved = self._resolved(space, view)
            return reads.entity(space, entity, resolved)

    def history(self, space: str, entity: str, slot: str, view: View = View()) -> list[Belief]:
        with self._locked(space):
            reads, resolved = self._resolved(space, view)
            return reads.history(space, entity, slot, resolved)

    def changes(self, space: str, entity: str, slot: str, view: View = View()) -> list[Change]:
        with self._locked(space):
            reads, resolved = self._resolved(space, view)
            return reads.changes(space, entity, slot, resolved)

    def explain(self, space: str, entity: str, slot: str, view: View = View()) -> Explanation:
        from streams.explain import explain

        with self._locked(space):
            reads, resolved = self._resolved(space, view)
            return explain(reads, space, entity, slot, resolved)

    def diff(self, space: str, view_a: View, view_b: View = View()) -> list[Difference]:
        from streams.compare import diff

        with self._locked(space):
            now = clock.now_micros()
            _, first = self._resolved(space, view_a, now)
            reads, second = self._resolved(space, view_b, now)
            return diff(reads, space, first, second)

    def schema(self, space: str, view: View = View()) -> list[SlotSchema]:
        from streams.inference import schema

        with self._locked(space):
            reads, resolved = self._resolved(space, view)
            return schema(reads, space, resolved)

    def policy_in_force(self, space: str, view: View = View()) -> tuple[ev.PolicyRule, ...]:
        with self._locked(space):
            reads, resolved = self._resolved(space, view)
            return reads.judge(space, resolved).policy

    def declarations(self, space: str, view: View = View()) -> list[ev.SlotDeclared]:
        with self._locked(space):
            reads, resolved = self._resolved(space, view)
            return reads.judge(space, resolved).declarations

    def event(self, space: str, event_id: UUID | str) -> Recorded:
        with self._locked(space):
            return self._fresh(space).event(space, parse_id(event_id))

    def known_at(self, space: str, event_id: UUID | str) -> Known:
        with self._locked(space):
            reads = self._fresh(space)
            recorded = reads.event(space, parse_id(event_id))
            seen = None if recorded.event.seen is None else reads.find(space, recorded.event.seen)
            offset = recorded.position.offset - 1 if seen is None else seen.position.offset
            branches = reads.branches(space) or Branches({})
            line = branches.line(recorded.event.branch, offset)
            branch = next(name for name, last in line if branches.begun(name, last))  # it may be older than its branch
            at, _ = reads.last_event(space, offset)
            resolved = ResolvedView(reads.position(at), micros(recorded.append_time), branch)
            return Known(resolved, assumed=seen is None)

    def timeline(
        self, space: str, entity: str | None = None, slot: str | None = None, view: View = View()
    ) -> Iterator[Recorded]:
        with self._locked(space):
            _, resolved = self._resolved(space, view)
        return self._timeline(space, entity, slot, resolved)

    def replay(
        self, space: str, session: str | None = None, start: Point | None = None, end: Point | None = None
    ) -> Iterator[Recorded]:
        with self._locked(space):
            reads = self._fresh(space)
            follower = self._follower(space)
            first = 0 if start is None else self._offset_of_point(space, reads, start)
            stop = follower.head.next_offset
            if end is not None:
                stop = min(stop, self._offset_of_point(space, reads, end))
            partition = follower.head.partition
            if session is not None:
                first = max(first, reads.session(space, session).first.offset)

        def current() -> Reads:
            with self._locked(space):
                return self._fresh(space)

        if session is None:
            first = max(first, self._first(partition))
            return replay_space(self._log, partition, current, self._codec, space, first, stop)
        return replay_session(self._log, partition, current, self._codec, space, session, first, stop)

    def resolve(self, space: str, view: View = View()) -> ResolvedView:
        with self._locked(space):
            return self._resolved(space, view)[1]

    def merge_plan(
        self,
        space: str,
        source: str,
        *,
        into: str = "main",
        take: Side | None = None,
        only: Iterable[tuple[str, str]] | None = None,
        session: str | None = None,
        actor: str | None = None,
    ) -> MergePlan:
        from streams.merging import Merger

        if take not in (None, "ours", "theirs"):
            raise InvalidInput(f"take {take!r} is no side", hint="ours or theirs")
        if source == into:
            raise InvalidInput(f"branch {source!r} can't be merged into itself")
        with self._locked(space):
            now = clock.now_micros()
            _, theirs = self._resolved(space, View(branch=source), now)
            reads, ours = self._resolved(space, View(branch=into), now)
            views = ours, msgspec.structs.replace(theirs, valid_at=ours.valid_at)
            merger = Merger(space, self._making, reads, lambda: self._draft(space, now), views)
            return merger.plan(take, None if only is None else list(only), {"session": session, "actor": actor})

    def preview(
        self, space: str, events: Iterable[ev.Event | Mapping[str, Any]], view: View = View()
    ) -> list[Difference]:
        from streams.compare import diff

        with self._locked(space):
            made = self._making.checked_of(space, events)
            now = clock.now_micros()
            reads, before = self._resolved(space, view, now)
            draft = self._draft(space, now)
            draft.add(made)
            last = draft.last if view.as_of is None else before.as_of.offset
            after = msgspec.structs.replace(before, as_of=reads.position(last))
            return diff(reads, space, before, after, draft.reads)

    def _draft(self, space: str, now: Micros) -> Draft:
        from streams.drafting import Draft

        follower = self._follower(space)
        return Draft(follower.rows, follower.head, self._codec, now, self._clone)

    def branches(self, space: str, *, deleted: bool = False) -> list[Branch]:
        with self._locked(space):
            reads = self._fresh(space)
            rows = (reads.branches(space) or Branches({})).rows
            listed = sorted(rows.items(), key=lambda one: one[1].forked_at)
            known = [_branch(reads, name, row) for name, row in listed if name != MAIN]
            return [Branch(MAIN, None, None, None, None)] + [one for one in known if deleted or not one.deleted_at]

    def branch_log(self, space: str, branch: str) -> list[BranchChange]:
        with self._locked(space):
            reads = self._fresh(space)
            branches = reads.branches(space) or Branches({})
            if branch != MAIN and branch not in branches.rows:
                raise NotFound(f"space {space!r} has no branch {branch!r}", hint="slotlog branch list shows them")
            head = self._follower(space).head
            judge = reads.judge(space, ResolvedView(reads.position(head.next_offset - 1), 0, branch))
            left = judge.steps_that_count(branch)
            row = branches.rows.get(branch, BranchRow())
            ends = {offset for offset in (row.forked_at, row.deleted_at) if offset is not None and offset >= 0}
            return [
                BranchChange(reads.event_at(space, offset), offset in ends or offset in left)
                for offset in sorted({*ends, *(step.offset for step in row.steps)})
            ]

    def ls(self, space: str, prefix: str = "", view: View | None = None) -> list[Node]:
        from streams.tree import ls

        with self._locked(space):
            if view is None:
                return ls(self._fresh(space), space, prefix.rstrip("/"), None)
            reads, resolved = self._resolved(space, view)
            return ls(reads, space, prefix.rstrip("/"), resolved)

    def commits(self, space: str, shas: Iterable[str] | None = None) -> list[KnownCommit]:
        with self._locked(space):
            return list(self._fresh(space).commits(space, shas))

    def pinned(self, space: str) -> dict[str, int]:
        with self._locked(space):
            return self._fresh(space).pinned(space)

    def reached(self, space: str) -> Position:
        with self._locked(space):
            self._fresh(space)
            return self._at(space)

    def sessions(self, space: str) -> list[Session]:
        with self._locked(space):
            return sorted(self._fresh(space).sessions(space), key=lambda session: session.first)

    def quarantined(self) -> list[Quarantined]:
        with self._all_at_once() as followers:
            return [one for follower in followers for one in follower.reads.quarantined()]

    def _timeline(self, space: str, entity: str | None, slot: str | None, resolved: ResolvedView) -> Iterator[Recorded]:
        start = 0
        while True:
            with self._locked(space):
                page = list(islice(self._fresh(space).timeline(space, resolved, start, entity, slot), _PAGE_EVENTS))
            yield from page
            if len(page) < _PAGE_EVENTS:
                return
            start = page[-1].position.offset + 1

    def _offset_of_point(self, space: str, reads: Reads, point: Point) -> int:
        if isinstance(point, datetime):
            return reads.offset_at(space, micros(point, "time") - 1) + 1
        if isinstance(point, tuple):
            partition = self._follower(space).head.partition
            if point[0] != partition:
                raise InvalidView(f"{point[0]}:{point[1]} is in another partition", hint=f"{space} is in {partition}")
            return point[1]
        if isinstance(point, bool) or not isinstance(point, int):
            raise InvalidView(f"a point of the log is an offset, a Position or an aware datetime, not {point!r}")
        return point

    def _resolved(self, space: str, view: View, now: Micros | None = None) -> tuple[Reads, ResolvedView]:
        refuse_unanswerable(view)
        reads = self._fresh(space)
        head = self._follower(space).head
        first = 0 if view.as_of is None or isinstance(view, Fixed) else self._first(head.partition)
        resolved = reads.resolve(
            space, view, Bounds(first, head.next_offset, clock.now_micros() if now is None else now)
        )
        offset = resolved.as_of.offset
        if self._seen.get(space, (-1, None))[0] != offset:
            self._seen.pop(space, None)
            self._seen[space] = (offset, reads.id_at(space, offset))
            if len(self._seen) > SEEN_SPACES_MAX:
                del self._seen[next(iter(self._seen))]
        return reads, resolved


def _branch(reads: Reads, name: str, row: BranchRow) -> Branch:
    deleted_at = None if row.deleted_at is None else reads.position(row.deleted_at)
    return Branch(name, row.parent, reads.position(row.cut), reads.position(row.forked_at), deleted_at)
