"""Many processes on one embedded folder: a server that holds the tables, hooks that come and go, readers beside."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import process_worker as workers
import pytest
from process_worker import ALICE, SPACE, Worker
from quick_folder import quick_folder

from schemas.errors import StoreBusy
from streams import Belief, Memory, catchup
from streams.clock import now_micros
from streams.sqlite_log import SqliteLog
from streams.view import View

Ack = tuple[int, str, str]


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as made:
        Memory.open(made).close()
        yield made


def check_nothing_lost(folder: Path, acks: list[Ack]) -> None:
    """Every acknowledged event is at its offset, offsets are dense, and all agree on what it comes to."""
    offsets = [offset for offset, _, _ in acks]
    assert len(set(offsets)) == len(offsets)
    log = SqliteLog(folder, clock=now_micros, create=False)
    assert set(offsets) <= set(range(log.end(0)))
    log.close()
    digests = set()
    for hold in (False, True):
        with Memory.open(folder, hold=hold, create=False) as memory:
            found = {one.position.offset: one.event.event_id.hex() for one in memory.timeline(SPACE)}
            assert sorted(found) == list(range(len(found))), "one order, with nothing in between"
            assert all(found[offset] == identity.replace("-", "") for offset, identity, _ in acks)
            assert memory.quarantined() == []
            digests.add(memory.digest()[0])
    with Memory.open(folder) as memory:
        memory.rebuild()
        digests.add(memory.digest()[0])
        assert memory.verify() == []
    assert len(digests) == 1


def test_a_server_twenty_hooks_and_readers(folder: Path) -> None:
    """Whatever was acknowledged to anybody is seen by every reader that is asked afterwards."""
    server = Worker(workers.server, folder)
    acks: list[Ack] = [server.hear()]
    readers = [Worker(workers.reader, folder, hold) for hold in (False, True, False)]
    newest = [-1] * len(readers)
    for wave in range(4):
        hooks = [Worker(workers.hook, folder, f"{wave}-{number}") for number in range(5)]
        for hook in hooks:
            ack: Ack = hook.hear()
            acks.append(ack)
            assert ack[2] == "accepted", "a hook waits for no table"
            while server.pipe.poll(0):
                acks.append(server.hear())
            for asked in (ack, acks[-1]):
                for number, reader in enumerate(readers):
                    seen, offset = reader.ask(asked)
                    assert seen, f"reader {number} does not see {asked}"
                    assert offset >= max(newest[number], asked[0]), "a later answer knows no less"
                    newest[number] = offset
        for hook in hooks:
            hook.stop()
    for reader in readers:
        reader.stop()
    server.pipe.send("stop")
    while (said := server.hear()) != "done":
        acks.append(said)
    server.stop()
    assert len(acks) > 40, "the server went on all the while"
    assert {status for _, _, status in acks} == {"accepted", "applied"}
    assert sorted(offset for offset, _, _ in acks) == list(range(len(acks)))
    check_nothing_lost(folder, acks)


def test_busy_names_who_holds_the_log(folder: Path) -> None:
    holding = Worker(workers.lock, folder / "log.lock")
    pid = holding.hear()
    with Memory.open(folder, busy_timeout_s=0.05) as memory:
        with pytest.raises(StoreBusy, match=rf"log\.lock was held for 0\.0\d+ s by process {pid} \(") as caught:
            memory.remember(SPACE, ALICE, "n", 1)
        assert "wait for that process, or end it if it hangs" in str(caught.value.hint)
        assert memory.get(SPACE, ALICE, "n") is None, "a read waits for no writer, and nothing was half-written"
        holding.stop()
        assert memory.remember(SPACE, ALICE, "n", 2).status == "applied"
    with Memory.open(folder, busy_timeout_s=30.0) as memory:
        holding = Worker(workers.lock, folder / "log.lock")
        holding.hear()
        os.kill(holding.process.pid or 0, signal.SIGKILL)
        assert memory.remember(SPACE, ALICE, "n", 3).position.offset == 1, "the lock goes with its process"
        holding.kill()


def test_a_rebuild_beside_a_holder_names_it(folder: Path) -> None:
    holding = Worker(workers.holder, folder)
    assert holding.hear() == "held"
    with Memory.open(folder) as memory:
        with pytest.raises(StoreBusy, match=rf"p0\.lock is held by process {holding.pid} \("):
            memory.rebuild()
        assert memory.remember(SPACE, ALICE, "n", 1).status == "accepted"
        belief = memory.get(SPACE, ALICE, "n")
        assert isinstance(belief, Belief)
        assert memory.info().partitions[0].holding is False
        assert holding.ask("well?") == (1, True)
        holding.stop()
        memory.rebuild()
        assert memory.get(SPACE, ALICE, "n") is not None
        assert memory.info().partitions[0].holding is True


def test_when_the_holder_is_killed_the_next_takes_over(folder: Path) -> None:
    """Three servers, each killed in the middle of its work. What they acknowledged is there, flushed or not."""
    acks: list[Ack] = []
    for _ in range(3):
        server = Worker(workers.server, folder)
        acks += [server.hear() for _ in range(30)]
        with Memory.open(folder) as beside:
            assert beside.info().partitions[0].holding is False
            acks += server.kill()
            seen = {str(one.event.event_id.hex()) for one in beside.timeline(SPACE)}
            assert all(identity.replace("-", "") in seen for _, identity, _ in acks)
    with Memory.open(folder) as memory:
        assert memory.info().partitions[0].holding is True
    check_nothing_lost(folder, acks)


def test_who_does_not_hold_takes_over_once_the_tail_is_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was beside the holder looks again after a while, and then holds the tables itself."""
    monkeypatch.setattr(catchup, "TAIL_MAX_EVENTS", 20)
    holding = Worker(workers.holder, folder)
    holding.hear()
    with Memory.open(folder) as memory:
        memory.remember(SPACE, ALICE, "n", 0)
        assert memory.info().partitions[0].holding is False
        holding.kill()
        for number in range(25):
            memory.remember(SPACE, ALICE, "n", number)
        assert memory.info().partitions[0].holding is True
        belief = memory.get(SPACE, ALICE, "n")
        assert isinstance(belief, Belief)
        assert belief.value == 24


