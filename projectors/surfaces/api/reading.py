"""Handlers of what reads one space. What is seen through a View says through which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from projectors.surfaces.api.asking import Seen
from projectors.surfaces.api.calls import Call, encoded
from projectors.surfaces.api.cursors import Cursor
from projectors.surfaces.api.paging import cursor_of, listed, needed_by, numbered, page_of
from projectors.surfaces.api.params import view_in
from schemas.errors import NotFound
from streams.answers import Recorded
from streams.memory import Memory
from streams.view import ResolvedView, View
from streams.wire import plain

TIMELINE_EVENTS_AT_ONCE = 200


async def fact(call: Call) -> web.StreamResponse:
    def look() -> bytes:
        seen, answer = call.api.asked.get(*_slot(call), view_in(call.given))
        call.saw(seen)
        return encoded(plain({"view": seen.view, "answer": answer}))

    return await call.ask(call.needed, look)


async def explain(call: Call) -> web.StreamResponse:
    def look() -> bytes:
        seen = call.api.asked.seen(call.space, view_in(call.given))
        call.saw(seen)
        found = call.api.memory.explain(*_slot(call), seen.view.fixed())
        return encoded(plain({"view": seen.view, "explanation": found}))

    return await call.ask(call.needed, look)


async def resolve(call: Call) -> web.StreamResponse:
    def look() -> bytes:
        seen = call.api.asked.seen(call.space, view_in(call.given))
        call.saw(seen)
        return encoded(plain(seen.view))

    return await call.ask(call.needed, look)


async def history(call: Call) -> web.StreamResponse:
    return await through_view(call, lambda memory, view, _: memory.history(*_slot(call), view))


async def belief_changes(call: Call) -> web.StreamResponse:
    return await through_view(call, lambda memory, view, _: memory.changes(*_slot(call), view))


async def schema(call: Call) -> web.StreamResponse:
    return await through_view(call, lambda memory, view, _: memory.schema(call.space, view))


async def policy(call: Call) -> web.StreamResponse:
    return await through_view(call, lambda memory, view, _: memory.policy_in_force(call.space, view))


async def declarations(call: Call) -> web.StreamResponse:
    return await through_view(call, lambda memory, view, _: memory.declarations(call.space, view))


async def entity(call: Call) -> web.StreamResponse:
    given = cursor_of(call, views=1)

    def look() -> bytes:
        seen, cursor = _seen(call, given)
        slots = list(call.api.memory.entity(call.space, call.names["entity"], seen.view.fixed()).items())
        page = page_of(call, numbered(slots, cursor), cursor, lambda slot: plain(slot[1]))
        names = (slots[number - 1][0] for number, _ in numbered(slots, cursor))
        found = dict(zip(names, page.items, strict=False))
        return encoded({"view": plain(seen.view), "slots": found, "next": page.next})

    return await call.ask(needed_by(call, given), look)


async def timeline(call: Call) -> web.StreamResponse:
    given = cursor_of(call, views=1)

    def look() -> bytes:
        seen, cursor = _seen(call, given, {name: call.given[name] for name in ("entity", "slot") if name in call.given})
        page = page_of(call, _timeline(call, seen.view, cursor), cursor)
        return encoded({"view": plain(seen.view), "items": page.items, "next": page.next})

    return await call.ask(needed_by(call, given), look)


async def diff(call: Call) -> web.StreamResponse:
    given = cursor_of(call, views=2)

    def look() -> bytes:
        first, second = _both(call, given)
        call.saw(second)
        cursor = given or Cursor(0, (first.view, second.view))
        found = call.api.memory.diff(call.space, first.view.fixed(), second.view.fixed())
        page = page_of(call, numbered(found, cursor), cursor)
        return encoded({"views": plain(cursor.views), "items": page.items, "next": page.next})

    return await call.ask(needed_by(call, given), look)


async def sessions(call: Call) -> web.StreamResponse:
    return await listed(call, lambda _: ((one.first.offset, one) for one in call.api.memory.sessions(call.space)))


async def event(call: Call) -> web.StreamResponse:
    return await plainly(call, lambda memory: memory.event(call.space, call.names["event_id"]))


async def known(call: Call) -> web.StreamResponse:
    return await plainly(call, lambda memory: memory.known_at(call.space, call.names["event_id"]))


async def digest(call: Call) -> web.StreamResponse:
    def look() -> bytes:
        call.at(call.api.memory.reached(call.space))
        of_space = call.api.memory.digest()[1].get(call.space)
        if of_space is None:
            raise NotFound(f"nothing is in space {call.space!r}")
        return encoded({"space": call.space, "digest": of_space})

    await call.api.asked.reach(call.space, call.needed, call.timeout_s)
    return call.answer(await call.api.asked.run_whole(look))


async def through_view(
    call: Call,
    items: Callable[[Memory, View, Mapping[str, str]], Sequence[Any]],
    narrowed: Mapping[str, str] | None = None,
) -> web.Response:
    """A list through a View, page by page, and the View. `items` come of it and of the parameters that narrow the list,
    which are `narrowed` where they are not given."""
    given = cursor_of(call, views=1)

    def look() -> bytes:
        seen, cursor = _seen(call, given, {name: call.given.get(name, text) for name, text in (narrowed or {}).items()})
        found = items(call.api.memory, seen.view.fixed(), cursor.names)
        page = page_of(call, numbered(found, cursor), cursor)
        return encoded({"view": plain(seen.view), "items": page.items, "next": page.next})

    return await call.ask(needed_by(call, given), look)


async def plainly(call: Call, answer: Callable[[Memory], Any]) -> web.Response:
    """One answer in which no View plays a part."""

    def look() -> bytes:
        call.at(call.api.memory.reached(call.space))
        return encoded(plain(answer(call.api.memory)))

    return await call.ask(call.needed, look)


def _slot(call: Call) -> tuple[str, str, str]:
    return call.space, call.names["entity"], call.names["slot"]


def _seen(call: Call, given: Cursor | None, names: Mapping[str, str] | None = None) -> tuple[Seen, Cursor]:
    """The View that a page is of, and where the page begins."""
    seen = call.api.asked.seen(call.space, view_in(call.given) if given is None else given.views[0].fixed())
    call.saw(seen)
    return seen, given or Cursor(0, (seen.view,), dict(names or {}))


def _both(call: Call, given: Cursor | None) -> tuple[Seen, Seen]:
    """The two Views of a comparison. Where both mean the present, it is the same one."""
    asked, space = call.api.asked, call.space
    if given is not None:
        first, second = (asked.seen(space, view.fixed()) for view in given.views)
        return first, second
    view_a, view_b = view_in(call.given, "a."), view_in(call.given, "b.")
    first = asked.seen(space, view_a)
    if (view_a.as_of, view_a.valid_at, view_b.as_of, view_b.valid_at) == (None, None, None, None):
        given_b = {name: getattr(view_b, name) for name in View.__struct_fields__ if name not in ("as_of", "valid_at")}
        view_b = msgspec.structs.replace(first.view.fixed(), **given_b)
    return first, asked.seen(space, view_b)


def _timeline(call: Call, view: ResolvedView, cursor: Cursor) -> Iterator[tuple[int, Recorded]]:
    entity, slot, start = cursor.names.get("entity"), cursor.names.get("slot"), cursor.start
    assert isinstance(start, int)
    while True:
        found = call.api.asked.timeline(call.space, entity, slot, view, start, TIMELINE_EVENTS_AT_ONCE)
        for recorded in found:
            start = recorded.position.offset + 1
            yield start, recorded
        if len(found) < TIMELINE_EVENTS_AT_ONCE:
            return
