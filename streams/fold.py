"""The fold: records of one partition in, rows out. Pure: it reads rows and nothing else, no clock and no setting.

A record counts, is a duplicate of one that counts, or is quarantined with a reason while the partition goes on; the
log keeps its bytes either way. Whoever folds the same records gets the same rows, however they were split into batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from schemas import events as ev
from schemas.checks import MAX_EVENT_BYTES, check
from schemas.codec import MARKER, Codec
from schemas.errors import InvalidEvent, UndecodableEvent
from schemas.jsonform import id_text
from schemas.times import LATEST, Micros, rfc3339
from streams import keys
from streams.envelope import APPEND_TIME, QUARANTINED
from streams.overlay import Overlay
from streams.partitioner import partition_of
from streams.ports import Batch, Record
from streams.rows import (
    ClaimRow,
    EventRow,
    Head,
    Mark,
    QuarantineRow,
    SessionRow,
    SlotRow,
    SpaceRow,
    TombstoneRow,
    decode,
    decode_offset,
    encode,
    encode_head,
)
from streams.values import digest_of, same

MAIN = "main"
CHECKPOINT_OFFSETS = 1024
RULES = frozenset({ev.SlotDeclared, ev.PolicySet, ev.ActorDistrusted, ev.ActorTrusted})


_encode_content = msgspec.msgpack.Encoder(order="deterministic").encode


def content(event: ev.Event) -> bytes:
    """What an event says, as bytes: equal for equal events only (as Python compares, 1 would be 1.0 and True).

    Without the producer's clock and what it had been shown: a call that is repeated says the same at another moment.
    """
    return _encode_content(msgspec.structs.replace(event, recorded_at=0, seen=None))


class Refused(Exception):
    """A record that does not count. `code` is one of a fixed few, for counting; the text says what is wrong."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def fold(batch: Batch, rows: Overlay, head: Head, codec: Codec) -> Head:
    """Put the rows that `batch` makes into `rows` and return the head after it, which is put there too.

    Records below `head.next_offset` are skipped, so a batch may overlap what was folded before.
    """
    folding = _Folding(rows, head, codec)
    folding.run([record for record in batch.records if record.offset >= head.next_offset])
    head = msgspec.structs.replace(folding.head, next_offset=max(batch.next_offset, folding.head.next_offset))
    if folding.last is not None:
        head.last_record = record_hash(folding.last)
    rows.put(keys.HEAD, encode_head(head))
    return head


def record_hash(record: Record) -> bytes:
    """SHA-256 of everything the log holds of one record, to know it again."""
    return hashlib.sha256(encode(record[1:])).digest()


def chained(chain: bytes, record: Record) -> bytes:
    """The hash chain after `record`: SHA-256 of the chain before it and of everything the log holds of the record, as
    a MessagePack array of offset, append time, key, value and headers."""
    return hashlib.sha256(chain + encode(record[1:])).digest()


