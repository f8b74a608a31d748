"""What a process that answers says of itself, and the fleet of one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from streams.rows import Head

ALONE_POLL_S = 0.1

Role = Literal["active", "standby"]
State = Literal["opening", "catching up", "live"]


class PartitionStatus(msgspec.Struct, frozen=True):
    """One partition in one process: its tables have folded up to offset `next`, exclusive, and the log ends at `end`.

    opening: the tables are being opened and compared with the log.
    catching up: read in bulk by librdkafka; `next` moves towards `end`.
    live: events are folded as they come.
    `ready`: it has been caught up since it was assigned, so it is answered from. A standby never is.
    """

    partition: int
    role: Role
    state: State
    next: int
    end: int
    quarantined: int
    ready: bool

    @property
    def lag(self) -> int:
        """Events that are on the log and not in the tables yet."""
        return max(0, self.end - self.next)


class WorkerStatus(msgspec.Struct, frozen=True):
    """One process that answers. `member`: its place in the group was confirmed within a session timeout. `reasons` say
    what is not as it should be; one that has reasons and is ready is degraded."""

    worker: str
    url: str | None
    member: bool
    ready: bool
    partitions: tuple[PartitionStatus, ...]
    reasons: tuple[str, ...]


class _Headed(Protocol):
    def heads(self) -> Sequence[Head]: ...


class Alone:
    """The fleet of `slotlog serve`: one process, which answers for every space. See `ports.Fleet`."""

    def __init__(self, memory: _Headed, url: str | None = None) -> None:
        self._memory = memory
        self._url = url

    def elsewhere(self, space: str) -> str | None:
        """Every space is here."""
        return None

    def others(self) -> Sequence[str]:
        """There is nobody else."""
        return ()

    def status(self) -> WorkerStatus:
        """As of now, every partition brought to the end of the log; while a long read goes on, as of that."""
        partitions = tuple(
            PartitionStatus(
                head.partition, "active", "live", head.next_offset, head.next_offset, head.quarantined, True
            )
            for head in self._memory.heads()
        )
        return WorkerStatus("alone", self._url, True, True, partitions, quarantine_reasons(partitions))

    async def changed(self, space: str, timeout_s: float) -> None:
        """Nothing tells when another process appends to the log, so this is a short sleep."""
        await asyncio.sleep(min(timeout_s, ALONE_POLL_S))


def quarantine_reasons(partitions: Sequence[PartitionStatus]) -> tuple[str, ...]:
    """What quarantined records make a process say of itself."""
    return tuple(
        f"partition {one.partition}: {one.quarantined:,} quarantined; slotlog quarantine lists them"
        for one in partitions
        if one.quarantined
    )
