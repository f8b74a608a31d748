"""The message around an event: its key, its bytes, and CloudEvents headers in binary mode."""

from __future__ import annotations

from urllib.parse import quote

from schemas.codec import Codec
from schemas.events import Event
from schemas.jsonform import id_text
from schemas.times import rfc3339
from streams.ports import Message

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
