"""The log, the fold, the views and the façade over them."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from schemas.errors import SlotlogError
from streams import clock
from streams.answers import Answer, Belief, Change, Claimed, Info, Quarantined, Receipt, Recorded, Session
from streams.memory import Memory
from streams.ports import Position
from streams.view import ResolvedView, View

if TYPE_CHECKING:
    from streams.remote import AsyncMemory


def new_event_id() -> UUID:
    """A fresh UUIDv7, for a write that may have to be repeated."""
    return UUID(bytes=clock.new_event_id())


def __getattr__(name: str) -> Any:
    if name == "AsyncMemory":  # an HTTP client is imported only by those who use it
        from streams.remote import AsyncMemory

        return AsyncMemory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Answer",
    "AsyncMemory",
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
