"""Reads of events and of what is counted of them: by place, by id, by session, by slot. No View plays a part here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from uuid import UUID

from schemas import events as ev
from schemas.codec import Codec
from schemas.errors import NotFound
from schemas.events import Value
from schemas.jsonform import id_text
from schemas.times import EARLIEST, Micros, instant
from streams import keys
from streams.answers import KnownCommit, Quarantined, Recorded, Session
from streams.branching import MAIN, Branches, Slot, Spans, slot_of
from streams.ports import Position
from streams.rows import (
    BranchRow,
    ClaimRow,
    CommitRow,
    EventRow,
    PinRow,
    QuarantineRow,
    Rows,
    SessionRow,
    SpaceRow,
    decode,
    decode_offset,
)
from streams.values import same


class EventReads:
    """Reads of one partition's rows that need no View."""

    def __init__(self, rows: Rows, partition: int, codec: Codec) -> None:
        self._rows = rows
        self._partition = partition
        self._codec = codec

    def position(self, offset: int) -> Position:
        return Position(self._partition, offset)

    def event_at(self, space: str, offset: int) -> Recorded:
        """The event of the space at this very offset.

        Raises:
            NotFound: no event that counts is there.
        """
        data = self._rows.get(keys.event(space, offset))
        if data is None:
            raise NotFound(f"no event of space {space!r} is at offset {offset}")
        return self._recorded(offset, data)

    def events(self, space: str, start: int, stop: int) -> Iterator[Recorded]:
        """Every event of the space from offset `start`, inclusive, to `stop`, exclusive, ascending, whatever a View
        says of it."""
        for key, data in self._rows.scan(keys.event(space, start), keys.event(space, stop)):
            yield self._recorded(keys.last_int(key), data)

    def events_in(self, space: str, spans: Spans) -> list[Recorded]:
        """The events that lie in the spans, ascending. Of a branch other than main only they are looked at; of main
        whatever was said meanwhile."""
        found = []
        for branch, ranges in spans.of_branch.items():
            for start, stop in ranges:
                if branch == MAIN:
                    found += [one for one in self.events(space, start, stop) if one.event.branch == MAIN]
                    continue
                first, last = (keys.branch_event(space, branch, offset) for offset in (start, stop))
                found += [self.event_at(space, keys.last_int(key)) for key, _ in self._rows.scan(first, last)]
        return sorted(found, key=lambda one: one.position.offset)

    def event(self, space: str, event_id: bytes) -> Recorded:
        """The event with this id.

        Raises:
            NotFound: the space has none that counts.
        """
        found = self.find(space, event_id)
        if found is None:
            raise NotFound(f"no event {id_text(event_id)} is known in space {space!r}")
        return found

    def find(self, space: str, event_id: bytes) -> Recorded | None:
        """The event with this id, None when the space has none that counts."""
        data = self._rows.get(keys.event_id(space, event_id))
        return None if data is None else self.event_at(space, decode_offset(data))

    def _recorded(self, offset: int, data: bytes) -> Recorded:
        row = decode(EventRow, data)
        return Recorded(self.position(offset), instant(row.append_time), self._codec.decode(row.event))

    def append_times(self, space: str, offsets: Sequence[int]) -> list[Micros | None]:
        """For each offset the append time that counts of the event of `space` there, None where none counts."""
        rows = self._rows.get_many([keys.event(space, offset) for offset in offsets])
        return [None if data is None else decode(EventRow, data).append_time for data in rows]

    def offset_at(self, space: str, at: Micros) -> int:
        """The last offset the space had by `at`, inclusive; -1 when it had none."""
        row = self._space(space)
        if row is None:
            return -1
        low, high = row.first_offset, row.last_offset + 1  # the answer's successor lies in [low, high]
        while low < high:
            found = next(self._rows.scan(keys.event(space, (low + high) // 2), keys.event(space, high)), None)
            if found is None or decode(EventRow, found[1]).append_time > at:
                high = (low + high) // 2
            else:
                low = keys.last_int(found[0]) + 1
        return self.last_event(space, low - 1)[0]

    def last_event(self, space: str, offset: int) -> tuple[int, Micros]:
        """(offset, append time) of the space's last event up to `offset`, inclusive; (-1, EARLIEST) when none is."""
        found = next(self._rows.scan(keys.event(space, 0), keys.event(space, offset + 1), reverse=True), None)
        return (-1, EARLIEST) if found is None else (keys.last_int(found[0]), decode(EventRow, found[1]).append_time)

    def id_at(self, space: str, offset: int) -> bytes | None:
        """The id of the event of the space at this very offset, None when none counts there."""
        data = self._rows.get(keys.event(space, offset))
        return None if data is None else self._codec.decode(decode(EventRow, data).event).event_id

    def session(self, space: str, name: str) -> Session:
        """
        Raises:
            NotFound: the space knows no such session.
        """
        data = self._rows.get(keys.session(space, name))
        if data is None:
            raise NotFound(f"space {space!r} has no session {name!r}", hint="slotlog sessions lists them")
        return self._session(name, decode(SessionRow, data))

    def sessions(self, space: str) -> Iterator[Session]:
        """Sessions of the space, in the order of their names."""
        for key, data in self._rows.scan(*keys.sessions_of(space)):
            yield self._session(keys.texts(key, 2)[1], decode(SessionRow, data))

    def session_offsets(self, space: str, name: str, start: int, stop: int) -> Iterator[int]:
        """Offsets of the session's events from `start`, inclusive, to `stop`, exclusive."""
        first = keys.session_event(space, name, start)
        for key, _ in self._rows.scan(first, keys.session_event(space, name, stop)):
            yield keys.last_int(key)

    def _session(self, name: str, row: SessionRow) -> Session:
        first, last = self.position(row.first_offset), self.position(row.last_offset)
        return Session(name, row.agent, row.events, first, last, row.ended, row.outcome)

    def slots(self, space: str, above: str = "") -> Iterator[tuple[str, str]]:
        """(entity, slot) of every slot of which anything was ever said, by entity, then slot; of the entities whose
        names begin with `above`."""
        for key, _ in self._rows.scan(*keys.slots_under(space, above)):
            _, entity, slot = keys.texts(key, 3)
            yield entity, slot

    def pinned_slots(self, space: str, wanted: Callable[[str], bool]) -> set[Slot]:
        """(entity, slot) that events which are pinned to a wanted commit say something about."""
        found = set()
        for pin, _ in self._rows.scan(*keys.pins_of(space)):
            sha = keys.texts(pin, 2)[1]
            if wanted(sha):
                for key, _ in self._rows.scan(*keys.pinned_events_of(space, sha)):
                    found.add(self.slot_of(space, self.event_at(space, keys.last_int(key)).event))
        return {slot for slot in found if slot is not None}

    def slot_of(self, space: str, event: ev.Event) -> Slot | None:
        """(entity, slot) that an event of the space says something about, itself or through the fact it names; None for
        one that is about neither."""
        target = getattr(event, "target", None)
        return slot_of(event if target is None else self.event(space, target).event)

    def rules_changed(self, space: str) -> int:
        """Offset of the newest event that rules the whole space, -1 when there is none."""
        row = self._space(space)
        return -1 if row is None else row.rules_changed

    def commits_changed(self, space: str) -> int:
        """Offset of the newest event that tells of a commit of the code, -1 when there is none."""
        row = self._space(space)
        return -1 if row is None else row.commits_changed

    def branches(self, space: str) -> Branches | None:
        """The branches of the space; None where there is but main, as it is."""
        row = self._space(space)
        if row is None or row.branches_changed < 0:
            return None
        rows = self._rows.scan(*keys.branches_of(space))
        return Branches({keys.texts(key, 2)[1]: decode(BranchRow, data) for key, data in rows})

    def commits(self, space: str, shas: Iterable[str] | None = None) -> Iterator[KnownCommit]:
        """What the log tells of these commits of the code, or of all, whoever told it; by id."""
        spans = [keys.commits_of(space)] if shas is None else [keys.commits_of(space, sha) for sha in sorted(set(shas))]
        rows = (pair for span in spans for pair in self._rows.scan(*span))
        for sha, told in groupby(rows, lambda pair: keys.texts(pair[0], 2)[1]):
            listed = [(keys.last_int(key), decode(CommitRow, data)) for key, data in told]
            offset, newest = listed[-1]
            became = sorted({row.rewritten_from for _, row in listed if row.rewritten_from is not None})
            yield KnownCommit(sha, newest.repo, newest.parents, tuple(became), self.position(offset))

    def pinned(self, space: str) -> dict[str, int]:
        """Commit to the number of facts and ends that are pinned to it, whatever becomes of those."""
        rows = self._rows.scan(*keys.pins_of(space))
        counted = {keys.texts(key, 2)[1]: decode(PinRow, data).claims for key, data in rows}
        return {sha: claims for sha, claims in counted.items() if claims}

    def spaces(self) -> Iterator[tuple[str, SpaceRow]]:
        """Every space of the partition, in the order of their names."""
        for key, data in self._rows.scan(*keys.spaces()):
            yield keys.texts(key, 1)[0], decode(SpaceRow, data)

    def quarantined(self) -> Iterator[Quarantined]:
        """Every record that does not count, ascending by offset."""
        for key, data in self._rows.scan(*keys.quarantine()):
            row = decode(QuarantineRow, data)
            yield Quarantined(
                self.position(keys.last_int(key)),
                row.code,
                row.reason,
                instant(row.append_time),
                row.space,
                None if row.event_id is None else UUID(bytes=row.event_id),
            )

    def quarantined_at(self, offset: int) -> QuarantineRow | None:
        data = self._rows.get(keys.quarantined(offset))
        return None if data is None else decode(QuarantineRow, data)

    def knows_claim(self, space: str, entity: str, slot: str, value: Value | None) -> bool:
        """Whether any fact or end of the slot, whatever became of it, carries `value` (None: any)."""
        for _, data in self._rows.scan(*keys.claims_of(keys.slot_part(space, entity, slot))):
            if value is None or same(decode(ClaimRow, data).value, value):
                return True
        return False

    def _space(self, space: str) -> SpaceRow | None:
        data = self._rows.get(keys.space(space))
        return None if data is None else decode(SpaceRow, data)
