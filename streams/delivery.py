"""From whatever delivers records to the tables: which partition is read in bulk, which live, and the way from one to
the other. One event loop; free of Faust, so that any delivery can be tried on it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from schemas.errors import LogUnreachable, NotFound, Unavailable
from streams import clock
from streams.hosting import Hosted
from streams.metrics import Metrics
from streams.ports import Record

LIVE_BATCH_RECORDS = 1_000
BULK_THREADS = 2
RETRY_S = 1.0
OBSERVED_PER_BATCH = 8

_log = logging.getLogger("slotlog.worker")
_Answer = TypeVar("_Answer")


class Deliverer(NamedTuple):
    """Whoever delivers records live. `pause`: stop for this partition. `hand_over`: deliver it from an offset on."""

    pause: Callable[[int], None]
    hand_over: Callable[[int, int], Awaitable[None]]


class Turns:
    """So many partitions at a time are read in bulk; the lowest rank that waits is next, and of one rank who came
    first. For one event loop, but `is_wanted` for any thread."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []

    @asynccontextmanager
    async def one(self, rank: int) -> AsyncIterator[bool]:
        """A turn, once it has come, until the block ends; False when it was called off before it came."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((rank, turn))
        self._give()
        try:
            yield await turn
        finally:
            if turn.done() and not turn.cancelled() and turn.result():
                self._free += 1
                self._give()

    def call_off(self) -> None:
        """Nobody needs wait any more."""
        for _, turn in self._waiting:
            if not turn.done():
                turn.set_result(False)
        self._waiting.clear()

    def is_wanted(self, rank: int) -> bool:
        """Whether somebody waits who goes before `rank`."""
        return any(waiting < rank for waiting, _ in list(self._waiting))

    def _give(self) -> None:
        self._waiting = [(rank, turn) for rank, turn in self._waiting if not turn.done()]  # cancelled ones are
        while self._free and self._waiting:
            first = min(self._waiting, key=lambda one: one[0])
            self._waiting.remove(first)
            self._free -= 1
            first[1].set_result(True)


class Delivery:
    """All partitions of one worker. What is delivered may come twice, late, with gaps, or from an assignment long over:
    the tables skip what they have and read from the log what they miss."""

    def __init__(
        self,
        hosted: Sequence[Hosted],
        deliverer: Deliverer,
        metrics: Metrics,
        *,
        behind: int,
        fail: Callable[[BaseException], None],
    ) -> None:
        """`fail` is told of what makes it impossible to go on."""
        self._hosted = hosted
        self._deliverer = deliverer
        self._metrics = metrics
        self._behind = behind
        self._fail = fail
        self._generation = 0
        self._assigned = False
        self._stopped = False
        self._arrived: list[list[Record]] = [[] for _ in hosted]
        self._folding: set[int] = set()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._moved = [asyncio.Event() for _ in hosted]
        self._turns = Turns(BULK_THREADS)
        self._bulk_threads = ThreadPoolExecutor(BULK_THREADS, thread_name_prefix="slotlog-bulk")
        self._live_threads = ThreadPoolExecutor(1, thread_name_prefix="slotlog-live")
        self._closing_threads = ThreadPoolExecutor(1, thread_name_prefix="slotlog-close")

    @property
    def is_assigned(self) -> bool:
        """Whether it is known which partitions are this worker's: not before the first assignment, and not between a
        revocation and the assignment that ends it."""
        return self._assigned

    @property
    def is_busy(self) -> bool:
        """Whether something is being opened, read, folded or closed."""
        return bool(self._folding) or any(not task.done() for task in self._tasks.values())

    def revoke(self, partitions: set[int]) -> None:
        """Answer for none of them from now on. Their tables stay open: most come back at once, as active or standby."""
        self._begin_anew()
        self._assigned = False
        for number in partitions:
            one = self._hosted[number]
            one.ready, one.role = False, None
            self._arrived[number].clear()

    def assign(self, active: set[int], standby: set[int]) -> None:
        """These partitions are this worker's now, and no others. Too late after `stop`."""
        if self._stopped:
            return
        self._begin_anew()
        self._assigned = True
        for number, one in enumerate(self._hosted):
            one.ready = False
            one.role = "active" if number in active else "standby" if number in standby else None
            self._arrived[number].clear()
            if one.role is None:
                self._next(number, self._in(self._closing_threads, one.close))
            else:
                one.state = "opening"
                self._next(number, self._catch_up(number, self._generation))

    def take(self, record: Record) -> None:
        """One record as it came. Dropped while the partition is read in bulk: that brings it."""
        number = record.partition
        one = self._hosted[number]
        if one.role != "active" or one.state != "live" or record.offset < one.next_offset:
            return
        arrived = self._arrived[number]
        if arrived and record.offset <= arrived[-1].offset:  # delivered again; if that leaves a gap, it is filled
            return
        arrived.append(record)
        if len(arrived) > self._behind:
            self.fall_back(number)
        elif number not in self._folding:
            self._folding.add(number)
            asyncio.ensure_future(self._fold_arrived(number)).add_done_callback(self._check)

    def fall_back(self, number: int) -> None:
        """Read the partition in bulk until it has caught up. Too late after `stop`."""
        if self._stopped:
            return
        one = self._hosted[number]
        one.state = "catching up"
        self._arrived[number].clear()
        if one.role == "active":
            self._deliverer.pause(number)
        self._next(number, self._catch_up(number, self._generation))

    def look_after(self, number: int) -> None:
        """To be called every second or so: a live partition falls back when it must, or is flushed when that is due.

        A standby falls back whenever the log has something; an active one when it is far behind, or when nothing came
        of what the log has (the end of a transaction alone, or a delivery that stalls).
        """
        one = self._hosted[number]
        if one.state != "live" or self._stopped:
            return
        if one.lag > (0 if one.role == "standby" else self._behind) or one.still > 1:
            self.fall_back(number)
        elif number not in self._folding:
            asyncio.ensure_future(self._in(self._live_threads, one.flush)).add_done_callback(self._check)

    def fall_back_all(self) -> None:
        """What delivers can't read something: read it in bulk, wherever it is."""
        for number, one in enumerate(self._hosted):
            if one.role == "active" and one.state == "live":
                self.fall_back(number)

    async def moved(self, number: int, timeout_s: float) -> None:
        """Return when the partition's tables have moved on, and after `timeout_s` at the latest."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._moved[number].wait()
        except TimeoutError:
            return

    async def stop(self) -> None:
        """End what is going on, at the next batch, and wait for it."""
        self._stopped = True
        self._begin_anew()
        self._assigned = False
        for one in self._hosted:
            one.ready, one.role = False, None
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        for threads in (self._live_threads, self._bulk_threads, self._closing_threads):
            await asyncio.to_thread(threads.shutdown, wait=True, cancel_futures=True)

    def _begin_anew(self) -> None:
        """What goes on is stale from now on: it ends at its next batch, or before it begins."""
        self._generation += 1
        self._turns.call_off()

    def _next(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        """Begin `work` on a partition once what was begun on it before has ended."""
        before = self._tasks.get(number)

        async def after() -> None:
            if before is not None:
                await asyncio.wait((before,))
            await work

        task = self._tasks[number] = asyncio.ensure_future(after())
        task.add_done_callback(self._check)

    def _check(self, task: asyncio.Future[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    async def _catch_up(self, number: int, generation: int) -> None:
        """Open the tables, read in bulk up to the end of the log, and go on live from there."""
        one = self._hosted[number]
        started, first, opening = time.monotonic(), one.next_offset, one.state == "opening"

        def stale() -> bool:
            return self._generation != generation

        while not stale():
            try:
                if await self._read_in_bulk(one, stale) and not stale():
                    await self._go_live(number)
                    break
            except (
                Unavailable,
                NotFound,
            ) as error:  # the broker is away or has no metadata yet, or the tables are held
                _log.warning("partition %d: %s; trying again", number, error)
                await asyncio.sleep(RETRY_S)
        if stale():
            return
        if opening or one.next_offset - first > self._behind:
            seconds, offsets = time.monotonic() - started, one.next_offset - first
            _log.info("partition %d: caught up to %d, %d offsets in %.1f s", number, one.next_offset, offsets, seconds)
        self._tell(number)

    async def _read_in_bulk(self, one: Hosted, stale: Callable[[], bool]) -> bool:
        """Once it is the partition's turn, read it up to the end of the log. False when it was stale before that, or, a
        standby, gave up its turn to a partition that is to be answered for."""
        rank = 0 if one.role == "active" else 1

        def enough() -> bool:
            return stale() or self._turns.is_wanted(rank)

        one.waiting = True
        try:
            async with self._turns.one(rank) as has_come:
                one.waiting = False
                if not has_come or stale():
                    return False
                await self._in(self._bulk_threads, one.open)
                if stale():
                    return False
                one.state = "catching up"
                return await self._in(self._bulk_threads, partial(one.catch_up, enough))
        finally:
            one.waiting = False

    async def _go_live(self, number: int) -> None:
        """From now on what is delivered is folded, and it is delivered from the next offset on."""
        one = self._hosted[number]
        self._arrived[number].clear()
        one.state = "live"
        if one.role == "active":
            one.ready = True
            await self._deliverer.hand_over(number, one.next_offset)

    async def _fold_arrived(self, number: int) -> None:
        one, arrived = self._hosted[number], self._arrived[number]
        try:
            while arrived and one.state == "live" and one.role == "active":
                records = arrived[:LIVE_BATCH_RECORDS]
                del arrived[: len(records)]
                try:
                    await self._in(self._live_threads, partial(one.fold, records))
                except (LogUnreachable, NotFound) as error:  # a gap can't be filled now: reading in bulk goes on trying
                    _log.warning("partition %d: %s", number, error)
                    self.fall_back(number)
                    return
                now = clock.now_micros()
                for record in records[:: 1 + len(records) // OBSERVED_PER_BATCH]:
                    self._metrics.queryable((now - record.append_time) / 1e6)
                self._tell(number)
        finally:
            self._folding.discard(number)

    def _tell(self, number: int) -> None:
        """Wake whoever waits for the partition to move on."""
        self._moved[number].set()
        self._moved[number] = asyncio.Event()

    async def _in(self, threads: ThreadPoolExecutor, work: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(threads, work)
