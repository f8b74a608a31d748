"""Answers: every read of the product, over any rows, through a resolved View. No I/O beyond the rows, and no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple
from uuid import UUID

import msgspec

from schemas import events as ev
from schemas.codec import Codec
from schemas.errors import InvalidView
from schemas.events import Value
from schemas.times import Micros, instant, micros, rfc3339
from streams import keys
from streams.ancestry import Ancestry, LogCommits, source_of
from streams.answers import Answer, Belief, Change, Claimed, Recorded, beliefs_of
from streams.belief import FOREVER, Claim, Run, contested, runs
from streams.branching import Branches
from streams.distrust import Origin
from streams.event_reads import EventReads
from streams.hot import HotSlot, HotSlots, HotView
from streams.kept import Kept
from streams.ports import Clone, Position
from streams.rows import (
    BranchRow,
    ClaimRow,
    Rows,
    SlotRow,
    TombstoneRow,
    decode,
)
from streams.rule_rows import rules_of
from streams.values import digest_of, identity
from streams.view import STANDS, Judge, ResolvedView, Rules, Standing, View, origin_of, refuse_unanswerable

HOT_CLAIMS = 128


class Bounds(NamedTuple):
    """The part of the log that can be asked about: offsets from `first`, inclusive, to `next`, exclusive; and now."""

    first: int
    next: int
    now: Micros


class Reads(EventReads):
    """Every read of one partition's rows."""

    def __init__(
        self,
        rows: Rows,
        partition: int,
        codec: Codec,
        hot: HotSlots | None = None,
        kept: Kept | None = None,
        clone: Clone | None = None,
    ) -> None:
        """`hot` keeps busy slots from one read to the next; whoever writes the rows keeps it true. `kept` keeps what is
        made of rows that seldom change. `clone` is the repository that commits are looked up in."""
        super().__init__(rows, partition, codec)
        self._hot = HotSlots() if hot is None else hot
        self._kept = Kept() if kept is None else kept
        self._clone = clone

    def resolve(self, space: str, view: View, bounds: Bounds) -> ResolvedView:
        """What `view` means for `space` now.

        Raises:
            InvalidView: it names what no log or this log can't answer.
        """
        refuse_unanswerable(view)
        limit, by_time = self._as_of(space, view.as_of, bounds)
        (self._branches_of(space) or Branches({})).refuse_unknown(view.branch, limit)
        offset, append_time = self.last_event(space, limit)
        if view.valid_at is not None:
            valid_at = micros(view.valid_at, "valid_at")
        elif by_time is not None:
            valid_at = by_time
        else:
            valid_at = append_time if view.as_of is not None else max(bounds.now, append_time)
        return self._with_commits(
            space,
            ResolvedView(
                self.position(offset),
                valid_at,
                view.branch,
                view.trust,
                tuple(sorted(set(view.without_actors))),
                view.at_sha,
                tuple(sorted(set(view.also_at))),
            ),
        )

    def _with_commits(self, space: str, resolved: ResolvedView) -> ResolvedView:
        """With who knows the commits, and how many facts and ends nobody can tell of."""
        ancestry = self._ancestry(space, resolved)
        if ancestry is None:
            return resolved
        row = self._space(space)
        hidden = ancestry.hidden(resolved.as_of.offset, -1 if row is None else row.pins_changed)
        return msgspec.structs.replace(resolved, ancestry=source_of(resolved.shas, self._clone), hidden=hidden)

    def judge(self, space: str, resolved: ResolvedView) -> Judge:
        """Whether events of the space count through the view."""
        ancestry = self._ancestry(space, resolved)
        return Judge(resolved, self._rules_of(space), self._branches_of(space), ancestry)

    def _rules_of(self, space: str) -> Rules:
        changed = self.rules_changed(space)
        return self._kept.rules.of(space, changed, lambda: Rules(rules_of(self._rows, space, self._codec)))

    def _branches_of(self, space: str) -> Branches | None:
        row = self._space(space)
        changed = -1 if row is None else row.branches_changed
        return self._kept.branches.of(space, changed, lambda: self.branches(space))

    def _ancestry(self, space: str, resolved: ResolvedView) -> Ancestry | None:
        """Who leads to the commits of the view; None for one that looks at none."""
        row = self._space(space)
        if row is None or resolved.at_sha is None:
            return None
        limit = resolved.as_of.offset
        whole = Judge(ResolvedView(resolved.as_of, 0, without_actors=resolved.without_actors), self._rules_of(space))
        what = (min(limit, row.commits_changed), min(limit, row.rules_changed), resolved.without_actors)
        log = LogCommits(self._rows, space, whole)
        return self._kept.ancestries.of(
            (space, resolved.shas), what, lambda: Ancestry(resolved.shas, log, self._clone)
        ).over(log)

    def _as_of(self, space: str, as_of: int | Position | datetime | None, bounds: Bounds) -> tuple[int, Micros | None]:
        """(offset, and the time when as_of is one)."""
        if as_of is None:
            return bounds.next - 1, None
        if isinstance(as_of, datetime):
            at = micros(as_of, "as_of")
            if at > max(bounds.now, self.last_event(space, bounds.next - 1)[1]):
                raise InvalidView(
                    f"as_of {rfc3339(at)} is in the future", hint="valid_at may be; as_of is what was known"
                )
            offset = self.offset_at(space, at)
            if bounds.first > 0 and offset < bounds.first:
                raise InvalidView(f"as_of {rfc3339(at)} is before the first retained offset {bounds.first}")
            return offset, at
        if isinstance(as_of, tuple):
            partition, offset = as_of
            if partition != self._partition:
                raise InvalidView(
                    f"as_of {as_of[0]}:{as_of[1]} is in another partition", hint=f"{space} is in {self._partition}"
                )
        elif type(as_of) is int:
            offset = as_of
        else:
            raise InvalidView(f"as_of must be an offset, a Position or an aware datetime, not {as_of!r}")
        if bounds.next == 0 and offset >= 0:
            raise InvalidView(f"as_of {offset} is past the end: the log is empty")
        if offset >= bounds.next:
            raise InvalidView(f"as_of {offset} is past the end: the last offset is {bounds.next - 1}")
        if offset < -1 or (bounds.first > 0 and offset < bounds.first):
            raise InvalidView(f"as_of {offset} is before the first retained offset {bounds.first}")
        return offset, None

    def get(self, space: str, entity: str, slot: str, resolved: ResolvedView) -> Answer:
        """What is believed at the view's instant."""
        return self.answer(space, entity, slot, resolved, self.judge(space, resolved))

    def entity(self, space: str, entity: str, resolved: ResolvedView) -> dict[str, Belief | list[Belief]]:
        """Slot to beliefs, for the slots of `entity` that have any; slots in the order of their names."""
        judge = self.judge(space, resolved)
        found = {}
        for key, _ in self._rows.scan(*keys.slots_of(space, entity)):
            slot = keys.texts(key, 3)[2]
            answer = self.answer(space, entity, slot, resolved, judge)
            if answer:
                found[slot] = answer
        return found

    def history(self, space: str, entity: str, slot: str, resolved: ResolvedView) -> list[Belief]:
        """Every run of the slot in valid time, ascending; the view's instant plays no part."""
        judge = self.judge(space, resolved)
        claims = [claim for claim, standing in self.claims(space, entity, slot, judge) if standing in STANDS]
        cardinality = judge.cardinality(entity, slot)
        return [
            self._belief(entity, slot, run, run.start, claims, cardinality, resolved)
            for run in runs(claims, cardinality)
        ]

    def changes(self, space: str, entity: str, slot: str, resolved: ResolvedView) -> list[Change]:
        """How the answer for the view's instant changed as events came in, ascending by offset."""
        offsets = self._offsets_that_matter(space, entity, slot, resolved)
        found: list[Change] = []
        before: list[tuple[object, ...]] = []
        for offset in offsets:
            then = self._with_commits(space, msgspec.structs.replace(resolved, as_of=self.position(offset)))
            answer = self.get(space, entity, slot, then)
            beliefs = beliefs_of(answer)
            now = [
                (belief.value, belief.valid_from, belief.valid_to, belief.event_id, belief.trust) for belief in beliefs
            ]
            if now != before:
                recorded = self.event_at(space, offset)
                found.append(Change(recorded.position, recorded.append_time, recorded.event, tuple(beliefs)))
                before = list(now)
        return found

    def answer(self, space: str, entity: str, slot: str, resolved: ResolvedView, judge: Judge) -> Answer:
        """What `get` answers, with the judge of `resolved` at hand."""
        cardinality = judge.cardinality(entity, slot)
        at = resolved.valid_at
        part = keys.slot_part(space, entity, slot)
        judge = judge.on(entity, slot)
        hot = self._hot_slot(part)
        if isinstance(hot, HotSlot):
            view = HotView(hot, judge, self._covered(part, judge))
            if cardinality == "one" and view.answers:
                found = view.run_at(at)
                return None if found is None else self._belief(entity, slot, found, at, (), cardinality, resolved)
            hot = list(hot.rows.items())
        claims = [claim for claim, standing in self._judged(part, hot, judge) if standing in STANDS]
        beliefs = [
            self._belief(entity, slot, run, at, claims, cardinality, resolved)
            for run in runs(claims, cardinality)
            if run.start <= at < run.stop
        ]
        if cardinality == "many":
            return sorted(beliefs, key=lambda belief: (belief.valid_from, belief.position.offset))
        return beliefs[0] if beliefs else None

    def claims(self, space: str, entity: str, slot: str, judge: Judge) -> list[tuple[Claim, Standing]]:
        """Every claim of the slot, whatever became of it, ascending by (instant, offset), with what it is worth."""
        part = keys.slot_part(space, entity, slot)
        rows = self._rows.scan(*keys.claims_of(part))
        judge = judge.on(entity, slot)
        return self._judged(part, ((keys.claim_parts(key), decode(ClaimRow, data)) for key, data in rows), judge)

    def _judged(
        self, part: bytes, rows: Iterable[tuple[tuple[Micros, int], ClaimRow]], judge: Judge
    ) -> list[tuple[Claim, Standing]]:
        covered = self._covered(part, judge)
        found: list[tuple[Claim, Standing]] = []
        for (at, offset), row in rows:
            standing = judge.standing(row, offset)
            if standing in STANDS and covered is not None and row.value is not None and covered(row.value):
                standing = "forbidden"
            until = FOREVER if row.until is None else row.until
            found.append((Claim(at, offset, until, standing == "verified", row), standing))
        return found

    def _hot_slot(self, part: bytes) -> HotSlot | list[tuple[tuple[Micros, int], ClaimRow]]:
        """The slot kept in memory when it has many claims, else its claims, ascending."""
        hot = self._hot.get(part)
        if hot is not None:
            return hot
        rows = self._rows.scan(*keys.claims_of(part))
        claims = [(keys.claim_parts(key), decode(ClaimRow, data)) for key, data in islice(rows, HOT_CLAIMS)]
        if len(claims) < HOT_CLAIMS:
            return claims
        hot = HotSlot(claims + [(keys.claim_parts(key), decode(ClaimRow, data)) for key, data in rows])
        self._hot.keep(part, hot)
        return hot

    def _covered(self, part: bytes, judge: Judge) -> Callable[[Value], bool] | None:
        """Whether a tombstone covers a value of this slot; None when the slot has no tombstone."""
        forbidden = self._forbidden(part, judge)
        if not forbidden:
            return None
        known: dict[object, bool] = {}

        def covered(value: Value) -> bool:
            own = identity(value)
            if own not in known:
                known[own] = digest_of(part, value) in forbidden
            return known[own]

        return covered

    def forbidden_at(self, space: str, entity: str, slot: str, value: Value, judge: Judge) -> int | None:
        """Offset of the tombstone that covers a value, None where none does."""
        part = keys.slot_part(space, entity, slot)
        return self._forbidden(part, judge).get(digest_of(part, value))

    def _forbidden(self, part: bytes, judge: Judge) -> dict[bytes, int]:
        """Hash of each forbidden value of the slot to the offset of its newest tombstone that counts."""
        data = self._rows.get(keys.slot(part))
        if data is None or decode(SlotRow, data).tombstones == 0:
            return {}
        found: dict[bytes, int] = {}
        for key, row_data in self._rows.scan(*keys.tombstones_of(part)):
            row = decode(TombstoneRow, row_data)
            if judge.counts(Origin(keys.last_int(key), row.append_time, row.actor, row.branch, row.sha)):
                if row.forbidden:
                    found[keys.hash_of(key)] = keys.last_int(key)
                else:
                    found.pop(keys.hash_of(key), None)
        return found

    def _belief(
        self,
        entity: str,
        slot: str,
        run: Run,
        at: Micros,
        claims: Sequence[Claim],
        cardinality: str,
        view: ResolvedView,
    ) -> Belief:
        top = run.top_at(at)
        rival = contested(run, claims, at, cardinality)
        return Belief(
            entity,
            slot,
            run.value,
            instant(run.start),
            None if run.stop == FOREVER else instant(run.stop),
            self.position(top.offset),
            UUID(bytes=top.row.event_id),
            top.row.actor,
            "verified" if top.verified else "candidate",
            run.corroborations,
            None if rival is None else self.claimed(rival),
            None if run.closed_by is None else self.claimed(run.closed_by),
            view,
        )

    def claimed(self, claim: Claim) -> Claimed:
        """The claim as another answer refers to it."""
        row = claim.row
        return Claimed(UUID(bytes=row.event_id), self.position(claim.offset), row.actor, row.ended, row.value)

    def _offsets_that_matter(self, space: str, entity: str, slot: str, resolved: ResolvedView) -> list[int]:
        """Offsets up to the view's at which something was said about the slot or about the whole space."""
        part = keys.slot_part(space, entity, slot)
        offsets = set()
        for key, data in self._rows.scan(*keys.claims_of(part)):
            row = decode(ClaimRow, data)
            offsets.add(keys.last_int(key))
            offsets.update(mark.offset for mark in (*row.retractions, *row.reviews))
        offsets.update(keys.last_int(key) for key, _ in self._rows.scan(*keys.tombstones_of(part)))
        offsets.update(rule.offset for rule in rules_of(self._rows, space, self._codec))
        first = 0
        if (branches := self._branches_of(space)) is not None:
            first = max(0, branches.rows.get(resolved.branch, BranchRow()).forked_at)
            offsets.update(branches.offsets)
        if resolved.at_sha is not None:
            offsets.update(keys.last_int(key) for key, _ in self._rows.scan(*keys.commits_of(space)))
        return sorted(offset for offset in offsets if first <= offset <= resolved.as_of.offset)

    def timeline(
        self, space: str, resolved: ResolvedView, start: int = 0, entity: str | None = None, slot: str | None = None
    ) -> Iterator[Recorded]:
        """Events of the space from offset `start` on that count through the view, ascending; of one entity, or of one
        of its slots, if named.

        Retractions and verdicts that name an event id belong to the slot of the fact they name.
        """
        judge = self.judge(space, resolved)
        for recorded in self.events(space, start, resolved.as_of.offset + 1):
            about = self.slot_of(space, recorded.event)
            if entity is not None and (about is None or about[0] != entity or slot not in (None, about[1])):
                continue
            judge_here = judge if about is None else judge.on(*about)
            if judge_here.shows(_origin(recorded), recorded.event):
                yield recorded

    def blocked_by(self, space: str, offset: int) -> str | None:
        """Why the event at `offset`, which was folded, is not believed as of then: a tombstone on its value, or the
        distrust of its actor; None where neither is. A branch is forked and deleted whoever says so."""
        recorded = self.event_at(space, offset)
        event, origin = recorded.event, _origin(recorded)
        if isinstance(event, ev.BranchForked | ev.BranchDeleted):
            return None
        judge = self.judge(space, ResolvedView(self.position(offset), 0, event.branch))
        distrusted_at = None if judge.shows(origin, event) else judge.distrusted_at(origin)
        if distrusted_at is not None:
            said = self.event_at(space, distrusted_at).event
            about = said.about if isinstance(said, ev.ActorDistrusted) else event.actor
            return f"{about} is distrusted since {self.position(distrusted_at)}"
        if isinstance(event, ev.FactAsserted):
            tombstone = self.forbidden_at(space, event.entity, event.slot, event.value, judge)
            if tombstone is not None:
                return f"the value is forbidden since {self.position(tombstone)}; allow lifts that"
        return None


def _origin(recorded: Recorded) -> Origin:
    return origin_of(recorded.event, recorded.position.offset, micros(recorded.append_time))
