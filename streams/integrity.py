"""Proof that the log and the tables are what they were: the hash chain, record by record, and a second fold.

The head of the tables holds the hash chain over every record folded, and there is a checkpoint of it about every 1,024
offsets, so damage is found between two checkpoints; the events kept in the tables then name the very record.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.codec import Codec
from schemas.errors import LogTruncated, StoreDamaged, UndecodableEvent
from streams import keys
from streams.digest import digests
from streams.fold import CHECKPOINT_OFFSETS, chained
from streams.ports import Log, Position, Record
from streams.rows import EventRow, Head, Rows, decode


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was. `position` is the record, None where no one record can be named; `in_tables`
    tells what a rebuild mends from damage to the log."""

    position: Position | None
    what: str
    in_tables: bool = False


def verify_log(log: Log, head: Head, rows: Rows, codec: Codec) -> Problem | None:
    """The first place where the log below `head.next_offset` is not what was folded; None when all of it is."""
    chain, expected = bytes(32), 0
    since: list[Record] = []
    try:
        for batch in log.read(head.partition, 0, head.next_offset):
            for record in batch.records:
                if record.offset // CHECKPOINT_OFFSETS > (expected - 1) // CHECKPOINT_OFFSETS:
                    if rows.get(keys.checkpoint(record.offset)) != chain:
                        return _located(since, head.partition, rows, codec)
                    since = []
                chain, expected = chained(chain, record), record.offset + 1
                since.append(record)
    except (LogTruncated, StoreDamaged) as error:
        return Problem(None, str(error))
    return None if chain == head.chain else _located(since, head.partition, rows, codec)


def verify_tables(rows: Rows, folded: Rows) -> list[Problem]:
    """Spaces whose rows are not what a second fold of the log, `folded`, makes of it."""
    kept, again = digests(rows), digests(folded)
    return [
        Problem(None, f"the tables of space {name!r} are not what the log says", in_tables=True)
        for name in sorted(kept.keys() | again.keys())
        if kept.get(name) != again.get(name)
    ]


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
        return decode(EventRow, kept).event == codec.encode(event)
    return rows.get(keys.event_id(event.space, event.event_id)) is not None
