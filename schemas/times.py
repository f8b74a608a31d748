"""Instants as the log keeps them: whole microseconds since 1970-01-01T00:00:00Z.

An int has no zone to get wrong, orders by itself, and holds what a foreign producer may write. People see and give
aware datetimes and RFC 3339 text; a time without an offset from UTC is refused, because it names no instant.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from schemas.errors import InvalidInput

Micros = int

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

EARLIEST: Micros = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
LATEST: Micros = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def micros(instant: datetime, name: str = "time") -> Micros:
    """Microseconds of an aware datetime, whatever its zone. `name` is what an error calls it.

    Raises:
        InvalidInput: the datetime is naive.
    """
    if not isinstance(instant, datetime):
        raise InvalidInput(f"{name} must be a datetime with a zone, not {type(instant).__name__} {instant!r}")
    if instant.utcoffset() is None:
        raise InvalidInput(
            f"{name} {instant.isoformat()} has no zone, so it names no instant",
            hint="give it one, for example datetime(…, tzinfo=timezone.utc) or …T12:00:00Z",
        )
    return (instant - _EPOCH) // _MICROSECOND


def instant(at: Micros) -> datetime:
    """The UTC datetime of `at`, which must lie between EARLIEST and LATEST, inclusive."""
    return _EPOCH + timedelta(microseconds=at)


def rfc3339(at: Micros) -> str:
    """RFC 3339 text in UTC, with microseconds only where there are some: 2026-03-01T09:00:00Z."""
    return instant(at).isoformat().replace("+00:00", "Z")


def parse_time(text: str, name: str = "time") -> Micros:
    """Microseconds of RFC 3339 text with any offset.

    Raises:
        InvalidInput: it is no RFC 3339 time, or has no offset.
    """
    try:
        if "T" not in text and "t" not in text and " " not in text:
            raise ValueError("no time of day")
        parsed = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise InvalidInput(
            f"{name} {text!r} is not an RFC 3339 time", hint="write it like 2026-03-01T09:00:00Z"
        ) from error
    return micros(parsed, name)
