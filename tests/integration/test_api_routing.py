"""Any worker answers for any space: it passes the question on, once, and says so when nobody answers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pytest
from api_client import ALICE, Reply, api, ask, opened, pages
from api_fleet import HALVES, HalfMemory, Halves, half_of

from projectors.surfaces.api import Limits
from streams import Memory
from streams.partitioner import partition_of
from streams.wire import plain

NAMES = ["acme/a", "acme/b", "acme/c", "acme/d", "acme/e", "acme/f"]
HOP = {"Slotlog-Hop": "1"}


def space_in(partition: int) -> str:
    return next(name for name in NAMES if partition_of(name.encode(), HALVES) == partition)


HERE, THERE = space_in(0), space_in(1)


class Pair(NamedTuple):
    """Two workers: the first has partition 0, the second has 1."""

    memories: list[HalfMemory]
    fleets: list[Halves]
    urls: list[str]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        memories = [stack.enter_context(half_of(tmp_path, f"w{one}", one)) for one in range(HALVES)]
        fleets = [Halves(memory, f"w{one}") for one, memory in enumerate(memories)]
        urls = [stack.enter_context(api(memory, fleet)) for memory, fleet in zip(memories, fleets, strict=True)]
        fleets[0].other, fleets[1].other = urls[1], urls[0]
        yield Pair(memories, fleets, urls)


def at(space: str, rest: str) -> str:
    return f"/v1/spaces/{quote(space, safe='')}/{rest}"


def fact(value: Any) -> dict[str, Any]:
    return {"type": "FactAsserted", "entity": ALICE, "slot": "employer", "value": value}


def kind(reply: Reply) -> str:
    return str(reply.json["type"]).removeprefix("urn:slotlog:problem:")


def write(pair: Pair, space: str, value: Any, through: int = 0) -> dict[str, Any]:
    reply = ask(pair.urls[through], at(space, "events"), "POST", fact(value))
    assert reply.status == 202, reply.body
    found: dict[str, Any] = reply.json
    return found


@pytest.mark.parametrize("asked", [0, 1])
@pytest.mark.parametrize("space", [HERE, THERE])
def test_any_worker_answers_for_any_space(pair: Pair, space: str, asked: int) -> None:
    receipt = write(pair, space, "Acme")
    owner = partition_of(space.encode(), HALVES)
    direct, reply = (ask(pair.urls[number], at(space, f"facts/{ALICE}/employer")) for number in (owner, asked))
    assert reply.status == 200
    assert reply.json["answer"]["value"] == direct.json["answer"]["value"] == "Acme"
    assert reply.headers["slotlog-seen"] == receipt["event_id"]
    assert reply.headers["slotlog-position"] == f"{owner}:0"
    assert reply.headers["content-length"] == str(len(reply.body))
    assert reply.headers["content-type"] == "application/json"
    assert ask(pair.urls[asked], at(space, "replay")).lines[0]["event"]["value"] == "Acme"


def test_problems_come_through_as_they_are(pair: Pair) -> None:
    missing = at(THERE, "events/0195d0a4-7c00-7000-8000-000000000007")
    replies = [ask(url, missing) for url in pair.urls]
    assert [reply.status for reply in replies] == [404, 404]
    assert replies[0].json == replies[1].json
    late = ask(pair.urls[0], at(THERE, "resolve?min_offset=5&timeout=0.1"))
    assert (late.status, late.json["reached"]) == (504, "1:-1")
    head = ask(pair.urls[0], at(THERE, "resolve"), "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["slotlog-position"] == "1:-1"


def test_odd_names_come_through_byte_for_byte(pair: Pair) -> None:
    for entity in ("..", ".", "a/b", "%2F", "a?b#c", "{x}", "é ü", "+", "x" * 512, "ü" * 512):
        event = {**fact("odd"), "entity": entity}
        assert ask(pair.urls[0], at(THERE, "events?wait=30"), "POST", event).status == 200
        path = at(THERE, f"facts/{quote(entity, safe='').replace('.', '%2E')}/employer?without_actor=a%20b%2Bc")
        assert ask(pair.urls[0], path).json["answer"]["entity"] == entity


def test_a_write_that_names_nothing_is_appended_wherever_it_arrives(pair: Pair) -> None:
    pair.memories[1].mine = set()
    assert write(pair, THERE, "Acme")["position"] == {"partition": 1, "offset": 0}
    pair.memories[1].mine = {1}
    assert ask(pair.urls[0], at(THERE, f"facts/{ALICE}/employer")).json["answer"]["value"] == "Acme"


def test_a_write_that_names_an_earlier_one_goes_to_its_owner(pair: Pair) -> None:
    write(pair, THERE, "Acme")
    forget = {"type": "FactRetracted", "entity": ALICE, "slot": "employer"}
    reply = ask(pair.urls[0], at(THERE, "events?min_offset=0&wait=30"), "POST", [forget, fact("Globex")])
    assert [one["status"] for one in reply.json["receipts"]] == ["applied", "applied"]
    wrong = ask(pair.urls[0], at(THERE, "events"), "POST", [fact("x"), {**forget, "slot": "none"}])
    assert (kind(wrong), wrong.json["event"]) == ("InvalidEvent", 1)
    checked = ask(pair.urls[0], at(THERE, "events/check"), "POST", [forget, {**forget, "slot": "none"}])
    assert [one is None for one in checked.json["problems"]] == [True, False]


def test_nothing_is_passed_on_twice(pair: Pair) -> None:
    reply = ask(pair.urls[0], at(THERE, "resolve"), headers=HOP)
    assert (reply.status, kind(reply)) == (503, "NotServing")
    assert int(reply.headers["retry-after"]) >= 1
    forget = {"type": "FactRetracted", "entity": ALICE, "slot": "employer"}
    assert ask(pair.urls[0], at(THERE, "events"), "POST", forget, HOP).status == 503
    pair.memories[1].mine = set()  # each thinks that the other has it
    assert ask(pair.urls[0], at(THERE, "resolve")).status == 503


def test_nobody_is_known_to_answer(pair: Pair) -> None:
    pair.fleets[0].other = None
    reply = ask(pair.urls[0], at(THERE, "resolve"))
    assert (reply.status, kind(reply)) == (503, "NotServing")
    assert "retry-after" in reply.headers
    assert ask(pair.urls[0], at(HERE, "resolve")).status == 200


def test_a_worker_that_can_not_be_reached(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        pair.fleets[0].other = f"http://127.0.0.1:{taken.getsockname()[1]}"
    for method, body in (("GET", None), ("HEAD", None)):
        reply = ask(pair.urls[0], at(THERE, "resolve"), method, body)
        assert reply.status == 503
        assert int(reply.headers["retry-after"]) >= 1
    assert ask(pair.urls[0], at(THERE, "events/check"), "POST", fact(1)).status == 503


@contextmanager
def answering(*sent: bytes) -> Iterator[str]:
    """The URL of a server that sends this to each who asks, and closes the connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def run() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(100_000)
                    for piece in sent:
                        connection.sendall(piece)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    "sent",
    [b"", b"no http at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n"],
)
def test_a_worker_that_dies_before_it_answers_is_a_503(pair: Pair, sent: bytes) -> None:
    with answering(sent) as pair.fleets[0].other:
        reply = ask(pair.urls[0], at(THERE, "resolve"))
        assert (reply.status, kind(reply)) == (503, "NotServing")


