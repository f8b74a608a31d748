"""The message around an event: its key, its bytes, CloudEvents headers in binary mode, and the marks of a copy.

A copy keeps what its new log can't know by itself: `slotlog_append_time`, the effective append time in µs since 1970 as
decimal text, and for a record that did not count `slotlog_quarantined`, as CODE: REASON. The fold goes by them.
"""

from __future__ import annotations

from urllib.parse import quote

from schemas.codec import Codec
from schemas.events import Event
from schemas.jsonform import id_text
from schemas.times import Micros, rfc3339
from streams.ports import Headers, Message, Record

APPEND_TIME = "slotlog_append_time"
QUARANTINED = "slotlog_quarantined"

_SAFE_IN_SOURCE = ":@/"


def message(event: Event, codec: Codec) -> Message:
    """What is appended for `event`. The source is the actor, percent-encoded as a URI reference must be."""
    headers = (
        ("ce_specversion", b"1.0"),
        ("ce_id", id_text(event.event_id).encode()),
        ("ce_source", quote(event.actor, safe=_SAFE_IN_SOURCE).encode()),
        ("ce_type", f"slotlog.events.{type(event).__name__}".encode()),
        ("ce_time", rfc3339(event.recorded_at).encode()),
        ("content-type", b"application/avro"),
    )
    return Message(event.space.encode(), codec.encode(event), headers)


def copied(record: Record, append_time: Micros, quarantined: str | None) -> Message:
    """The message that carries `record` to another log with the marks of a copy; marks of an earlier copy give way."""
    marks: Headers = ((APPEND_TIME, str(append_time).encode()),)
    if quarantined is not None:
        marks += ((QUARANTINED, quarantined.encode()),)
    own = tuple(header for header in record.headers if header[0] not in (APPEND_TIME, QUARANTINED))
    return Message(record.key or b"", record.value or b"", own + marks)
