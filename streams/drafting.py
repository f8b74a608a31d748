"""What would be if events were appended: the fold of them over rows that nobody writes. Nothing reaches the log."""

from __future__ import annotations

from collections.abc import Iterable

from schemas import events as ev
from schemas.codec import Codec
from schemas.errors import InvalidEvent
from schemas.times import Micros
from streams import keys
from streams.envelope import message
from streams.fold import fold
from streams.overlay import Overlay
from streams.ports import Batch, Clone, Record
from streams.reads import Reads
from streams.rows import Head, QuarantineRow, Rows, decode


class Draft:
    """The rows as they would be. `reads` asks them, as of any offset up to `last`."""

    def __init__(self, rows: Rows, head: Head, codec: Codec, now: Micros, clone: Clone | None = None) -> None:
        """`now` is the append time that the events are given."""
        self._rows = Overlay(rows)
        self._head = head
        self._codec = codec
        self._now = now
        self._clone = clone

    @property
    def last(self) -> int:
        """Offset of the last event, -1 for none."""
        return self._head.next_offset - 1

    @property
    def reads(self) -> Reads:
        """Reads of the rows as they are now; ask for them again after an `add`."""
        return Reads(self._rows, self._head.partition, self._codec, clone=self._clone)

    def add(self, events: Iterable[ev.Event]) -> None:
        """
        Raises:
            InvalidEvent: the fold would not let one of them count.
        """
        for event in events:
            offset = self._head.next_offset
            made = message(event, self._codec)
            record = Record(self._head.partition, offset, self._now, made.key, made.value, made.headers)
            self._head = fold(Batch([record], offset + 1), self._rows, self._head, self._codec)
            refused = self._rows.get(keys.quarantined(offset))
            if refused is not None:
                raise InvalidEvent(type(event).__name__, decode(QuarantineRow, refused).reason)
