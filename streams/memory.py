"""Memory: the one façade. Everything an agent, a command or a server does with slotlog goes through it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from schemas.checks import DEFAULT_MAX_VALUE_BYTES
from streams.answers import Info, PartitionInfo, SpaceInfo
from streams.digest import combined, digests
from streams.memory_reads import Reading
from streams.memory_writes import Writes
from streams.stores import DEFAULT_STORE


class Memory(Writes, Reading):
    """Memory of one store. Safe for several threads; close it, or use it as a context manager.

        with Memory.open("./memory", actor="agent:planner") as memory:
            memory.remember("acme/support", "user:alice", "employer", "Acme")
            memory.get("acme/support", "user:alice", "employer").value

    A write returns once the event is durable on the log and never waits for the tables; a read sees everything
    acknowledged before it was asked. Times are aware datetimes. Where an event id is taken, a UUID or its text will do.
    """

    @classmethod
    def open(
        cls,
        store: str | Path = DEFAULT_STORE,
        *,
        actor: str | None = None,
        hold: bool = True,
        create: bool = True,
        max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES,
        timeout_s: float = 30.0,
    ) -> Self:
        """Open a store.

        Args:
            store: a folder, or `kafka://HOST:PORT/TOPIC`.
            actor: who writes, where a call does not say; default `SLOTLOG_ACTOR`, else `user:` and the login name.
            hold: take the tables for writing at the first read, if nobody has them. A short-lived reader leaves it out.
            create: make an embedded store where there is none.
            max_value_bytes: most bytes of UTF-8 that one value or text may have, up to 950,000.
            timeout_s: most seconds to wait for a lock or a broker.

        Raises:
            InvalidInput: the store's name means nothing, or a setting is out of range.
            NotFound: there is no such store.
            Unavailable: the lock or the broker was not to be had in time.
        """
        return cls(store, actor=actor, hold=hold, create=create, max_value_bytes=max_value_bytes, timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def digest(self) -> tuple[str, dict[str, str]]:
        """(one hash over everything, space to hash): equal for equal memory, wherever it was folded."""
        with self._lock:
            spaces: dict[str, str] = {}
            self._all_fresh()
            for follower in self._followers:
                spaces.update(digests(follower.rows))
            return combined(spaces), dict(sorted(spaces.items()))

    def info(self) -> Info:
        """What the store holds, as of now."""
        with self._lock:
            spaces = [
                SpaceInfo(name, row.events, reads.position(row.first_offset), reads.position(row.last_offset))
                for reads in self._all_fresh()
                for name, row in reads.spaces()
            ]
            partitions = tuple(
                PartitionInfo(
                    head.partition,
                    self._log.start(head.partition),
                    head.next_offset,
                    head.applied,
                    head.duplicates,
                    head.quarantined,
                    head.chain.hex(),
                    follower.holding,
                )
                for follower in self._followers
                for head in (follower.head,)
            )
            return Info(
                self._store, self._log.identity, partitions, tuple(sorted(spaces, key=lambda space: space.name))
            )

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Fold the whole log again into fresh tables and put them in the place of the old ones.

        Args:
            progress: called with the next offset and the end, after each batch of each partition.

        Raises:
            StoreBusy: another process holds the tables.
        """
        with self._lock:
            self._check_open()
            for follower in self._followers:
                follower.rebuild(progress)
