"""Crashes: a process killed at any moment, a step that fails at any call, several processes at once.

The faults: SIGKILL of a writer and of a rebuild; an error or an interrupt before or after the n-th write, flush, fold,
page read or opening. An acknowledged write is never lost, and the tables are always those of a fresh fold. Seeds are
printed.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from store_worker import SPACE, acknowledged, spawn

from schemas.codec import Codec
from schemas.errors import StoreFull
from schemas.jsonform import id_text
from streams import catchup, sqlite_log
from streams.clock import now_micros
from streams.digest import combined, digests
from streams.fold import fold
from streams.memory import Memory
from streams.overlay import Empty, Overlay
from streams.ports import Batch
from streams.rows import Head
from streams.sqlite_log import SqliteLog
from streams.tables import Tables

KILLS = int(os.environ.get("SLOTLOG_KILLS", "8"))
Step = Callable[..., Any]


def _chance() -> random.Random:
    """Chance from a fresh seed, or the one in SLOTLOG_SEED; pytest shows it when the test fails."""
    seed = int(os.environ.get("SLOTLOG_SEED") or time.time_ns())
    sys.stdout.write(f"SLOTLOG_SEED={seed}\n")
    return random.Random(seed)


def _digest_of_log(folder: Path) -> tuple[str, list[str]]:
    """(digest of a fresh fold in memory, event id at each offset); offsets are dense from 0."""
    log = SqliteLog(folder, clock=now_micros, create=False)
    codec, rows, head, ids = Codec(), Overlay(Empty()), Head(log.identity, 0, 1), []
    for batch in log.read(0, 0):
        assert [record.offset for record in batch.records] == list(range(len(ids), len(ids) + len(batch.records)))
        ids += [id_text(codec.decode(record.value or b"").event_id) for record in batch.records]
        head = fold(batch, rows, head, codec)
    log.close()
    return combined(digests(rows)), ids


def _check_store(folder: Path, acks: list[tuple[int, str]]) -> str:
    """Every acknowledged event is where it was said to be and readable, and the tables are those of a fresh fold."""
    wanted, ids = _digest_of_log(folder)
    assert all(ids[offset] == identity for offset, identity in acks), "an acknowledged event is not at its offset"
    for hold in (False, True):
        with Memory.open(folder, hold=hold, create=False) as memory:
            told = {one.position.offset: str(one.event.event_id.hex()) for one in memory.timeline(SPACE)}
            assert all(told[offset] == identity.replace("-", "") for offset, identity in acks)
            assert memory.digest()[0] == wanted, f"hold={hold}"
            assert memory.quarantined() == []
    return wanted


def test_kill_a_writer_at_any_moment(tmp_path: Path) -> None:
    """Killed eight times on one store; what it acknowledged is there, and nothing is there twice or in between."""
    chance = _chance()
    acks: list[tuple[int, str]] = []
    for kill in range(KILLS):
        worker = spawn(tmp_path, f"w{kill}", "write", 0)
        assert worker.stdout is not None
        lines = [worker.stdout.readline() for _ in range(chance.randint(1, 150))]
        time.sleep(chance.uniform(0, 0.03))
        worker.kill()
        lines += worker.stdout.readlines()
        worker.stdout.close()
        worker.wait()
        acks += acknowledged(lines)
        _check_store(tmp_path, acks)
    with Memory.open(tmp_path) as memory:
        before = memory.digest()
        memory.rebuild()
        assert memory.digest() == before


def test_kill_a_rebuild_at_any_moment(tmp_path: Path) -> None:
    """The tables are the old ones, the new ones or none, and the next opener's answers are right in each case."""
    chance = _chance()
    worker = spawn(tmp_path, "w", "write", 300)
    acks = acknowledged(worker.communicate()[0].splitlines(keepends=True))
    wanted = _check_store(tmp_path, acks)
    for _ in range(4):
        worker = spawn(tmp_path, "r", "rebuild")
        assert worker.stdout is not None
        for _ in range(chance.randint(1, 3)):
            worker.stdout.readline()
        time.sleep(chance.uniform(0, 0.08))
        worker.kill()
        worker.stdout.close()
        worker.wait()
        assert _check_store(tmp_path, acks) == wanted


def test_readers_beside_a_rebuild(tmp_path: Path) -> None:
    """Whoever opens to read while the tables are put in place of the old ones, and whoever had them open, reads on."""
    worker = spawn(tmp_path, "w", "write", 300)
    acks = acknowledged(worker.communicate()[0].splitlines(keepends=True))
    wanted = _check_store(tmp_path, acks)
    worker = spawn(tmp_path, "r", "rebuild")
    assert worker.stdout is not None
    try:
        worker.stdout.readline()
        with Memory.open(tmp_path, hold=False, create=False) as longer:
            longer.digest()
            for _ in range(30):
                with Memory.open(tmp_path, hold=False, create=False) as memory:
                    assert memory.digest()[0] == wanted
                assert longer.digest()[0] == wanted
        assert worker.poll() is None
    finally:
        worker.kill()
        worker.stdout.close()
        worker.wait()


