"""What is refused before anything is written because of what the space holds. The fold asks the same again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from schemas import events as ev
from schemas.checks import MAX_EVENT_BYTES
from schemas.codec import Codec
from schemas.errors import InvalidEvent
from schemas.jsonform import id_text
from schemas.times import Micros, rfc3339
from streams.envelope import message
from streams.ports import Message
from streams.reads import Reads
from streams.values import same

NOT_ACTED_ON = (ev.BranchForked, ev.BranchMerged, ev.BranchRolledBack, ev.BranchDeleted, ev.SubjectErased)
"""Events that the format has and this version has no effect for: better refused than without effect."""

_Claims = ev.FactAsserted | ev.FactEnded
_Naming = ev.FactRetracted | ev.FactReviewed | ev.FactPinned | ev.ActorDistrusted
NAMING = (ev.FactRetracted, ev.FactReviewed, ev.FactPinned, ev.ActorDistrusted)
"""Events that name earlier ones, so that the tables must be asked whether those are known."""


def check_effect(event: ev.Event) -> None:
    """
    Raises:
        InvalidEvent: the event would have no effect, whatever the space holds.
    """
    if isinstance(event, NOT_ACTED_ON):
        raise InvalidEvent("type", f"{type(event).__name__} has no effect in this version, so it is not written")
    if event.branch != "main":
        raise InvalidEvent("branch", f"the space has no branch {event.branch!r}", hint="every space has main")


def ready(event: ev.Event, codec: Codec, now: Micros) -> Message:
    """The message of an event that is appended at about `now`.

    Raises:
        InvalidEvent: it would be over before it holds, or is too large.
    """
    if isinstance(event, ev.FactAsserted) and event.valid_from is None and event.valid_to is not None:
        _check_not_over(event.valid_to, now)
    made = message(event, codec)
    if len(made.value) > MAX_EVENT_BYTES:
        problem = f"{len(made.value):,} bytes in all, and an event has at most {MAX_EVENT_BYTES:,}"
        raise InvalidEvent(type(event).__name__, problem, hint="split what it carries over several events")
    return made


def _check_not_over(valid_to: Micros, now: Micros) -> None:
    """The fact begins to hold when it is appended, so it must end later than that."""
    if valid_to <= now:
        problem = f"{rfc3339(valid_to)} is past, and without valid_from the fact begins to hold now, {rfc3339(now)}"
        raise InvalidEvent("valid_to", problem, hint="say since when it held: valid_from")


class Door:
    """Checks the events of one append in their order; what an event names may come earlier in the same append.

    `reads` brings the tables of a space up to date; it is called only for events that name something.
    """

    def __init__(self, reads: Callable[[str], Reads], locked: Callable[[str], AbstractContextManager[object]]) -> None:
        """`locked` gives what is held while the tables of a space are read."""
        self._reads = reads
        self._locked = locked
        self._earlier: dict[tuple[str, bytes], ev.Event] = {}

    def check(self, event: ev.Event) -> None:
        """
        Raises:
            InvalidEvent: the event names a branch, an event, or facts that aren't known in its space, or what
                `check_effect` says.
        """
        check_effect(event)
        if isinstance(event, NAMING):
            with self._locked(event.space):
                self._check_named(event)
        self._earlier[event.space, event.event_id] = event

    def _check_named(self, event: _Naming) -> None:
        match event:
            case ev.FactRetracted(target=None):
                self._check_named_facts(event)
            case ev.FactRetracted(target=target) | ev.FactReviewed(target=target) | ev.FactPinned(target=target):
                assert target is not None
                self._check_target(event.space, target)
            case ev.ActorDistrusted(since_event=since) if since is not None:
                self._named(event.space, since, "since_event")
            case _:
                pass

    def _check_target(self, space: str, target: bytes) -> None:
        named = self._named(space, target, "target")
        if not isinstance(named, _Claims):
            raise InvalidEvent("target", f"event {id_text(target)} is a {type(named).__name__}, no fact and no end")

    def _check_named_facts(self, event: ev.FactRetracted) -> None:
        assert event.entity is not None
        assert event.slot is not None
        if self._reads(event.space).knows_claim(event.space, event.entity, event.slot, event.value):
            return
        for earlier in self._earlier.values():
            if (
                isinstance(earlier, _Claims)
                and (earlier.space, earlier.entity, earlier.slot) == (event.space, event.entity, event.slot)
                and (event.value is None or same(earlier.value, event.value))
            ):
                return
        what = f"{event.entity} {event.slot}" + ("" if event.value is None else f" = {event.value!r}")
        raise InvalidEvent("entity", f"no fact or end of {what} is known", hint="slotlog entity shows what is")

    def _named(self, space: str, event_id: bytes, field: str) -> ev.Event:
        earlier = self._earlier.get((space, event_id))
        if earlier is not None:
            return earlier
        found = self._reads(space).find(space, event_id)
        if found is None:
            raise InvalidEvent(field, f"no event {id_text(event_id)} is known in space {space!r}")
        return found.event
