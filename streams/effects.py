"""What each event does to the rows of its space. Pure: part of the fold, which calls these for an event that counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from schemas import events as ev
from schemas.codec import Codec
from schemas.jsonform import id_text
from schemas.times import rfc3339
from streams import branching, keys
from streams.branching import BRANCHING, Branches, BranchingEvent, Shown, Slot, Spans, slot_of
from streams.distrust import Distrust, Origin
from streams.overlay import Overlay
from streams.rows import (
    BranchRow,
    ClaimRow,
    CommitRow,
    EventRow,
    Mark,
    SlotRow,
    SpaceRow,
    Step,
    TombstoneRow,
    decode,
    decode_offset,
    encode,
)
from streams.rule_rows import rules_of
from streams.values import digest_of, same


class Refused(Exception):
    """A record that does not count. `code` is one of a fixed few, for counting; the text says what is wrong; `event` is
    what could be read of it."""

    def __init__(self, code: str, reason: str, event: ev.Event | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.event = event


class Place(msgspec.Struct, frozen=True):
    """Where an event stands: its offset, its effective append time and the offset of its root cause."""

    offset: int
    append_time: int
    root: int


class Effects:
    """The effects of one batch. Rows that many events touch are kept decoded until its end."""

    def __init__(self, rows: Overlay, codec: Codec) -> None:
        self.rows = rows
        self.codec = codec
        self.spaces: dict[str, SpaceRow] = {}
        self.slots: dict[bytes, SlotRow] = {}
        self.changed_slots: set[bytes] = set()
        self.branches: dict[str, dict[str, BranchRow]] = {}

    def _space(self, name: str) -> SpaceRow | None:
        if name not in self.spaces:
            row = self.rows.get(keys.space(name))
            if row is None:
                return None
            self.spaces[name] = decode(SpaceRow, row)
        return self.spaces[name]

    def _slot(self, part: bytes) -> SlotRow:
        if part not in self.slots:
            row = self.rows.get(keys.slot(part))
            if row is None:
                self.changed_slots.add(part)
            self.slots[part] = SlotRow() if row is None else decode(SlotRow, row)
        return self.slots[part]

    def _assert_fact(self, event: ev.FactAsserted, place: Place) -> None:
        at = place.append_time if event.valid_from is None else event.valid_from
        if event.valid_to is not None and event.valid_to <= at:
            raise Refused(
                "invalid",
                f"valid_to {rfc3339(event.valid_to)} is not after {rfc3339(at)}, when the fact begins to hold",
            )
        self._claim(event, place, at, until=event.valid_to, ended=False)

    def _end_fact(self, event: ev.FactEnded, place: Place) -> None:
        self._claim(event, place, place.append_time if event.at is None else event.at, until=None, ended=True)

    def _claim(
        self, event: ev.FactAsserted | ev.FactEnded, place: Place, at: int, *, until: int | None, ended: bool
    ) -> None:
        part = keys.slot_part(event.space, event.entity, event.slot)
        slot = self._slot(part)
        earlier: tuple[Mark, ...] = ()
        if slot.retractions and place.root < place.offset:
            earlier = tuple(
                mark
                for mark in slot.retractions
                if mark.offset > place.root
                and (mark.value is None or same(mark.value, event.value))
                and self._showed_event(event.space, mark, place.root)
            )
        row = ClaimRow(
            ended,
            event.value,
            until,
            event.event_id,
            event.actor,
            place.append_time,
            place.root,
            event.branch,
            None if event.code is None else event.code.sha,
            earlier,
        )
        self.rows.put(keys.claim(part, at, place.offset), encode(row))

    def _retract(self, event: ev.FactRetracted, place: Place) -> None:
        sha = None if event.code is None else event.code.sha
        mark = Mark(place.offset, place.append_time, event.actor, None, event.value, event.branch, sha)
        if event.target is not None:
            key, row = self._claim_named(event.space, event.target)
            row.retractions = (*row.retractions, mark)
            self.rows.put(key, encode(row))
            return
        assert event.entity is not None
        assert event.slot is not None
        part = keys.slot_part(event.space, event.entity, event.slot)
        shown = self._shown_in(event.space, mark, (event.entity, event.slot))
        reached = [
            (key, row)
            for key, row in ((key, decode(ClaimRow, data)) for key, data in self.rows.scan(*keys.claims_of(part)))
            if (event.value is None or same(row.value, event.value))
            and (shown is None or (row.branch, keys.last_int(key)) in shown)
        ]
        if not reached:
            what = f"{event.entity} {event.slot}" + ("" if event.value is None else f" = {event.value!r}")
            where = "" if shown is None else f" on branch {event.branch}"
            raise Refused("unknown_target", f"no fact or end of {what} is known{where}")
        for key, row in reached:
            if not any(self._implies(event.space, mark, known) for known in row.retractions):
                row.retractions = (*row.retractions, mark)
                self.rows.put(key, encode(row))
        slot = self._slot(part)
        slot.retractions = (*slot.retractions, mark)
        self.changed_slots.add(part)

    def _implies(self, space: str, later: Mark, earlier: Mark) -> bool:
        """Whether the later retraction counts only through views in which the earlier one does: it is from the same
        actor, branch and commit, and no rollback hides the earlier one alone."""
        if (later.actor, later.branch, later.sha) != (earlier.actor, earlier.branch, earlier.sha):
            return False
        row = self._space(space)
        if row is None or row.branches_changed < earlier.offset:
            return True
        branch = self._branches(space).get(later.branch, BranchRow())
        return not any(step.source is None and step.offset > earlier.offset for step in branch.steps)

    def _shown_in(self, space: str, mark: Mark, slot: Slot) -> Spans | None:
        """What a retraction's branch showed of a slot at its offset, by who was distrusted then; None: everything."""
        shown = self._shown(space, mark)
        return None if shown is None else shown.in_slot(slot)

    def _showed_event(self, space: str, mark: Mark, offset: int) -> bool:
        """Whether a retraction's branch showed the event at an offset."""
        shown = self._shown(space, mark)
        if shown is None:
            return True
        data = self.rows.get(keys.event(space, offset))
        assert data is not None, "a root without its event row"
        event = self.codec.decode(decode(EventRow, data).event)
        return (event.branch, offset) in shown.in_slot(self._slot_of(space, event))

    def _shown(self, space: str, mark: Mark) -> Shown | None:
        row = self._space(space)
        if row is None or row.branches_changed < 0:
            return None
        distrust = self._distrust_by(space, mark.offset)

        def counts(branch: str, step: Step) -> bool:
            origin = Origin(step.offset, step.append_time, step.actor, branch, step.sha)
            return distrust.said_at(origin) is None

        return Branches(self._branches(space)).shown(mark.branch, mark.offset, counts)

    def _distrust_by(self, space: str, offset: int) -> Distrust:
        """Who was distrusted by an offset, inclusive."""
        return Distrust(rule for rule in rules_of(self.rows, space, self.codec) if rule.offset <= offset)

    def _slot_of(self, space: str, event: ev.Event) -> Slot | None:
        target = getattr(event, "target", None)
        if target is not None:
            event, _ = self._event_named(space, target)
        return slot_of(event)

    def _review(self, event: ev.FactReviewed, place: Place) -> None:
        key, row = self._claim_named(event.space, event.target)
        sha = None if event.code is None else event.code.sha
        mark = Mark(place.offset, place.append_time, event.actor, event.verdict, None, event.branch, sha)
        row.reviews = (*row.reviews, mark)
        self.rows.put(key, encode(row))

    def _claim_named(self, space: str, target: bytes) -> tuple[bytes, ClaimRow]:
        """Key and row of the fact or end with this event id."""
        event, offset = self._event_named(space, target)
        row = self.rows.get(keys.event(space, offset))
        assert row is not None, "an id row without its event row"
        if isinstance(event, ev.FactAsserted):
            at = event.valid_from
        elif isinstance(event, ev.FactEnded):
            at = event.at
        else:
            raise Refused("unknown_target", f"event {id_text(target)} is a {type(event).__name__}, no fact and no end")
        part = keys.slot_part(space, event.entity, event.slot)
        key = keys.claim(part, decode(EventRow, row).append_time if at is None else at, offset)
        data = self.rows.get(key)
        assert data is not None, "a fact without its claim row"
        return key, decode(ClaimRow, data)

    def _event_named(self, space: str, target: bytes) -> tuple[ev.Event, int]:
        known = self.rows.get(keys.event_id(space, target))
        if known is None:
            raise Refused("unknown_target", f"no event {id_text(target)} is known in space {space!r}")
        offset = decode_offset(known)
        row = self.rows.get(keys.event(space, offset))
        assert row is not None, "an id row without its event row"
        return self.codec.decode(decode(EventRow, row).event), offset

    def _tombstone(self, event: ev.ValueForbidden | ev.ValueAllowed, place: Place, *, forbidden: bool) -> None:
        part = keys.slot_part(event.space, event.entity, event.slot)
        digest = digest_of(part, event.value) if event.value is not None else event.value_hash
        assert digest is not None
        sha = None if event.code is None else event.code.sha
        row = TombstoneRow(forbidden, event.actor, place.append_time, event.branch, sha)
        self.rows.put(keys.tombstone(part, digest, place.offset), encode(row))
        slot = self._slot(part)
        slot.tombstones += 1
        self.changed_slots.add(part)

    def _pin(self, event: ev.FactPinned, place: Place) -> None:
        self._claim_named(event.space, event.target)

    def _distrust(self, event: ev.ActorDistrusted, place: Place) -> None:
        if event.since_event is not None:
            self._event_named(event.space, event.since_event)

    def _branches(self, space: str) -> dict[str, BranchRow]:
        if space not in self.branches:
            rows = self.rows.scan(*keys.branches_of(space))
            self.branches[space] = {keys.texts(key, 2)[1]: decode(BranchRow, data) for key, data in rows}
        return self.branches[space]

    def _check_branch(self, space: str, branch: str) -> None:
        problem = branching.problem_of_branch(Branches(self._branches(space)), branch)
        if problem is not None:
            raise Refused("unknown_branch", problem)

    def _branching(self, event: BranchingEvent, place: Place) -> None:
        known = self._branches(event.space)

        def offset_of(event_id: bytes) -> int:
            return self._event_named(event.space, event_id)[1]

        changed = branching.changed(known, event, place.offset, place.append_time, offset_of)
        if isinstance(changed, branching.Problem):
            raise Refused(changed.code, changed.text)
        known[event.branch] = changed
        self.rows.put(keys.branch(event.space, event.branch), encode(changed))

    def _commit_seen(self, event: ev.CommitSeen, place: Place) -> None:
        code = None if event.code is None else event.code.sha
        origin = (event.actor, place.append_time, event.branch, code)
        row = CommitRow(event.parents, event.rewritten_from, event.repo, event.committed_at, *origin)
        self.rows.put(keys.commit(event.space, event.sha, place.offset), encode(row))
        if event.rewritten_from is not None:
            self.rows.put(keys.rewritten(event.space, event.rewritten_from, place.offset), event.sha.encode())


EFFECTS: dict[type[ev.Event], Callable[..., None]] = {
    ev.FactAsserted: Effects._assert_fact,
    ev.FactEnded: Effects._end_fact,
    ev.FactRetracted: Effects._retract,
    ev.FactReviewed: Effects._review,
    ev.FactPinned: Effects._pin,
    ev.ValueForbidden: partial(Effects._tombstone, forbidden=True),
    ev.ValueAllowed: partial(Effects._tombstone, forbidden=False),
    ev.ActorDistrusted: Effects._distrust,
    **dict.fromkeys(BRANCHING, Effects._branching),
    ev.CommitSeen: Effects._commit_seen,
}
