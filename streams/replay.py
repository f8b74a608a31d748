"""Replay: the log read again from an offset, told in order. The tables only say where to look and what counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from schemas.codec import Codec
from schemas.times import instant
from streams.answers import Recorded
from streams.ports import Log, Record
from streams.reads import Reads

FIRST_WINDOW_EVENTS = 100
WINDOW_EVENTS = 5_000
JOINED_GAP = 256

CurrentReads = Callable[[], Reads]
"""The partition's reads as they are now: between two windows the tables may have moved on."""


def replay_session(
    log: Log, partition: int, reads: CurrentReads, codec: Codec, space: str, session: str, start: int, stop: int
) -> Iterator[Recorded]:
    """Events of one session from offset `start`, inclusive, to `stop`, exclusive.

    The first is found through the session's own rows, so it takes as long in a long log as in a short one.
    """
    window = FIRST_WINDOW_EVENTS
    while offsets := list(islice(reads().session_offsets(space, session, start, stop), window)):
        window = WINDOW_EVENTS
        wanted = set(offsets)
        for first, last in _runs(offsets):
            for batch in log.read(partition, first, last + 1):
                yield from _recorded(
                    [record for record in batch.records if record.offset in wanted], reads(), codec, space
                )
        start = offsets[-1] + 1


def replay_space(
    log: Log, partition: int, reads: CurrentReads, codec: Codec, space: str, start: int, stop: int
) -> Iterator[Recorded]:
    """Events of a whole space from offset `start`, inclusive, to `stop`, exclusive."""
    key = space.encode()
    for batch in log.read(partition, start, stop):
        yield from _recorded([record for record in batch.records if record.key == key], reads(), codec, space)


def _recorded(records: list[Record], reads: Reads, codec: Codec, space: str) -> Iterator[Recorded]:
    """Those of `records` that count, decoded from the log's own bytes."""
    append_times = reads.append_times(space, [record.offset for record in records])
    for record, append_time in zip(records, append_times, strict=True):
        if append_time is not None and record.value is not None:
            yield Recorded(reads.position(record.offset), instant(append_time), codec.decode(record.value))


def _runs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """(first, last) of stretches worth reading at once: a small gap costs less to read over than to seek past."""
    first = last = offsets[0]
    for offset in offsets[1:]:
        if offset - last > JOINED_GAP:
            yield first, last
            first = offset
        last = offset
    yield first, last
