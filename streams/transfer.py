"""Moving events to another log, byte for byte: a copy, or by way of an archive. Doing it twice changes nothing.

Every record is carried with the marks of a copy (`envelope.py`), so the append time that counts survives, and what was
quarantined stays so. Records that change nothing, the duplicates, are left out, and so is what the target has already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from schemas.archive import Archived
from schemas.codec import Codec
from schemas.errors import UndecodableEvent
from streams.catchup import Follower
from streams.envelope import copied
from streams.ports import Log, Message, Record
from streams.reads import Reads

_BATCH_RECORDS = 1_000

Progress = Callable[[int], None]
"""Called with the number of records read so far."""


class Transferred(msgspec.Struct, frozen=True):
    """How many records were appended to the target, and how many it had already."""

    appended: int
    known: int


def outgoing(log: Log, followers: Iterable[Follower]) -> Iterator[Archived]:
    """Every record that counts or is quarantined, partition by partition in order; the followers are fresh."""
    for follower in followers:
        partition = follower.head.partition
        reads = follower.reads
        for batch in log.read(partition, log.start(partition), follower.head.next_offset):
            for record in batch.records:
                found = _as_counted(record, reads)
                if found is not None:
                    yield found


def _as_counted(record: Record, reads: Reads) -> Archived | None:
    refused = reads.quarantined_at(record.offset)
    if refused is not None:
        append_time, mark = refused.append_time, f"{refused.code}: {refused.reason}"
    else:
        counted = reads.append_times((record.key or b"").decode(errors="replace"), [record.offset])[0]
        if counted is None:
            return None
        append_time, mark = counted, None
    return Archived(
        record.partition, record.offset, append_time, record.key or b"", record.value or b"", record.headers, mark
    )


def incoming(records: Iterable[Archived], target: Target, progress: Progress | None = None) -> Transferred:
    """Append what the target does not have yet, in batches, in the order given."""
    appended = known = 0
    waiting = iter(records)
    while batch := list(islice(waiting, _BATCH_RECORDS)):
        messages = target.missing(batch)
        target.log.append(messages)
        appended += len(messages)
        known += len(batch) - len(messages)
        if progress is not None:
            progress(appended + known)
    return Transferred(appended, known)


class Target:
    """The log that records go to. `fresh` brings a space's tables to the end of it, `quarantined` lists what it holds
    of records that don't count, as (key, value)."""

    def __init__(
        self, log: Log, codec: Codec, fresh: Callable[[str], Reads], quarantined: Iterable[tuple[bytes, bytes]]
    ) -> None:
        self.log = log
        self._codec = codec
        self._fresh = fresh
        self._quarantined = set(quarantined)

    def missing(self, records: list[Archived]) -> list[Message]:
        """Messages for those of `records` that the target does not have."""
        found: list[Message] = []
        seen: set[tuple[str, bytes]] = set()
        reads: dict[str, Reads] = {}
        for record in records:
            if record.quarantined is not None:
                if (record.key, record.value) in self._quarantined:
                    continue
                self._quarantined.add((record.key, record.value))
            else:
                space, event_id = self._identity(record)
                if space not in reads:
                    reads[space] = self._fresh(space)
                if (space, event_id) in seen or reads[space].find(space, event_id) is not None:
                    continue
                seen.add((space, event_id))
            found.append(_message(record))
        return found

    def _identity(self, record: Archived) -> tuple[str, bytes]:
        try:
            event = self._codec.decode(record.value)
        except UndecodableEvent as error:
            raise UndecodableEvent(
                f"record {record.partition}:{record.offset} counts and can't be read: {error}"
            ) from error
        return event.space, event.event_id


def _message(record: Archived) -> Message:
    original = Record(record.partition, record.offset, record.append_time, record.key, record.value, record.headers)
    return copied(original, record.append_time, record.quarantined)