class _Folding:
    """One batch on its way. Rows that many events touch are kept decoded until the end of the batch."""

    def __init__(self, rows: Overlay, head: Head, codec: Codec) -> None:
        self.rows = rows
        self.head = msgspec.structs.replace(head)
        self.codec = codec
        self.last: Record | None = None
        self.spaces: dict[str, SpaceRow] = {}
        self.slots: dict[bytes, SlotRow] = {}
        self.changed_slots: set[bytes] = set()
        self.sessions: dict[bytes, SessionRow] = {}

    def run(self, records: Sequence[Record]) -> None:
        self.last = records[-1] if records else None
        read = [(record, *self._read(record)) for record in records]
        self._prefetch(found for _, _, found in read if isinstance(found, ev.Event))
        for record, append_time, found in read:
            if record.offset < self.head.next_offset:  # delivered twice within one batch
                continue
            self._chain(record)
            try:
                if isinstance(found, Refused):
                    raise found
                self._apply(record, append_time, found)
            except Refused as refused:
                self._quarantine(record, append_time, found, refused)
        self._put_kept_rows()

    def _chain(self, record: Record) -> None:
        if record.offset // CHECKPOINT_OFFSETS > self.head.last_offset // CHECKPOINT_OFFSETS:
            self.rows.put(keys.checkpoint(record.offset), self.head.chain)
        self.head.chain = chained(self.head.chain, record)
        self.head.last_offset = record.offset
        self.head.next_offset = record.offset + 1

    def _read(self, record: Record) -> tuple[Micros, ev.Event | Refused]:
        """The append time, the log's or the one a copy kept, and what the record says as far as it alone can tell."""
        append_time, mark = record.append_time, None
        for name, content in record.headers:
            if name == APPEND_TIME:
                if not content.isdigit() or len(content) > 18 or int(content) > LATEST:
                    return append_time, Refused("invalid", f"header {APPEND_TIME} is no time in µs since 1970")
                append_time = int(content)
            elif name == QUARANTINED:
                mark = content.decode(errors="replace")
        if mark is not None:
            code, _, reason = mark.partition(": ")
            return append_time, Refused(code or "invalid", reason or f"header {QUARANTINED} gives no reason")
        return append_time, self._event(record)

    def _event(self, record: Record) -> ev.Event | Refused:
        if record.value is None or not record.value:
            return Refused("empty", "the record has no value")
        if not record.key:
            return Refused("no_key", "the record has no key, and the key is the space")
        if len(record.value) > MAX_EVENT_BYTES:
            return Refused("oversized", f"{len(record.value):,} bytes, and an event has at most {MAX_EVENT_BYTES:,}")
        try:
            event = self.codec.decode(record.value)
            check(event)
        except UndecodableEvent as error:
            return Refused("undecodable", str(error))
        except InvalidEvent as error:
            return Refused("invalid", str(error))
        if event.space.encode() != record.key:
            return Refused("wrong_key", f"the key is not the event's space {event.space!r}")
        belongs = partition_of(record.key, self.head.partitions)
        if belongs != self.head.partition:
            return Refused(
                "wrong_partition",
                f"space {event.space!r} belongs in partition {belongs}; the producer must use murmur2",
            )
        return event

    def _prefetch(self, events: Iterable[ev.Event]) -> None:
        wanted: set[bytes] = set()
        for event in events:
            space = event.space
            wanted.add(keys.event_id(space, event.event_id))
            wanted.add(keys.space(space))
            if event.cause is not None:
                wanted.add(keys.event_id(space, event.cause))
            if event.session is not None:
                wanted.add(keys.session(space, event.session))
            if isinstance(event, (ev.FactAsserted, ev.FactEnded)):
                wanted.add(keys.slot(keys.slot_part(space, event.entity, event.slot)))
        self.rows.prefetch(wanted)

    def _apply(self, record: Record, append_time: Micros, event: ev.Event) -> None:
        id_key = keys.event_id(event.space, event.event_id)
        known = self.rows.get(id_key)
        if known is not None:
            self._again(event, decode_offset(known))
            return
        if event.branch != MAIN:
            raise Refused("unknown_branch", f"the space has no branch {event.branch!r}")
        space = self._space(event.space)
        if space is not None:
            append_time = max(space.append_time, append_time)
        root = self._root(event, record.offset)
        place = _Place(record.offset, append_time, root)
        effect = _EFFECTS.get(type(event))
        if effect is not None:
            effect(self, event, place)
        assert record.value is not None
        raw = record.value if record.value[:2] == MARKER else self.codec.encode(event)
        self.rows.put(keys.event(event.space, record.offset), encode(EventRow(append_time, root, raw)))
        self.rows.put(id_key, encode(record.offset))
        if event.session is not None:
            self._session(event, event.session, record.offset)
        if space is None:
            space = self.spaces[event.space] = SpaceRow(0, record.offset, record.offset, append_time)
        space.events += 1
        space.last_offset = record.offset
        space.append_time = append_time
        if type(event) in RULES:
            space.rules_changed = record.offset
            self.rows.put(keys.rule(event.space, record.offset), b"")
        self.head.applied += 1

    def _again(self, event: ev.Event, offset: int) -> None:
        row = self.rows.get(keys.event(event.space, offset))
        assert row is not None, "an id row without its event row"
        if content(self.codec.decode(decode(EventRow, row).event)) != content(event):
            raise Refused("conflict", f"event {id_text(event.event_id)} is at offset {offset} with other content")
        self.head.duplicates += 1

    def _quarantine(self, record: Record, append_time: Micros, found: ev.Event | Refused, refused: Refused) -> None:
        event = found if isinstance(found, ev.Event) else None
        row = QuarantineRow(
            refused.code,
            str(refused),
            append_time,
            event.space if event is not None else None,
            event.event_id if event is not None else None,
        )
        self.rows.put(keys.quarantined(record.offset), encode(row))
        self.head.quarantined += 1

    def _put_kept_rows(self) -> None:
        for name, space in self.spaces.items():
            self.rows.put(keys.space(name), encode(space))
        for part in self.changed_slots:
            self.rows.put(keys.slot(part), encode(self.slots[part]))
        for key, session in self.sessions.items():
            self.rows.put(key, encode(session))

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

    def _session(self, event: ev.Event, name: str, offset: int) -> None:
        key = keys.session(event.space, name)
        if key not in self.sessions:
            row = self.rows.get(key)
            self.sessions[key] = SessionRow(0, offset, offset) if row is None else decode(SessionRow, row)
        session = self.sessions[key]
        session.events += 1
        session.last_offset = offset
        if isinstance(event, ev.SessionStarted):
            session.agent = event.agent
        elif isinstance(event, ev.SessionEnded):
            session.ended, session.outcome = True, event.outcome
        self.rows.put(keys.session_event(event.space, name, offset), b"")

    def _root(self, event: ev.Event, offset: int) -> int:
        """Offset of the first event in the chain of causes; a cause that isn't known yet is no link."""
        if event.cause is None:
            return offset
        known = self.rows.get(keys.event_id(event.space, event.cause))
        if known is None:
            return offset
        row = self.rows.get(keys.event(event.space, decode_offset(known)))
        assert row is not None, "an id row without its event row"
        return decode(EventRow, row).root

    def _assert_fact(self, event: ev.FactAsserted, place: _Place) -> None:
        at = place.append_time if event.valid_from is None else event.valid_from
        if event.valid_to is not None and event.valid_to <= at:
            raise Refused(
                "invalid",
                f"valid_to {rfc3339(event.valid_to)} is not after {rfc3339(at)}, when the fact begins to hold",
            )
        self._claim(event, place, at, until=event.valid_to, ended=False)

    def _end_fact(self, event: ev.FactEnded, place: _Place) -> None:
        self._claim(event, place, place.append_time if event.at is None else event.at, until=None, ended=True)

    def _claim(
        self, event: ev.FactAsserted | ev.FactEnded, place: _Place, at: int, *, until: int | None, ended: bool
    ) -> None:
        part = keys.slot_part(event.space, event.entity, event.slot)
        slot = self._slot(part)
        earlier: tuple[Mark, ...] = ()
        if slot.retractions and place.root < place.offset:
            earlier = tuple(
                mark
                for mark in slot.retractions
                if mark.offset > place.root and (mark.value is None or same(mark.value, event.value))
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

    def _retract(self, event: ev.FactRetracted, place: _Place) -> None:
        mark = Mark(place.offset, place.append_time, event.actor, None, event.value)
        if event.target is not None:
            key, row = self._claim_named(event.space, event.target)
            row.retractions = (*row.retractions, mark)
            self.rows.put(key, encode(row))
            return
        assert event.entity is not None
        assert event.slot is not None
        part = keys.slot_part(event.space, event.entity, event.slot)
        reached = [
            (key, row)
            for key, row in ((key, decode(ClaimRow, data)) for key, data in self.rows.scan(*keys.claims_of(part)))
            if event.value is None or same(row.value, event.value)
        ]
        if not reached:
            what = f"{event.entity} {event.slot}" + ("" if event.value is None else f" = {event.value!r}")
            raise Refused("unknown_target", f"no fact or end of {what} is known")
        for key, row in reached:
            # a later retraction by an actor counts only through views in which the earlier one does
            if all(known.actor != mark.actor for known in row.retractions):
                row.retractions = (*row.retractions, mark)
                self.rows.put(key, encode(row))
        slot = self._slot(part)
        slot.retractions = (*slot.retractions, mark)
        self.changed_slots.add(part)

    def _review(self, event: ev.FactReviewed, place: _Place) -> None:
        key, row = self._claim_named(event.space, event.target)
        row.reviews = (*row.reviews, Mark(place.offset, place.append_time, event.actor, event.verdict))
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

    def _tombstone(self, event: ev.ValueForbidden | ev.ValueAllowed, place: _Place, *, forbidden: bool) -> None:
        part = keys.slot_part(event.space, event.entity, event.slot)
        digest = digest_of(part, event.value) if event.value is not None else event.value_hash
        assert digest is not None
        row = TombstoneRow(forbidden, event.actor, place.append_time)
        self.rows.put(keys.tombstone(part, digest, place.offset), encode(row))
        slot = self._slot(part)
        slot.tombstones += 1
        self.changed_slots.add(part)

    def _pin(self, event: ev.FactPinned, place: _Place) -> None:
        self._claim_named(event.space, event.target)

    def _distrust(self, event: ev.ActorDistrusted, place: _Place) -> None:
        if event.since_event is not None:
            self._event_named(event.space, event.since_event)


class _Place(msgspec.Struct, frozen=True):
    """Where an event stands: its offset, its effective append time and the offset of its root cause."""

    offset: int
    append_time: int
    root: int


_EFFECTS: dict[type[ev.Event], Callable[..., None]] = {
    ev.FactAsserted: _Folding._assert_fact,
    ev.FactEnded: _Folding._end_fact,
    ev.FactRetracted: _Folding._retract,
    ev.FactReviewed: _Folding._review,
    ev.FactPinned: _Folding._pin,
    ev.ValueForbidden: partial(_Folding._tombstone, forbidden=True),
    ev.ValueAllowed: partial(_Folding._tombstone, forbidden=False),
    ev.ActorDistrusted: _Folding._distrust,
}
