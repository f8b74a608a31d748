"""What one remote Memory wrote and was shown: so that it reads its own writes, and says what it had seen. No I/O."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from schemas.errors import InvalidView
from schemas.jsonform import parse_id
from streams.answers import Receipt
from streams.ports import Position, place_of
from streams.view import View


class Horizon:
    """Safe for several threads. Positions only grow."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, bytes | None]] = {}
        """As `Making` wants it; the offset plays no part here."""
        self._written: dict[str, Position] = {}
        self._newest: dict[int, tuple[str, Position]] = {}
        self._lock = threading.Lock()

    def forked(self) -> None:
        """In a child process: whoever held the lock when it was forked is not here."""
        self._lock = threading.Lock()

    def wrote(self, receipts: Iterable[Receipt]) -> None:
        """These were acknowledged."""
        with self._lock:
            for receipt in receipts:
                space, position = receipt.space, receipt.position
                self._written[space] = max(position, self._written.get(space, position))
                newest = self._newest.get(position.partition)
                if newest is None or newest[1] < position:
                    self._newest[position.partition] = (space, position)

    def needed(self, space: str, *views: View) -> Position | None:
        """What the tables must have folded before they are asked about `space` through these views (none: as it is);
        None when it does not matter.

        That is the last event of our own. A view as of an earlier offset needs no more than that offset; one as of a
        time may mean our last event. An offset after it is another's, and whether it exists is for the server to say.
        """
        with self._lock:
            written = self._written.get(space)
        if written is None or not views:
            return written
        offset = max(min(written.offset, _offset_of(view, written)) for view in views)
        return None if offset < 0 else Position(written.partition, offset)

    def showed(self, space: str, event_id: str | None) -> None:
        """An answer about `space` was as of this event; None: as of none."""
        self.seen[space] = (-1, None) if event_id is None else (0, parse_id(event_id))

    def written(self) -> list[tuple[str, Position]]:
        """For each partition that was written to, a space of it, and the last position. It must be asked for each time:
        the partition may have moved to a worker that is not there yet."""
        with self._lock:
            return [newest for _, newest in sorted(self._newest.items())]


def position_of(text: str) -> Position:
    """The Position of `P:OFFSET`.

    Raises:
        InvalidView: it is none.
    """
    found = place_of(text)
    if not isinstance(found, Position):
        raise InvalidView(f"{text!r} is no position")
    return found


def _offset_of(view: View, written: Position) -> int:
    """The offset that the view is as of; that of `written` where it is as of now or of a time."""
    if isinstance(view.as_of, tuple):
        return view.as_of[1]
    return view.as_of if type(view.as_of) is int else written.offset