def test_two_writers_and_a_reader_at_once(tmp_path: Path) -> None:
    """No acknowledgement is lost, there is one order, and the reader ends with the same memory."""
    Memory.open(tmp_path).close()
    writers = [spawn(tmp_path, name, "write", 200) for name in ("a", "b")]
    reader = spawn(tmp_path, "r", "follow", 400)
    acks = [acknowledged(writer.communicate(timeout=120)[0].splitlines(keepends=True)) for writer in writers]
    if any(writer.returncode for writer in writers):
        reader.kill()
    digest = reader.communicate(timeout=120)[0].strip()
    assert [process.returncode for process in (*writers, reader)] == [0, 0, 0]
    assert sorted(offset for own in acks for offset, _ in own) == list(range(400))
    assert all(own == sorted(own) for own in acks)
    assert digest == _check_store(tmp_path, acks[0] + acks[1])


# -- faults inside one process


class Fault:
    """Makes the n-th call of a step fail, before it does anything or after it has done all."""

    def __init__(self, error: BaseException, number: int, *, after: bool) -> None:
        self.error, self.left, self.after = error, number, after

    def over(self, step: Step) -> Step:
        def failing(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise self.error
            result = step(*args, **named)
            if self.left == 0:
                raise self.error
            return result

        return failing

    def over_pages(self, step: Step) -> Step:
        """The same for a step that yields: each page counts as a call."""

        def failing(*args: Any, **named: Any) -> Iterator[Batch]:
            for page in step(*args, **named):
                self.left -= 1
                if self.left == 0 and not self.after:
                    raise self.error
                yield page
                if self.left == 0:
                    raise self.error

        return failing


STEPS = ("write", "flush", "fold", "read", "open")


def _inject(monkeypatch: pytest.MonkeyPatch, step: str, fault: Fault) -> None:
    match step:
        case "write":
            monkeypatch.setattr(Tables, "write", fault.over(Tables.write))
        case "flush":
            monkeypatch.setattr(Tables, "flush", fault.over(Tables.flush))
        case "fold":
            monkeypatch.setattr(catchup, "fold", fault.over(fold))
        case "read":
            monkeypatch.setattr(SqliteLog, "read", fault.over_pages(SqliteLog.read))
        case _:
            fault.after = False  # what was opened and then lost in the fault would stay open in this process
            monkeypatch.setattr(Tables, "open_to_write", fault.over(Tables.open_to_write))
            monkeypatch.setattr(Tables, "open_to_read", fault.over(Tables.open_to_read))


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("error", [StoreFull("no room"), KeyboardInterrupt()], ids=["full", "interrupt"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool, error: BaseException, hold: bool
) -> None:
    """Whatever step of a refresh fails, at its first to fourth call: the same Memory asked again, and one opened anew,
    hold what a fresh fold holds."""
    monkeypatch.setattr("streams.sqlite_log.PAGE_RECORDS", 8)
    monkeypatch.setattr("streams.sqlite_log._PAGE", _small_pages())
    monkeypatch.setattr("streams.catchup.FLUSH_INTERVAL_S", 0.0)
    for number in (1, 2, 4):
        folder = tmp_path / str(number)
        writer = Memory.open(folder, actor="agent:w", hold=False)
        memory = Memory.open(folder, actor="agent:a", hold=hold)
        _write_some(writer, 20)
        with monkeypatch.context() as patched:
            _inject(patched, step, Fault(error, number, after=after))
            failed = _read_until_it_fails(memory, writer)
        wanted, _ = _digest_of_log(folder)
        assert memory.digest()[0] == wanted, f"asked again after call {number} of {step} failed: {failed}"
        counts = [(p.applied, p.duplicates, p.quarantined, p.chain) for p in memory.info().partitions]
        memory.close()
        with Memory.open(folder, hold=True) as again:
            assert again.digest()[0] == wanted, "opened anew"
            assert [(p.applied, p.duplicates, p.quarantined, p.chain) for p in again.info().partitions] == counts
        writer.close()


def _small_pages() -> str:

    return sqlite_log._PAGE.replace("LIMIT 2000", "LIMIT 8")


def _write_some(writer: Memory, count: int) -> None:
    for number in range(count):
        writer.remember(SPACE, f"user:{number % 3}", "employer", f"v{number}")


def _read_until_it_fails(memory: Memory, writer: Memory) -> bool:
    """Read and write in turn until the injected fault comes up; whether it did."""
    for _ in range(4):
        try:
            memory.entity(SPACE, "user:1")
        except (StoreFull, KeyboardInterrupt):
            return True
        _write_some(writer, 3)
    return False
