"""A remote Memory and a server that fails: real sockets, and replies that are told beforehand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from http_server import serving

from schemas.errors import InvalidInput, NotReached, NotServing, SlotlogError, Unavailable
from schemas.jsonform import from_json
from schemas.times import instant
from streams import Memory, Position, Receipt, Recorded, ResolvedView, View, new_event_id
from streams.remote import AsyncMemory
from streams.wire import plain

SPACE = "acme/support"
ALICE = "user:alice"
HERE = "/v1/spaces/acme%2Fsupport"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Told:
    """A server that does what it was told, one request after the other, the last for ever; and keeps what it heard."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.heard: list[tuple[str, dict[str, str], Any]] = []

    def install(self, app: web.Application) -> None:
        app.router.add_route("*", "/{tail:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        path = request.rel_url.raw_path
        self.heard.append((path, dict(request.query), msgspec.json.decode(body) if body else None))
        return await (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(request)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def url(told: Told) -> Iterator[str]:
    with serving(told.install) as found:
        yield found


def reply(found: Any, status: int = 200, kind: str = "application/json", **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        body = found if isinstance(found, bytes) else msgspec.json.encode(plain(found))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=body, status=status, content_type=kind, headers=named)

    return answer


def problem(name: str, status: int, **more: Any) -> Answer:
    found = {"type": f"urn:slotlog:problem:{name}", "title": name, "status": status, "detail": "so it is", **more}
    return reply(found, status, "application/problem+json", Retry_After="0")


async def reset(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def resolved(offset: int) -> ResolvedView:
    return ResolvedView(Position(0, offset), 0)


def nothing(seen: str | None = None) -> Answer:
    headers = {"Slotlog_Position": "0:7"} | ({"Slotlog_Seen": seen} if seen else {})
    return reply({"view": plain(resolved(7)), "answer": None}, **headers)


def accepted(offset: int) -> Answer:
    return reply(Receipt(SPACE, new_event_id(), Position(0, offset), "accepted"), 202)


def ask_sync_and_async(url: str, ask: Callable[[Any], Any]) -> list[Any]:
    """What `ask` comes to with either memory; an error is what it came to."""

    def caught(error: SlotlogError) -> SlotlogError:
        return error

    async def ask_async() -> Any:
        async with AsyncMemory.open(url, actor="agent:a", busy_timeout_s=5.0) as memory:
            try:
                return await ask(memory)
            except SlotlogError as error:
                return caught(error)

    with Memory.open(url, actor="agent:a", busy_timeout_s=5.0) as memory:
        try:
            found = ask(memory)
        except SlotlogError as error:
            found = caught(error)
    return [found, asyncio.run(ask_async())]


@pytest.mark.parametrize("failure", [reset, problem("NotServing", 503), reply(b"<h1>", 502, "text/html")])
def test_what_fails_and_then_works_is_asked_again(told: Told, url: str, failure: Answer) -> None:
    told.answers = [failure, failure, nothing(), failure, nothing()]
    assert ask_sync_and_async(url, lambda memory: memory.get(SPACE, ALICE, "employer")) == [None, None]
    assert {path for path, _, _ in told.heard} == {f"{HERE}/facts/user%3Aalice/employer"}
    assert len(told.heard) == 5


def test_a_write_that_is_repeated_is_the_same_event(told: Told, url: str) -> None:
    told.answers = [reset, problem("Unavailable", 503), accepted(3), reset, accepted(4)]
    first, second = ask_sync_and_async(url, lambda memory: memory.remember(SPACE, ALICE, "employer", "Acme"))
    assert (first.position.offset, second.position.offset) == (3, 4)
    bodies = [body for _, _, body in told.heard]
    assert bodies[0] == bodies[1] == bodies[2] != bodies[3] == bodies[4]
    assert from_json(bodies[0]).actor == "agent:a"


def test_nobody_there_is_said_in_time() -> None:
    complaint = r"http://127\.0\.0\.1:1 does not answer: "
    with (
        Memory.open("http://127.0.0.1:1", busy_timeout_s=0.1) as memory,
        pytest.raises(Unavailable, match=complaint) as caught,
    ):
        memory.get(SPACE, ALICE, "employer")
    assert caught.value.hint == "try again"


def test_what_lasts_is_the_error_that_it_was(told: Told, url: str) -> None:
    told.answers = [problem("NotServing", 503, hint="ask again")]
    with Memory.open(url, busy_timeout_s=0.2) as memory, pytest.raises(NotServing, match="so it is"):
        memory.get(SPACE, ALICE, "employer")


def test_tables_that_do_not_get_there_are_not_asked_again(told: Told, url: str) -> None:
    told.answers = [problem("NotReached", 504, reached="0:2")]
    for found in ask_sync_and_async(url, lambda memory: memory.get(SPACE, ALICE, "employer")):
        assert isinstance(found, NotReached)
        assert found.reached == "0:2"
    assert len(told.heard) == 2


@pytest.mark.parametrize(
    "answer",
    [
        reply(b"<h1>It works!</h1>", kind="text/html"),
        reply(b"{", kind="application/json"),
        reply([]),
        reply({"hello": "world"}),
        reply(b"nothing here", 404, "text/plain"),
        reply({"type": "about:blank"}, 403, "application/problem+json"),
    ],
)
def test_a_server_of_another_kind_is_told_from_ours(told: Told, url: str, answer: Answer) -> None:
    told.answers = [answer]
    asks = (
        lambda memory: memory.get(SPACE, ALICE, "employer"),
        lambda memory: memory.remember(SPACE, ALICE, "employer", "Acme"),
        lambda memory: memory.entity(SPACE, ALICE),
        lambda memory: memory.resolve(SPACE),
        lambda memory: memory.reached(SPACE),
        lambda memory: memory.digest(),
        lambda memory: memory.info(),
        lambda memory: memory.check([{"type": "Observed", "space": SPACE, "role": "user", "text": "x"}]),
    )
    for ask in asks:
        for found in ask_sync_and_async(url, ask):
            assert isinstance(found, InvalidInput)
            assert "does not answer as slotlog does" in str(found)
            assert "slotlog serve" in str(found.hint)


def test_a_read_waits_for_what_was_written_and_says_what_was_seen(told: Told, url: str) -> None:
    shown = new_event_id()
    told.answers = [
        accepted(5), nothing(str(shown)), accepted(6), nothing(), accepted(7), reply(resolved(7)), nothing(), nothing(),
    ]  # fmt: skip
    with Memory.open(url, busy_timeout_s=5.0) as memory:
        for _ in range(2):
            memory.remember(SPACE, ALICE, "employer", "Acme")
            memory.get(SPACE, ALICE, "employer")
        memory.remember(SPACE, ALICE, "employer", "Acme")
        memory.resolve(SPACE, View(as_of=3))
        memory.get(SPACE, ALICE, "employer", View(as_of=99))
        memory.get("acme/other", ALICE, "employer")
    needed = [query.get("min_offset") for _, query, _ in told.heard]
    assert needed == [None, "0:5", None, "0:6", None, "0:3", "0:7", None]
    assert told.heard[1][1]["timeout"] == "5"
    seen = [body.get("seen") for _, _, body in told.heard if body]
    assert seen == [None, str(shown), None]


def test_what_names_earlier_events_is_checked_where_those_are_known(told: Told, url: str) -> None:
    told.answers = [accepted(5), accepted(6)]
    with Memory.open(url, busy_timeout_s=5.0) as memory:
        memory.remember(SPACE, ALICE, "employer", "Acme")
        memory.forget(SPACE, ALICE, "employer")
    assert [query.get("min_offset") for _, query, _ in told.heard] == [None, "0:5"]


def test_every_partition_is_up_to_date_before_all_are_asked(told: Told, url: str) -> None:
    digest = reply({"digest": "x", "spaces": {}})
    there = reply(resolved(7), Slotlog_Position="0:7")
    told.answers = [accepted(7), there, digest, there, digest]
    with Memory.open(url, busy_timeout_s=5.0) as memory:
        memory.remember(SPACE, ALICE, "employer", "Acme")
        assert memory.digest() == memory.digest() == ("x", {})
    each = [f"{HERE}/resolve", "/v1/digest"]  # each time: the partition may have moved to a worker that is behind
    assert [path for path, _, _ in told.heard] == [f"{HERE}/events", *each, *each]
    assert told.heard[1][1]["min_offset"] == "0:7"


def lines(count: int) -> bytes:
    event = {"type": "Observed", "event_id": str(new_event_id()), "space": SPACE, "actor": "a", "recorded_at": 0}
    found = from_json({**event, "role": "user", "text": "hello"})
    records = [plain(Recorded(Position(0, number), instant(0), found)) for number in range(count)]
    return b"".join(msgspec.json.encode(one) + b"\n" for one in records)


def stream(body: bytes, *, cut: bool = False) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for start in range(0, len(body), 100):
            await response.write(body[start : start + 100])
        if cut:
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write_eof()
        return response

    return answer


async def endless(request: web.Request) -> web.StreamResponse:
    """As a server or a proxy of HTTP/1.0 does: the end of the connection is the end of the body, or of the server."""
    assert request.transport is not None
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"
    request.transport.write(head + lines(2))
    request.transport.close()
    return web.Response()


def replayed(url: str) -> list[list[int] | SlotlogError]:
    """The offsets that a replay tells, to either memory, or how it ended."""

    async def ask() -> list[int]:
        async with AsyncMemory.open(url) as memory:
            return [one.position.offset async for one in memory.replay(SPACE)]

    found: list[list[int] | SlotlogError] = []
    with Memory.open(url) as memory:
        for told in (lambda: [one.position.offset for one in memory.replay(SPACE)], lambda: asyncio.run(ask())):
            try:
                found.append(told())
            except SlotlogError as error:
                found.append(error)
    return found


def test_a_replay_is_read_as_it_comes(told: Told, url: str) -> None:
    told.answers = [problem("Unavailable", 503), stream(lines(50))]
    assert replayed(url) == [list(range(50))] * 2
    told.answers = [stream(b"")]
    assert replayed(url) == [[], []]


@pytest.mark.parametrize(
    "answer", [stream(lines(50), cut=True), stream(lines(50)[:-1]), stream(lines(50)[:-40], cut=True)]
)
def test_a_replay_that_breaks_off_is_no_shorter_replay(told: Told, url: str, answer: Answer) -> None:
    told.answers = [answer]
    for found in replayed(url):
        assert isinstance(found, Unavailable)
        assert "broke off after" in str(found)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (endless, "without an end that could be told from breaking off"),
        (stream(b"<h1>\n"), "malformed"),
        (stream(b'{"position": 1}\n'), "Recorded without append_time"),
        (reply(b"<h1>", kind="text/html"), "a body of type text/html"),
    ],
)
def test_a_replay_of_something_else_is_refused(told: Told, url: str, answer: Answer, complaint: str) -> None:
    told.answers = [answer]
    for found in replayed(url):
        assert isinstance(found, InvalidInput)
        assert complaint in str(found)


def test_a_long_wait_is_asked_for_in_parts(told: Told, url: str) -> None:
    receipt = Receipt(SPACE, new_event_id(), Position(0, 7), "accepted")
    late = problem("NotReached", 504, reached="0:2")
    told.answers = [late, late, reply(Receipt(SPACE, receipt.event_id, receipt.position, "applied"))]
    with Memory.open(url) as memory:
        assert memory.wait(receipt, timeout_s=3_600).status == "applied"
        told.answers = [late]
        with pytest.raises(NotReached):
            memory.wait(receipt, timeout_s=2)
    path = f"{HERE}/receipts/{receipt.event_id}"
    assert [one[:2] for one in told.heard[:3]] == [(path, {"position": "0:7", "timeout": "60"})] * 3
    assert len(told.heard) == 4
    assert float(told.heard[3][1]["timeout"]) <= 2.0


def test_a_forked_child_has_connections_of_its_own(told: Told, url: str) -> None:
    told.answers = [nothing()]
    with Memory.open(url) as memory:
        memory.get(SPACE, ALICE, "employer")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                memory.get(SPACE, ALICE, "employer")
                memory.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        memory.get(SPACE, ALICE, "employer")
    assert len(told.heard) == 3
