"""What streams needs from outside, as small protocols: a log to append to and to read, and who answers for what.

Both logs hold the same bytes and are held to the same contract (`tests/contract/test_log.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from streams.status import WorkerStatus

Headers = tuple[tuple[str, bytes], ...]

MAX_MESSAGE_BYTES = 1_000_000
"""The most that one message's value may be, on both logs: a little below Kafka's default `max.message.bytes`."""


class Position(NamedTuple):
    """Where an event is. Inside a space the offset alone orders events."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


_OFFSET = re.compile(r"-?[0-9]{1,18}")
_POSITION = re.compile(r"([0-9]{1,9}):(-?[0-9]{1,18})")


def place_of(text: str) -> int | Position | None:
    """What `OFFSET` or `PARTITION:OFFSET` says; None for any other text."""
    if _OFFSET.fullmatch(text):
        return int(text)
    pair = _POSITION.fullmatch(text)
    return None if pair is None else Position(int(pair[1]), int(pair[2]))


class Message(NamedTuple):
    """What is appended: the space as key, one encoded event as value."""

    key: bytes
    value: bytes
    headers: Headers = ()


class Record(NamedTuple):
    """What is read back. A foreign producer may have left `key` or `value` out.

    `append_time` is the log's own clock in microseconds since 1970 UTC (Kafka's is in whole milliseconds). It is not
    monotone by itself on every log; the fold makes it so.
    """

    partition: int
    offset: int
    append_time: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Batch(NamedTuple):
    """Records of one partition in ascending order of offset.

    `next_offset` is where to read on. It may lie past the last record + 1: offsets of aborted transactions and
    of transaction markers hold no record.
    """

    records: list[Record]
    next_offset: int


class Log(Protocol):
    """One append-only log of one or more partitions."""

    @property
    def identity(self) -> str:
        """Names this very log for ever: another one of the same name has another identity."""

    @property
    def partitions(self) -> int:
        """How many partitions there are, fixed at creation."""

    def partition_of(self, key: bytes) -> int:
        """The partition that messages of this key go to."""

    def append(self, messages: Sequence[Message]) -> list[Position]:
        """Append durably, in order within a key. Returns a position per message, in the order given.

        On return every message is acknowledged and survives a crash. On an error of SqliteLog none is there; on an
        error of KafkaLog some may be, and the same messages may be appended again (the fold knows duplicates by id).

        Raises:
            InvalidInput: a message is larger than the log takes.
            StoreBusy, LogUnreachable: not acknowledged in time.
            StoreFull: no room.
        """

    def start(self, partition: int) -> int:
        """Offset of the first record still retained (0 unless something was deleted)."""

    def end(self, partition: int) -> int:
        """Next offset: every record acknowledged before this call lies below it.

        Records of a transaction still open are beyond it, as they are for every reader.
        """

    def read(self, partition: int, start: int, end: int | None = None) -> Iterator[Batch]:
        """Batches from offset `start`, inclusive, to `end`, exclusive; an `end` beyond the end of the log as of this
        call, like the default, means that end.

        Every batch but the last holds at least one record; the last one's `next_offset` is that end, even when nothing
        but markers lies before it. An empty range yields nothing.

        Raises:
            LogTruncated: `start` lies before the first retained record.
        """

    def flaws(self) -> list[str]:
        """What the storage itself finds wrong, in words; empty when nothing is."""

    def close(self) -> None:
        """Release files and connections. Twice is harmless."""


class Reachable(Protocol):
    """A commit of a clone with all its ancestors that the clone has."""

    @property
    def boundary(self) -> Sequence[str]:
        """Parents of them that the clone does not have: where a shallow clone ends."""

    def __contains__(self, sha: object, /) -> bool: ...


class Clone(Protocol):
    """A repository of the code, as far as a View needs it."""

    def reachable(self, sha: str) -> Reachable | None:
        """The commit with its ancestors, None when this clone does not have it."""

    def has(self, shas: Iterable[str]) -> set[str]:
        """Which of these are commits of this clone."""


class Fleet(Protocol):
    """Who answers for a space: what the web application asks of the process it runs in."""

    def elsewhere(self, space: str) -> str | None:
        """Base URL of the worker to ask about `space`; None when it is this process.

        Raises:
            NotServing: nobody is known to answer for it at the moment.
        """

    def others(self) -> Sequence[str]:
        """Base URLs of all other workers."""

    def status(self) -> WorkerStatus:
        """What this process says of itself. May read tables: call it in a thread."""

    async def changed(self, space: str, timeout_s: float) -> None:
        """Return when the space's partition may have moved on, and after `timeout_s` at the latest."""
