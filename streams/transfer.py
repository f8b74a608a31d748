"""Moving events to another log, byte for byte: a copy, or by way of an archive. Doing it twice changes nothing.

Every record is carried with the marks of a copy (`envelope.py`), so the append time that counts survives, and what was
quarantined stays so. Records that change nothing, the duplicates, are left out, and so is what the target has already.

Where the target has events of the same space, the moved ones come after them, and their append times are never before
theirs. An event whose id is there with other content becomes a conflict there, as it would if it were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from schemas.archive import Archived
from schemas.codec import Codec
from schemas.errors import InvalidInput, UndecodableEvent
from schemas.events import Event
from streams.catchup import Follower
from streams.envelope import copied
from streams.limits import check_limits
from streams.ports import Log, Message, Record
from streams.reads import Reads

_BATCH_RECORDS = 1_000
_MARK_CHARACTERS_MAX = 2_000

Progress = Callable[[int], None]
"""Called with the number of records read so far."""


class Transferred(msgspec.Struct, frozen=True):
    """How many records were appended to the target, and how many it had already. `left_out`: what a foreign producer
    wrote that never counted and is larger than a log of ours takes."""

    appended: int
    known: int
    left_out: int = 0


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
        append_time, mark = refused.append_time, f"{refused.code}: {refused.reason}"[:_MARK_CHARACTERS_MAX]
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
    appended = read = 0
    waiting = iter(records)
    while batch := list(islice(waiting, _BATCH_RECORDS)):
        messages = target.missing(batch)
        target.log.append(messages)
        appended += len(messages)
        read += len(batch)
        if progress is not None:
            progress(read)
    return Transferred(appended, read - appended - target.left_out, target.left_out)


class Target:
    """The log that records go to. `fresh` brings a space's tables to the end of it, `quarantined` lists what it holds
    of records that don't count, as (key, value)."""

    def __init__(
        self, log: Log, codec: Codec, fresh: Callable[[str], Reads], quarantined: Iterable[tuple[bytes, bytes]]
    ) -> None:
        self.log = log
        self.left_out = 0
        self._codec = codec
        self._fresh = fresh
        self._quarantined = set(quarantined)

    def missing(self, records: list[Archived]) -> list[Message]:
        """Messages for those of `records` that the target does not have."""
        found: list[Message] = []
        coming: dict[tuple[str, bytes], Event] = {}
        reads: dict[str, Reads] = {}
        for record in records:
            if record.quarantined is not None:
                if not self._is_news(record):
                    continue
            else:
                event = self._event(record)
                if event.space not in reads:
                    reads[event.space] = self._fresh(event.space)
                known = coming.get((event.space, event.event_id))
                if known is None and (recorded := reads[event.space].find(event.space, event.event_id)) is not None:
                    known = recorded.event
                if known is None:
                    coming[event.space, event.event_id] = event
                elif self._codec.encode(known) == self._codec.encode(event) or not self._is_news(record):
                    continue
            message = _message(record)
            if record.quarantined is not None and not _fits(message):
                self.left_out += 1
                continue
            found.append(message)
        return found

    def _is_news(self, record: Archived) -> bool:
        """Whether the target does not have a record that does not count there, which it will have from now on."""
        identity = record.key, record.value
        if identity in self._quarantined:
            return False
        self._quarantined.add(identity)
        return True

    def _event(self, record: Archived) -> Event:
        try:
            return self._codec.decode(record.value)
        except UndecodableEvent as error:
            raise UndecodableEvent(
                f"record {record.partition}:{record.offset} counts and can't be read: {error}"
            ) from error


def _fits(message: Message) -> bool:
    try:
        check_limits([message])
    except InvalidInput:
        return False
    return True


def _message(record: Archived) -> Message:
    original = Record(record.partition, record.offset, record.append_time, record.key, record.value, record.headers)
    return copied(original, record.append_time, record.quarantined)
