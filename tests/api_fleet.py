"""Two workers without Kafka: one log of two partitions, each an SQLite file, and a Memory for each worker's half."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from schemas.codec import Codec
from schemas.errors import NotServing
from streams import partitions as streams_partitions
from streams.answers import Receipt
from streams.catchup import Followed
from streams.clock import now_micros
from streams.local import LocalMemory
from streams.partitioner import partition_of
from streams.ports import Batch, Message, Position
from streams.reads import Reads
from streams.sqlite_log import SqliteLog
from streams.status import PartitionStatus, WorkerStatus
from streams.stores import Store

HALVES = 2


class PairLog:
    """A log of two partitions (`ports.Log`)."""

    def __init__(self, folder: Path) -> None:
        self._logs = [SqliteLog(folder / f"log{one}", busy_timeout_s=30, clock=now_micros) for one in range(HALVES)]
        self.identity = self._logs[0].identity
        self.partitions = HALVES

    def partition_of(self, key: bytes) -> int:
        return partition_of(key, HALVES)

    def append(self, messages: Sequence[Message]) -> list[Position]:
        found = []
        for message in messages:
            number = self.partition_of(message.key)
            (at,) = self._logs[number].append([message])
            found.append(Position(number, at.offset))
        return found

    def start(self, partition: int) -> int:
        return self._logs[partition].start(0)

    def end(self, partition: int) -> int:
        return self._logs[partition].end(0)

    def read(self, partition: int, start: int, end: int | None = None) -> Iterator[Batch]:
        for batch in self._logs[partition].read(0, start, end):
            yield Batch([record._replace(partition=partition) for record in batch.records], batch.next_offset)

    def flaws(self) -> list[str]:
        return []

    def close(self) -> None:
        for log in self._logs:
            log.close()


class HalfMemory(LocalMemory):
    """A Memory that answers for some partitions, as a worker's does."""

    mine: set[int]

    def _fresh(self, space: str) -> Reads:
        number = self._log.partition_of(space.encode())
        if number not in self.mine:
            raise NotServing(f"partition {number} is not answered for here", hint="ask again: it is routed anew")
        return super()._fresh(space)

    @contextmanager
    def _all_at_once(self) -> Iterator[Sequence[Followed]]:
        with super()._all_at_once() as followers:
            yield [one for one in followers if one.head.partition in self.mine]

    def _settled(self, receipts: list[Receipt]) -> list[Receipt]:
        return receipts


def half_of(folder: Path, name: str, *mine: int) -> HalfMemory:
    """The Memory of a worker, with tables of its own over the log in `folder`."""
    store = Store(name, PairLog(folder), folder / name, Codec())
    with patch.object(streams_partitions, "open_store", lambda *_, **__: store):
        made = HalfMemory(name, actor=f"agent:{name}", hold=True, create=True, max_value_bytes=1000, timeout_s=30.0)
    made.mine = set(mine)
    return made


class Halves:
    """What a worker knows of the other one (`ports.Fleet`)."""

    def __init__(self, memory: HalfMemory, name: str) -> None:
        self._memory = memory
        self._name = name
        self.other: str | None = None

    def elsewhere(self, space: str) -> str | None:
        number = partition_of(space.encode(), HALVES)
        if number in self._memory.mine:
            return None
        if self.other is None:
            raise NotServing(f"no worker is known to answer for partition {number}")
        return self.other

    def others(self) -> Sequence[str]:
        return [] if self.other is None else [self.other]

    def status(self) -> WorkerStatus:
        partitions = tuple(
            PartitionStatus(number, "active", "live", 0, 0, 0, ready=True) for number in sorted(self._memory.mine)
        )
        return WorkerStatus(self._name, None, True, True, partitions, ())

    async def changed(self, space: str, timeout_s: float) -> None:
        await asyncio.sleep(min(timeout_s, 0.02))
