"""One partition's rows in RocksDB. The only file that knows rocksdict.

RocksDB's own log is off: the event log is the write-ahead log. There is one column family, so what a crash leaves is
the rows of one earlier offset, whole, and the head among them says which; reading on from there loses nothing.
Another process may open the same rows read-only at any time: it takes no lock and sees what was last flushed.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import cast

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteOptions,
)

from schemas.errors import SlotlogError, StoreClosed, StoreDamaged, StoreFull

_BLOCK_CACHE_BYTES = 64 << 20
_WRITE_BUFFER_BYTES = 8 << 20
_BLOOM_BITS_PER_KEY = 10
_READ_OPEN_ATTEMPTS = 20
_SNAPSHOTS_END_S = 10.0


class Tables:
    """Rows of one partition; see `rows.Rows` for how they are read. Safe for several threads."""

    def __init__(self, folder: Path, database: Rdict, *, writable: bool) -> None:
        self.folder = folder
        self.writable = writable
        self._database: Rdict | None = database
        self._write_options = _without_wal()
        self._snapshots = 0
        self._snapshot_ended = threading.Condition()

    @classmethod
    def open_to_write(cls, folder: Path) -> Tables:
        """The rows in `folder`, made if there are none. The caller holds the lock that keeps other writers out."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return cls(folder, Rdict(str(folder), _options()), writable=True)
        except Exception as error:  # rocksdict raises no narrower class
            raise _translated(error, folder) from error

    @classmethod
    def open_to_read(cls, folder: Path) -> Tables | None:
        """The rows in `folder` as they were last flushed; None when there are none yet."""
        for attempt in range(_READ_OPEN_ATTEMPTS):
            if not (folder / "CURRENT").exists():
                return None
            try:
                return cls(folder, Rdict(str(folder), _options(), access_type=AccessType.read_only()), writable=False)
            except Exception as error:  # beside a flushing writer a file may be replaced between two looks
                if attempt == _READ_OPEN_ATTEMPTS - 1:
                    raise _translated(error, folder) from error
        return None

    def get(self, key: bytes) -> bytes | None:
        database = self._open()
        try:
            return cast("bytes | None", database.get(key))
        except Exception as error:
            raise _translated(error, self.folder) from error

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        database = self._open()
        try:
            return cast("list[bytes | None]", database.get(list(keys))) if keys else []
        except Exception as error:
            raise _translated(error, self.folder) from error

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        rows = self._open().iter()
        if reverse:
            _seek_below(rows, stop)
        else:
            rows.seek(start)
        return self._descending(rows, start) if reverse else self._ascending(rows, stop)

    @contextmanager
    def snapshot(self) -> Iterator[SnapshotRows]:
        """The rows of this moment, whatever is written while the block goes on; nothing may be written while it begins.
        For one thread, and for reads that take long: whoever closes the tables waits until the block ends, which it
        does by StoreClosed at its next row."""
        with self._snapshot_ended:
            database = self._open()
            made = SnapshotRows(self, database.iter(), database.iter())
            self._snapshots += 1
        try:
            yield made
        finally:
            made.end()
            with self._snapshot_ended:
                self._snapshots -= 1
                self._snapshot_ended.notify_all()

    def _ascending(self, rows: RdictIter, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        while rows.valid() and (key := rows.key()) < stop:
            yield key, rows.value()
            rows.next()
        self.check(rows)

    def _descending(self, rows: RdictIter, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        while rows.valid() and (key := rows.key()) >= start:
            yield key, rows.value()
            rows.prev()
        self.check(rows)

    def check(self, rows: RdictIter) -> None:
        """Tell the end of a scan from a damaged block."""
        try:
            rows.status()
        except Exception as error:
            raise _translated(error, self.folder) from error

    def write(self, rows: Mapping[bytes, bytes]) -> None:
        """Write all of `rows`, or none of them. They are durable after `flush` or `close`, not before.

        Raises:
            StoreFull: no room.
        """
        batch = WriteBatch(raw_mode=True)
        for key, row in rows.items():
            batch.put(key, row)
        try:
            self._open().write(batch, self._write_options)
        except StoreClosed:
            raise
        except Exception as error:
            raise _translated(error, self.folder) from error

    def flush(self) -> None:
        """Make everything written so far durable, and visible to those who open to read.

        Raises:
            StoreFull: no room.
        """
        try:
            self._open().flush()
        except StoreClosed:
            raise
        except Exception as error:
            raise _translated(error, self.folder) from error

    def compact(self) -> None:
        """Rewrite the rows without what was overwritten: fewer bytes, quicker reads."""
        self._open().compact_range(None, None)

    def close(self, *, flush: bool = True) -> None:
        """Let go, with `flush` after making what was written durable. Twice is harmless."""
        with self._snapshot_ended:
            database, self._database = self._database, None
            if database is None:
                return
            self._snapshot_ended.wait_for(lambda: not self._snapshots, _SNAPSHOTS_END_S)  # RocksDB's lock is theirs too
        failure: Exception | None = None
        for step in ((database.flush,) if flush and self.writable else ()) + (database.close,):
            try:
                step()
            except Exception as error:  # noqa: BLE001  rocksdict raises no narrower class
                failure = failure or error
        if failure is not None:
            raise _translated(failure, self.folder) from failure

    def check_open(self) -> None:
        """
        Raises:
            StoreClosed: they were let go of.
        """
        self._open()

    def _open(self) -> Rdict:
        if self._database is None:
            raise StoreClosed(f"the tables in {self.folder} are closed")
        return self._database


class SnapshotRows:
    """Rows as they were at one moment; see `rows.Rows` for how they are read, and `Tables.snapshot` for how long. One
    scan goes on at a time: the next one ends it. RocksDB's iterators stay as of when they were made, while rocksdict's
    own snapshots do not iterate as of themselves."""

    def __init__(self, tables: Tables, gets: RdictIter, scans: RdictIter) -> None:
        self._tables = tables
        self._iterators: tuple[RdictIter, RdictIter] | None = (gets, scans)
        self._scan = 0

    def get(self, key: bytes) -> bytes | None:
        return self.get_many((key,))[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._get(self._opened()[0], key) for key in keys]

    def _get(self, rows: RdictIter, key: bytes) -> bytes | None:
        rows.seek(key)
        if rows.valid() and rows.key() == key:
            return cast(bytes, rows.value())
        self._tables.check(rows)
        return None

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        rows = self._opened()[1]
        self._scan += 1
        mine = self._scan
        if reverse:
            _seek_below(rows, stop)
        else:
            rows.seek(start)
        while rows.valid() and start <= (key := rows.key()) < stop:
            yield key, rows.value()
            self._opened()
            if mine != self._scan:
                raise RuntimeError("a scan of a snapshot was gone on with after the next one had begun")
            if reverse:
                rows.prev()
            else:
                rows.next()
        self._tables.check(rows)

    def end(self) -> None:
        """Let go of what keeps the tables from being closed."""
        self._iterators = None

    def _opened(self) -> tuple[RdictIter, RdictIter]:
        self._tables.check_open()
        if self._iterators is None:
            raise StoreClosed(f"the snapshot of the tables in {self._tables.folder} has ended")
        return self._iterators


def _seek_below(rows: RdictIter, stop: bytes) -> None:
    """To the last row before `stop`."""
    rows.seek_for_prev(stop)
    if rows.valid() and rows.key() == stop:
        rows.prev()


def remove(folder: Path) -> None:
    """Delete a folder of rows that nobody holds. They can be folded again from the log."""
    shutil.rmtree(folder, ignore_errors=True)


@cache
def _block_cache() -> Cache:
    """One for the whole process, however many partitions it reads."""
    return Cache(_BLOCK_CACHE_BYTES)


def _options() -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(_block_cache())
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, block_based=False)
    table.set_format_version(5)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    return options


def _without_wal() -> WriteOptions:
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]  # a property that its stub calls a method
    return options


def _translated(error: Exception, folder: Path) -> SlotlogError:
    text = str(error)
    if "No space left" in text:
        return StoreFull(f"no room for the tables in {folder}", hint="make room; nothing acknowledged is lost")
    if "Corruption" in text:
        return StoreDamaged(
            f"the tables in {folder} are damaged: {text}", hint="run slotlog rebuild; the log is untouched"
        )
    return StoreDamaged(
        f"the tables in {folder} can't be used: {text}", hint="run slotlog rebuild; the log is untouched"
    )
