"""Handlers of what writes: events in three forms, what would become of them, and what did."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from projectors.surfaces.api.asking import Limits
from projectors.surfaces.api.calls import Call, encoded
from projectors.surfaces.api.params import view_in
from projectors.surfaces.api.problems import Refused, RefusedEvent, problem
from schemas.errors import InvalidEvent, InvalidInput, SlotlogError
from streams.answers import Receipt
from streams.branching import MAIN
from streams.door import NAMING
from streams.memory import Memory
from streams.ports import Position
from streams.wire import JSON, JSON_LINES, plain

DEPTH_MAX = 8
_NAMING = tuple(cls.__name__ for cls in NAMING)
_FORMS = f"{JSON} (one event, or an array) or {JSON_LINES} (an event a line)"


class Given(NamedTuple):
    """Events in their JSON forms. `several`: they came as an array or as lines, however many they are."""

    events: list[dict[str, Any]]
    several: bool

    @property
    def name_earlier_ones(self) -> bool:
        """Whether the tables must be asked about any of them."""
        return any(event.get("type") in _NAMING or event.get("branch", MAIN) != MAIN for event in self.events)


async def append(call: Call) -> web.StreamResponse:
    """Appended here, unless the tables of the space are needed for it."""
    asked, memory = call.api.asked, call.api.memory
    given = await asked.run_append(partial(_given, call))
    wait_s: float = call.given.get("wait", 0.0)
    needs_tables = given.name_earlier_ones or wait_s > 0 or call.needed is not None
    if needs_tables and (url := call.elsewhere()) is not None:
        return await call.pass_on(url)
    do = partial(_append, memory, given)
    if call.needed is not None:
        await asked.reach(call.space, call.needed, call.timeout_s)
    receipts = await asked.run_append(do)
    if wait_s > 0 and any(receipt.status == "accepted" for receipt in receipts):
        receipts = await _waited(call, receipts, wait_s)
    settled = all(receipt.status != "accepted" for receipt in receipts)
    body = encoded(plain({"receipts": receipts} if given.several else receipts[0]))
    return call.answer(body, HTTPStatus.OK if settled else HTTPStatus.ACCEPTED)


async def check(call: Call) -> web.StreamResponse:
    given = await call.api.asked.run(partial(_given, call))

    def look() -> bytes:
        call.at(call.api.memory.reached(call.space))
        errors = call.api.memory.check(given.events)
        problems = [
            None if error is None else problem(error, number if given.several else None)
            for number, error in enumerate(errors)
        ]
        return encoded({"problems": problems})

    return await call.ask(call.needed, look)


async def preview(call: Call) -> web.StreamResponse:
    given = await call.api.asked.run(partial(_given, call))

    def look() -> bytes:
        memory, view = call.api.memory, view_in(call.given)
        call.saw(call.api.asked.seen(call.space, view))
        try:
            return encoded(plain({"items": memory.preview(call.space, given.events, view)}))
        except InvalidEvent as error:
            raise _numbered(memory, given, error) from error

    return await call.ask(call.needed, look)


async def receipt(call: Call) -> web.StreamResponse:
    position: Position = call.given["position"]
    asked, event_id = call.api.asked, call.names["event_id"]

    def look() -> bytes:
        call.at(call.api.memory.reached(call.space))
        return encoded(plain(asked.receipt(call.space, event_id, position)))

    return await call.ask(position, look)


async def _waited(call: Call, receipts: list[Receipt], wait_s: float) -> list[Receipt]:
    """The receipts as they stand once all of the events are folded, or after `wait_s`."""
    memory = call.api.memory
    last = max(receipt.position for receipt in receipts)
    try:
        return await call.api.asked.ask(call.space, last, wait_s, lambda: [memory.wait(one) for one in receipts])
    except SlotlogError:  # they are safe on the log, and that is what was asked for first
        return receipts


def _append(memory: Memory, given: Given) -> list[Receipt]:
    try:
        return memory.append(given.events)
    except InvalidEvent as error:
        raise _numbered(memory, given, error) from error


def _numbered(memory: Memory, given: Given, error: InvalidEvent) -> InvalidEvent | RefusedEvent:
    """The error with the number of the event that it is about, where there are several."""
    if given.several:
        for number, found in enumerate(memory.check(given.events)):
            if found is not None:
                return RefusedEvent(found, number)
    return error  # of one, or what it had missed has just come in


def _given(call: Call) -> Given:
    """The events of a body. Their space is the one of the path."""
    given = _parsed(call.body, _media_type(call.request), call.api.limits)
    events = []
    for number, event in enumerate(given.events):
        try:
            events.append(_of_space(event, call.space))
        except InvalidEvent as error:
            if not given.several:
                raise
            raise RefusedEvent(error, number) from error
    return Given(events, given.several)


def _of_space(event: Any, space: str) -> dict[str, Any]:
    if not isinstance(event, dict):
        raise InvalidEvent("event", f"must be a JSON object, not {_json_kind(event)}")
    _check_depth(event, DEPTH_MAX)
    if event.get("space", space) != space:
        raise InvalidEvent("space", f"is not {space!r}, which the path names", hint="leave it out")
    return {"space": space, **event}


def _parsed(body: bytes, media: str, limits: Limits) -> Given:
    """The JSON of a body, by its media type."""
    if media == JSON:
        found = _decoded(body, "the body")
        given = Given(found if isinstance(found, list) else [found], isinstance(found, list))
    else:
        lines = [line for line in body.split(b"\n") if line.strip()]
        _check_count(len(lines), limits)
        given = Given([_decoded(line, f"line {number}") for number, line in enumerate(lines, 1)], True)
    _check_count(len(given.events), limits)
    return given


def _decoded(text: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        said = str(error).removeprefix("JSON is malformed: ")
        raise InvalidInput(f"{what} is not JSON: {said}", hint=f"a body is {_FORMS}") from error
    except RecursionError as error:
        raise _too_deep() from error


def _check_depth(found: Any, left: int) -> None:
    """An event is flat, but for a list of records here and there."""
    if left == 0:
        raise _too_deep()
    for one in found.values() if isinstance(found, dict) else found:
        if isinstance(one, dict | list):
            _check_depth(one, left - 1)


def _check_count(events: int, limits: Limits) -> None:
    if events > limits.max_batch_events:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"{events:,} events, and one request takes {limits.max_batch_events:,}",
            hint="append fewer events at a time",
        )


def _too_deep() -> InvalidInput:
    return InvalidInput(f"the body is nested too deep: an event has at most {DEPTH_MAX} levels")


def _media_type(request: web.Request) -> str:
    """What the body says it is. It has to say it: a page of some other site can't send that unasked."""
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media not in (JSON, JSON_LINES):
        said = f"a body of type {media[:100]}" if media else "a body that does not say its type"
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{said} is not taken", hint=f"Content-Type: {_FORMS}")
    return media


def _json_kind(found: Any) -> str:
    kinds = {list: "an array", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(found), "a number")
