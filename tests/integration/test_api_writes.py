"""Events over HTTP: three forms of a body, what is refused, and what became of them."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from api_client import ALICE, AT, SPACE, Reply, api, ask

from projectors.surfaces.api import Limits
from projectors.surfaces.api.writing import DEPTH_MAX
from schemas.errors import LogUnreachable, NotServing
from streams import Memory, new_event_id
from streams.answers import Receipt
from streams.local import LocalMemory
from streams.ports import Message
from streams.status import Alone
from streams.wire import plain

EVENTS = f"{AT}/events"
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m", actor="agent:server") as opened:
        opened.info()  # takes the tables, so that receipts are settled
        yield opened


@pytest.fixture
def url(memory: Memory) -> Iterator[str]:
    with api(memory, limits=Limits(max_body_bytes=100_000, max_batch_events=10)) as url:
        yield url


def fact(value: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "FactAsserted", "entity": ALICE, "slot": "employer", "value": value, **fields}


def post(url: str, body: Any, path: str = EVENTS, **headers: str) -> Reply:
    return ask(url, path, "POST", body, headers)


def problem(reply: Reply) -> str:
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["status"] == reply.status
    assert reply.json["title"]
    return str(reply.json["type"]).removeprefix("urn:slotlog:problem:")


def test_one_event_and_its_receipt(url: str, memory: Memory) -> None:
    reply = post(url, fact("Acme"))
    assert (reply.status, reply.json["status"]) == (200, "applied")
    (recorded,) = memory.replay(SPACE)
    assert reply.json["event_id"] == plain(recorded.event)["event_id"]
    assert recorded.event.actor == "agent:server"
    assert recorded.event.seen is None


def test_several_events_as_an_array_and_as_lines(url: str, memory: Memory) -> None:
    events = [fact(number) for number in range(3)]
    array = post(url, events)
    text = b"\n\r\n" + b"\n".join(json.dumps(one).encode() for one in events) + b"\n"
    lines = ask(url, EVENTS, "POST", text, {"Content-Type": "application/x-ndjson; charset=utf-8"})
    one_line = ask(url, EVENTS, "POST", json.dumps(fact(9)).encode(), LINES)
    offsets = [one["position"]["offset"] for reply in (array, lines, one_line) for one in reply.json["receipts"]]
    assert offsets == list(range(7))
    assert post(url, []).json == {"receipts": []}
    assert [event.event.value for event in memory.replay(SPACE)] == [0, 1, 2, 0, 1, 2, 9]  # type: ignore[attr-defined]


def test_a_repeated_event_is_a_duplicate(url: str) -> None:
    event = fact("Acme", event_id=str(new_event_id()), recorded_at="2026-01-01T00:00:00Z")
    assert [post(url, event).json["status"] for _ in range(2)] == ["applied", "duplicate"]
    assert post(url, {**event, "value": "Globex"}).json["status"] == "conflict"


def test_an_event_may_name_its_space_but_no_other(url: str, memory: Memory) -> None:
    assert post(url, fact("Acme", space=SPACE)).status == 200
    reply = post(url, fact("Acme", space="acme/other"))
    assert (reply.status, problem(reply), reply.json["field"]) == (400, "InvalidEvent", "space")
    assert len(list(memory.replay(SPACE))) == 1


def test_all_or_none_and_which_is_wrong(url: str, memory: Memory) -> None:
    wrong = {"type": "FactRetracted", "entity": ALICE, "slot": "nothing"}
    reply = post(url, [fact("Acme"), wrong])
    assert (problem(reply), reply.json["event"], reply.json["field"]) == ("InvalidEvent", 1, "entity")
    assert list(memory.replay(SPACE)) == []
    alone = post(url, wrong)
    assert problem(alone) == "InvalidEvent"
    assert "event" not in alone.json
    good = post(url, [fact("Acme"), {**wrong, "slot": "employer"}])
    assert good.status == 200


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"type": "FactAsserted"}, "entity"),
        ({"type": "FactAssorted"}, "type"),
        ({}, "type"),
        ({"type": ["FactAsserted"]}, "type"),
        (fact(None), "value"),
        (fact("x" * 70_000, valid_from="yesterday"), "valid_from"),
        (fact("x", employr=1), "employr"),
        (fact("x", event_id="7"), "event_id"),
        (fact("x", branch="other"), "branch"),
        (fact({"a": 1}), "value"),
        (fact(2**64), "value"),
        ({"type": "BranchForked", "parent": "main"}, "branch"),
        ({"type": "BranchMerged", "branch": "main", "from_branch": "x"}, "from_branch"),
        ({"type": "SubjectErased", "subject": "user:alice"}, "type"),
        ([1], "event"),
        ([[]], "event"),
        ([None], "event"),
    ],
)
def test_a_wrong_event_is_told_by_its_field(url: str, memory: Memory, event: Any, field: str) -> None:
    reply = post(url, event)
    assert (reply.status, problem(reply), reply.json["field"]) == (400, "InvalidEvent", field), reply.body
    assert list(memory.replay(SPACE)) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"\xef\xbb\xbf{}", b'{"a": NaN}', b"1e999", b'{"type": "\xed\xa0\x80"}', b"[" * 100_000],
)
@pytest.mark.parametrize("media", ["application/json", "application/x-ndjson"])
def test_what_is_no_json(url: str, body: bytes, media: str) -> None:
    reply = ask(url, EVENTS, "POST", body, {"Content-Type": media})
    if media == "application/x-ndjson" and not body:
        assert reply.json == {"receipts": []}
    else:
        assert (reply.status, problem(reply)) == (400, "InvalidInput")


def test_nesting_has_an_end(url: str) -> None:
    def nested(levels: int) -> Any:
        return json.loads("[" * levels + "]" * levels)

    assert problem(post(url, fact("x", attributes=nested(DEPTH_MAX)))) == "InvalidInput"
    assert problem(post(url, fact("x", attributes=nested(DEPTH_MAX - 1)))) == "InvalidEvent"
    assert problem(ask(url, EVENTS, "POST", b'{"a":' * 900 + b"1" + b"}" * 900, LINES)) == "InvalidInput"


def test_a_body_says_its_type(url: str) -> None:
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        reply = ask(url, EVENTS, "POST", json.dumps(fact("x")).encode(), {"Content-Type": media})
        assert (reply.status, problem(reply)) == (415, "InvalidInput")


def test_sizes_have_an_end(url: str, memory: Memory) -> None:
    too_many = post(url, [fact(number) for number in range(11)])
    assert (too_many.status, problem(too_many)) == (413, "InvalidInput")
    assert ask(url, EVENTS, "POST", b"{}\n" * 11, LINES).status == 413
    assert ask(url, EVENTS, "POST", b" " * 100_001).status == 413
    assert ask(url, EVENTS, "POST", b" " * 100_000).status == 400
    packed = ask(url, EVENTS, "POST", gzip.compress(b" " * 10_000_000), {"Content-Encoding": "gzip"})
    assert packed.status == 413
    assert list(memory.replay(SPACE)) == []


def test_a_compressed_body_is_read(url: str) -> None:
    body = gzip.compress(json.dumps(fact("Acme")).encode())
    assert ask(url, EVENTS, "POST", body, {"Content-Encoding": "gzip"}).status == 200
    assert ask(url, EVENTS, "POST", b"no gzip", {"Content-Encoding": "gzip"}).status == 400


def sent(url: str, header: str, body: bytes) -> socket.socket:
    """A connection over which a POST was sent as it stands."""
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=60)
    head = f"POST {EVENTS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{header}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def test_a_chunked_body_has_an_end_too(url: str) -> None:
    chunk = b"2710\r\n" + b" " * 10_000 + b"\r\n"
    with sent(url, "Transfer-Encoding: chunked", chunk * 11 + b"0\r\n\r\n") as connection:
        assert connection.recv(1_000).startswith(b"HTTP/1.1 413")
    with sent(url, "Transfer-Encoding: chunked", b"zz\r\n") as connection:
        assert b" 400 " in connection.recv(1_000)  # no HTTP: aiohttp tells so itself


def test_a_body_that_breaks_off_writes_nothing(url: str, memory: Memory) -> None:
    with sent(url, "Content-Length: 5000", b'{"type":'):
        pass
    assert post(url, fact("Acme")).json["position"]["offset"] == 0
    assert len(list(memory.replay(SPACE))) == 1


def test_check_writes_nothing(url: str, memory: Memory) -> None:
    wrong = {"type": "FactRetracted", "entity": ALICE, "slot": "nothing"}
    reply = post(url, [fact("Acme"), wrong, fact(None)], f"{EVENTS}/check")
    first, second, third = reply.json["problems"]
    assert first is None
    assert (second["event"], second["field"], third["event"]) == (1, "entity", 2)
    assert reply.headers["slotlog-position"] == "0:-1"
    (one,) = post(url, wrong, f"{EVENTS}/check").json["problems"]
    assert "event" not in one
    assert list(memory.replay(SPACE)) == []


def test_a_receipt_of_what_was_accepted(tmp_path: Path) -> None:
    """Another Memory holds the tables, so that this one leaves what becomes of an event to it."""
    with Memory.open(tmp_path / "m") as holder, Memory.open(tmp_path / "m", hold=False) as served:
        holder.info()
        with api(served) as url:
            reply = post(url, fact("Acme"))
            assert (reply.status, reply.json["status"]) == (202, "accepted")
            waited = post(url, [fact("Globex"), fact("Initech")], f"{EVENTS}?wait=30")
            assert waited.status == 200
            assert [one["status"] for one in waited.json["receipts"]] == ["applied", "applied"]
            at = f"{AT}/receipts/{reply.json['event_id']}?position=0:0"
            assert ask(url, at).json == {**reply.json, "status": "applied"}


def test_a_receipt_is_of_the_event_and_its_place(url: str, memory: Memory) -> None:
    one = memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.forbid(SPACE, ALICE, "employer", "Acme")
    other = memory.remember("acme/other", ALICE, "employer", "Acme")
    found = ask(url, f"{AT}/receipts/{one.event_id}?position=0:0")
    assert found.json["status"] == "applied"
    for wrong in (
        f"{AT}/receipts/{one.event_id}?position=0:1",
        f"{AT}/receipts/{new_event_id()}?position=0:0",
        f"{AT}/receipts/{other.event_id}?position=0:2",
    ):
        assert problem(ask(url, wrong)) == "NotFound"
    assert problem(ask(url, f"{AT}/receipts/{one.event_id}?position=0:9&timeout=0.05")) == "NotReached"
    assert problem(ask(url, f"{AT}/receipts/{one.event_id}?position=1:0")) == "InvalidView"
    assert problem(ask(url, f"{AT}/receipts/{one.event_id}")) == "InvalidInput"
    assert problem(ask(url, f"{AT}/receipts/me?position=0:0")) == "InvalidEvent"


def test_a_receipt_is_of_no_other_record(url: str, memory: Memory) -> None:
    """A record that does not count, or of which no table tells, is no receipt for whatever id is asked about."""
    assert isinstance(memory, LocalMemory)
    one, other = (memory.remember(SPACE, ALICE, "employer", value) for value in ("Acme", "Globex"))
    (recorded, _) = memory.replay(SPACE)
    (again,) = memory.append([recorded.event])
    (conflict,) = memory.append([msgspec.structs.replace(recorded.event, value="Initech")])
    (junk,) = memory._log.append([Message(SPACE.encode(), b"junk")])
    memory.reached(SPACE)
    wanted = {
        (one, one.position): "applied",
        (one, again.position): "duplicate",
        (one, conflict.position): "conflict",
        (other, other.position): "applied",
    }
    for receipt in (one, other):
        for position in (one.position, other.position, again.position, conflict.position, junk):
            found = ask(url, f"{AT}/receipts/{receipt.event_id}?position={position}")
            status = wanted.get((receipt, position))
            assert (found.json["status"] if found.status == 200 else None) == status, (receipt, position)
            assert status is not None or problem(found) == "NotFound"


def test_an_append_is_acknowledged_though_waiting_for_it_fails(
    url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accepted(self: LocalMemory, receipts: list[Receipt]) -> list[Receipt]:
        return receipts

    def unreachable(self: LocalMemory, receipt: Receipt) -> Receipt:
        raise LogUnreachable("the broker does not answer")

    monkeypatch.setattr(LocalMemory, "_settled", accepted)
    monkeypatch.setattr(LocalMemory, "wait", unreachable)
    reply = post(url, fact("Acme"), f"{EVENTS}?wait=5")
    assert (reply.status, reply.json["status"]) == (202, "accepted")
    assert len(list(memory.replay(SPACE))) == 1


def test_an_event_on_a_branch_goes_where_the_tables_are(memory: Memory) -> None:
    """Whether there is such a branch is for the worker to say that has the space."""

    class Elsewhere(Alone):
        def elsewhere(self, space: str) -> str | None:
            raise NotServing("nobody has the space")

    with api(memory, Elsewhere(memory)) as url:
        assert post(url, fact("Acme")).status == 200
        for event in (fact("Acme", branch="draft"), {"type": "BranchForked", "branch": "draft", "parent": "main"}):
            assert problem(post(url, event)) == "NotServing"


def test_min_offset_of_a_write_is_waited_for(url: str, memory: Memory) -> None:
    assert post(url, fact("Acme"), f"{EVENTS}?min_offset=-1").status == 200
    assert post(url, fact("Acme"), f"{EVENTS}?min_offset=0:9&timeout=0.05").status == 504
    assert post(url, fact("Acme"), f"{EVENTS}/check?min_offset=9&timeout=0.05").status == 504
    assert len(list(memory.replay(SPACE))) == 1