@pytest.mark.parametrize("length", [b"Transfer-Encoding: chunked", b"Content-Length: 1000"])
def test_a_worker_that_dies_while_it_answers_breaks_the_connection(pair: Pair, length: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n" + length + b"\r\n\r\n"
    with answering(head, b"5\r\n{...}\r\n") as pair.fleets[0].other, opened(pair.urls[0], at(THERE, "replay")) as got:
        assert got.status == 200
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            got.read()


def test_headers_of_one_connection_stay_there(pair: Pair) -> None:
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=1\r\n"
        b"Proxy-Authenticate: x\r\nX-Kept: one\r\nX-Kept: two\r\n\r\n{}"
    )
    with answering(head) as pair.fleets[0].other, opened(pair.urls[0], at(THERE, "resolve")) as got:
        assert got.headers.get_all("X-Kept") == ["one", "two"]
        for name in ("X-Mine", "Keep-Alive", "Proxy-Authenticate", "Transfer-Encoding"):
            assert name not in got.headers


def test_a_question_is_given_up_when_the_space_moves(pair: Pair) -> None:
    """The worker that had it says nothing, as one that was suspended does."""
    asked = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        pair.fleets[0].other = f"http://127.0.0.1:{server.getsockname()[1]}"

        def moves() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                pair.fleets[0].other = pair.urls[1]
                asked.wait(60)

        thread = threading.Thread(target=moves)
        thread.start()
        reply = ask(pair.urls[0], at(THERE, "resolve"))
        asked.set()
        thread.join()
    assert (reply.status, kind(reply)) == (503, "NotServing")
    assert ask(pair.urls[0], at(THERE, "resolve")).status == 200


