"""The embedded log: one SQLite file, one partition, for many processes at once.

Layout of `log.sqlite` (format 1; `PRAGMA application_id` says that it is a slotlog log, `user_version` the format):

    log   offset INTEGER PRIMARY KEY   dense from 0
          append_time INTEGER          microseconds since 1970 UTC, never descending
          key BLOB, value BLOB         NULL only when a foreign writer left them out
          headers BLOB                 MessagePack list of [name, bytes]; NULL when there are none
    meta  name TEXT PRIMARY KEY        `identity`: 128 random bits in hexadecimal, made with the file
          value TEXT

Beside it lie SQLite's own `-wal` and `-shm` files and the two files of the writers' lock.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from schemas.errors import (
    FormatTooNew,
    InvalidInput,
    LogTruncated,
    NotFound,
    SlotlogError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreFull,
)
from streams.file_lock import FileLock
from streams.limits import check_limits
from streams.ports import Batch, Headers, Message, Position, Record

FILE_NAME = "log.sqlite"
LOCK_NAME = "log.lock"
APPLICATION_ID = 0x534C_4F47
FORMAT = 1
PAGE_RECORDS = 2_000

_CREATE = f"""
BEGIN IMMEDIATE;
CREATE TABLE log (
    "offset" INTEGER PRIMARY KEY, append_time INTEGER NOT NULL, key BLOB, value BLOB, headers BLOB);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('identity', lower(hex(randomblob(16))));
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
COMMIT;
"""
_LAST = 'SELECT "offset", append_time FROM log ORDER BY "offset" DESC LIMIT 1'
_FIRST = 'SELECT "offset" FROM log ORDER BY "offset" LIMIT 1'
_INSERT = "INSERT INTO log VALUES (?, ?, ?, ?, ?)"
_PAGE = (
    'SELECT "offset", CAST(append_time AS INTEGER), CAST(key AS BLOB), CAST(value AS BLOB), CAST(headers AS BLOB) '
    'FROM log WHERE "offset" >= ? AND "offset" < ? '
    f'ORDER BY "offset" LIMIT {PAGE_RECORDS}'
)

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FAILED_WRITES = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_TRUNCATE)
_PERMISSION_HINT = "the log needs a local folder that this user may write"

_LOST_HINT = "it was edited from outside; restore it from an archive or a copy"

_encode_headers = msgspec.msgpack.Encoder().encode
_decode_headers = msgspec.msgpack.Decoder(Headers).decode


class _Handles(NamedTuple):
    """What one process has open. A child that was forked makes its own and leaves these alone."""

    pid: int
    inode: int
    lock: FileLock
    writer: sqlite3.Connection
    reader: sqlite3.Connection
    write_lock: threading.Lock
    read_lock: threading.Lock


_left_by_fork: list[_Handles] = []
"""Handles inherited from a parent process. SQLite forbids even to close them here, so they are kept for ever."""


def exists(folder: Path) -> bool:
    """Whether a log was made in `folder`."""
    try:
        return (folder / FILE_NAME).stat().st_size > 0
    except OSError:
        return False


class SqliteLog:
    """The Log port on one SQLite file in WAL mode with `synchronous=FULL`.

    Any number of processes, and of threads that share one object, may append and read. `clock` gives microseconds
    since 1970 UTC; append times never descend even when it does.
    """

    def __init__(
        self, folder: Path, *, busy_timeout_s: float = 30.0, clock: Callable[[], int], create: bool = True
    ) -> None:
        """Open the log in `folder`; make both when missing, unless `create` is False.

        Raises:
            NotFound: there is no log and `create` is False.
            InvalidInput: the folder can't be made, read or written.
            FormatTooNew, StoreDamaged: the file is not of this format.
            StoreBusy, StoreFull: as for `append`.
        """
        self._folder = Path(folder)
        self._path = self._folder / FILE_NAME
        self._busy_timeout_s = busy_timeout_s
        self._clock = clock
        self._closed = False
        if not create and not exists(self._folder):
            raise NotFound(
                f"there is no log in {self._folder}", hint="check the folder, or make a log by writing to it"
            )
        with self._translated():
            if create:
                self._make_folder()
            self._handles = self._open()
        try:
            with self._translated():
                self._identity = self._check_or_create(self._handles)
        except SlotlogError:
            self.close()
            raise

    @property
    def identity(self) -> str:
        """128 random bits in hexadecimal, made with the file."""
        return self._identity

    @property
    def partitions(self) -> int:
        """Always 1."""
        return 1

    def partition_of(self, key: bytes) -> int:
        """Always 0."""
        return 0

    def append(self, messages: Sequence[Message]) -> list[Position]:
        """Append all messages in one transaction: on an error none is there. See `Log.append`."""
        check_limits(messages)
        handles = self._use()
        if not messages:
            return []
        with self._translated(), self._writing(handles):
            self._check_in_place(handles)
            writer = handles.writer
            last = writer.execute(_LAST).fetchone()
            offset, append_time = (0, self._clock()) if last is None else (last[0] + 1, max(self._clock(), last[1]))
            writer.executemany(
                _INSERT,
                [
                    (number, append_time, key, value, _encode_headers(headers) if headers else None)
                    for number, (key, value, headers) in enumerate(messages, offset)
                ],
            )
            writer.execute("COMMIT")
        return [Position(0, number) for number in range(offset, offset + len(messages))]

    def _check_in_place(self, handles: _Handles) -> None:
        """A file that was deleted or replaced still takes writes, and nobody would ever read them."""
        try:
            inode = os.stat(self._path).st_ino
        except FileNotFoundError:
            inode = -1
        if inode != handles.inode:
            raise StoreDamaged(
                f"{self._path} was deleted or replaced while it was open", hint="close this store and open it again"
            )

    def start(self, partition: int) -> int:
        """Offset of the first record: 0 unless something was deleted by hand."""
        first = self._one(_FIRST, partition)
        return 0 if first is None else first

    def end(self, partition: int) -> int:
        """Offset of the last record + 1; 0 when the log is empty."""
        last = self._one(_LAST, partition)
        return 0 if last is None else last + 1

    def read(self, partition: int, start: int, end: int | None = None) -> Iterator[Batch]:
        """Batches of at most 2,000 records. See `Log.read`; an `end` past the log's end as of this call means that.

        No transaction is open between two batches, so a slow reader holds nothing up.

        Raises:
            StoreDamaged: offsets are missing in the middle, or a row is not what was written.
        """
        now = self.end(partition)
        stop = now if end is None else min(end, now)
        if start >= stop:
            return iter(())
        first = self.start(partition)
        if start < first:
            raise LogTruncated(f"offset {start} was asked for; the log in {self._folder} begins at {first}")
        return self._pages(start, stop)

    def flaws(self) -> list[str]:
        """What SQLite's own check finds wrong in the file, and a folder that others may read."""
        handles = self._use()
        with self._translated(), handles.read_lock:
            rows = handles.reader.execute("PRAGMA quick_check").fetchall()
        found = [f"{self._path}: {row[0]}" for row in rows if row[0] != "ok"]
        if self._folder.stat().st_mode & 0o077:
            found.append(f"{self._folder} is open to other users; chmod 700 closes it")
        return found

    def close(self) -> None:
        """Release files and connections. Twice is harmless."""
        if self._closed:
            return
        self._closed = True
        handles = self._handles
        if handles.pid != os.getpid():
            _left_by_fork.append(handles)
            return
        with self._translated(), handles.write_lock, handles.read_lock:
            handles.reader.close()
            handles.writer.close()
            handles.lock.close()

    def _pages(self, start: int, stop: int) -> Iterator[Batch]:
        new = tuple.__new__
        while start < stop:
            handles = self._use()
            with self._translated():
                with handles.read_lock:
                    self._use()
                    rows = handles.reader.execute(_PAGE, (start, stop)).fetchall()
                records = [
                    new(Record, (0, offset, time_us, key, value, _decode_headers(headers) if headers else ()))
                    for offset, time_us, key, value, headers in rows
                ]
            if not records or records[0].offset != start or records[-1].offset != start + len(records) - 1:
                found = {record.offset for record in records}
                missing = next(offset for offset in range(start, stop) if offset not in found)
                raise StoreDamaged(f"offset {missing} is missing in {self._path}", hint=_LOST_HINT)
            start += len(records)
            yield Batch(records, start)

    def _one(self, query: str, partition: int) -> int | None:
        if partition != 0:
            raise InvalidInput(f"there is no partition {partition}: an embedded log has partition 0 only")
        handles = self._use()
        with self._translated(), handles.read_lock:
            self._use()
            row = handles.reader.execute(query).fetchone()
        return None if row is None else int(row[0])

    def _use(self) -> _Handles:
        """The handles of this process. Raises StoreClosed after `close`."""
        if self._closed:
            raise StoreClosed(f"the log in {self._folder} was closed")
        if self._handles.pid != os.getpid():
            _left_by_fork.append(self._handles)
            with self._translated():
                self._handles = self._open()
        return self._handles

    @contextmanager
    def _writing(self, handles: _Handles) -> Iterator[None]:
        """A write transaction under the writers' lock, rolled back unless the caller committed."""
        deadline = time.monotonic() + self._busy_timeout_s
        if not handles.write_lock.acquire(timeout=self._busy_timeout_s):
            raise StoreBusy(f"{self._folder} was held for {self._busy_timeout_s:g} s by another thread of this process")
        try:
            self._use()
            handles.lock.acquire(max(0.0, deadline - time.monotonic()))
            try:
                handles.writer.execute("BEGIN IMMEDIATE")
                yield
            finally:
                if handles.writer.in_transaction:
                    with suppress(sqlite3.Error):  # the first error is the one to tell
                        handles.writer.rollback()
                handles.lock.release()
        finally:
            handles.write_lock.release()

    def _make_folder(self) -> None:
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignored = self._folder / ".gitignore"  # a log that a checkout rewinds has lost what it acknowledged
            ignored.touch(mode=0o600)
            ignored.write_text("*\n", encoding="utf-8")
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _open(self) -> _Handles:
        lock = FileLock(self._folder / LOCK_NAME)
        try:
            writer, reader = self._connect(), self._connect()
        except sqlite3.Error:
            lock.close()
            raise
        inode = os.stat(self._path).st_ino
        return _Handles(os.getpid(), inode, lock, writer, reader, threading.Lock(), threading.Lock())

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        return connection

    def _check_or_create(self, handles: _Handles) -> str:
        """The identity, after the format was found right, or was written into an empty file."""
        writer = handles.writer
        if self._is_empty(writer):
            handles.lock.acquire(self._busy_timeout_s)
            try:
                if self._is_empty(writer):
                    writer.execute("PRAGMA journal_mode = WAL")
                    writer.executescript(_CREATE)
            finally:
                handles.lock.release()
        path = self._path
        if writer.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreDamaged(f"{path} is a database, but not a slotlog log", hint="choose another folder")
        version = writer.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise FormatTooNew(
                f"{path} has format {version}; this slotlog knows up to {FORMAT}", hint="upgrade slotlog"
            )
        row = writer.execute("SELECT value FROM meta WHERE name = 'identity'").fetchone()
        if row is None:
            raise StoreDamaged(f"{path} has lost its identity")
        return str(row[0])

    @staticmethod
    def _is_empty(connection: sqlite3.Connection) -> bool:
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        return tables == 0 and int(connection.execute("PRAGMA application_id").fetchone()[0]) == 0

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn errors of SQLite and of the file system into ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(error) from error
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"headers in {self._path} can't be read: {error}") from error
        except OSError as error:
            problem = f"{error.strerror}: {error.filename or self._folder}"
            if error.errno in _NO_ROOM:
                raise StoreFull(f"no room for the log: {problem}", hint="make room, then repeat") from error
            raise InvalidInput(f"cannot use {self._folder} for a log: {problem}", hint=_PERMISSION_HINT) from error

    def _error(self, error: sqlite3.Error) -> SlotlogError:
        """What SQLite's error means for the caller."""
        path = self._path
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:  # raised by the Python module itself
            if self._closed:
                return StoreClosed(f"the log in {self._folder} was closed")
            return InvalidInput(f"{path} does not take that: {error}")
        primary = code & 0xFF
        if primary == sqlite3.SQLITE_FULL or code in _FAILED_WRITES:
            return StoreFull(f"no room to write {path}: {error}", hint="make room (or lift the quota), then repeat")
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreBusy(
                f"another program kept {path} locked for {self._busy_timeout_s:g} s",
                hint="end it; only slotlog's own processes queue for their turn",
            )
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            return InvalidInput(f"cannot open {path} for writing: {error}", hint=_PERMISSION_HINT)
        return StoreDamaged(f"{path} can't be used: {error}", hint="restore it from a copy or an archive")
