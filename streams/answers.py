"""What the product answers with: plain, frozen values. Times are aware datetimes in UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from schemas import events as ev
from schemas.events import Value
from streams.ports import Position
from streams.view import ResolvedView

Status = Literal["applied", "duplicate", "blocked", "conflict", "quarantined", "accepted"]


class Receipt(msgspec.Struct, frozen=True):
    """What became of one event. It is durable on the log whatever the status says.

    accepted: appended; not folded yet by this process, `Memory.wait` tells.
    applied: it counts.
    blocked: it is not believed, because a tombstone covers its value or its actor is distrusted (`reason` says which).
    duplicate: the same event was there already; this one changes nothing.
    conflict: another event has its id; this one does not count (`reason` says where the other is).
    quarantined: it does not count (`reason` says why).
    """

    space: str
    event_id: UUID
    position: Position
    status: Status
    reason: str | None = None


class PartitionInfo(msgspec.Struct, frozen=True):
    """One partition: the log from `first`, inclusive, to `next`, exclusive, and what the fold made of it."""

    partition: int
    first: int
    next: int
    applied: int
    duplicates: int
    quarantined: int
    chain: str
    holding: bool


class SpaceInfo(msgspec.Struct, frozen=True):
    """One space; positions are those of its first and last event, inclusive."""

    name: str
    events: int
    first: Position
    last: Position


class Info(msgspec.Struct, frozen=True):
    store: str
    log_identity: str
    partitions: tuple[PartitionInfo, ...]
    spaces: tuple[SpaceInfo, ...]


class Claimed(msgspec.Struct, frozen=True):
    """One fact or end, as another answer refers to it. `value` None: an end of whatever was believed."""

    event_id: UUID
    position: Position
    actor: str
    ended: bool
    value: Value | None


class Belief(msgspec.Struct, frozen=True):
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


def beliefs_of(answer: Answer) -> list[Belief]:
    """The beliefs of an answer, whether its slot holds one value or many."""
    return answer if isinstance(answer, list) else [] if answer is None else [answer]


class Change(msgspec.Struct, frozen=True):
    """From `position` on, `beliefs` were what the slot answered for the instant asked about (empty: nothing)."""

    position: Position
    append_time: datetime
    event: ev.Event
    beliefs: tuple[Belief, ...]


class Recorded(msgspec.Struct, frozen=True):
    """An event of the log that counts, with its place and the log's own time of it."""

    position: Position
    append_time: datetime
    event: ev.Event


class Known(msgspec.Struct, frozen=True):
    """What the writer of an event could know. `assumed`: the event does not say what it had been shown."""

    view: ResolvedView
    assumed: bool


class Session(msgspec.Struct, frozen=True):
    """One agent run; positions are those of its first and last event, inclusive."""

    name: str
    agent: str | None
    events: int
    first: Position
    last: Position
    ended: bool
    outcome: str | None


class Branch(msgspec.Struct, frozen=True):
    """One branch of a space. It shows what `parent` showed up to `fork`, inclusive; `forked_at` and `deleted_at` are
    where the events are that made and deleted it, None for main and for one that is there."""

    name: str
    parent: str | None
    fork: Position | None
    forked_at: Position | None
    deleted_at: Position | None


class BranchChange(msgspec.Struct, frozen=True):
    """An event that made, merged, rolled back or deleted a branch. `counts`: no rollback hides it, and who wrote it is
    not distrusted."""

    recorded: Recorded
    counts: bool


class Conflict(msgspec.Struct, frozen=True):
    """A slot that both sides of a merge changed, and of which they believe different things. `base` is what was
    believed at the last event that both show."""

    entity: str
    slot: str
    base: Answer
    ours: Answer
    theirs: Answer


class KnownCommit(msgspec.Struct, frozen=True):
    """A commit of the code as the log tells of it, last at `position`; `rewritten_from` are those that it replaced."""

    sha: str
    repo: str
    parents: tuple[str, ...]
    rewritten_from: tuple[str, ...]
    position: Position


class Quarantined(msgspec.Struct, frozen=True):
    """A record that does not count, and why."""

    position: Position
    code: str
    reason: str
    append_time: datetime
    space: str | None
    event_id: UUID | None
