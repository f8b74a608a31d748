"""Memory: the one façade. Everything an agent, a command or a server does with slotlog goes through it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from schemas.checks import DEFAULT_MAX_VALUE_BYTES
from streams.memory_admin import Tending
from streams.memory_reads import Reading
from streams.memory_rules import Ruling
from streams.stores import DEFAULT_STORE


class Memory(Ruling, Reading, Tending):
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
        busy_timeout_s: float = 30.0,
    ) -> Self:
        """Open a store.

        Args:
            store: a folder, or `kafka://HOST:PORT/TOPIC`.
            actor: who writes, where a call does not say; default `SLOTLOG_ACTOR`, else `user:` and the login name.
            hold: take the tables for writing at the first read, if nobody has them. A short-lived reader leaves it out.
            create: make an embedded store where there is none.
            max_value_bytes: most bytes of UTF-8 that one value or text may have, up to 950,000.
            busy_timeout_s: most seconds that any call waits for a lock or a broker; the error says who has it.

        Raises:
            InvalidInput: the store's name means nothing, or a setting is out of range.
            NotFound: there is no such store.
            Unavailable: the lock or the broker was not to be had in time.
        """
        return cls(
            store, actor=actor, hold=hold, create=create, max_value_bytes=max_value_bytes, timeout_s=busy_timeout_s
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
