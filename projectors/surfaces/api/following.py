"""Handlers of streams: a replay of the log, and changes of belief as they happen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator
from functools import partial
from typing import NamedTuple

import msgspec
from aiohttp import web

from projectors.surfaces.api.calls import EVENT_STREAM, Call, encoded
from projectors.surfaces.api.params import place, view_in
from projectors.surfaces.api.streaming import stream_of, streamed
from schemas import events as ev
from schemas.errors import InvalidView, NotServing, StoreClosed
from streams import clock
from streams.answers import Answer, Recorded, beliefs_of
from streams.compare import believed
from streams.fold import RULES
from streams.ports import Position
from streams.wire import JSON_LINES, plain

PIECE_BYTES = 128 * 1024
EVENTS_AT_ONCE = 100
KEEP_ALIVE_S = 15.0
LOOK_S = 1.0
"""So often, at least, it is asked whether this process still answers, and whether it is to end."""
RECONNECT_MS = 1_000


async def replay(call: Call) -> web.StreamResponse:
    def begun() -> tuple[Iterator[Recorded], bytes]:
        call.at(call.api.memory.reached(call.space))
        given = call.given
        events = call.api.memory.replay(call.space, given.get("session"), given.get("start"), given.get("end"))
        return events, _lines(events)

    events, first = await call.api.asked.ask(call.space, call.needed, call.timeout_s, begun)
    return await streamed(call.request, stream_of(JSON_LINES, call.headers), _replayed(call, events, first))


async def _replayed(call: Call, events: Iterator[Recorded], piece: bytes) -> AsyncGenerator[bytes, None]:
    try:
        while piece:
            yield piece
            piece = await call.api.asked.run(partial(_lines, events))
    finally:
        await call.api.asked.run(partial(_close, events))


def _lines(events: Iterator[Recorded]) -> bytes:
    """The next events as JSON lines, empty when there are no more."""
    made = bytearray()
    for recorded in events:
        made += encoded(plain(recorded)) + b"\n"
        if len(made) >= PIECE_BYTES:
            break
    return bytes(made)


def _close(events: Iterator[Recorded]) -> None:
    """Let go of what an unfinished replay holds of the log."""
    if isinstance(events, Generator):
        events.close()


async def changes(call: Call) -> web.StreamResponse:
    last = call.request.headers.get("Last-Event-ID")
    since = call.given.get("since") if last is None else place("Last-Event-ID", last)

    def begun() -> Position:
        memory, asked = call.api.memory, call.api.asked
        reached = memory.reached(call.space)
        call.at(reached)
        found = reached
        if since is not None:
            found = Position(reached.partition, asked.offset(call.space, since, reached))
        as_of = min(found, reached)
        memory.resolve(call.space, msgspec.structs.replace(view_in(call.given), as_of=as_of))  # or says why not
        return found

    place_now = await call.api.asked.ask(call.space, call.needed, call.timeout_s, begun)
    return await streamed(call.request, stream_of(EVENT_STREAM, call.headers), _followed(call, place_now))


async def _followed(call: Call, since: Position) -> AsyncGenerator[bytes, None]:
    """Messages, for as long as this process answers for the space."""
    yield f"retry: {RECONNECT_MS}\n".encode() + _place(since)
    quiet_since = clock.monotonic_s()
    while not call.api.closing:
        try:
            if call.elsewhere() is not None:
                return
            looked = await call.api.asked.run(partial(_look, call, since))
        except (NotServing, StoreClosed):  # the client comes back with its place, and is sent to whom it is now
            return
        except InvalidView:  # its branch was deleted: the client that comes back is told so
            return
        since = looked.up_to
        if looked.messages:
            quiet_since = clock.monotonic_s()
            yield looked.messages
        elif clock.monotonic_s() - quiet_since >= KEEP_ALIVE_S:
            quiet_since = clock.monotonic_s()
            yield _place(since)
        if looked.is_all:
            await call.api.fleet.changed(call.space, LOOK_S)


class _Changed(NamedTuple):
    """A slot that answers otherwise than before."""

    entity: str
    slot: str
    before: Answer
    after: Answer


class _Looked(NamedTuple):
    """Messages about what came up to and with a position, and whether there is more for now."""

    messages: bytes
    up_to: Position
    is_all: bool


def _look(call: Call, since: Position) -> _Looked:
    reached = call.api.memory.reached(call.space)
    if reached.offset <= since.offset:
        return _Looked(b"", since, True)
    events = call.api.asked.events(call.space, since.offset + 1, reached.offset + 1, EVENTS_AT_ONCE)
    messages = b"".join(_message(call, recorded) for recorded in events)
    is_all = len(events) < EVENTS_AT_ONCE
    return _Looked(messages, reached if is_all else events[-1].position, is_all)


def _message(call: Call, recorded: Recorded) -> bytes:
    """What the event changed, as a message; nothing where it changed nothing that is asked for."""
    found = [
        {"entity": one.entity, "slot": one.slot, "before": beliefs_of(one.before), "after": beliefs_of(one.after)}
        for one in _differences(call, recorded)
    ]
    if not found:
        return b""
    data = {
        "position": recorded.position,
        "append_time": recorded.append_time,
        "event": recorded.event,
        "changes": found,
    }
    return f"id: {recorded.position.offset}\nevent: changed\ndata: ".encode() + encoded(plain(data)) + b"\n\n"


def _differences(call: Call, recorded: Recorded) -> list[_Changed]:
    """Slots whose beliefs differ, at the event's append time, before it and with it. None at the event that made the
    branch: nothing was asked of it before."""
    memory, wanted = call.api.memory, (call.given.get("entity"), call.given.get("slot"))
    partition, offset = recorded.position
    before, after = (
        msgspec.structs.replace(view_in(call.given), as_of=Position(partition, as_of), valid_at=recorded.append_time)
        for as_of in (offset - 1, offset)
    )
    if isinstance(recorded.event, ev.BranchForked) and recorded.event.branch == before.branch:
        return []
    about = None if type(recorded.event) in RULES else call.api.asked.slot_of(call.space, recorded.event)
    if about is None and None in wanted:
        every = memory.diff(call.space, before, after)
        found = [_Changed(one.entity, one.slot, one.before, one.after) for one in every]
    else:
        slot = about or (str(wanted[0]), str(wanted[1]))
        if not _is_wanted(wanted, *slot):
            return []
        found = [_Changed(*slot, *(memory.get(call.space, *slot, view) for view in (before, after)))]
    return [
        one for one in found if _is_wanted(wanted, one.entity, one.slot) and believed(one.before) != believed(one.after)
    ]


def _is_wanted(wanted: tuple[str | None, str | None], entity: str, slot: str) -> bool:
    return wanted[0] in (None, entity) and wanted[1] in (None, slot)


def _place(at: Position) -> bytes:
    """A message without data: a client that comes back asks for what is after it."""
    return f"id: {at.offset}\n\n".encode()
