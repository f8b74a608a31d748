"""Keys of the tables, byte for byte. This page is their specification; nothing else builds or reads one.

A key is one byte of family, then its parts in order:

    text    UTF-8 with 00 written as 00 FF, ended by 00 01. So no label can hold the separator, texts sort as their
            bytes do, and a prefix of whole parts matches those parts only: `acme` never matches `acme-corp`.
    int     8 bytes, big-endian, with 2^63 added: negative ones sort first.
    id      16 bytes as they are.
    hash    32 bytes as they are.

    family  parts                              row (`rows.py`)      one per
    M       -                                  Head                 database
    P       space                              SpaceRow             space
    E       space, int offset                  EventRow             event that counts
    I       space, id                          offset               event id
    F       space, entity, slot, int, int      ClaimRow             fact or end: its instant, then its offset
    L       space, entity, slot                SlotRow              entity:slot
    N       space, session                     SessionRow           session
    S       space, session, int offset         empty                event of a session
    R       space, int offset                  empty                event that rules the whole space
    Z       space, entity, slot, hash, int     TombstoneRow         tombstone set or lifted, by offset
    B       space, branch                      BranchRow            branch; main's once it has a merge or a rollback
    T       space, branch, int offset          empty                event on a branch other than main
    G       space, sha, int offset             CommitRow            event that tells of a commit of the code
    W       space, sha, int offset             sha it became        such an event that tells what replaced the commit
    K       space, sha                         PinRow               commit that facts or ends are pinned to
    J       space, sha, int offset             one byte             event about a slot that is pinned to the commit
    Q       int offset                         QuarantineRow        record that does not count
    C       int offset                         hash                 1,024 offsets: the chain before the record there

Inside a slot, F keys ascend by (instant, offset), which is the rank of claims of equal trust: the belief at an
instant is found by walking back from it.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

_TERMINATOR = b"\x00\x01"
_BIAS = 1 << 63
_INT = struct.Struct(">Q")
_TWO_INTS = struct.Struct(">QQ")

HEAD = b"M"
CLAIM = b"F"


@lru_cache(maxsize=1 << 16)
def text(part: str) -> bytes:
    """One text part, escaped and ended."""
    encoded = part.encode()
    if b"\x00" in encoded:
        encoded = encoded.replace(b"\x00", b"\x00\xff")
    return encoded + _TERMINATOR


def integer(number: int) -> bytes:
    """One int part; -2^63 to 2^63 - 1."""
    return _INT.pack(number + _BIAS)


@lru_cache(maxsize=1 << 16)
def slot_part(space: str, entity: str, slot: str) -> bytes:
    """The three text parts that name one slot."""
    return text(space) + text(entity) + text(slot)


def space(name: str) -> bytes:
    return b"P" + text(name)


def event(space_name: str, offset: int) -> bytes:
    return b"E" + text(space_name) + _INT.pack(offset + _BIAS)


def event_id(space_name: str, identity: bytes) -> bytes:
    return b"I" + text(space_name) + identity


def claim(slot: bytes, at: int, offset: int) -> bytes:
    """`slot` is a `slot_part`."""
    return b"F" + slot + _TWO_INTS.pack(at + _BIAS, offset + _BIAS)


def slot(part: bytes) -> bytes:
    return b"L" + part


def session(space_name: str, name: str) -> bytes:
    return b"N" + text(space_name) + text(name)


def session_event(space_name: str, name: str, offset: int) -> bytes:
    return b"S" + text(space_name) + text(name) + integer(offset)


def rule(space_name: str, offset: int) -> bytes:
    return b"R" + text(space_name) + integer(offset)


def tombstone(slot_bytes: bytes, digest: bytes, offset: int) -> bytes:
    return b"Z" + slot_bytes + digest + integer(offset)


def branch(space_name: str, name: str) -> bytes:
    return b"B" + text(space_name) + text(name)


def commit(space_name: str, sha: str, offset: int) -> bytes:
    return b"G" + text(space_name) + text(sha) + integer(offset)


def rewritten(space_name: str, sha: str, offset: int) -> bytes:
    return b"W" + text(space_name) + text(sha) + integer(offset)


def pin(space_name: str, sha: str) -> bytes:
    return b"K" + text(space_name) + text(sha)


def branch_event(space_name: str, branch_name: str, offset: int) -> bytes:
    return b"T" + text(space_name) + text(branch_name) + integer(offset)


def pinned_event(space_name: str, sha: str, offset: int) -> bytes:
    return b"J" + text(space_name) + text(sha) + integer(offset)


def quarantined(offset: int) -> bytes:
    return b"Q" + integer(offset)


def checkpoint(offset: int) -> bytes:
    return b"C" + integer(offset)


class Span(NamedTuple):
    """A range of keys: `start` inclusive, `stop` exclusive."""

    start: bytes
    stop: bytes


def under(prefix: bytes) -> Span:
    """Every key that begins with `prefix`, which must not be all FF."""
    stripped = prefix.rstrip(b"\xff")
    return Span(prefix, stripped[:-1] + bytes([stripped[-1] + 1]))


def spaces() -> Span:
    return under(b"P")


def events_of(space_name: str) -> Span:
    return under(b"E" + text(space_name))


def ids_of(space_name: str) -> Span:
    return under(b"I" + text(space_name))


def claims_of(slot_bytes: bytes) -> Span:
    return under(b"F" + slot_bytes)


def slots_of(space_name: str, entity: str | None = None) -> Span:
    return under(b"L" + text(space_name) + (b"" if entity is None else text(entity)))


def slots_under(space_name: str, above: str) -> Span:
    """Slots of every entity whose name begins with a text."""
    return under(b"L" + text(space_name) + text(above)[: -len(_TERMINATOR)])


def sessions_of(space_name: str) -> Span:
    return under(b"N" + text(space_name))


def session_events_of(space_name: str, name: str) -> Span:
    return under(b"S" + text(space_name) + text(name))


def rules_of(space_name: str) -> Span:
    return under(b"R" + text(space_name))


def tombstones_of(slot_bytes: bytes) -> Span:
    return under(b"Z" + slot_bytes)


def branches_of(space_name: str) -> Span:
    return under(b"B" + text(space_name))


def commits_of(space_name: str, sha: str | None = None) -> Span:
    return under(b"G" + text(space_name) + (b"" if sha is None else text(sha)))


def rewritten_of(space_name: str, sha: str) -> Span:
    return under(b"W" + text(space_name) + text(sha))


def pins_of(space_name: str) -> Span:
    return under(b"K" + text(space_name))


def pinned_events_of(space_name: str, sha: str) -> Span:
    return under(b"J" + text(space_name) + text(sha))


def quarantine() -> Span:
    return under(b"Q")


def families_of(space_name: str) -> tuple[Span, ...]:
    """Everything that belongs to one space, for the digest."""
    name = text(space_name)
    return tuple(
        under(family + name)
        for family in (b"E", b"F", b"L", b"N", b"S", b"R", b"Z", b"B", b"T", b"G", b"W", b"K", b"J")
    )


def last_int(key: bytes) -> int:
    """The int a key ends in: an offset."""
    number: int = _INT.unpack_from(key, len(key) - 8)[0]
    return number - _BIAS


def slot_of_claim(key: bytes) -> bytes:
    """The `slot_part` inside an F key."""
    return key[1:-16]


def hash_of(key: bytes) -> bytes:
    """The hash inside a Z key."""
    return key[-40:-8]


def claim_parts(key: bytes) -> tuple[int, int]:
    """(instant, offset) of an F key."""
    at, offset = _TWO_INTS.unpack_from(key, len(key) - 16)
    return at - _BIAS, offset - _BIAS


def texts(key: bytes, count: int) -> tuple[str, ...]:
    """The first `count` text parts of a key, after its family."""
    parts, start = [], 1
    for _ in range(count):
        stop = key.index(_TERMINATOR, start)
        parts.append(key[start:stop].replace(b"\x00\xff", b"\x00").decode())
        start = stop + len(_TERMINATOR)
    return tuple(parts)
