"""One hash per space over all its rows, the same wherever and however its events were folded.

Offsets belong to one log, so each is replaced by the id of the event there. Tables folded live, in bulk, embedded, on
Kafka, or from a copy with another number of partitions have the same digest exactly when they hold the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from streams import keys
from streams.rows import (
    BranchRow,
    ClaimRow,
    CommitRow,
    EventRow,
    Mark,
    PinRow,
    Rows,
    SessionRow,
    SlotRow,
    SpaceRow,
    Step,
    TombstoneRow,
    decode,
    decode_offset,
)

_pack = msgspec.msgpack.Encoder().encode
_Ids = Callable[[int], bytes | None]


def digests(rows: Rows) -> dict[str, str]:
    """Space to SHA-256 in hexadecimal, in the order of their names."""
    return {name: _digest(rows, name) for name in [keys.texts(key, 1)[0] for key, _ in rows.scan(*keys.spaces())]}


def combined(of_spaces: dict[str, str]) -> str:
    """One SHA-256 over the digests of several spaces, whatever partitions they came from."""
    return hashlib.sha256(_pack(sorted(of_spaces.items()))).hexdigest()


def _digest(rows: Rows, space: str) -> str:
    ids = {decode_offset(data): key[-16:] for key, data in rows.scan(*keys.ids_of(space))}
    total = hashlib.sha256()
    for part in _portable(rows, space, ids.get):
        total.update(_pack(part))
    return total.hexdigest()


def _portable(rows: Rows, space: str, ids: _Ids) -> Iterator[tuple[Any, ...]]:
    space_row = rows.get(keys.space(space))
    assert space_row is not None
    own = decode(SpaceRow, space_row)
    changed = (own.rules_changed, own.branches_changed, own.commits_changed, own.pins_changed)
    yield own.events, ids(own.first_offset), ids(own.last_offset), own.append_time, *map(ids, changed)
    for span in keys.families_of(space):
        for key, data in rows.scan(*span):
            yield _portable_row(key, data, ids)


def _portable_row(key: bytes, data: bytes, ids: _Ids) -> tuple[Any, ...]:
    match key[:1]:
        case b"E":
            event = decode(EventRow, data)
            return "E", ids(keys.last_int(key)), event.append_time, ids(event.root), event.event
        case b"F":
            claim = decode(ClaimRow, data)
            marks = [_mark(mark, ids) for mark in (*claim.retractions, *claim.reviews)]
            own = (claim.ended, claim.value, claim.until, claim.event_id, claim.actor, claim.append_time)
            return "F", key[:-8], ids(keys.last_int(key)), *own, ids(claim.root), claim.branch, claim.sha, marks
        case b"L":
            slot = decode(SlotRow, data)
            marks = [_mark(mark, ids) for mark in slot.retractions]
            return "L", key, slot.tombstones, marks
        case b"N":
            run = decode(SessionRow, data)
            return "N", key, run.events, ids(run.first_offset), ids(run.last_offset), run.agent, run.outcome, run.ended
        case b"Z":
            tombstone = decode(TombstoneRow, data)
            return "Z", key[:-8], ids(keys.last_int(key)), *msgspec.structs.astuple(tombstone)
        case b"B":
            branch = decode(BranchRow, data)
            places = (branch.forked_at, branch.cut, -1 if branch.deleted_at is None else branch.deleted_at)
            return "B", key, branch.parent, *map(ids, places), [_step(step, ids) for step in branch.steps]
        case b"G":
            commit = decode(CommitRow, data)
            return "G", key[:-8], ids(keys.last_int(key)), *msgspec.structs.astuple(commit)
        case b"K":
            pin = decode(PinRow, data)
            return "K", key, pin.claims, ids(pin.last_offset)
        case family:
            return family, key[:-8], ids(keys.last_int(key)), data


def _step(step: Step, ids: _Ids) -> tuple[Any, ...]:
    return ids(step.offset), step.append_time, step.actor, step.sha, ids(step.cut), step.source, step.slots


def _mark(mark: Mark, ids: _Ids) -> tuple[Any, ...]:
    return ids(mark.offset), mark.append_time, mark.actor, mark.verdict, mark.value, mark.branch, mark.sha
