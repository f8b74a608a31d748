"""One opened store: its log, and for each partition the rows that follow it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from schemas.checks import check_space
from schemas.errors import NotServing, SlotlogError, StoreClosed
from streams.catchup import FLUSH_INTERVAL_S, TAIL_MAX_EVENTS, Followed, Follower
from streams.making import Making
from streams.ports import Clone, Position
from streams.reads import Reads
from streams.rows import Head
from streams.stores import open_store

KEEP_UP_INTERVAL_S = 1.0
HEADS_WITHIN_S = 0.25
"""So long it is waited for a read that goes on, before it is told where things stood then."""


class Partitions:
    """What the verbs of `Memory` share. Everything that touches the rows of a space holds `_locked(space)`."""

    def __init__(
        self,
        store: str | Path,
        *,
        actor: str | None,
        hold: bool,
        create: bool,
        max_value_bytes: int,
        timeout_s: float,
        flush_events: int = TAIL_MAX_EVENTS,
        flush_interval_s: float = FLUSH_INTERVAL_S,
        clone: Clone | None = None,
    ) -> None:
        self._clone = clone
        self._seen: dict[str, tuple[int, bytes | None]] = {}
        self._making = Making(actor, self._seen, max_value_bytes)
        opened = open_store(store, create=create, timeout_s=timeout_s)
        self._store, self._log, self._codec = opened.name, opened.log, opened.codec
        self._pid = os.getpid()
        self._lock, self._whole = threading.RLock(), threading.RLock()
        self._moments: Sequence[Followed] | None = None
        self._closed = threading.Event()
        self._keeper: threading.Thread | None = None
        self._tables_folder = opened.tables
        self._followers = [
            Follower(
                self._log,
                partition,
                opened.tables / f"p{partition}",
                self._codec,
                hold=hold,
                flush_events=flush_events,
                flush_interval_s=flush_interval_s,
                clone=clone,
            )
            for partition in range(self._log.partitions)
        ]

    def close(self) -> None:
        """Flush the tables and let go of everything. Twice is harmless; any use afterwards raises StoreClosed."""
        self._mind_fork()
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            with ExitStack() as closing:  # each is closed, whatever becomes of the others
                closing.callback(self._log.close)
                for follower in self._followers:
                    closing.callback(follower.close)
        if self._keeper is not None:
            self._keeper.join()

    def _locked(self, space: str) -> AbstractContextManager[object]:
        """What is held while the rows of the space's partition are touched. It may be entered again by its holder."""
        self._mind_fork()
        return self._lock

    @contextmanager
    def _all_at_once(self) -> Iterator[Sequence[Followed]]:
        """Every partition that is answered for, as of one moment. Where this process holds the tables, no lock is held
        meanwhile, so that folding and other reads go on; but one such read goes on at a time. Entered again by its
        thread it is the same moment. Never entered by who holds a partition."""
        self._mind_fork()
        with self._whole:
            if self._moments is not None:
                yield self._moments
                return
            try:
                with ExitStack() as held:
                    self._moments = self._all_now(held)
                    yield self._moments
            except StoreClosed as error:
                self._check_open()
                raise NotServing(
                    "the tables were let go of before they were read to their end", hint="ask again"
                ) from error
            finally:
                self._moments = None

    def _all_now(self, held: ExitStack) -> Sequence[Followed]:
        """Every partition that is answered for, brought to the end of the log, as it is until `held` is closed."""
        with self._lock:
            self._all_fresh()
            if all(follower.holding for follower in self._followers):
                return [held.enter_context(follower.moment()) for follower in self._followers]
            held.enter_context(self._lock)  # what lies over another process's tables changes with every read
            return self._followers

    def heads(self) -> Sequence[Head]:
        """Where every partition stands: brought to the end of the log, or as it stood when a read began that still goes
        on. Whoever watches the process must not wait for that."""
        self._check_open()
        if self._lock.acquire(timeout=HEADS_WITHIN_S):
            try:
                self._all_fresh()
            finally:
                self._lock.release()
        return [follower.head for follower in self._followers]

    def _fresh(self, space: str) -> Reads:
        """Reads of the space's partition, brought to the end of the log."""
        self._check_open()
        check_space(space)
        follower = self._follower(space)
        follower.refresh()
        if follower.holding:
            self._keep_up()
        return follower.reads

    def _all_fresh(self) -> Sequence[Reads]:
        """Reads of every partition, each brought to the end of the log."""
        self._check_open()
        for follower in self._followers:
            follower.refresh()
        if any(follower.holding for follower in self._followers):
            self._keep_up()
        return [follower.reads for follower in self._followers]

    def _current(self, space: str) -> Reads:
        """Reads of the space's partition, as of its last refresh."""
        return self._follower(space).reads

    def _at(self, space: str) -> Position:
        """The last offset of the space's partition that is folded, as of its last refresh."""
        head = self._follower(space).head
        return Position(head.partition, head.next_offset - 1)

    def _first(self, partition: int) -> int:
        """Offset of the first record that the log still has."""
        return self._log.start(partition)

    def _follower(self, space: str) -> Follower:
        return self._followers[self._log.partition_of(space.encode())]

    def _check_open(self) -> None:
        self._mind_fork()
        if self._closed.is_set():
            raise StoreClosed(f"the memory of {self._store} is closed")

    def _mind_fork(self) -> None:
        """A child that was forked reads for itself; the tables stay its parent's."""
        if self._pid != os.getpid():
            self._pid, self._lock, self._keeper = os.getpid(), threading.RLock(), None
            self._whole, self._moments = threading.RLock(), None
            for follower in self._followers:
                follower.leave_to_parent()

    def _keep_up(self) -> None:
        """Whoever holds the tables folds what others append, so that nobody who reads beside it has much to fold."""
        if self._keeper is None:
            arguments = (weakref.ref(self), self._closed)
            self._keeper = threading.Thread(target=_keep_up, args=arguments, name="slotlog-keeper", daemon=True)
            self._keeper.start()

    def _fold_held(self) -> bool:
        """Fold what the log has since into the tables that are held here; False when that can't go on."""
        if not self._lock.acquire(blocking=False):
            return True
        try:
            for follower in self._followers:
                if follower.holding:
                    follower.refresh()
            return True
        except SlotlogError:  # the next read meets the same and says it
            return False
        finally:
            self._lock.release()


def _keep_up(holder: weakref.ref[Partitions], closed: threading.Event) -> None:
    while not closed.wait(KEEP_UP_INTERVAL_S):
        partitions = holder()
        if partitions is None or closed.is_set() or not partitions._fold_held():
            return
        del partitions
