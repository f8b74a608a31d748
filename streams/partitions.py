"""One opened store: its log, and for each partition the rows that follow it."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from schemas.checks import MAX_EVENT_BYTES, check_space
from schemas.errors import InvalidInput, StoreClosed
from streams.catchup import Follower
from streams.reads import Reads
from streams.stores import open_store


class Partitions:
    """What the verbs of `Memory` share. Everything that touches the rows holds `_lock`."""

    def __init__(
        self, store: str | Path, *, actor: str | None, hold: bool, create: bool, max_value_bytes: int, timeout_s: float
    ) -> None:
        if not 0 < max_value_bytes <= MAX_EVENT_BYTES:
            raise InvalidInput(f"max_value_bytes is {max_value_bytes:,}, and may be 1 to {MAX_EVENT_BYTES:,}")
        opened = open_store(store, create=create, timeout_s=timeout_s)
        self._store, self._log, self._codec = opened.name, opened.log, opened.codec
        self._actor = actor or os.environ.get("SLOTLOG_ACTOR") or _login()
        self._max_value_bytes = max_value_bytes
        self._lock = threading.RLock()
        self._closed = False
        self._seen: dict[str, tuple[int, bytes | None]] = {}
        self._tables_folder = opened.tables
        self._followers = [
            Follower(self._log, partition, opened.tables / f"p{partition}", self._codec, hold=hold)
            for partition in range(self._log.partitions)
        ]

    def close(self) -> None:
        """Flush the tables and let go of everything. Twice is harmless; any use afterwards raises StoreClosed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                for follower in self._followers:
                    follower.close()
            finally:
                self._log.close()

    def _fresh(self, space: str) -> Reads:
        """Reads of the space's partition, brought to the end of the log."""
        self._check_open()
        check_space(space)
        self._follower(space).refresh()
        return self._current(space)

    def _all_fresh(self) -> Sequence[Reads]:
        """Reads of every partition, each brought to the end of the log."""
        self._check_open()
        for follower in self._followers:
            follower.refresh()
        return [follower.reads for follower in self._followers]

    def _current(self, space: str) -> Reads:
        """Reads of the space's partition, as of its last refresh."""
        return self._follower(space).reads

    def _follower(self, space: str) -> Follower:
        return self._followers[self._log.partition_of(space.encode())]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"the memory of {self._store} is closed")


def _login() -> str:
    import getpass

    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return f"user:{os.getuid()}"
