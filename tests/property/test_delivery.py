"""The way from a delivery to the tables: late, doubled, with gaps, across rebalances and crashes, and still exact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_folder import quick_folder
from strategies import BASE, CODEC, SPACE, Step, built, event_id, examples, folded, histories, record

from schemas import events as ev
from schemas.errors import LogTruncated, LogUnreachable, StoreFull
from streams.catchup import Follower
from streams.delivery import Deliverer, Delivery
from streams.digest import digests
from streams.hosting import Hosted
from streams.metrics import Metrics
from streams.ports import Batch, Record
from streams.tables import Tables

BEHIND = 4
WAIT_S = 60.0


@dataclass
class ListLog:
    """A log in memory, of which so far only the records below `shown` were appended. `unreachable` reads fail first."""

    records: list[Record]
    shown: int = 0
    unreachable: int = 0
    identity: str = "a log"
    partitions: int = 1

    def start(self, partition: int) -> int:
        return 0

    def end(self, partition: int) -> int:
        if self.unreachable:
            self.unreachable -= 1
            raise LogUnreachable("the broker is away")
        return self.shown

    def read(self, partition: int, start: int, end: int | None = None) -> Iterator[Batch]:
        stop = self.shown if end is None else min(end, self.shown)
        for first in range(start, stop, 3):
            last = min(first + 3, stop)
            yield Batch([one for one in self.records if first <= one.offset < last], last)


@dataclass
class Bench:
    """One worker's partition, with a hand on everything that happens to it."""

    log: ListLog
    hosted: Hosted
    delivery: Delivery
    handed_over: list[int] = field(default_factory=list)
    paused: int = 0
    refusals: int = 0
    """So many times the deliverer can't take a partition over."""
    failures: list[BaseException] = field(default_factory=list)

    async def settle(self) -> None:
        """Wait until nothing is going on."""
        async with asyncio.timeout(WAIT_S):
            while self.delivery.is_busy:
                await asyncio.sleep(0)


def bench_on(log: ListLog, folder: Path) -> Bench:
    metrics = Metrics()
    hosted = Hosted(log, Follower(log, 0, folder / "p0", CODEC, hold=True, flush_events=3), metrics)
    failures: list[BaseException] = []

    def pause(number: int) -> None:
        made.paused += 1

    async def hand_over(number: int, offset: int) -> None:
        if made.refusals:
            made.refusals -= 1
            raise LogUnreachable("a rebalance has begun")
        made.handed_over.append(offset)

    delivery = Delivery(
        [hosted],
        Deliverer(pause, hand_over),
        metrics,
        behind=BEHIND,
        fail=failures.append,
    )
    made = Bench(log, hosted, delivery, failures=failures)
    return made


@asynccontextmanager
async def given_to_it(log: ListLog, folder: Path, *, refusals: int = 0) -> AsyncIterator[Bench]:
    """The partition was assigned, and all that the log had then is folded; in the end it is stopped and closed."""
    bench = bench_on(log, folder)
    bench.refusals = refusals
    bench.delivery.assign({0}, set())
    try:
        await bench.settle()
        yield bench
    finally:
        await bench.delivery.stop()
        bench.hosted.close()


Act = tuple[str, int, int]

acts: st.SearchStrategy[list[Act]] = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("append", "deliver", "deliver")), st.integers(0, 12), st.integers(1, 8)),
        st.tuples(st.sampled_from(("assign", "revoke", "standby", "look", "crash")), st.just(0), st.just(0)),
    ),
    max_size=14,
).map(lambda script: [("assign", 0, 0), ("append", 0, 3), *script])
"""What happens, with where a delivery begins and how many there are of it. A crash is followed by an assignment."""


