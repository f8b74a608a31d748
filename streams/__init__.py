"""The log, the fold, the views and the façade over them."""

from uuid import UUID

from schemas.errors import SlotlogError
from streams import clock
from streams.answers import Answer, Belief, Change, Claimed, Info, Quarantined, Receipt, Recorded, Session
from streams.memory import Memory
from streams.ports import Position
from streams.view import ResolvedView, View


def new_event_id() -> UUID:
    """A fresh UUIDv7, for a write that may have to be repeated."""
    return UUID(bytes=clock.new_event_id())


__all__ = [
    "Answer",
    "Belief",
    "Change",
    "Claimed",
    "Info",
    "Memory",
    "Position",
    "Quarantined",
    "Receipt",
    "Recorded",
    "ResolvedView",
    "Session",
    "SlotlogError",
    "View",
    "new_event_id",
]
