"""What one partition in a worker does when others hold it up, and whose turn it is to be read in bulk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from strategies import BASE, CODEC, SPACE, event_id, record

from schemas import events as ev
from schemas.errors import InvalidInput, LogRecreated, SlotlogError, StoreBusy, StoreClosed
from streams import keys
from streams.catchup import Follower
from streams.delivery import BULK_THREADS, Deliverer, Delivery, Turns
from streams.digest import digests
from streams.group_membership import Membership
from streams.hosting import HELD_UP_LOOKS, Hosted
from streams.metrics import Metrics
from streams.ports import Batch, Record
from streams.status import PartitionStatus
from streams.tables import Tables

ACTIVE, STANDBY = 0, 1


class Records:
    """A log in memory."""

    identity = "a log"
    partitions = 1

    def __init__(self, count: int) -> None:
        self.records = [fact(offset) for offset in range(count)]

    def start(self, partition: int) -> int:
        return 0

    def end(self, partition: int) -> int:
        return len(self.records)

    def read(self, partition: int, start: int, end: int | None = None) -> Iterator[Batch]:
        if start < len(self.records):
            yield Batch(self.records[start:], len(self.records))


def fact(offset: int) -> Record:
    common = {"event_id": event_id(offset), "space": SPACE, "actor": "agent:a", "recorded_at": BASE}
    return record(ev.FactAsserted(**common, entity="user:a", slot="n", value=offset), offset, BASE)


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    """A partition of ten records, of which none is folded."""
    log = Records(10)
    made = Hosted(log, Follower(log, 0, tmp_path / "p0", CODEC, hold=True), Metrics())  # type: ignore[arg-type]
    made.open()
    made.end = 10
    yield made
    made.close()


def looks(hosted: Hosted, times: int, *, others_move: bool = False) -> list[int]:
    return [hosted.has_stood_still(known=True, others_move=others_move) for _ in range(times)]


def test_a_partition_that_waits_for_its_turn_does_not_stand_still(hosted: Hosted) -> None:
    assert looks(hosted, 2) == [0, 1]
    hosted.waiting = True
    assert looks(hosted, 5, others_move=True) == [1] * 5  # what was counted before stays
    assert looks(hosted, 3, others_move=False) == [2, 3, 4]  # but not while nobody moves at all
    hosted.waiting = False
    assert looks(hosted, 2, others_move=True) == [5, 6]
    hosted.catch_up(lambda: False)
    assert looks(hosted, 2) == [0, 0]


def test_a_fold_that_readers_hold_up_stands_still_only_in_the_long_run(hosted: Hosted) -> None:
    assert looks(hosted, 2) == [0, 1]
    with hosted.lock:
        folding = threading.Thread(target=hosted.catch_up, args=(lambda: False,))
        folding.start()
        while not hosted._wants_lock:
            pass
        assert looks(hosted, HELD_UP_LOOKS) == [1] * HELD_UP_LOOKS
        assert looks(hosted, 2) == [2, 3]
    folding.join()
    assert looks(hosted, 1) == [0]


def test_what_was_being_folded_live_when_the_bulk_reading_began_is_no_other_log(hosted: Hosted) -> None:
    """A fold waits for its thread, and may have its turn just when the bulk reading has asked for its first batch."""
    log = hosted._log
    assert isinstance(log, Records)
    hosted.fold(log.records[:4])
    asked: list[int] = []

    def read(partition: int, start: int, end: int | None = None) -> Iterator[Batch]:
        asked.append(start)
        hosted.fold(log.records[4:7])
        yield Batch(log.records[start:], len(log.records))

    log.read = read  # type: ignore[method-assign]
    assert hosted.catch_up(lambda: False)
    assert asked == [3]  # from the record folded last, which must be the same
    assert hosted.next_offset == 10
    log.records[9] = fact(99)._replace(offset=9)
    log.records.append(fact(10))
    with pytest.raises(LogRecreated):
        hosted.catch_up(lambda: False)


def test_whose_turn_it_is() -> None:
    """Active partitions go before standbys that came first; a turn that was called off is none."""
    order: list[str] = []

    async def wait(turns: Turns, name: str, rank: int, go_on: asyncio.Event) -> None:
        async with turns.one(rank) as has_come:
            order.append(name if has_come else f"{name} called off")
            if has_come:
                await go_on.wait()

    async def play() -> None:
        turns, go_on = Turns(1), [asyncio.Event() for _ in range(4)]
        begun = []
        for number, (name, rank) in enumerate(
            (("first", STANDBY), ("standby", STANDBY), ("active", ACTIVE), ("late", STANDBY))
        ):
            begun.append(asyncio.create_task(wait(turns, name, rank, go_on[number])))
            await asyncio.sleep(0)
        assert turns.is_wanted(STANDBY)  # the first, a standby, is to give up its turn
        assert not turns.is_wanted(ACTIVE)
        go_on[0].set()
        await begun[0]
        begun[1].cancel()
        go_on[2].set()
        await begun[2]
        assert not turns.is_wanted(STANDBY)
        await asyncio.sleep(0)
        again = asyncio.create_task(wait(turns, "again", ACTIVE, go_on[3]))
        await asyncio.sleep(0)
        turns.call_off()
        await again
        go_on[3].set()
        await begun[3]

    asyncio.run(play())
    assert order == ["first", "active", "late", "again called off"]


class Reading:
    """A partition whose bulk reading goes on until it `may_end`, or is not wanted any more."""

    def __init__(self) -> None:
        self.role: str | None = None
        self.state = "opening"
        self.ready = self.waiting = self.reads = False
        self.next_offset = 0
        self.may_end = threading.Event()

    def open(self) -> None:
        """There is nothing to open."""

    def close(self) -> None:
        """Nor to close."""

    def catch_up(self, enough: Callable[[], bool]) -> bool:
        self.reads = True
        try:
            while not self.may_end.wait(0.001):
                if enough():
                    return False
            return True
        finally:
            self.reads = False


async def eventually(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not what():
            await asyncio.sleep(0)


def test_an_active_partition_is_read_before_standbys_that_began_before_it() -> None:
    """And what waits for its turn says so, which the watchdog asks."""
    failures: list[BaseException] = []

    async def hand_over(number: int, offset: int) -> None:
        assert parts[number].role == "active"

    async def play(delivery: Delivery) -> None:
        assert not delivery.is_assigned
        delivery.assign({BULK_THREADS + 1}, set(range(BULK_THREADS + 1)))
        assert delivery.is_assigned
        await eventually(lambda: parts[-1].reads and sum(one.reads for one in parts) == BULK_THREADS)
        await eventually(lambda: [one.waiting for one in parts] == [not one.reads for one in parts])
        parts[-1].may_end.set()
        await eventually(lambda: parts[-1].ready)
        for one in parts:
            one.may_end.set()
        await eventually(lambda: not delivery.is_busy)
        assert [one.state for one in parts] == ["live"] * len(parts)
        assert [one.ready for one in parts] == [one.role == "active" for one in parts]
        assert not any(one.waiting for one in parts)
        delivery.revoke({0})
        assert not delivery.is_assigned
        delivery.assign({0}, set())

    async def stopped() -> None:
        deliverer = Deliverer(lambda number: None, hand_over)
        delivery = Delivery(parts, deliverer, Metrics(), behind=4, fail=failures.append)  # type: ignore[arg-type]
        try:
            await play(delivery)
        finally:
            await delivery.stop()
        assert not delivery.is_assigned

    parts = [Reading() for _ in range(BULK_THREADS + 2)]
    asyncio.run(stopped())
    assert failures == []


def test_a_moment_stays_while_others_fold_on(hosted: Hosted) -> None:
    log = hosted._log
    assert isinstance(log, Records)
    hosted.catch_up(lambda: False)
    with hosted.lock:
        moment = hosted.follower.moment()
        now = moment.__enter__()
    before = digests(now.rows)
    log.records.append(fact(10))
    hosted.catch_up(lambda: False)
    assert hosted.next_offset == 11
    assert now.head.next_offset == 10
    assert digests(now.rows) == before
    assert now.rows.get(keys.event(SPACE, 10)) is None
    assert len(list(now.reads.events(SPACE, 0, 99))) == 10
    moment.__exit__(None, None, None)
    with hosted.lock, hosted.follower.moment() as later:
        assert digests(later.rows) != before


def test_tables_that_are_let_go_of_end_the_reads_of_a_moment(tmp_path: Path) -> None:
    """Whoever closes waits for them, and they end at their next row."""
    with closing(Tables.open_to_write(tmp_path / "p0")) as tables:
        tables.write(dict.fromkeys((b"a", b"b", b"c", b"d"), b"x"))
        entered = threading.Event()
        ended: list[str] = []

        def read() -> None:
            with tables.snapshot() as rows:
                assert rows.get(b"b") == b"x"
                assert rows.get(b"bb") is None
                assert rows.get_many([b"d", b"e", b"a"]) == [b"x", None, b"x"]
                assert [key for key, _ in rows.scan(b"b", b"d", reverse=True)] == [b"c", b"b"]
                scan = rows.scan(b"a", b"z")
                next(scan)
                entered.set()
                try:
                    while True:
                        tables.check_open()
                except StoreClosed:
                    ended.append("closed")
                with pytest.raises(StoreClosed):
                    next(scan)
                with pytest.raises(StoreClosed):
                    rows.get(b"a")

        reading = threading.Thread(target=read)
        reading.start()
        entered.wait()
        tables.close()
        assert ended == ["closed"]
        reading.join()
        with closing(Tables.open_to_write(tmp_path / "p0")) as again:  # nothing holds RocksDB's lock any more
            assert again.get(b"d") == b"x"


def test_an_exposition_is_of_one_telling() -> None:
    """Whatever is told meanwhile, no partition is in one family and missing in the next."""
    metrics = Metrics()
    told = [
        [PartitionStatus(number, "active", "live", 1, 1, 0, True) for number in numbers]
        for numbers in (range(40), range(40, 80))
    ]
    done = threading.Event()

    def tell() -> None:
        while not done.is_set():
            for one in told:
                metrics.partitions(one)

    telling = threading.Thread(target=tell)
    telling.start()
    try:
        for _ in range(100):
            body = metrics.exposition()[0].decode()
            families = [
                {line.split('"')[1] for line in body.splitlines() if line.startswith(f"{name}{{")}
                for name in ("slotlog_next_offset", "slotlog_lag_events", "slotlog_partition_ready")
            ]
            assert all(one == other for one, other in pairwise(families))
    finally:
        done.set()
        telling.join()


def test_an_exposition_has_an_observation_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A histogram has its sum first, and its count later."""
    metrics = Metrics()
    metrics.queryable(1.0)
    found: list[bytes] = []
    exposing = threading.Thread(target=lambda: found.append(metrics.exposition()[0]))

    class Halfway(list[Any]):
        """The buckets of a histogram, which are asked for once the sum is there."""

        def __getitem__(self, number: Any) -> Any:
            if threading.current_thread() is not exposing and exposing.ident is None:
                exposing.start()
                exposing.join(0.2)  # with the lock it waits for us; without, it is done by now
            return super().__getitem__(number)

    monkeypatch.setattr(metrics._queryable, "_buckets", Halfway(metrics._queryable._buckets))
    metrics.queryable(1.0)
    exposing.join()
    lines = dict(line.rsplit(" ", 1) for line in found[0].decode().splitlines() if not line.startswith("#"))
    name = "slotlog_commit_to_queryable_seconds"
    assert lines[f"{name}_sum"] == lines[f"{name}_count"] == "2.0"


def test_a_refused_member_holds_nothing() -> None:
    membership = Membership(1e9, "w1", "http://127.0.0.1:1")
    membership.confirmed(1e9)
    membership.check()
    assert membership.holds
    assert membership.is_own_place("http://127.0.0.1:1")  # where it was before it moved
    assert membership.holds
    assert not membership.is_own_place("http://127.0.0.1:1")  # given up, and here again: somebody has its id
    assert not membership.holds
    membership.refused(InvalidInput("later"))
    with pytest.raises(StoreBusy, match=r"a worker at \S+:1 has the id of this one, w1"):
        membership.check()
    assert isinstance(membership.refusal, SlotlogError)
