"""Proof that the log and the tables are what they were: the hash chain, record by record, and a second fold.

The head of the tables holds the hash chain over every record folded, and there is a checkpoint of it about every 1,024
offsets, so damage is found between two checkpoints; the events kept in the tables then name the very record. Tables
that two folds of the same records made are equal byte for byte, whatever the batches were.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from schemas.codec import Codec
from schemas.errors import LogTruncated, StoreDamaged, UndecodableEvent
from streams import keys
from streams.catchup import Follower
from streams.fold import CHECKPOINT_OFFSETS, chained
from streams.ports import Log, Position, Record
from streams.rows import EventRow, Head, Rows, decode, decode_offset

_OF_A_SPACE = b"PEIFLNSRZ"
_PAST_ALL_KEYS = b"\xff" * 8


class Problem(msgspec.Struct, frozen=True):
    """Something that is not as it was. `position` is the record, None where no one record can be named; `in_tables`
    tells what a rebuild mends from damage to the log."""

    position: Position | None
    what: str
    in_tables: bool = False


def verify_log(log: Log, head: Head, rows: Rows, codec: Codec) -> Problem | None:
    """The first place where the log below `head.next_offset` is not what was folded; None when all of it is."""
    chain, expected = bytes(32), 0
    since: list[Record] = []
    suspects: list[Record] | None = None
    for record in _records(log, head):
        if isinstance(record, Problem):
            return record
        if record.offset // CHECKPOINT_OFFSETS > (expected - 1) // CHECKPOINT_OFFSETS:
            checkpoint = rows.get(keys.checkpoint(record.offset))
            if checkpoint is not None:
                if checkpoint != chain and suspects is None:
                    suspects = since
                since = []
        chain, expected = chained(chain, record), record.offset + 1
        since.append(record)
    if chain == head.chain:  # it stands for every record, so a checkpoint that differs is the tables' own fault
        return None
    return _located(since if suspects is None else suspects, head.partition, rows, codec)


def fold_again(log: Log, head: Head, folder: Path, codec: Codec) -> Follower:
    """A second fold of the log into fresh tables in `folder`, up to where `head` is. The caller closes it."""
    again = Follower(log, head.partition, folder, codec, hold=True)
    try:
        again.take()
        for batch in again.batches(head.next_offset):
            again.fold(batch)
    except BaseException:
        again.close()
        raise
    return again


def verify_tables(rows: Rows, folded: Rows) -> list[Problem]:
    """What in the rows is not what a second fold of the log, `folded`, makes of it: spaces by name, then the rest."""
    found: dict[str, None] = {}
    for key in _differing(rows, folded):
        found[_named(key)] = None
    spaces = sorted(name for name in found if name.startswith("the tables of"))
    return [
        Problem(None, f"{name} are not what the log says", in_tables=True)
        for name in (*spaces, *(name for name in found if name not in spaces))
    ]


def _records(log: Log, head: Head) -> Iterator[Record | Problem]:
    """Every record below the head, or what is wrong with the log where it can't be read."""
    try:
        for batch in log.read(head.partition, 0, head.next_offset):
            yield from batch.records
    except (LogTruncated, StoreDamaged) as error:
        yield Problem(None, str(error))


def _differing(rows: Rows, folded: Rows) -> Iterator[bytes]:
    """Keys of rows that differ, ascending."""
    left, right = rows.scan(b"", _PAST_ALL_KEYS), folded.scan(b"", _PAST_ALL_KEYS)
    kept, again = next(left, None), next(right, None)
    while kept is not None or again is not None:
        if again is None or (kept is not None and kept[0] < again[0]):
            assert kept is not None
            yield kept[0]
            kept = next(left, None)
        elif kept is None or again[0] < kept[0]:
            yield again[0]
            again = next(right, None)
        else:
            if kept != again:
                yield kept[0]
            kept, again = next(left, None), next(right, None)


def _named(key: bytes) -> str:
    family = key[:1]
    if family and family in _OF_A_SPACE:
        try:
            return f"the tables of space {keys.texts(key, 1)[0]!r}"
        except ValueError:  # no key of ours
            return "rows under keys that are none of ours"
    rest = {b"M": "the head and its counts", b"Q": "the quarantine's rows", b"C": "the hash chain's checkpoints"}
    return rest.get(family, "rows under keys that are none of ours")


def _located(records: list[Record], partition: int, rows: Rows, codec: Codec) -> Problem:
    """The first of `records` that is not what was folded there, or the stretch when no single one can be named."""
    for record in records:
        if not _was_folded(record, rows, codec):
            return Problem(Position(partition, record.offset), "the record is not the one that was folded here")
    if not records:
        return Problem(None, f"records of partition {partition} that were folded are missing")
    first, last = records[0].offset, records[-1].offset
    return Problem(
        Position(partition, first),
        f"between offsets {first} and {last} a record is missing, or its key, time or headers were changed",
    )


def _was_folded(record: Record, rows: Rows, codec: Codec) -> bool:
    """Whether the tables have this record at its offset: as an event, as quarantined, or as a duplicate of an event."""
    if rows.get(keys.quarantined(record.offset)) is not None:
        return True
    try:
        event = codec.decode(record.value or b"")
    except UndecodableEvent:
        return False
    kept = rows.get(keys.event(event.space, record.offset))
    if kept is not None:
        return record.key == event.space.encode() and decode(EventRow, kept).event in (
            record.value,
            codec.encode(event),
        )
    known = rows.get(keys.event_id(event.space, event.event_id))
    return known is not None and decode_offset(known) < record.offset
