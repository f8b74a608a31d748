"""The fold: records of one partition in, rows out. Pure: it reads rows and nothing else, no clock and no setting.

A record counts, is a duplicate of one that counts, or is quarantined with a reason while the partition goes on; the
log keeps its bytes either way. Whoever folds the same records gets the same rows, however they were split into batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from schemas import events as ev
from schemas.checks import MAX_EVENT_BYTES, check
from schemas.codec import MARKER, Codec
from schemas.errors import InvalidEvent, UndecodableEvent
from schemas.jsonform import id_text
from schemas.times import LATEST, Micros
from streams import keys
from streams.branching import BRANCHING, MAIN
from streams.effects import EFFECTS, Effects, Place, Refused
from streams.envelope import APPEND_TIME, QUARANTINED
from streams.overlay import Overlay
from streams.partitioner import partition_of
from streams.ports import Batch, Record
from streams.rows import (
    PINNED_CLAIM,
    PINNED_OTHER,
    EventRow,
    Head,
    PinRow,
    QuarantineRow,
    SessionRow,
    SpaceRow,
    decode,
    decode_offset,
    encode,
    encode_head,
)

CHECKPOINT_OFFSETS = 1024
RULES = frozenset({ev.SlotDeclared, ev.PolicySet, ev.ActorDistrusted, ev.ActorTrusted})


_encode_content = msgspec.msgpack.Encoder(order="deterministic").encode


def content(event: ev.Event) -> bytes:
    """What an event says, as bytes: equal for equal events only (as Python compares, 1 would be 1.0 and True).

    Without the producer's clock and what it had been shown: a call that is repeated says the same at another moment.
    """
    return _encode_content(msgspec.structs.replace(event, recorded_at=0, seen=None))


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


class _Folding(Effects):
    """One batch on its way. Rows that many events touch are kept decoded until the end of the batch."""

    def __init__(self, rows: Overlay, head: Head, codec: Codec) -> None:
        super().__init__(rows, codec)
        self.head = msgspec.structs.replace(head)
        self.last: Record | None = None
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
        except UndecodableEvent as error:
            return Refused("undecodable", str(error))
        try:
            check(event)
        except InvalidEvent as error:
            return Refused("invalid", str(error), event)
        if event.space.encode() != record.key:
            return Refused("wrong_key", f"the key is not the event's space {event.space!r}", event)
        belongs = partition_of(record.key, self.head.partitions)
        if belongs != self.head.partition:
            reason = f"space {event.space!r} belongs in partition {belongs}; the producer must use murmur2"
            return Refused("wrong_partition", reason, event)
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
        if event.branch != MAIN and not isinstance(event, ev.BranchForked):
            self._check_branch(event.space, event.branch)
        space = self._space(event.space)
        if space is not None:
            append_time = max(space.append_time, append_time)
        root = self._root(event, record.offset)
        place = Place(record.offset, append_time, root)
        effect = EFFECTS.get(type(event))
        if effect is not None:
            effect(self, event, place)
        assert record.value is not None
        raw = record.value if record.value[:2] == MARKER else self.codec.encode(event)
        self.rows.put(keys.event(event.space, record.offset), encode(EventRow(append_time, root, raw)))
        self.rows.put(id_key, encode(record.offset))
        if event.branch != MAIN:
            self.rows.put(keys.branch_event(event.space, event.branch, record.offset), b"")
        if event.session is not None:
            self._session(event, event.session, record.offset)
        if space is None:
            space = self.spaces[event.space] = SpaceRow(0, record.offset, record.offset, append_time)
        space.events += 1
        space.last_offset = record.offset
        space.append_time = append_time
        if event.code is not None:
            self._pin_to_commit(event, event.code.sha, space, record.offset)
        self._note_kind(event, space, record.offset)
        self.head.applied += 1

    def _note_kind(self, event: ev.Event, space: SpaceRow, offset: int) -> None:
        kind = type(event)
        if kind in RULES:
            space.rules_changed = offset
            self.rows.put(keys.rule(event.space, offset), b"")
        elif kind in BRANCHING:
            space.branches_changed = offset
        elif kind is ev.CommitSeen:
            space.commits_changed = offset

    def _pin_to_commit(self, event: ev.Event, sha: str, space: SpaceRow, offset: int) -> None:
        """Keep which events about slots are pinned to the commit."""
        is_claim = isinstance(event, (ev.FactAsserted, ev.FactEnded))
        if not is_claim and not isinstance(event, (ev.FactRetracted, ev.FactReviewed)):
            return
        self.rows.put(keys.pinned_event(event.space, sha, offset), PINNED_CLAIM if is_claim else PINNED_OTHER)
        key = keys.pin(event.space, sha)
        known = self.rows.get(key)
        row = PinRow() if known is None else decode(PinRow, known)
        self.rows.put(key, encode(PinRow(row.claims + 1, offset) if is_claim else row))
        space.pins_changed = offset

    def _again(self, event: ev.Event, offset: int) -> None:
        row = self.rows.get(keys.event(event.space, offset))
        assert row is not None, "an id row without its event row"
        if content(self.codec.decode(decode(EventRow, row).event)) != content(event):
            raise Refused("conflict", f"event {id_text(event.event_id)} is at offset {offset} with other content")
        self.head.duplicates += 1

    def _quarantine(self, record: Record, append_time: Micros, found: ev.Event | Refused, refused: Refused) -> None:
        event = found if isinstance(found, ev.Event) else refused.event
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
