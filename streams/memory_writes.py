"""The verbs that write. Each makes one event, and `append` is the one door through which all of them go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from schemas import events as ev
from schemas.checks import MAX_EVENT_BYTES, check_given
from schemas.errors import InvalidEvent, SlotlogError
from schemas.events import Value
from schemas.jsonform import from_json, id_text, parse_id
from schemas.times import Micros, micros, rfc3339
from streams import clock
from streams.answers import Receipt, Status
from streams.door import Door
from streams.envelope import message
from streams.partitions import Partitions
from streams.ports import Message
from streams.reads import Reads

SETTLED_EVENTS_MAX = 10_000
"""Up to so many events are folded on the way to a receipt."""


class Writes(Partitions):
    """Writing verbs of `Memory`. A write returns once the event is durable on the log; it waits for no table."""

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
        event_id: UUID | str | None = None,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        branch: str = "main",
        cause: UUID | str | None = None,
        own_id: UUID | str | None = None,
    ) -> Receipt:
        """Retract: the one fact or end `event_id`, or all of entity:slot (only those that carry `value`, when given),
        never count, at any time. A correction, where `end` is a change. `own_id` is this event's own id, as in
        `remember`.

        Raises:
            InvalidEvent: nothing known is named.
        """
        fields = self._common(space, session, actor, branch, None, cause, own_id)
        named = None if event_id is None else parse_id(event_id, "target")
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
        self._check_open()
        door = Door(self._fresh, self._lock)
        prepared = [self._prepared(given, door) for given in events]
        positions = self._log.append([one for _, one in prepared])
        receipts = [
            Receipt(event.space, UUID(bytes=event.event_id), position, "accepted")
            for (event, _), position in zip(prepared, positions, strict=True)
        ]
        return self._settled(receipts)

    def check(self, events: Iterable[ev.Event | Mapping[str, Any]]) -> list[InvalidEvent | None]:
        """What `append` would refuse: an error per event that breaks a rule, None for the others. Writes nothing."""
        self._check_open()
        door = Door(self._fresh, self._lock)
        found: list[InvalidEvent | None] = []
        for given in events:
            try:
                self._prepared(given, door)
                found.append(None)
            except InvalidEvent as error:
                found.append(error)
        return found

    def wait(self, receipt: Receipt) -> Receipt:
        """The receipt as it stands once its event is folded."""
        with self._lock:
            reads = self._fresh(receipt.space)
            status, reason = self._status(reads, receipt)
            return Receipt(receipt.space, receipt.event_id, receipt.position, status, reason)

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
            "seen": self._seen.get(space, (-1, None))[1],  # the newest event of the last answer about the space
        }

    def _prepared(self, given: ev.Event | Mapping[str, Any], door: Door) -> tuple[ev.Event, Message]:
        """The event and its message, once every rule was asked."""
        event = given if isinstance(given, ev.Event) else from_json(self._filled_in(given))
        check_given(event, max_value_bytes=self._max_value_bytes)
        if isinstance(event, ev.FactAsserted) and event.valid_from is None and event.valid_to is not None:
            self._check_not_over(event.valid_to)
        door.check(event)
        made = message(event, self._codec)
        if len(made.value) > MAX_EVENT_BYTES:
            problem = f"{len(made.value):,} bytes in all, and an event has at most {MAX_EVENT_BYTES:,}"
            raise InvalidEvent(type(event).__name__, problem, hint="split what it carries over several events")
        return event, made

    @staticmethod
    def _check_not_over(valid_to: Micros) -> None:
        """The fact begins to hold when it is appended, so it must end later than that."""
        now = clock.now_micros()
        if valid_to <= now:
            problem = f"{rfc3339(valid_to)} is past, and without valid_from the fact begins to hold now, {rfc3339(now)}"
            raise InvalidEvent("valid_to", problem, hint="say since when it held: valid_from")

    def _filled_in(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(given, dict | Mapping):
            raise InvalidEvent("event", f"must be an Event or a JSON object, not {type(given).__name__}")
        filled = {"actor": self._actor, **given}
        if "event_id" not in given or "recorded_at" not in given:
            identity, recorded_at = _identity(given.get("event_id"))
            filled = {"event_id": identity, "recorded_at": recorded_at, **filled}
        return filled

    def _settled(self, receipts: list[Receipt]) -> list[Receipt]:
        """What became of the events where this process folds and is nearly done; `accepted` where another one does, or
        where it would have to wait: an append waits for no table."""
        if not self._lock.acquire(blocking=False):
            return receipts
        try:
            for partition in {receipt.position.partition for receipt in receipts}:
                follower = self._followers[partition]
                if follower.holding and self._log.end(partition) - follower.head.next_offset <= SETTLED_EVENTS_MAX:
                    follower.refresh()
            return [self._as_settled(receipt) for receipt in receipts]
        except SlotlogError:  # the events are safe on the log; the next read says what is wrong
            return receipts
        finally:
            self._lock.release()

    def _as_settled(self, receipt: Receipt) -> Receipt:
        if not self._followers[receipt.position.partition].holding:
            return receipt
        status, reason = self._status(self._current(receipt.space), receipt)
        return Receipt(receipt.space, receipt.event_id, receipt.position, status, reason)

    def _status(self, reads: Reads, receipt: Receipt) -> tuple[Status, str | None]:
        offset = receipt.position.offset
        if offset >= self._follower(receipt.space).head.next_offset:
            return "accepted", None
        if reads.append_times(receipt.space, [offset])[0] is not None:
            blocked_by = reads.blocked_by(receipt.space, offset)
            return ("applied" if blocked_by is None else "blocked"), blocked_by
        refused = reads.quarantined_at(offset)
        if refused is None:
            return "duplicate", None
        return ("conflict" if refused.code == "conflict" else "quarantined"), refused.reason


def _identity(event_id: UUID | str | None) -> tuple[bytes, int]:
    """(id, recorded_at): fresh ones, or the caller's id and the time inside it, so that a retry has the same bytes."""
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
