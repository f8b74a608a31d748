"""What becomes of the events that the verbs make: `append` is the one door through which all of them go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from schemas import events as ev
from schemas.errors import InvalidEvent, SlotlogError
from streams import clock
from streams.answers import Receipt, Status
from streams.door import Door, ready
from streams.memory import Memory
from streams.partitions import Partitions
from streams.ports import Message
from streams.reads import Reads

SETTLED_EVENTS_MAX = 10_000
"""Up to so many events are folded on the way to a receipt."""


class Writing(Partitions, Memory):
    """`Memory`'s door to a log of its own."""

    def append(self, events: Iterable[ev.Event | Mapping[str, Any]]) -> list[Receipt]:
        self._check_open()
        door = Door(self._fresh, self._locked)
        prepared = [self._prepared(given, door) for given in events]
        positions = self._log.append([one for _, one in prepared])
        receipts = [
            Receipt(event.space, UUID(bytes=event.event_id), position, "accepted")
            for (event, _), position in zip(prepared, positions, strict=True)
        ]
        return self._settled(receipts)

    def check(self, events: Iterable[ev.Event | Mapping[str, Any]]) -> list[InvalidEvent | None]:
        self._check_open()
        door = Door(self._fresh, self._locked)
        found: list[InvalidEvent | None] = []
        for given in events:
            try:
                self._prepared(given, door)
                found.append(None)
            except InvalidEvent as error:
                found.append(error)
        return found

    def wait(self, receipt: Receipt, timeout_s: float | None = None) -> Receipt:
        with self._locked(receipt.space):
            reads = self._fresh(receipt.space)
            status, reason = self._status(reads, receipt)
            return Receipt(receipt.space, receipt.event_id, receipt.position, status, reason)

    def _prepared(self, given: ev.Event | Mapping[str, Any], door: Door) -> tuple[ev.Event, Message]:
        """The event and its message, once every rule was asked."""
        event = self._making.checked(given)
        door.check(event)
        return event, ready(event, self._codec, clock.now_micros())

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
