"""Memory: the one façade. Everything an agent, a command or a server does with slotlog goes through it."""

from __future__ import annotations

import getpass
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from uuid import UUID

from schemas import events as ev
from schemas.checks import DEFAULT_MAX_VALUE_BYTES, MAX_EVENT_BYTES, check_given, check_space
from schemas.errors import InvalidEvent, InvalidInput, InvalidView, StoreClosed, StoreDamaged, StoreFull
from schemas.events import Value
from schemas.jsonform import from_json, id_text, parse_id
from schemas.times import micros
from streams import clock
from streams.catchup import Follower
from streams.digest import combined, digests
from streams.door import Door
from streams.envelope import message
from streams.ports import Position
from streams.reads import Answer, Belief, Bounds, Change, Quarantined, Reads, Recorded, Session
from streams.replay import replay_session, replay_space
from streams.stores import DEFAULT_STORE, open_store
from streams.view import ResolvedView, View

Status = Literal["applied", "duplicate", "blocked", "conflict", "quarantined", "accepted"]
Point = int | Position | datetime
_PAGE_EVENTS = 500


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


class Memory:
    """Memory of one store. Safe for several threads; close it, or use it as a context manager.

        with Memory.open("./memory", actor="agent:planner") as memory:
            memory.remember("acme/support", "user:alice", "employer", "Acme")
            memory.get("acme/support", "user:alice", "employer").value

    A write returns once the event is durable on the log and never waits for the tables; a read sees everything
    acknowledged before it was asked. Times are aware datetimes. Wherever an event id is taken, a UUID or its text will do.
    """

    def __init__(
        self, store: str | Path, *, actor: str | None, hold: bool, create: bool, max_value_bytes: int, timeout_s: float
    ) -> None:
        if not 0 < max_value_bytes <= MAX_EVENT_BYTES:
            raise InvalidInput(f"max_value_bytes is {max_value_bytes:,}, and may be 1 to {MAX_EVENT_BYTES:,}")
        opened = open_store(store, create=create, timeout_s=timeout_s)
        self._store, self._log, self._codec = opened.name, opened.log, opened.codec
        self._actor = actor or os.environ.get("SLOTLOG_ACTOR") or f"user:{getpass.getuser()}"
        self._max_value_bytes = max_value_bytes
        self._lock = threading.RLock()
        self._closed = False
        self._seen: dict[str, int] = {}
        self._followers = [
            Follower(self._log, partition, opened.tables / f"p{partition}", self._codec, hold=hold)
            for partition in range(self._log.partitions)
        ]

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
        return cls(
            store, actor=actor, hold=hold, create=create, max_value_bytes=max_value_bytes, timeout_s=timeout_s
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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

    # -- writes

    def remember(
        self,
        space: str,
        entity: str,
        slot: str,
        value: Value,
        *,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        session: str | None = None,
        actor: str | None = None,
        branch: str = "main",
        confidence: float | None = None,
        origin: ev.Origin = "stated",
        engine: str | None = None,
        source: str | None = None,
        subject: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """Assert that entity:slot has `value` from `valid_from`, inclusive (default: its append time), to `valid_to`,
        exclusive (default: for ever).

        With an `event_id` of the caller's own (a UUIDv7), the call may be repeated: the same fact again is a duplicate.
        """
        fields = self._common(space, session, actor, branch, subject, cause, event_id)
        event = ev.FactAsserted(
            **fields,
            entity=entity,
            slot=slot,
            value=value,
            valid_from=_optional_micros(valid_from, "valid_from"),
            valid_to=_optional_micros(valid_to, "valid_to"),
            confidence=confidence,
            origin=origin,
            engine=engine,
            source=source,
        )
        return self.append([event])[0]

    def end(
        self,
        space: str,
        entity: str,
        slot: str,
        *,
        value: Value | None = None,
        at: datetime | None = None,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        branch: str = "main",
        subject: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """Say that from `at` on (default: its append time) the slot's value, or just `value`, no longer holds."""
        fields = self._common(space, session, actor, branch, subject, cause, event_id)
        event = ev.FactEnded(
            **fields, entity=entity, slot=slot, value=value, at=_optional_micros(at, "at"), reason=reason
        )
        return self.append([event])[0]

    def forget(
        self,
        space: str,
        entity: str | None = None,
        slot: str | None = None,
        value: Value | None = None,
        *,
        target: UUID | str | None = None,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        branch: str = "main",
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """Retract: the one fact or end `target`, or all of entity:slot (only those that carry `value`, when given),
        never count, at any time. A correction, where `end` is a change.

        Raises:
            InvalidEvent: nothing known is named.
        """
        fields = self._common(space, session, actor, branch, None, cause, event_id)
        named = None if target is None else parse_id(target, "target")
        return self.append(
            [ev.FactRetracted(**fields, target=named, entity=entity, slot=slot, value=value, reason=reason)]
        )[0]

    def observe(
        self,
        space: str,
        role: str,
        text: str,
        *,
        session: str | None = None,
        content_type: str = "text/plain",
        attributes: Mapping[str, str] | None = None,
        actor: str | None = None,
        branch: str = "main",
        subject: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """Record what was said or done: a turn, a tool call, a hook's payload."""
        fields = self._common(space, session, actor, branch, subject, cause, event_id)
        return self.append(
            [ev.Observed(**fields, role=role, text=text, content_type=content_type, attributes=dict(attributes or {}))]
        )[0]

    def append(self, events: Iterable[ev.Event | Mapping[str, Any]]) -> list[Receipt]:
        """Append events, or their JSON forms, in order; a receipt for each. Embedded, all of them or none are there.

        What a JSON form leaves out of `event_id`, `recorded_at`, `actor` and `branch` is filled in.

        Raises:
            InvalidEvent: one of them breaks a rule or names nothing known; nothing was written.
        """
        with self._lock:
            self._check_open()
            door = Door(self._reads)
            checked = []
            for given in events:
                event = given if isinstance(given, ev.Event) else from_json(self._filled_in(given))
                check_given(event, max_value_bytes=self._max_value_bytes)
                door.check(event)
                checked.append(event)
            messages = [message(event, self._codec) for event in checked]
            for event, one in zip(checked, messages, strict=True):
                if len(one.value) > MAX_EVENT_BYTES:
                    raise InvalidEvent(
                        type(event).__name__, f"{len(one.value):,} bytes in all, and an event has {MAX_EVENT_BYTES:,}"
                    )
            positions = self._log.append(messages)
            receipts = [
                Receipt(event.space, UUID(bytes=event.event_id), position, "accepted")
                for event, position in zip(checked, positions, strict=True)
            ]
            return self._settled(receipts)

    def wait(self, receipt: Receipt) -> Receipt:
        """The receipt as it stands once its event is folded."""
        with self._lock:
            reads = self._reads(receipt.space)
            status, reason = self._status(reads, receipt)
            return Receipt(receipt.space, receipt.event_id, receipt.position, status, reason)

    # -- reads

    def get(self, space: str, entity: str, slot: str, view: View = View()) -> Answer:
        """What is believed of entity:slot: a Belief or None; a list for a slot declared to hold many.

        Raises:
            InvalidView: the view can't be answered on this log.
        """
        with self._lock:
            reads, resolved = self._resolved(space, view)
            return reads.get(space, entity, slot, resolved)

    def entity(self, space: str, entity: str, view: View = View()) -> dict[str, Belief | list[Belief]]:
        """Every slot of the entity of which anything is believed, in the order of their names."""
        with self._lock:
            reads, resolved = self._resolved(space, view)
            return reads.entity(space, entity, resolved)

    def history(self, space: str, entity: str, slot: str, view: View = View()) -> list[Belief]:
        """The slot's beliefs along valid time, ascending, as known at the view's offset; each with what ended it."""
        with self._lock:
            reads, resolved = self._resolved(space, view)
            return reads.history(space, entity, slot, resolved)

    def changes(self, space: str, entity: str, slot: str, view: View = View()) -> list[Change]:
        """How the answer for the view's instant changed along offsets, ascending, up to the view's offset."""
        with self._lock:
            reads, resolved = self._resolved(space, view)
            return reads.changes(space, entity, slot, resolved)

    def timeline(
        self, space: str, entity: str | None = None, slot: str | None = None, view: View = View()
    ) -> Iterator[Recorded]:
        """Every event of the space that counts through the view, ascending by offset; of one entity or slot if named."""
        with self._lock:
            _, resolved = self._resolved(space, view)
        return self._timeline(space, entity, slot, resolved)

    def replay(
        self, space: str, session: str | None = None, start: Point | None = None, end: Point | None = None
    ) -> Iterator[Recorded]:
        """Events of the space, or of one session, read again from the log in order.

        Args:
            start: where to begin, inclusive: an offset, a Position, or a time (the first event from then on).
            end: where to stop, exclusive, likewise. Default: the end of the log as of this call.

        Raises:
            NotFound: the space knows no such session.
            InvalidView: a point names another partition.
        """
        with self._lock:
            reads = self._reads(space)
            follower = self._follower(space)
            first = 0 if start is None else self._offset_of_point(space, reads, start)
            stop = follower.head.next_offset
            if end is not None:
                stop = min(stop, self._offset_of_point(space, reads, end))
            partition = follower.head.partition
            if session is not None:
                first = max(first, reads.session(space, session).first.offset)

        def current() -> Reads:
            with self._lock:
                return self._current(space)

        if session is None:
            first = max(first, self._log.start(partition))
            return replay_space(self._log, partition, current, self._codec, space, first, stop)
        return replay_session(self._log, partition, current, self._codec, space, session, first, stop)

    def resolve(self, space: str, view: View = View()) -> ResolvedView:
        """What `view` means for the space now; asking through it gives the same answers for ever."""
        with self._lock:
            return self._resolved(space, view)[1]

    def sessions(self, space: str) -> list[Session]:
        """Every session of the space, in the order of their first events."""
        with self._lock:
            return sorted(self._reads(space).sessions(space), key=lambda session: session.first)

    def quarantined(self) -> list[Quarantined]:
        """Every record of the log that does not count, with the reason; by position."""
        with self._lock:
            return [one for partition in self._all_reads() for one in partition.quarantined()]

    def digest(self) -> tuple[str, dict[str, str]]:
        """(one hash over everything, space to hash): equal for equal memory, wherever it was folded."""
        with self._lock:
            spaces: dict[str, str] = {}
            self._all_reads()
            for follower in self._followers:
                spaces.update(digests(follower.rows))
            return combined(spaces), dict(sorted(spaces.items()))

    def info(self) -> Info:
        """What the store holds, as of now."""
        with self._lock:
            spaces = [
                SpaceInfo(name, row.events, reads.position(row.first_offset), reads.position(row.last_offset))
                for reads in self._all_reads()
                for name, row in reads.spaces()
            ]
            return Info(
                self._store,
                self._log.identity,
                tuple(
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
                ),
                tuple(sorted(spaces, key=lambda space: space.name)),
            )

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Fold the whole log again into fresh tables and put them in the place of the old ones.

        Raises:
            StoreBusy: another process holds the tables.
        """
        with self._lock:
            self._check_open()
            for follower in self._followers:
                follower.rebuild(progress)

    # -- inside

    def _common(
        self,
        space: str,
        session: str | None,
        actor: str | None,
        branch: str,
        subject: str | None,
        cause: UUID | str | None,
        event_id: UUID | str | None,
    ) -> dict[str, Any]:
        identity, recorded_at = _identity(event_id)
        return {
            "event_id": identity,
            "space": space,
            "session": session,
            "actor": self._actor if actor is None else actor,
            "recorded_at": recorded_at,
            "branch": branch,
            "cause": None if cause is None else parse_id(cause, "cause"),
            "subject": subject,
            "seen": self._seen_in(space),
        }

    def _filled_in(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(given, Mapping):
            return given
        filled = {"actor": self._actor, **given}
        if "event_id" not in given or "recorded_at" not in given:
            identity, recorded_at = _identity(given.get("event_id"))
            filled.setdefault("event_id", id_text(identity))
            filled.setdefault("recorded_at", recorded_at)
        return filled

    def _seen_in(self, space: str) -> bytes | None:
        """Id of the newest event in the last answer that this Memory gave about the space."""
        with self._lock:
            offset = self._seen.get(space, -1)
            if offset < 0:
                return None
            return self._current(space).event_at(space, offset).event.event_id

    def _settled(self, receipts: list[Receipt]) -> list[Receipt]:
        """What became of the events where this process folds; `accepted` where another one does, or not yet."""
        settled = []
        refreshed: set[int] = set()
        for receipt in receipts:
            follower = self._followers[receipt.position.partition]
            if not follower.holding:
                settled.append(receipt)
                continue
            if receipt.position.partition not in refreshed:
                try:
                    follower.refresh()
                except (StoreFull, StoreDamaged):  # the event is safe on the log; the next read says what is wrong
                    return receipts
                refreshed.add(receipt.position.partition)
            status, reason = self._status(self._current(receipt.space), receipt)
            settled.append(Receipt(receipt.space, receipt.event_id, receipt.position, status, reason))
        return settled

    def _status(self, reads: Reads, receipt: Receipt) -> tuple[Status, str | None]:
        offset = receipt.position.offset
        if offset >= self._follower(receipt.space).head.next_offset:
            return "accepted", None
        if reads.which_count(receipt.space, [offset])[0] is not None:
            event = reads.event_at(receipt.space, offset).event
            then = ResolvedView(receipt.position, 0)
            blocked = isinstance(event, ev.FactAsserted) and reads.is_blocked(receipt.space, event, then)
            return ("blocked" if blocked else "applied"), None
        refused = reads.quarantined_at(offset)
        if refused is None:
            return "duplicate", None
        return ("conflict" if refused.code == "conflict" else "quarantined"), refused.reason

    def _timeline(
        self, space: str, entity: str | None, slot: str | None, resolved: ResolvedView
    ) -> Iterator[Recorded]:
        start = 0
        while True:
            with self._lock:
                self._check_open()
                page = list(islice(self._current(space).timeline(space, resolved, start, entity, slot), _PAGE_EVENTS))
            yield from page
            if len(page) < _PAGE_EVENTS:
                return
            start = page[-1].position.offset + 1

    def _offset_of_point(self, space: str, reads: Reads, point: Point) -> int:
        if isinstance(point, datetime):
            return reads.offset_at(space, micros(point, "time") - 1) + 1
        if isinstance(point, tuple):
            partition = self._follower(space).head.partition
            if point[0] != partition:
                raise InvalidView(f"{point[0]}:{point[1]} is in another partition", hint=f"{space} is in {partition}")
            return point[1]
        if isinstance(point, bool) or not isinstance(point, int):
            raise InvalidView(f"a point of the log is an offset, a Position or an aware datetime, not {point!r}")
        return point

    def _resolved(self, space: str, view: View) -> tuple[Reads, ResolvedView]:
        reads = self._reads(space)
        head = self._follower(space).head
        first = 0 if view.as_of is None else self._log.start(head.partition)
        resolved = reads.resolve(space, view, Bounds(first, head.next_offset, clock.now_micros()))
        self._seen[space] = resolved.as_of.offset
        return reads, resolved

    def _reads(self, space: str) -> Reads:
        """Reads of the space's partition, brought to the end of the log."""
        self._check_open()
        check_space(space)
        self._follower(space).refresh()
        return self._current(space)

    def _all_reads(self) -> Sequence[Reads]:
        self._check_open()
        for follower in self._followers:
            follower.refresh()
        return [Reads(follower.rows, follower.head.partition, self._codec) for follower in self._followers]

    def _current(self, space: str) -> Reads:
        follower = self._follower(space)
        return Reads(follower.rows, follower.head.partition, self._codec)

    def _follower(self, space: str) -> Follower:
        return self._followers[self._log.partition_of(space.encode())]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"the memory of {self._store} is closed")


def _identity(event_id: UUID | str | None) -> tuple[bytes, int]:
    """(id, recorded_at): fresh ones, or the caller's id and the time inside it, so that a retry makes the same bytes."""
    if event_id is None:
        return clock.new_event_id(), clock.now_micros()
    identity = parse_id(event_id)
    if identity[6] >> 4 != 7:
        raise InvalidEvent(
            "event_id",
            f"{id_text(identity)} is no UUIDv7",
            hint="make one with streams.new_event_id(); the time inside it becomes recorded_at",
        )
    return identity, int.from_bytes(identity[:6], "big") * 1000


def _optional_micros(instant: datetime | None, name: str) -> int | None:
    return None if instant is None else micros(instant, name)
