"""Questions to the HTTP API: about a space through Views, page by page, never of less than was written here. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from schemas import events as ev
from schemas.jsonform import to_json
from streams.making import Making
from streams.remote_exchange import Call, Exchange, Request
from streams.remote_horizon import Horizon
from streams.remote_params import Params, limit, of_space, of_view, timeout
from streams.view import View
from streams.wire import PAGE_ITEMS_MAX

T = TypeVar("T")


class Page(NamedTuple, Generic[T]):
    """Some of a list, and what asks for those that follow; None on the last page."""

    items: list[T]
    more: Callable[[], Call[Page[T]]] | None


class Questions:
    """What every verb asks with."""

    def __init__(self, exchange: Exchange, actor: str | None, max_value_bytes: int) -> None:
        self.exchange = exchange
        self.horizon = Horizon()
        self.making = Making(actor, self.horizon.seen, max_value_bytes)

    def _all(self, cls: type[T], space: str | None, path: str, *views: View, params: Params = ()) -> Call[list[T]]:
        """Every item of a paged list."""
        page = yield from self._page(cls, space, path, views, (limit(PAGE_ITEMS_MAX), *params))
        items = page.items
        while page.more is not None:
            page = yield from page.more()
            items += page.items
        return items

    def _page(
        self, cls: type[T], space: str | None, path: str, views: tuple[View, ...], params: Params, cursor: Params = ()
    ) -> Call[Page[T]]:
        """One page of a list; all pages of a list that is seen through views are as of one moment."""
        if space is None:
            found = self.exchange.json((yield from self.exchange.ask(Request("GET", path, (*params, *cursor)))))
        elif views:
            found = yield from self._seen(space, path, *views, params=(*params, *cursor))
        else:
            found = yield from self._found(space, path, (*params, *cursor))
        items: list[T] = self.exchange.read(list[cls], found, "items")  # type: ignore[valid-type]
        following = found.get("next")
        if following is None:
            return Page(items, None)
        return Page(items, lambda: self._page(cls, space, path, views, params, (("cursor", str(following)),)))

    def _seen(
        self, space: str, path: str, *views: View, params: Params = (), body: bytes | None = None
    ) -> Call[dict[str, Any]]:
        """The answer about `space` through one view, or through two."""
        prefixes = ("",) if len(views) == 1 else ("a.", "b.")
        asked = tuple(one for view, prefix in zip(views, prefixes, strict=True) for one in of_view(view, prefix))
        needed = self._needed(space, *views)
        method = "GET" if body is None else "POST"
        reply = yield from self.exchange.ask(Request(method, path, (*asked, *params, *needed), body))
        self.horizon.showed(space, reply.headers.get("slotlog-seen"))
        found: dict[str, Any] = self.exchange.json(reply)
        return found

    def _found(self, space: str, path: str, params: Params = ()) -> Call[dict[str, Any]]:
        """An answer about `space` in which no View plays a part."""
        reply = yield from self.exchange.ask(Request("GET", path, (*params, *self._needed(space))))
        found: dict[str, Any] = self.exchange.json(reply)
        return found

    def _catch_up(self) -> Call[None]:
        """All that was written here is folded, wherever it is, before something is asked of every partition."""
        for space, position in self.horizon.written():
            params = (("min_offset", str(position)), timeout(self.exchange.timeout_s))
            yield from self.exchange.ask(Request("GET", f"{of_space(space)}/resolve", params))

    def _needed(self, space: str, *views: View) -> Params:
        needed = self.horizon.needed(space, *views)
        return () if needed is None else (("min_offset", str(needed)), timeout(self.exchange.timeout_s))


def body(group: list[ev.Event]) -> bytes:
    """Events as the API takes them."""
    forms = [to_json(event) for event in group]
    return msgspec.json.encode(forms[0] if len(forms) == 1 else forms)
