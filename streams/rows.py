"""Rows of the tables, byte for byte. This page is their specification; nothing else builds or reads one.

A row is a MessagePack array of the fields of its class below, in order. The Head begins with one more byte, the version
of all formats here and in `keys.py` together. The tables are a projection, so an older version is not converted but
folded again from the log; a newer one is refused.

Every event is kept whole in its EventRow, in single-object encoding, so the other rows hold only what a read must
decide quickly. Offsets are those of the partition; `digest.py` replaces them by event ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from schemas.errors import FormatTooNew, StoreDamaged
from schemas.events import Trust, Value
from schemas.times import Micros

FORMAT = 2


class Rows(Protocol):
    """An ordered map of bytes: the tables, or what lies over them."""

    def get(self, key: bytes) -> bytes | None:
        """The row, or None."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """One row or None per key, in the order given."""

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """(key, row) with start ≤ key < stop, ascending, or descending when `reverse`."""


class Row(msgspec.Struct, array_like=True, gc=False):
    """Fields in this order are the array. New ones go at the end with a default."""


class Head(Row):
    """What a database is and how far it has read. `chain` is the hash chain over every record below `next_offset`, of
    which the last one is at `last_offset` (-1: there was none) and has the hash `last_record`: whether the log is still
    the one that was read is seen from that record before anything more is read."""

    log_identity: str
    partition: int
    partitions: int
    next_offset: int = 0
    last_offset: int = -1
    chain: bytes = bytes(32)
    applied: int = 0
    duplicates: int = 0
    quarantined: int = 0
    last_record: bytes = bytes(32)


class SpaceRow(Row):
    """`append_time` is the greatest so far, µs. Of the newest event that rules the space, that makes or changes a
    branch, that tells of a commit, and that is pinned to one, the offset; -1 where there is none."""

    events: int
    first_offset: int
    last_offset: int
    append_time: Micros
    rules_changed: int = -1
    branches_changed: int = -1
    commits_changed: int = -1
    pins_changed: int = -1


class EventRow(Row):
    """One event that counts. `append_time` never decreases within a space. `root` is the offset of the first event in
    its chain of causes, its own when it has none that is known."""

    append_time: Micros
    root: int
    event: bytes


class Mark(Row):
    """Something said about a claim, or about all of a slot, by a later event. `value` narrows a retraction."""

    offset: int
    append_time: Micros
    actor: str
    verdict: Trust | None = None
    value: Value | None = None
    branch: str = "main"
    sha: str | None = None


class ClaimRow(Row):
    """One fact, or one end. `value` None ends whatever is believed; `until` is exclusive, None for ever."""

    ended: bool
    value: Value | None
    until: Micros | None
    event_id: bytes
    actor: str
    append_time: Micros
    root: int
    branch: str = "main"
    sha: str | None = None
    retractions: tuple[Mark, ...] = ()
    reviews: tuple[Mark, ...] = ()


class SlotRow(Row):
    """That something was said of an entity:slot, how many tombstones were set or lifted there, and the retractions that
    named it. A fact or an end leaves it as it is: a busy slot is written once."""

    tombstones: int = 0
    retractions: tuple[Mark, ...] = ()


class SessionRow(Row):
    """One agent run. Offsets are inclusive; `agent` and `outcome` are as started and ended, None when they were not."""

    events: int
    first_offset: int
    last_offset: int
    agent: str | None = None
    outcome: str | None = None
    ended: bool = False


class TombstoneRow(Row):
    forbidden: bool
    actor: str
    append_time: Micros
    branch: str = "main"
    sha: str | None = None


class Step(Row):
    """A merge into a branch, or a rollback of it. `cut` is the last offset that is merged from `source`, or that stays;
    `source` is None for a rollback, `slots` are the only ones merged, None for all."""

    offset: int
    append_time: Micros
    actor: str
    sha: str | None
    cut: int
    source: str | None = None
    slots: tuple[tuple[str, str], ...] | None = None


class BranchRow(Row):
    """One branch of a space; main has a row once it has a step. It shows what `parent` showed at offset `cut`. Steps
    ascend by offset; `deleted_at` is the offset of the event that deleted it."""

    forked_at: int = -1
    parent: str | None = None
    cut: int = -1
    deleted_at: int | None = None
    steps: tuple[Step, ...] = ()


class CommitRow(Row):
    """What one event says of a commit of the code. `branch` and `code` are those of the event itself."""

    parents: tuple[str, ...]
    rewritten_from: str | None
    repo: str
    committed_at: Micros
    actor: str
    append_time: Micros
    branch: str
    code: str | None


class PinRow(Row):
    """How many facts and ends are pinned to a commit, and the offset of the last of them."""

    claims: int = 0
    last_offset: int = -1


class QuarantineRow(Row):
    """Why a record does not count. `space` and `event_id` are None where they could not be read."""

    code: str
    reason: str
    append_time: Micros
    space: str | None = None
    event_id: bytes | None = None


PINNED_CLAIM, PINNED_OTHER = b"c", b"o"
"""A J row, which is no array: its event is a fact or an end, or says something else about a slot."""

R = TypeVar("R", bound=Row)

encode = msgspec.msgpack.Encoder().encode
decode_offset = msgspec.msgpack.Decoder(int).decode
_decoders: dict[type[Row], msgspec.msgpack.Decoder[Any]] = {
    cls: msgspec.msgpack.Decoder(cls) for cls in Row.__subclasses__()
}


def decode(cls: type[R], data: bytes) -> R:
    """The row of class `cls` in `data`.

    Raises:
        StoreDamaged: it holds none.
    """
    try:
        row: R = _decoders[cls].decode(data)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(
            f"a {cls.__name__} in the tables is unreadable: {error}", hint="run slotlog rebuild"
        ) from error
    return row


def encode_head(head: Head) -> bytes:
    return bytes([FORMAT]) + encode(head)


def decode_head(data: bytes) -> Head | None:
    """The head, or None when an older format wrote it: fold again.

    Raises:
        FormatTooNew: a newer format did.
        StoreDamaged: it is no head.
    """
    if not data:
        raise StoreDamaged("the head of the tables is empty", hint="run slotlog rebuild")
    if data[0] > FORMAT:
        raise FormatTooNew(
            f"the tables have format {data[0]}, and this slotlog knows formats up to {FORMAT}", hint="upgrade slotlog"
        )
    return decode(Head, data[1:]) if data[0] == FORMAT else None
