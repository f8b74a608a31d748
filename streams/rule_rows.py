"""The rules of a space, read from its rows in the order of their offsets."""

from __future__ import annotations

from collections.abc import Iterator

from schemas import events as ev
from schemas.codec import Codec
from streams import keys
from streams.distrust import Rule
from streams.rows import EventRow, Rows, decode, decode_offset


def rules_of(rows: Rows, space: str, codec: Codec) -> Iterator[Rule]:
    """Every event that rules the whole space."""
    for key, _ in rows.scan(*keys.rules_of(space)):
        offset = keys.last_int(key)
        data = rows.get(keys.event(space, offset))
        assert data is not None, "a rule without its event row"
        row = decode(EventRow, data)
        event = codec.decode(row.event)
        since = 0
        if isinstance(event, ev.ActorDistrusted) and event.since_event is not None:
            named = rows.get(keys.event_id(space, event.since_event))
            assert named is not None, "a distrust since an event without that event's row"
            since = decode_offset(named)
        yield Rule(offset, row.append_time, event, since)
