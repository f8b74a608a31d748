"""Keeping one partition's rows up with the log, whoever else does the same beside us.

Whoever holds the tables folds into them. Everyone else opens them as last flushed and lays the rest of the log over
them in memory, with the same fold. Either way a read sees all that was acknowledged before it asked, and waits for
nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from schemas.codec import Codec
from schemas.errors import LogChanged, LogRecreated, LogTruncated, StoreBusy
from streams import keys, tables
from streams.file_lock import FileLock
from streams.fold import fold, record_hash
from streams.hot import HotSlots
from streams.kept import Kept
from streams.overlay import Empty, Overlay, Remembered
from streams.ports import Batch, Clone, Log
from streams.reads import Reads
from streams.rows import ClaimRow, Head, Rows, decode, decode_head
from streams.tables import Tables

TAIL_MAX_EVENTS = 2_000
FLUSH_INTERVAL_S = 1.0
SUMMARY_FAMILIES = b"PLN"
REMEMBERED_ROWS_MAX = 50_000
HOT_CLAIMS_MAX = 150_000
"""Rows and claims that all partitions of a process together keep in memory: some 300 and 700 bytes each."""

Progress = Callable[[int, int], None]
"""Called with the next offset and the end after each batch of a catch-up."""


_left_by_fork: list[object] = []
"""Tables and locks inherited from a parent process, kept for ever so that nothing closes them."""


class Followed(Protocol):
    """One partition's rows with the head that belongs to them."""

    @property
    def head(self) -> Head: ...

    @property
    def holding(self) -> bool:
        """Whether this process folds into the tables."""

    @property
    def rows(self) -> Rows: ...

    @property
    def reads(self) -> Reads: ...


class Moment(NamedTuple):
    """One partition as it was at one moment, whoever folds on meanwhile (`Followed`)."""

    head: Head
    holding: bool
    rows: Rows
    reads: Reads