async def play(log: ListLog, folder: Path, script: Sequence[Act], waits: Sequence[bool]) -> Bench:
    bench = bench_on(log, folder)
    for (what, first, count), wait in zip(script, waits, strict=True):
        match what:
            case "append":
                log.shown = min(log.shown + count, len(log.records))
            case "deliver":  # whatever the past has: twice, late, or with a gap
                for one in log.records[first : min(first + count, log.shown)]:
                    bench.delivery.take(one)
            case "assign":
                bench.delivery.assign({0}, set())
            case "standby":
                bench.delivery.assign(set(), {0})
            case "revoke":
                bench.delivery.revoke({0})
            case "look":
                bench.hosted.end = log.shown
                bench.hosted.has_stood_still(known=True)
                bench.delivery.look_after(0)
            case "crash":  # what was not flushed is gone; the same folder is opened by the next process
                await bench.settle()
                await bench.delivery.stop()
                bench.hosted.follower._let_go(flush=False)
                assert bench.failures == []
                bench = bench_on(log, folder)
                bench.delivery.assign({0}, set())
        if wait:
            await bench.settle()
    log.shown = len(log.records)
    bench.delivery.assign({0}, set())
    await bench.settle()
    return bench


@examples(120)
@given(steps=histories(), script=acts, data=st.data())
def test_whatever_is_delivered_the_tables_are_those_of_one_fold(
    steps: list[Step], script: list[Act], data: st.DataObject
) -> None:
    records = built(steps).records()
    often = st.sampled_from((True, True, True, False))
    waits = data.draw(st.lists(often, min_size=len(script), max_size=len(script)))

    async def run() -> None:
        with quick_folder() as folder:
            bench = await play(ListLog(records), folder, script, waits)
            assert bench.failures == []
            assert bench.hosted.ready
            assert bench.hosted.state == "live"
            assert bench.handed_over[-1] == bench.hosted.next_offset == len(records)
            rows, head = folded(records)
            assert digests(bench.hosted.follower.rows) == digests(rows)
            assert bench.hosted.follower.head.chain == head.chain
            await bench.delivery.stop()
            bench.hosted.close()

    asyncio.run(run())


@examples(40)
@given(steps=histories(max_size=12), gaps=st.lists(st.integers(0, 3), min_size=12, max_size=12), tail=st.integers(0, 3))
def test_markers_at_the_end_of_the_log_do_not_hold_it_up(steps: list[Step], gaps: list[int], tail: int) -> None:
    """Offsets that hold no record are read over, by look_after where the delivery says nothing of them."""
    moved, offset = [], 0
    for one, gap in zip(built(steps).records(), gaps, strict=False):
        offset += gap
        moved.append(one._replace(offset=offset))
        offset += 1

    async def run() -> None:
        with quick_folder() as folder:
            log = ListLog(moved)
            async with given_to_it(log, folder) as bench:
                log.shown = offset + tail
                for one in moved:
                    bench.delivery.take(one)
                    await bench.settle()
                for _ in range(3):
                    bench.hosted.end = log.shown
                    bench.hosted.has_stood_still(known=True)
                    bench.delivery.look_after(0)
                    await bench.settle()
                assert (bench.failures, bench.hosted.lag) == ([], 0)
                assert digests(bench.hosted.follower.rows) == digests(folded(moved)[0])

    asyncio.run(run())


def _records(count: int) -> list[Record]:
    common = {"space": SPACE, "actor": "agent:a", "recorded_at": 0, "entity": "user:alice", "slot": "employer"}
    return [
        record(ev.FactAsserted(event_id=event_id(number + 1), value=f"v{number}", **common), number, BASE + number)
        for number in range(count)
    ]


def test_a_gap_before_what_was_delivered_is_filled_from_the_log(tmp_path: Path) -> None:
    async def run() -> None:
        log = ListLog(_records(4))
        async with given_to_it(log, tmp_path) as bench:
            log.shown = 4
            bench.delivery.take(log.records[3])
            await bench.settle()
            assert digests(bench.hosted.follower.rows) == digests(folded(log.records)[0])

    asyncio.run(run())


