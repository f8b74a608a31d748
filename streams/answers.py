"""What the product answers with: plain, frozen values. Times are aware datetimes in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from schemas import events as ev
from schemas.events import Value
from streams.ports import Position
from streams.view import ResolvedView

Status = Literal["applied", "duplicate", "blocked", "conflict", "quarantined", "accepted"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one event. It is durable on the log whatever the status says.

    accepted: appended; not folded yet by this process, `Memory.wait` tells.
    applied: it counts.
    blocked: it counts, but a tombstone covers its value, so it is not believed.
    duplicate: the same event was there already; this one changes nothing.
    conflict: another event has its id; this one does not count (`reason` says where the other is).
    quarantined: it does not count (`reason` says why).
    """

    space: str
    event_id: UUID
    position: Position
    status: Status
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: the log from `first`, inclusive, to `next`, exclusive, and what the fold made of it."""

    partition: int
    first: int
    next: int
    applied: int
    duplicates: int
    quarantined: int
    chain: str
    holding: bool


@dataclass(frozen=True, slots=True)
class SpaceInfo:
    """One space; positions are those of its first and last event, inclusive."""

    name: str
    events: int
    first: Position
    last: Position


@dataclass(frozen=True, slots=True)
class Info:
    store: str
    log_identity: str
    partitions: tuple[PartitionInfo, ...]
    spaces: tuple[SpaceInfo, ...]


@dataclass(frozen=True, slots=True)
class Claimed:
    """One fact or end, as another answer refers to it. `value` None: an end of whatever was believed."""

    event_id: UUID
    position: Position
    actor: str
    ended: bool
    value: Value | None


@dataclass(frozen=True, slots=True)
class Belief:
    """What a View answers for an entity:slot.

    The value is believed from `valid_from`, inclusive, to `valid_to`, exclusive (None: no end is known), which is the
    whole run in which it is; `event_id`, `position`, `actor` and `trust` are those of the fact that ranks first at the
    instant asked about (in a history: at the run's start). `corroborations` counts the distinct actors who claim the
    value in the run. `contested` is the newer claim that a verified belief did not yield to. `superseded_by` is the
    claim that ends the run, None when its interval simply ends or is open. `view` asks for exactly this again.
    """

    entity: str
    slot: str
    value: Value
    valid_from: datetime
    valid_to: datetime | None
    position: Position
    event_id: UUID
    actor: str
    trust: str
    corroborations: int
    contested: Claimed | None
    superseded_by: Claimed | None
    view: ResolvedView


Answer = Belief | list[Belief] | None
"""Of a slot that holds one value: its belief or None. Of one that holds many: a list by (valid_from, offset)."""


@dataclass(frozen=True, slots=True)
class Change:
    """From `position` on, `beliefs` were what the slot answered for the instant asked about (empty: nothing)."""

    position: Position
    append_time: datetime
    event: ev.Event
    beliefs: tuple[Belief, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event of the log that counts, with its place and the log's own time of it."""

    position: Position
    append_time: datetime
    event: ev.Event


@dataclass(frozen=True, slots=True)
class Known:
    """What the writer of an event could know. `assumed`: the event does not say what it had been shown."""

    view: ResolvedView
    assumed: bool


@dataclass(frozen=True, slots=True)
class Session:
    """One agent run; positions are those of its first and last event, inclusive."""

    name: str
    agent: str | None
    events: int
    first: Position
    last: Position
    ended: bool
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A record that does not count, and why."""

    position: Position
    code: str
    reason: str
    append_time: datetime
    space: str | None
    event_id: UUID | None
