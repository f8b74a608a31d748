"""Lists page by page: never cut off without a word, and all pages of one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from projectors.surfaces.api import cursors
from projectors.surfaces.api.calls import Call, encoded
from projectors.surfaces.api.cursors import Cursor
from projectors.surfaces.api.params import PAGE_ITEMS
from schemas.errors import InvalidInput
from streams.ports import Position, place_of
from streams.wire import plain

_REACHED = "reached"


class Page(NamedTuple):
    """Items as JSON, and the cursor that asks for the next page; None on the last."""

    items: list[msgspec.Raw]
    next: str | None


def cursor_of(call: Call, *, views: int, start: type = int) -> Cursor | None:
    """The cursor that was given, if there is one.

    Raises:
        InvalidInput: it is not one of this list, which is seen through so many `views`.
    """
    text = call.given.get("cursor")
    if text is None:
        return None
    found = cursors.read(text, _list_of(call))
    if len(found.views) != views or type(found.start) is not start:
        raise InvalidInput("cursor is none that this list gave", hint=cursors.HINT)
    return found


def page_of(
    call: Call, items: Iterable[tuple[int | str, Any]], cursor: Cursor, form: Callable[[Any], Any] = plain
) -> Page:
    """As many items as a page may have, by number and by size. With each item comes where to go on after it."""
    limit, size = call.given.get("limit", PAGE_ITEMS), 0
    found: list[msgspec.Raw] = []
    on: int | str = cursor.start
    for after, item in items:
        if len(found) == limit or size >= call.api.limits.page_bytes:
            return Page(found, cursors.written(Cursor(on, cursor.views, cursor.names), _list_of(call)))
        found.append(msgspec.Raw(encoded(form(item))))
        size += len(bytes(found[-1]))
        on = after
    return Page(found, None)


def numbered(items: Sequence[Any], cursor: Cursor) -> Iterator[tuple[int, Any]]:
    """A list that is there as a whole, from where the cursor says."""
    assert isinstance(cursor.start, int)
    return enumerate(islice(items, cursor.start, None), cursor.start + 1)


def needed_by(call: Call, cursor: Cursor | None) -> int | Position | None:
    """What the tables must have folded: what was asked for, and what the pages before were of, whoever gave them."""
    wanted = [] if call.needed is None else [call.needed]
    if cursor is not None:
        wanted += [view.as_of for view in cursor.views]
        reached = place_of(cursor.names.get(_REACHED, ""))
        wanted += [] if reached is None else [reached]
    return max(wanted, key=lambda place: place if isinstance(place, int) else place.offset, default=None)


async def listed(
    call: Call,
    items: Callable[[Mapping[str, str]], Iterable[tuple[int | str, Any]]],
    first: int | str = -1,
    names: Mapping[str, str] | None = None,
) -> web.Response:
    """A list in which no View plays a part, page by page: a later page may tell of what came meanwhile. `items` come of
    the names that narrow the list, each with where it stands, ascending, all of them after `first`."""
    given = cursor_of(call, views=0, start=type(first))

    def look() -> bytes:
        reached = call.api.memory.reached(call.space)
        call.at(reached)
        cursor = given or Cursor(first, (), {**(names or {}), _REACHED: str(reached)})
        rest = (one for one in items(cursor.names) if one[0] > cursor.start)  # type: ignore[operator]
        page = page_of(call, rest, cursor)
        return encoded({"items": page.items, "next": page.next})

    return await call.ask(needed_by(call, given), look)


def cursor_after(call: Call, start: str) -> str:
    """The cursor that goes on after `start`, in a list that no View plays a part in."""
    return cursors.written(Cursor(start), _list_of(call))


def _list_of(call: Call) -> str:
    """Names the list that a cursor belongs to."""
    return encoded([call.route.path, *call.names.values()]).decode()
