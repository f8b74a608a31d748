"""Every error slotlog raises on purpose, grouped by what the caller should do.

    SlotlogError
    ├── InvalidInput            change what was given; nothing was written
    │   ├── InvalidEvent        a field of an event is wrong (`field` names it)
    │   ├── InvalidView         the question can't be asked of this log
    │   ├── MergeConflict       both branches changed the same slots
    │   └── NotFound            it names something that isn't known
    ├── UndecodableEvent        the bytes are no event of ours
    ├── Unavailable             ask again later
    │   ├── StoreBusy           another process holds it; the text says which
    │   ├── LogUnreachable      the broker does not answer
    │   ├── NotServing          nobody answers for that partition at the moment
    │   └── NotReached          the tables did not reach an offset in time
    ├── StoreFull               make room, then repeat; nothing was half-written
    ├── LogChanged              the log is not the one the tables were made from
    │   ├── LogTruncated        events the tables know are gone, or never came
    │   └── LogRecreated        same name, another log
    ├── FormatTooNew            written by a newer slotlog; upgrade
    ├── StoreDamaged            bytes on disk are not what was written
    └── StoreClosed             the store was used after close()

`str(error)` is the problem in one sentence; `hint`, when there is one, is what to do about it. Errors of the libraries
underneath are translated where they are called, with the original as `__cause__`.
"""

from __future__ import annotations


class SlotlogError(Exception):
    """Base of the tree. `hint` is one sentence on what to do, or None."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class InvalidInput(SlotlogError):
    """What was given is wrong; nothing was written."""


class InvalidEvent(InvalidInput):
    """A field of an event breaks a rule. `field` is its name in the Avro schema."""

    def __init__(self, field: str, problem: str, *, hint: str | None = None) -> None:
        super().__init__(f"{field}: {problem}", hint=hint)
        self.field = field
        self.problem = problem


class InvalidView(InvalidInput):
    """A View, or a range of a replay, that this log can't answer."""


class MergeConflict(InvalidInput):
    """Both branches of a merge changed the same slots, `slots` as (entity, slot), and no side was taken."""

    def __init__(self, message: str, *, slots: tuple[tuple[str, str], ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.slots = slots


class NotFound(InvalidInput):
    """A name, an event id or a session that isn't known in that space."""


class UndecodableEvent(SlotlogError):
    """Bytes that are not an event: bad framing, unknown fingerprint, or a body that is not its schema's."""


class Unavailable(SlotlogError):
    """Nothing is wrong with the request; it may be repeated."""


class StoreBusy(Unavailable):
    """Another process holds the store for longer than `busy_timeout_s`."""


class LogUnreachable(Unavailable):
    """The broker did not answer in time."""


class NotServing(Unavailable):
    """No worker is known to answer for that partition at the moment: it is being handed over or caught up."""


class NotReached(Unavailable):
    """The tables did not reach the offset asked for in time. `reached` is where they were, as P:OFFSET."""

    def __init__(self, message: str, *, reached: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reached = reached


class StoreFull(SlotlogError):
    """No room on the disk. What was acknowledged is safe; what was refused is not there."""


class LogChanged(SlotlogError):
    """The log is not the one that the tables were made from. Nothing was touched."""


class LogTruncated(LogChanged):
    """The log begins after, or ends before, what the tables have read."""


class LogRecreated(LogChanged):
    """A log of the same name, but another one."""


class FormatTooNew(SlotlogError):
    """Written by a newer version of slotlog."""


class StoreDamaged(SlotlogError):
    """Bytes on disk are not what was written."""


class StoreClosed(SlotlogError):
    """The store was used after it was closed."""