def test_five_thousand_events_that_nobody_folded(folder: Path) -> None:
    """Two writers append and read nothing. The next reader is too far behind to lay a tail over the tables, so it takes
    them, though it did not ask to hold; another reader beside it sees the same."""
    writers = [Worker(workers.burst, folder, name, 2_500) for name in ("a", "b")]
    acks: list[Ack] = [ack for writer in writers for _ in range(5) for ack in writer.hear()]
    for writer in writers:
        writer.stop()
    assert {status for _, _, status in acks} == {"accepted"}
    assert not (folder / "tables" / "p0").exists(), "an append touches no tables"
    with Memory.open(folder, hold=False) as taking, Memory.open(folder, hold=False) as beside:
        assert taking.info().partitions[0].holding is True
        assert taking.info().partitions[0].applied == 5_000
        assert beside.info().partitions[0].applied == 5_000
        assert beside.info().partitions[0].holding is False
        late = Worker(workers.hook, folder, "late")
        acks.append(late.hear())
        late.stop()
        for memory in (beside, taking):
            belief = memory.get(SPACE, ALICE, "n")
            assert isinstance(belief, Belief)
            assert belief.value == "late"
        assert taking.digest() == beside.digest()
    for own in (acks[:2_500], acks[2_500:5_000]):
        assert own == sorted(own), "each in the order it wrote"
    check_nothing_lost(folder, acks)


def test_a_diff_beside_a_holder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its two Views the tables may be opened anew."""
    with Memory.open(folder) as holding:
        first = holding.remember(SPACE, ALICE, "n", 1)
        holding.remember(SPACE, ALICE, "n", 2)
        holding.info()
        monkeypatch.setattr(catchup, "TAIL_MAX_EVENTS", 0)  # whoever does not hold them looks again every time
        with Memory.open(folder, hold=False) as memory:
            [difference] = memory.diff(SPACE, View(as_of=first.position))
            assert isinstance(difference.after, Belief)
            assert difference.after.value == 2


def test_one_memory_and_many_threads_beside_hooks(folder: Path) -> None:
    """Threads of one process share one Memory while hooks write beside it."""
    with Memory.open(folder) as memory:

        def work(number: int) -> Ack:
            receipt = memory.remember(SPACE, f"user:{number % 3}", "n", number)
            assert memory.known_at(SPACE, receipt.event_id).view.as_of.offset < receipt.position.offset
            return receipt.position.offset, str(receipt.event_id), receipt.status

        hooks = [Worker(workers.hook, folder, f"h{number}") for number in range(4)]
        with ThreadPoolExecutor(8) as pool:
            acks: list[Any] = list(pool.map(work, range(64)))
        for hook in hooks:
            acks.append(hook.hear())
            hook.stop()
    assert sorted(offset for offset, _, _ in acks) == list(range(68))
    check_nothing_lost(folder, acks)
