"""Handlers of what is asked of all partitions, and of this process: the worker that is asked asks the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from projectors.surfaces.api.calls import PARTITIONS_HEADER, Call, encoded
from projectors.surfaces.api.cursors import Cursor
from projectors.surfaces.api.paging import cursor_after, cursor_of, page_of
from projectors.surfaces.api.params import PAGE_ITEMS, position
from projectors.surfaces.api.proxying import Silent, Told
from schemas.errors import NotServing, SlotlogError
from streams.digest import combined
from streams.ports import Position
from streams.status import WorkerStatus
from streams.wire import plain

WITHIN_S, STATUS_WITHIN_S = 120.0, 5.0


class _Part(NamedTuple):
    """What this process answers for its own partitions, as JSON values."""

    partitions: list[int]
    found: Any


async def info(call: Call) -> web.StreamResponse:
    parts = await _parts(call, lambda: plain(call.api.memory.info()))
    found = dict(parts[0])
    found["partitions"] = _merged(parts, "partitions", lambda one: one["partition"])
    found["spaces"] = _merged(parts, "spaces", lambda one: one["name"])
    return call.answer(encoded(found))


async def digest(call: Call) -> web.StreamResponse:
    def own() -> Any:
        whole, spaces = call.api.memory.digest()
        return {"digest": whole, "spaces": spaces}

    parts = await _parts(call, own)
    spaces = dict(sorted((name, one) for part in parts for name, one in part["spaces"].items()))
    return call.answer(encoded({"digest": combined(spaces), "spaces": spaces}))


async def spaces(call: Call) -> web.StreamResponse:
    given = cursor_of(call, views=0, start=str)
    after = "" if given is None else str(given.start)

    def own() -> Any:
        return _page(call, ((one.name, one) for one in call.api.memory.info().spaces if one.name > after))

    return await _merged_page(call, own, lambda one: str(one["name"]), str)


async def quarantine(call: Call) -> web.StreamResponse:
    given = cursor_of(call, views=0, start=str)
    after = Position(-1, -1) if given is None else position("cursor", str(given.start))

    def own() -> Any:
        found = sorted(call.api.memory.quarantined(), key=lambda one: one.position)
        return _page(call, ((str(one.position), one) for one in found if one.position > after))

    return await _merged_page(call, own, lambda one: Position(**one["position"]), str)


async def workers(call: Call) -> web.StreamResponse:
    """Every worker that is known, with one that does not answer among them: that is when one looks."""
    own = plain([await call.api.asked.run_telling(call.api.fleet.status)])
    if call.is_hop:
        return call.answer(encoded({"workers": own}))
    for told in await _told_by_others(call, STATUS_WITHIN_S):
        own += told.found["workers"] if isinstance(told, Told) else plain([_silent(told)])
    return call.answer(encoded({"workers": own}))


async def healthy(call: Call) -> web.StreamResponse:
    return call.answer(encoded({"status": "alive"}))


async def ready(call: Call) -> web.StreamResponse:
    try:
        status = await call.api.asked.run_telling(call.api.fleet.status)
        is_ready, reasons = status.ready, list(status.reasons)
    except SlotlogError as error:
        is_ready, reasons = False, [str(error)]
    if not is_ready:
        return call.answer(encoded({"status": "not ready", "reasons": reasons}), HTTPStatus.SERVICE_UNAVAILABLE)
    return call.answer(encoded({"status": "degraded" if reasons else "ready", "reasons": reasons}))


async def metrics(call: Call) -> web.StreamResponse:
    def look() -> tuple[bytes, str]:
        with suppress(SlotlogError):  # what is counted is told all the same
            call.api.metrics.partitions(call.api.fleet.status().partitions)
        return call.api.metrics.exposition()

    body, content_type = await call.api.asked.run_telling(look)
    return web.Response(body=body, headers={"Content-Type": content_type})


async def document(call: Call) -> web.StreamResponse:
    return call.answer(call.api.document)


def _silent(told: Silent) -> WorkerStatus:
    return WorkerStatus(told.url, told.url, False, False, (), (told.why,))


async def _told_by_others(call: Call, within_s: float) -> list[Told | Silent]:
    """What each of the other workers says to the same question about itself alone."""
    rel_url = call.request.rel_url
    path = f"{rel_url.raw_path}?{rel_url.raw_query_string}" if rel_url.raw_query_string else rel_url.raw_path
    others = call.api.fleet.others()
    return list(await asyncio.gather(*(call.api.proxy.ask(url, path, within_s) for url in others)))


async def _parts(call: Call, own: Callable[[], Any]) -> list[Any]:
    """What every partition answers, as the JSON of each worker that has some; of this process alone when it is asked by
    another one.

    Raises:
        NotServing: a partition has no answer, or two.
    """
    here = await call.api.asked.run_whole(partial(_own_part, call, own))
    if call.is_hop:
        call.headers[PARTITIONS_HEADER] = ",".join(map(str, here.partitions))
        return [here.found]
    told = await _told_by_others(call, WITHIN_S)
    parts = [here, *(_Part(one.partitions, one.found) for one in told if isinstance(one, Told))]
    covered = sorted(number for part in parts for number in part.partitions)
    for number in range(call.api.asked.partitions):
        if covered.count(number) != 1:
            silent = "; ".join(one.why for one in told if isinstance(one, Silent))
            problem = "no worker answers" if number not in covered else "more than one worker answers"
            raise NotServing(f"{problem} for partition {number}" + (f": {silent}" if silent else ""), hint="ask again")
    return [part.found for part in parts]


def _own_part(call: Call, own: Callable[[], Any]) -> _Part:
    with call.api.asked.covered() as partitions:
        return _Part(partitions, own())


def _merged(parts: list[Any], name: str, key: Callable[[Any], Any]) -> list[Any]:
    return sorted((one for part in parts for one in part[name]), key=key)


def _page(call: Call, items: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    page = page_of(call, items, Cursor(""))
    return {"items": [msgspec.json.decode(one) for one in page.items], "next": page.next}


async def _merged_page(
    call: Call, own: Callable[[], Any], key: Callable[[Any], Any], place: Callable[[Any], str]
) -> web.Response:
    """One page of what all workers have pages of. Nothing is on it that might come after what a page of theirs left
    out. `key` orders items, and `place` of it is where to go on after one."""
    parts = await _parts(call, own)
    if len(parts) == 1:
        return call.answer(encoded(parts[0]))
    ends = [key(part["items"][-1]) for part in parts if part["next"] is not None]
    found = [one for one in _merged(parts, "items", key) if all(key(one) <= end for end in ends)]
    shown = found[: call.given.get("limit", PAGE_ITEMS)]
    more = bool(ends) or len(found) > len(shown)
    following = cursor_after(call, place(key(shown[-1]))) if more else None
    return call.answer(encoded({"items": shown, "next": following}))