def test_more_than_the_live_path_is_to_bear_is_read_in_bulk(tmp_path: Path) -> None:
    async def run() -> None:
        log = ListLog(_records(20))
        async with given_to_it(log, tmp_path) as bench:
            assert bench.handed_over == [0]
            log.shown = 20
            for one in log.records:
                bench.delivery.take(one)
            await bench.settle()
            assert bench.paused == 1
            assert bench.handed_over == [0, 20]
            assert bench.hosted.ready

    asyncio.run(run())


def test_a_partition_known_to_be_far_behind_is_read_in_bulk_though_it_is_being_folded(tmp_path: Path) -> None:
    async def run() -> None:
        log = ListLog(_records(30))
        async with given_to_it(log, tmp_path) as bench:
            log.shown = bench.hosted.end = 30
            bench.delivery.take(log.records[0])
            assert bench.delivery.is_busy
            bench.delivery.look_after(0)
            assert bench.hosted.state == "catching up"
            await bench.settle()
            assert (bench.failures, bench.hosted.next_offset, bench.paused) == ([], 30, 1)
            assert digests(bench.hosted.follower.rows) == digests(folded(log.records)[0])

    asyncio.run(run())


def test_a_broker_that_is_away_is_asked_again_and_nothing_is_answered_before(tmp_path: Path) -> None:
    async def run() -> None:
        log = ListLog(_records(3), shown=3, unreachable=1)
        bench = bench_on(log, tmp_path)
        bench.delivery.assign({0}, set())
        assert not bench.hosted.ready
        await bench.settle()
        assert (bench.failures, bench.hosted.next_offset, bench.hosted.ready) == ([], 3, True)
        await bench.delivery.stop()
        bench.hosted.close()

    asyncio.run(run())


def test_what_can_not_be_handed_over_now_is_handed_over_later(tmp_path: Path) -> None:
    async def run() -> None:
        log = ListLog(_records(3), shown=3)
        async with given_to_it(log, tmp_path, refusals=1) as bench:
            assert (bench.failures, bench.handed_over, bench.hosted.state) == ([], [3], "live")

    asyncio.run(run())


def test_what_can_not_be_applied_is_a_failure_and_nothing_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> list[BaseException]:
        log = ListLog(_records(5))
        async with given_to_it(log, tmp_path) as bench:
            log.shown = 5

            def full(self: Tables, rows: object) -> None:
                raise StoreFull("no room")

            with monkeypatch.context() as patched:
                patched.setattr(Tables, "write", full)
                bench.delivery.take(log.records[0])
                await bench.settle()
            assert bench.hosted.next_offset == 0
            assert not bench.hosted.ready, "tables that were let go of would answer as if there were nothing"
        return bench.failures

    assert [type(failure) for failure in asyncio.run(run())] == [StoreFull]


def test_a_log_that_ends_before_what_was_folded_is_refused(tmp_path: Path) -> None:
    async def run() -> list[BaseException]:
        log = ListLog(_records(5), shown=5)
        async with given_to_it(log, tmp_path) as bench:
            log.shown = 2
            bench.delivery.assign({0}, set())
            await bench.settle()
            assert not bench.hosted.ready
        return bench.failures

    (failure,) = asyncio.run(run())
    assert isinstance(failure, LogTruncated)


def test_stop_waits_for_what_is_going_on_and_answers_no_more(tmp_path: Path) -> None:
    async def run() -> None:
        log = ListLog(_records(30), shown=30)
        bench = bench_on(log, tmp_path)
        bench.delivery.assign({0}, set())
        await bench.delivery.stop()
        bench.delivery.assign({0}, set())
        bench.delivery.fall_back(0)
        assert not bench.delivery.is_busy
        assert (bench.hosted.ready, bench.hosted.role, bench.failures) == (False, None, [])
        bench.hosted.close()

    asyncio.run(run())
