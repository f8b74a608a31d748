"""The verbs that look after a store: what it holds, moving it, proving it, and mending what can be mended."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import InvalidInput, LogRecreated, StoreDamaged, StoreFull
from streams.answers import Info, PartitionInfo, SpaceInfo
from streams.catchup import Follower
from streams.digest import combined, digests
from streams.file_lock import FileLock
from streams.memory import Memory
from streams.partitions import Partitions

if TYPE_CHECKING:
    from schemas.archive import Archived
    from streams.integrity import Problem
    from streams.transfer import Progress, Transferred

VERIFY_PREFIX, LOCK_NAME = "verify-", "lock"
"""How a second fold's folder is named, beside the tables, and the lock in it while it is in use."""


class Tending(Partitions, Memory):
    """Administrative verbs of `Memory`, on the log itself."""

    def digest(self) -> tuple[str, dict[str, str]]:
        with self._all_at_once() as followers:
            spaces: dict[str, str] = {}
            for follower in followers:
                spaces.update(digests(follower.rows))
            return combined(spaces), dict(sorted(spaces.items()))

    def info(self) -> Info:
        with self._all_at_once() as followers:
            spaces = [
                SpaceInfo(name, row.events, reads.position(row.first_offset), reads.position(row.last_offset))
                for reads in (follower.reads for follower in followers)
                for name, row in reads.spaces()
            ]
            partitions = tuple(
                PartitionInfo(
                    head.partition,
                    self._first(head.partition),
                    head.next_offset,
                    head.applied,
                    head.duplicates,
                    head.quarantined,
                    head.chain.hex(),
                    follower.holding,
                )
                for follower in followers
                for head in (follower.head,)
            )
            return Info(
                self._store, self._log.identity, partitions, tuple(sorted(spaces, key=lambda space: space.name))
            )

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> None:
        with self._lock:
            self._check_open()
            for follower in self._followers:
                follower.rebuild(progress)

    def copy(self, target: Memory, progress: Progress | None = None) -> Transferred:
        if not isinstance(target, Tending):
            raise InvalidInput("a copy goes to a folder or to kafka://…, not through an HTTP API")
        if target._log.identity == self._log.identity:
            raise InvalidInput("a store can't be copied onto itself")
        first, second = sorted((self, target), key=lambda one: one._log.identity)  # in one order, whoever copies
        with first._lock, second._lock:
            return target._take_in(self._outgoing(), progress)

    def export(self, path: str | Path, progress: Progress | None = None) -> int:
        from schemas.archive import write_archive

        final = Path(path)
        if not final.name:
            raise InvalidInput(f"{final} names no file")
        partial = final.with_name(f"{final.name}.partial")
        try:
            with self._lock, partial.open("wb") as file:
                count = write_archive(file, _counted(self._outgoing(), progress), self._log.identity)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(final)
        except OSError as error:
            problem = f"{final} can't be written: {error.strerror}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StoreFull(problem, hint="make room, then repeat") from error
            raise InvalidInput(problem) from error
        finally:
            with suppress(OSError):  # there is none, or its folder is none
                partial.unlink()
        return count

    def import_(self, path: str | Path, progress: Progress | None = None) -> Transferred:
        from schemas.archive import read_archive

        for _ in read_archive(Path(path)):
            pass
        with self._lock:
            return self._take_in(read_archive(Path(path)), progress)

    def verify(self) -> list[Problem]:
        from streams.integrity import Problem

        with self._lock:
            self._check_open()
            problems: list[Problem] = []
            for follower in self._followers:
                try:
                    problems += self._verify(follower)
                except StoreDamaged as error:
                    problems.append(Problem(None, str(error), in_tables=True))
            return problems

    def vouched(self) -> tuple[int, int]:
        with self._lock:
            self._check_open()
            for follower in self._followers:
                follower.open()
            ends = [self._log.end(follower.head.partition) for follower in self._followers]
            return sum(follower.head.next_offset for follower in self._followers), sum(ends)

    def flaws(self) -> list[str]:
        with self._lock:
            self._check_open()
            return self._log.flaws()

    @property
    def tables_folder(self) -> Path:
        return self._tables_folder

    def _verify(self, follower: Follower) -> list[Problem]:
        from tempfile import TemporaryDirectory

        from streams.integrity import fold_again, verify_log, verify_tables

        with suppress(LogRecreated):
            follower.refresh()
        follower.open()  # where the log is another one, what was folded before says where it begins to be
        found = verify_log(self._log, follower.head, follower.rows, self._codec)
        if found is not None:
            return [found]
        follower.refresh()
        self._tables_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._tables_folder, prefix=VERIFY_PREFIX) as folder:
            lock = FileLock(Path(folder) / LOCK_NAME)  # says that the folder is in use, for as long as it is
            lock.acquire(0.0)
            try:
                again = fold_again(self._log, follower.head, Path(folder) / "p", self._codec)
                try:
                    return verify_tables(follower.rows, again.rows)
                finally:
                    again.close()
            finally:
                lock.close()

    def _outgoing(self) -> Iterator[Archived]:
        from streams.transfer import outgoing

        self._all_fresh()
        return outgoing(self._log, self._followers)

    def _take_in(self, records: Iterator[Archived], progress: Progress | None) -> Transferred:
        from streams.transfer import Target, incoming

        quarantined = []
        for reads, follower in zip(self._all_fresh(), self._followers, strict=True):
            for one in reads.quarantined():
                offset = one.position.offset
                for batch in self._log.read(follower.head.partition, offset, offset + 1):
                    quarantined += [(record.key or b"", record.value or b"") for record in batch.records]
        return incoming(records, Target(self._log, self._codec, self._fresh, quarantined), progress)


def _counted(records: Iterator[Archived], progress: Progress | None) -> Iterator[Archived]:
    """`records`, telling `progress` of each thousand."""
    for number, record in enumerate(records, 1):
        if progress is not None and number % 1_000 == 0:
            progress(number)
        yield record