class Follower:
    """One partition's rows as of the end of the log. Not safe for several threads: `Memory` has a lock.

    With `hold`, the tables are taken for writing when nobody has them; without, only when the log is more than
    TAIL_MAX_EVENTS ahead of what was flushed, so that a short-lived reader opens quickly and takes nothing. Whoever
    does not hold them looks again every TAIL_MAX_EVENTS, for newer flushed rows or a chance to take them.
    """

    def __init__(
        self,
        log: Log,
        partition: int,
        folder: Path,
        codec: Codec,
        *,
        hold: bool,
        flush_events: int = TAIL_MAX_EVENTS,
        flush_interval_s: float = FLUSH_INTERVAL_S,
        clone: Clone | None = None,
    ) -> None:
        """What was folded becomes durable after `flush_events` or `flush_interval_s`, whichever comes first; a crash
        before that costs reading so much again. `clone` is the repository that reads look commits up in."""
        self._log = log
        self._partition = partition
        self._folder = folder
        self._codec = codec
        self._hold = hold
        self._flush_events = flush_events
        self._flush_interval_s = flush_interval_s
        self._tables: Tables | None = None
        self._overlay: Overlay | None = None
        self._remembered: Remembered | None = None
        self._lock: FileLock | None = None
        self._opened = False
        self._reopen_at = 0
        self._unflushed = 0
        self._flushed_at = 0.0
        self._hot = HotSlots(HOT_CLAIMS_MAX // log.partitions)
        self._kept = Kept()
        self._clone = clone
        self.head = self._fresh_head()

    @property
    def holding(self) -> bool:
        """Whether this process folds into the tables."""
        return self._tables is not None and self._tables.writable

    @property
    def rows(self) -> Rows:
        """The rows as of the last `refresh`."""
        if self._overlay is not None:
            return self._overlay
        return self._tables if self._tables is not None else Empty()

    @property
    def reads(self) -> Reads:
        """Reads of the rows as of the last `refresh`."""
        return Reads(self.rows, self._partition, self._codec, self._hot, self._kept, self._clone)

    @contextmanager
    def moment(self) -> Iterator[Moment]:
        """The partition, which this process holds, as of the last `refresh`, for long reads of one thread. Only this
        call must be kept apart from others; in the block they may fold on. Whoever lets go of the tables ends the
        block's reads with StoreClosed."""
        assert self._tables is not None
        with self._tables.snapshot() as rows:
            yield Moment(self.head, self.holding, rows, Reads(rows, self._partition, self._codec))

    def open(self) -> None:
        """Open the tables as they were last flushed, without folding on; `refresh` does it by itself."""
        try:
            if not self._opened:
                self._open(self._log.end(self._partition))
                self._opened = True
        except BaseException:
            self._let_go(flush=False)
            raise

    def refresh(self, progress: Progress | None = None) -> None:
        """Bring `rows` and `head` to the end of the log as of this call.

        Raises:
            LogChanged: this is not the log, or not all of the log, that the tables were made from.
        """
        try:
            self._refresh(progress)
        except BaseException:  # what was not written whole is read again: the rows and the head go together
            self._let_go(flush=False)
            raise

    def take(self) -> None:
        """Open the tables for writing and compare their head with the log, without folding on.

        Raises:
            StoreBusy: another process has them.
            LogChanged: they were not made from this log, or from more of it than there is.
        """
        if self.holding:
            return
        self.close()
        try:
            self._take()
            self._opened = True
        except BaseException:
            self._let_go(flush=False)
            raise

    def batches(self, end: int) -> Iterator[Batch]:
        """What is to be folded next, up to offset `end`, exclusive. The first batch begins with the record folded last,
        when it is still there, and it must be the same.

        Raises:
            LogTruncated: the log ends before what was folded.
            LogRecreated: the record folded last is another one.
        """
        head = self.head  # others may fold on meanwhile
        if end < head.next_offset:
            raise LogTruncated(
                f"the log of partition {self._partition} ends at offset {end}, and the tables have read up to "
                f"{head.next_offset}",
                hint="restore the log from its archive; if the loss is accepted, delete the tables' folder "
                f"{self._folder} and they are folded again from what is left",
            )
        start, again = head.next_offset, head.last_offset
        if 0 <= again >= self._log.start(self._partition):
            start = again
        for batch in self._log.read(self._partition, start, end):
            if start == again:
                self._check_same_log(batch, head)
                start = head.next_offset
            yield batch

    def fold(self, batch: Batch) -> None:
        """Fold one batch, which must begin at or before the next offset. On an error nothing of it is there, and the
        tables are let go of.

        Raises:
            StoreFull: no room.
        """
        try:
            self._fold(batch)
        except BaseException:
            self._let_go(flush=False)
            raise

    def flush_when_due(self) -> None:
        """`flush`, when enough was folded or enough time has passed."""
        if self._unflushed >= self._flush_events or time.monotonic() - self._flushed_at >= self._flush_interval_s:
            self.flush()

    def flush(self) -> None:
        """Make what was folded durable and visible to those who open the tables to read."""
        if self.holding and self._unflushed:
            assert self._tables is not None
            self._tables.flush()
            self._unflushed = 0
        self._flushed_at = time.monotonic()

    def rebuild(self, progress: Progress | None = None) -> None:
        """Fold the whole log again into fresh tables, and put them in the place of the old ones.

        Raises:
            StoreBusy: another process holds the tables.
        """
        self.close()
        fresh, old = self._folder.with_suffix(".fresh"), self._folder.with_suffix(".old")
        self._lock_folder()
        try:
            tables.remove(fresh)
            tables.remove(old)
            self._tables, self._overlay, self.head = Tables.open_to_write(fresh), None, self._fresh_head()
            self._remember()
            self._fold_to(self._log.end(self._partition), progress)
            self._tables.close()
            if self._folder.exists():
                self._folder.rename(old)
            fresh.rename(self._folder)
            tables.remove(old)
        except BaseException:
            self._let_go(flush=False)
            raise
        self.close()

    def close(self) -> None:
        """Flush and let go of the tables. Twice is harmless; a `refresh` afterwards opens them again."""
        self._let_go(flush=True)

    def leave_to_parent(self) -> None:
        """In a child that was forked: what the parent holds is its own, and can't even be closed here."""
        _left_by_fork.append((self._tables, self._lock))
        self._tables = self._overlay = self._remembered = self._lock = None
        self._let_go(flush=False)

    def _let_go(self, *, flush: bool) -> None:
        opened, self._tables, self._overlay, self._remembered = self._tables, None, None, None
        self._opened, self._unflushed = False, 0
        self._hot.clear()
        self._kept = Kept()
        try:
            if opened is not None:
                opened.close(flush=flush)
        finally:
            lock, self._lock = self._lock, None
            if lock is not None:
                lock.close()

    def _refresh(self, progress: Progress | None) -> None:
        end = self._log.end(self._partition)
        if not self._opened or (not self.holding and end >= self._reopen_at):
            self.close()
            self._open(end)
            self._opened = True
            end = self._log.end(self._partition)  # the tables' holder may have folded more since it was asked
        if end != self.head.next_offset:
            self._fold_to(end, progress)
        self.flush_when_due()

    def _fresh_head(self) -> Head:
        return Head(self._log.identity, self._partition, self._log.partitions)

    def _open(self, end: int) -> None:
        self._reopen_at = end + TAIL_MAX_EVENTS
        if self._hold and self._took():
            return
        read = self._tables = Tables.open_to_read(self._folder)
        head = None if read is None else _head_of(read)
        self.head = self._fresh_head() if head is None else self._checked(head)
        if end - self.head.next_offset > TAIL_MAX_EVENTS and self._took():
            if read is not None:
                read.close()
            return
        self._overlay = Overlay(Empty() if read is None or head is None else read)

    def _took(self) -> bool:
        """Open the tables to write; False when somebody else has them."""
        try:
            self._take()
        except StoreBusy:
            return False
        return True

    def _take(self) -> None:
        self._lock_folder()
        opened = self._tables = Tables.open_to_write(self._folder)
        head = _head_of(opened)
        if head is None and opened.get(keys.HEAD) is not None:  # an older format: fold again
            opened.close()
            tables.remove(self._folder)
            self._tables = Tables.open_to_write(self._folder)
        self.head = self._fresh_head() if head is None else self._checked(head)
        self._overlay = None
        self._remember()
        self._flushed_at = time.monotonic()

    def _remember(self) -> None:
        assert self._tables is not None
        rows_max = REMEMBERED_ROWS_MAX // self._log.partitions
        self._remembered = Remembered(self._tables, SUMMARY_FAMILIES, rows_max)

    def _check_same_log(self, batch: Batch, head: Head) -> None:
        """The record read last must still be the one that it was."""
        first = batch.records[0] if batch.records else None
        if first is None or first.offset != head.last_offset or record_hash(first) != head.last_record:
            raise LogRecreated(
                f"offset {head.last_offset} of partition {self._partition} is not the record that the tables in "
                f"{self._folder} were made from",
                hint="the log was cut, edited or created again; slotlog verify says where. If what it holds now is "
                "right, slotlog rebuild folds it",
            )

    def _tell_hot(self, writes: Mapping[bytes, bytes]) -> None:
        if self._hot:
            for key, row in writes.items():
                if key[:1] == keys.CLAIM:
                    self._hot.put(keys.slot_of_claim(key), keys.claim_parts(key), decode(ClaimRow, row))

    def _lock_folder(self) -> None:
        """Keep every other writer out until `close`, or raise StoreBusy, naming who has the tables."""
        self._folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(self._folder.with_suffix(".lock"))
        try:
            lock.acquire(0.0)
        except StoreBusy:
            lock.close()
            raise
        self._lock = lock

    def _checked(self, head: Head) -> Head:
        where = f"the tables in {self._folder}"
        if head.log_identity != self._log.identity:
            raise LogRecreated(
                f"{where} were made from log {head.log_identity}, and this one is {self._log.identity}",
                hint="it was deleted and created again, or this is another store's folder; delete it to fold this",
            )
        if head.partitions != self._log.partitions:
            raise LogChanged(
                f"{where} were made when the log had {head.partitions} partitions, and it has {self._log.partitions}",
                hint="a log's partition count is fixed; copy it to a new one with slotlog copy",
            )
        if self._log.start(self._partition) > head.next_offset:
            raise LogTruncated(
                f"{where} have read up to offset {head.next_offset}, and the log begins at "
                f"{self._log.start(self._partition)}",
                hint="events were deleted before they were folded; restore them from an archive",
            )
        return head

    def _fold_to(self, end: int, progress: Progress | None) -> None:
        for batch in self.batches(end):
            self._fold(batch)
            if progress is not None:
                progress(self.head.next_offset, end)

    def _fold(self, batch: Batch) -> None:
        if self._overlay is not None:
            rows = Overlay(self._overlay)
            head = fold(batch, rows, self.head, self._codec)
            self._overlay.update(rows.writes)
        else:
            assert self._tables is not None
            assert self._remembered is not None
            rows = Overlay(self._remembered)
            head = fold(batch, rows, self.head, self._codec)
            self._tables.write(rows.writes)
            self._remembered.keep(rows.writes)
            self._unflushed += len(batch.records)
        self._tell_hot(rows.writes)
        self.head = head


def _head_of(opened: Tables) -> Head | None:
    data = opened.get(keys.HEAD)
    return None if data is None else decode_head(data)