def test_a_stream_is_given_up_when_the_space_moves(pair: Pair) -> None:
    """The worker that had it began to answer, and says nothing more."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        pair.fleets[0].other = f"http://127.0.0.1:{server.getsockname()[1]}"
        done = threading.Event()

        def suspended() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100_000)
                connection.sendall(head + b"6\r\nid: 1\n\r\n")
                done.wait(60)

        thread = threading.Thread(target=suspended)
        thread.start()
        with opened(pair.urls[0], at(THERE, "changes")) as response:
            assert response.readline() == b"id: 1\n"
            pair.fleets[0].other = pair.urls[1]
            with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
                response.read()
        done.set()
        thread.join()


def test_changes_are_followed_through_another_worker(pair: Pair) -> None:
    write(pair, THERE, "Acme")
    with opened(pair.urls[0], at(THERE, "changes?since=-1")) as response:
        lines = iter(response.readline, b"")
        assert [next(lines) for _ in range(5)] == [
            b"retry: 1000\n",
            b"id: -1\n",
            b"\n",
            b"id: 0\n",
            b"event: changed\n",
        ]
        assert json.loads(next(lines).removeprefix(b"data: "))["event"]["value"] == "Acme"
        pair.memories[1].mine = set()
        assert response.read() == b"\n"  # it ends there, and so here


# What is asked of all.


def test_what_all_have_is_put_together(pair: Pair, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        write(pair, name, number, through=number % 2)
    with half_of(tmp_path, "both", 0, 1) as both:
        whole, spaces = both.digest()
        info = both.info()
    for url in pair.urls:
        assert ask(url, "/v1/digest").json == {"digest": whole, "spaces": spaces}
        found = ask(url, "/v1/info").json
        assert found["spaces"] == json_of(info.spaces)
        assert [one["chain"] for one in found["partitions"]] == [one.chain for one in info.partitions]
        for limit in (1, 2, 5, 1000):
            listed = list(pages(url, "/v1/spaces", limit))
            assert [one["name"] for page in listed for one in page] == NAMES
            assert max(map(len, listed)) == min(limit, len(NAMES))
        assert {one["worker"] for one in ask(url, "/v1/workers").json["workers"]} == {"w0", "w1"}
    assert ask(pair.urls[0], "/v1/spaces", headers=HOP).headers["slotlog-partitions"] == "0"
    own = ask(pair.urls[0], "/v1/spaces", headers=HOP).json["items"]
    assert [one["name"] for one in own] == [name for name in NAMES if partition_of(name.encode(), HALVES) == 0]


def json_of(found: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(plain(found)))


def test_pages_that_are_full_by_size_leave_nothing_out(pair: Pair) -> None:
    with ExitStack() as stack:
        urls = [
            stack.enter_context(api(memory, fleet, Limits(page_bytes=1)))
            for memory, fleet in zip(pair.memories, pair.fleets, strict=True)
        ]
        pair.fleets[0].other, pair.fleets[1].other = urls[1], urls[0]
        for number, name in enumerate(NAMES):
            write(pair, name, number)
        assert [one["name"] for page in pages(urls[0], "/v1/spaces", 100) for one in page] == NAMES


def test_quarantine_of_all_partitions(pair: Pair) -> None:
    from streams.ports import Message

    for name in NAMES * 3:
        pair.memories[0]._log.append([Message(name.encode(), b"no event")])
    expected = sorted(one.position for memory in pair.memories for one in memory.quarantined())
    assert len(expected) == 18
    for limit in (1, 4, 1000):
        found = [one["position"] for page in pages(pair.urls[0], "/v1/quarantine", limit) for one in page]
        assert found == json_of(expected)


@pytest.mark.parametrize("path", ["/v1/spaces", "/v1/quarantine", "/v1/digest", "/v1/info"])
def test_a_partition_without_an_answer_is_named(pair: Pair, path: str) -> None:
    pair.memories[1].mine = set()
    reply = ask(pair.urls[0], path)
    assert (reply.status, kind(reply)) == (503, "NotServing")
    assert "partition 1" in reply.json["detail"]
    pair.memories[1].mine = {0, 1}
    assert "more than one worker" in ask(pair.urls[0], path).json["detail"]
    with answering(b"") as pair.fleets[0].other:
        reply = ask(pair.urls[0], path)
        assert reply.status == 503
        assert pair.fleets[0].other in reply.json["detail"]
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxx") as pair.fleets[0].other:
        assert ask(pair.urls[0], path).status == 503


def test_a_silent_worker_is_listed_with_its_reason(pair: Pair) -> None:
    with answering(b"") as silent:
        pair.fleets[0].other = silent
        own, other = ask(pair.urls[0], "/v1/workers").json["workers"]
    assert (own["worker"], own["ready"], other["url"], other["ready"]) == ("w0", True, silent, False)
    assert silent in other["reasons"][0]


def test_the_facade_over_two_workers(pair: Pair) -> None:
    with Memory.open(pair.urls[0], actor="agent:far") as far:
        for name in NAMES:
            far.remember(name, ALICE, "employer", name)
            far.forget(name, ALICE, "employer")
            far.remember(name, ALICE, "employer", f"{name}!")
        assert [far.get(name, ALICE, "employer").value for name in NAMES] == [f"{name}!" for name in NAMES]  # type: ignore[union-attr]
        assert [space.events for space in far.info().spaces] == [3] * len(NAMES)
        with Memory.open(pair.urls[1]) as other:
            assert other.digest() == far.digest()
