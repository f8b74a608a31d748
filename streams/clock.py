"""The edge: the only place that reads a clock, throws dice or makes an id. Everything else is given them."""

from __future__ import annotations

import time

import uuid_utils


def now_micros() -> int:
    """Microseconds since 1970 UTC, from the machine's clock."""
    return time.time_ns() // 1000


def monotonic_s() -> float:
    """Seconds since some moment; it never goes back. For deadlines."""
    return time.monotonic()


def chance() -> float:
    """A number from 0, inclusive, to 1, exclusive. For pauses that must not fall together."""
    import random  # only those who ask a server need it

    return random.random()


def new_event_id() -> bytes:
    """The 16 bytes of a fresh UUIDv7."""
    return uuid_utils.uuid7().bytes
