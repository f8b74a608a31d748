"""What is particular to the embedded log: crashes, full disks, other processes, files that are not as expected."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from log_worker import clock, seen, spawn

from schemas.errors import (
    FormatTooNew,
    InvalidInput,
    NotFound,
    SlotlogError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreFull,
)
from streams.ports import Message, Position
from streams.sqlite_log import PAGE_RECORDS, SqliteLog, exists


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "some" / "log"


def opened(folder: Path, busy_timeout_s: float = 30.0) -> SqliteLog:
    return SqliteLog(folder, busy_timeout_s=busy_timeout_s, clock=clock)


def numbered(*numbers: int) -> list[Message]:
    return [Message(b"acme/crm", str(number).encode()) for number in numbers]


def values(log: SqliteLog) -> list[str]:
    return [(record.value or b"").decode() for batch in log.read(0, 0) for record in batch.records]


def edit(folder: Path, *statements: str) -> None:
    """Change the file behind slotlog's back."""
    with closing(sqlite3.connect(folder / "log.sqlite", isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process that runs `code` with this one's import path."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_writer_loses_nothing_acknowledged(folder: Path) -> None:
    acknowledged: list[str] = []
    for turn in range(3):
        process = spawn("sqlite", folder, "append", f"turn{turn}", 1_000_000, 3)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(40 + 7 * turn)]
        process.send_signal(signal.SIGKILL)
        lines.append(process.communicate()[0])
        with closing(opened(folder)) as log:
            there = values(log)
        for _, offset, value in seen("".join(lines)):
            assert there[offset] == value
            acknowledged.append(value)
        assert len(there) % 3 == 0, "an append is there as a whole or not at all"
    assert [value for value in there if value in acknowledged] == acknowledged


def test_many_processes_make_one_log(folder: Path) -> None:
    processes = [spawn("sqlite", folder, "append", f"w{number}", 5, 1) for number in range(6)]
    written = [item for process in processes for item in seen(process.communicate(timeout=60)[0])]
    with closing(opened(folder)) as log:
        assert [value for _, _, value in sorted(written)] == values(log)
    assert len(written) == 30


@contextmanager
def little_room(kind: str, folder: Path) -> Iterator[Callable[[], None]]:
    """A `folder` that takes about 2 MB until the function that is yielded is called."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "slotlog-test", str(folder)]
    if kind == "tmpfs" and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            filler = folder / "filler"
            filler.write_bytes(bytes(1_000_000))
            yield filler.unlink
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kind", ["tmpfs", "file size limit"])
@pytest.mark.parametrize("batch", [1, 20])
def test_a_full_disk_refuses_whole_appends_and_harms_nothing(tmp_path: Path, kind: str, batch: int) -> None:
    with little_room(kind, tmp_path / "disk") as make_room:
        place = tmp_path / "disk" / "log"
        log = opened(place)
        messages = [Message(b"k", bytes(9_000))] * batch
        written = 0
        with suppress(StoreFull):
            while written < 2_000:
                written += len(log.append(messages))
        for _ in range(3):
            with pytest.raises(StoreFull) as caught:
                log.append([Message(b"k", bytes(900_000))])
            assert caught.value.hint is not None
        assert 0 < written == log.end(0) == len(values(log))
        with closing(opened(place)) as other:
            assert other.end(0) == written
        make_room()
        assert log.append(messages)[0] == Position(0, written)
        log.close()
        with closing(opened(place)) as again:
            assert len(values(again)) == again.end(0) == written + batch
        with closing(sqlite3.connect(place / "log.sqlite")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_log_is_not_made_where_there_is_no_room(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
    try:
        with pytest.raises(StoreFull):
            opened(tmp_path / "log")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with closing(opened(tmp_path / "log")) as log:
        assert log.append(numbered(0)) == [Position(0, 0)]


HOLD = """
from pathlib import Path
from streams.file_lock import FileLock
lock = FileLock(Path(sys.argv[1]) / "log.lock")
lock.acquire(10)
print("held", flush=True)
sys.stdin.read()
"""


def test_the_holder_is_named_and_its_end_frees_the_lock(folder: Path) -> None:
    with closing(opened(folder, busy_timeout_s=0.2)) as log, python(HOLD, folder) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreBusy, match=rf"held for 0\.2 s by process {holder.pid} \(-c\)") as caught:
            log.append(numbered(0))
        assert caught.value.hint is not None
        assert log.end(0) == 0, "reads need no lock"
        holder.kill()
        holder.wait()
        assert log.append(numbered(0)) == [Position(0, 0)]


def test_waiting_for_another_thread_is_bounded_too(folder: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow_clock() -> int:
        entered.set()
        assert leave.wait(30)
        return 1

    with closing(SqliteLog(folder, busy_timeout_s=0.2, clock=slow_clock)) as log:
        thread = threading.Thread(target=log.append, args=(numbered(0),))
        thread.start()
        assert entered.wait(30)
        try:
            with pytest.raises(StoreBusy, match="another thread"):
                log.append(numbered(1))
            with (
                pytest.raises(StoreBusy, match=rf"process {os.getpid()} "),
                closing(SqliteLog(folder, busy_timeout_s=0.2, clock=clock)) as other,
            ):
                other.append(numbered(1))
        finally:
            leave.set()
            thread.join()
        assert values(log) == ["0"]


def test_a_program_that_locks_the_database_itself(folder: Path) -> None:
    with (
        closing(opened(folder, busy_timeout_s=0.2)) as log,
        closing(sqlite3.connect(folder / "log.sqlite", isolation_level=None)) as foreign,
    ):
        foreign.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="another program"):
            log.append(numbered(0))
        foreign.execute("COMMIT")
        assert log.append(numbered(0)) == [Position(0, 0)]


def test_a_clock_that_jumps_back(folder: Path) -> None:
    ticks = iter([50, 20, 30, 70])
    with closing(SqliteLog(folder, clock=lambda: next(ticks))) as log:
        for number in range(3):
            log.append(numbered(number, number))
    with closing(SqliteLog(folder, clock=lambda: next(ticks))) as log:
        log.append(numbered(3))
        times = [record.append_time for batch in log.read(0, 0) for record in batch.records]
    assert times == [50, 50, 50, 50, 50, 50, 70]


def test_a_failure_in_the_middle_of_an_append_leaves_nothing(folder: Path) -> None:
    with closing(opened(folder)) as log:
        log.append(numbered(0))
        with pytest.raises(InvalidInput):
            log.append([*numbered(1), Message(b"k", [1])])  # type: ignore[arg-type]
        assert log.append(numbered(1)) == [Position(0, 1)]
        assert values(log) == ["0", "1"]


def test_every_commit_is_synced(folder: Path) -> None:
    with closing(opened(folder)) as log:
        assert log.end(0) == 0
        log.append(numbered(0))
        for connection in (log._handles.writer, log._handles.reader):
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_only_the_owner_can_read_the_files(folder: Path) -> None:
    with closing(opened(folder)) as log:
        log.append(numbered(0))
        modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_unfinished_read_does_not_keep_the_wal(folder: Path) -> None:
    with closing(opened(folder)) as log:
        log.append(numbered(*range(PAGE_RECORDS + 1)))
        reading = log.read(0, 0)
        next(reading)
        log.append([Message(b"k", bytes(500_000))] * 20)
        with closing(sqlite3.connect(folder / "log.sqlite")) as database:
            busy, _, _ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert busy == 0
        assert (folder / "log.sqlite-wal").stat().st_size == 0
        assert [record.offset for batch in reading for record in batch.records] == [PAGE_RECORDS]


def test_a_log_that_must_be_there(folder: Path) -> None:
    assert not exists(folder)
    with pytest.raises(NotFound) as caught:
        SqliteLog(folder, clock=clock, create=False)
    assert caught.value.hint is not None
    assert not folder.exists()
    opened(folder).close()
    assert exists(folder)
    SqliteLog(folder, clock=clock, create=False).close()


def test_a_newer_format_is_refused(folder: Path) -> None:
    opened(folder).close()
    edit(folder, "PRAGMA user_version = 2")
    with pytest.raises(FormatTooNew, match="format 2") as caught:
        opened(folder)
    assert caught.value.hint == "upgrade slotlog"


def test_a_file_that_is_no_log_is_refused(folder: Path) -> None:
    folder.mkdir(parents=True)
    path = folder / "log.sqlite"
    path.write_bytes(b"These are notes, and they are older than the log. " * 100)
    with pytest.raises(StoreDamaged, match="not a database"):
        opened(folder)
    assert path.read_bytes().startswith(b"These are notes")
    path.unlink()
    edit(folder, "CREATE TABLE log (x)")
    with pytest.raises(StoreDamaged, match="not a slotlog log"):
        opened(folder)
    edit(folder, "PRAGMA application_id = 0x534C4F47", "PRAGMA user_version = 1")
    with pytest.raises(StoreDamaged, match="no such table"):
        opened(folder)


def test_damage_is_found_when_it_is_read(folder: Path) -> None:
    with closing(opened(folder)) as log:
        log.append([Message(b"k", bytes(500), (("h", b"v"),))] * 5_000)
    edit(folder, "UPDATE log SET headers = x'c1' WHERE \"offset\" = 4")
    with closing(opened(folder)) as log, pytest.raises(StoreDamaged, match="headers"):
        list(log.read(0, 3))
    edit(folder, 'UPDATE log SET headers = NULL WHERE "offset" = 4', 'DELETE FROM log WHERE "offset" = 10')
    with closing(opened(folder)) as log:
        assert len(next(log.read(0, 0, 10)).records) == 10
        with pytest.raises(StoreDamaged, match="offset 10 is missing"):
            list(log.read(0, 3))
    path = folder / "log.sqlite"
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
    path.write_bytes(content)
    with closing(opened(folder)) as log, pytest.raises(StoreDamaged):
        list(log.read(0, 11))


def test_a_folder_that_can_not_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "log.sqlite").mkdir(parents=True)
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "taken"):
        with pytest.raises(InvalidInput) as caught:
            opened(place)
        assert caught.value.hint is not None


FORKED = """
import os
from pathlib import Path
from log_worker import clock
from streams.ports import Message
from streams.sqlite_log import SqliteLog
log = SqliteLog(Path(sys.argv[1]), clock=clock)
log.append([Message(b"k", b"before")])
child = os.fork()
for number in range(50):
    log.append([Message(b"k", f"{'parent' if child else 'child'} {number}".encode())])
log.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_opens_its_own_files(folder: Path) -> None:
    with python(FORKED, folder) as process:
        process.communicate(timeout=60)
        assert process.returncode == 0
    with closing(opened(folder)) as log:
        found = values(log)
    assert len(found) == 101
    for who in ("parent", "child"):
        assert [value for value in found if value.startswith(who)] == [f"{who} {number}" for number in range(50)]


def test_close_while_others_read_and_append(folder: Path) -> None:
    log = opened(folder)
    log.append(numbered(*range(3 * PAGE_RECORDS)))
    failures: list[SlotlogError] = []
    started = threading.Barrier(5)

    def use(work: Callable[[], object]) -> None:
        started.wait(30)
        try:
            while True:
                work()
        except StoreClosed:
            return
        except SlotlogError as error:
            failures.append(error)

    work: list[Callable[[], object]] = [
        lambda: log.append(numbered(1)),
        lambda: list(log.read(0, 0)),
        lambda: log.end(0),
    ]
    threads = [threading.Thread(target=use, args=(item,)) for item in [*work, work[0]]]
    for thread in threads:
        thread.start()
    started.wait(30)
    log.end(0)
    log.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert failures == []
