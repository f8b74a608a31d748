"""Streams over HTTP: a replay that is whole or broken, and changes of belief that go on where one left off."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from api_client import ALICE, AT, FIRST_SHA, LATER_SHA, SPACE, api, ask, fill, opened

from projectors.surfaces.api import following
from schemas import events as ev
from schemas.errors import NotServing, StoreDamaged
from streams import Memory, Position, Recorded, View
from streams.status import Alone
from streams.wire import plain

DEADLINE_S = 60.0
REPLAY, CHANGES = f"{AT}/replay", f"{AT}/changes"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m", actor="agent:planner") as opened:
        yield opened


@pytest.fixture
def url(memory: Memory) -> Iterator[str]:
    with api(memory) as url:
        yield url


def json_of(found: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(plain(found)))


# Replay.


def test_a_replay_is_that_of_memory(url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(memory)
    monkeypatch.setattr(following, "PIECE_BYTES", 1_000)
    whole = list(memory.replay(SPACE))
    reply = ask(url, REPLAY)
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert reply.headers["slotlog-position"] == str(memory.reached(SPACE))
    assert reply.lines == json_of(whole)
    assert ask(url, f"{REPLAY}?session=run-1").lines == json_of(list(memory.replay(SPACE, "run-1")))
    middle = whole[5].position
    assert ask(url, f"{REPLAY}?start={middle}&end={middle.offset + 3}").lines == json_of(whole[5:8])
    assert ask(url, f"{REPLAY}?start=9999").body == b""


def test_what_is_wrong_at_the_start_is_an_error(url: str, memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme")
    assert ask(url, f"{REPLAY}?session=none").json["type"] == "urn:slotlog:problem:NotFound"
    assert ask(url, f"{REPLAY}?start=7:1").json["type"] == "urn:slotlog:problem:InvalidView"
    assert ask(url, f"{CHANGES}?since=7:1").json["type"] == "urn:slotlog:problem:InvalidView"
    assert ask(url, f"{CHANGES}?since=-2").json["type"] == "urn:slotlog:problem:InvalidView"
    assert ask(url, CHANGES, headers={"Last-Event-ID": "x"}).json["type"] == "urn:slotlog:problem:InvalidView"


def _breaks(memory: Memory, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The replay fails after three events, each of which is sent by itself."""
    monkeypatch.setattr(following, "PIECE_BYTES", 1)
    real = memory.replay

    def replay(*given: Any) -> Iterator[Recorded]:
        events = real(*given)
        for _ in range(3):
            yield next(events)
        raise error

    monkeypatch.setattr(memory, "replay", replay)


@pytest.mark.parametrize("error", [StoreDamaged("a page is gone"), RuntimeError("unexpected"), NotServing("revoked")])
def test_a_failure_in_mid_stream_breaks_the_connection(
    url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """What the error says itself is a line in the log; only what nobody expected is told with its traceback."""
    fill(memory)
    _breaks(memory, monkeypatch, error)
    with opened(url, REPLAY) as response:
        assert response.status == 200
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            response.read()
    assert ask(url, "/healthz").status == 200
    (logged,) = (one for one in caplog.records if one.name == "slotlog.api")
    assert (logged.exc_info is not None) is isinstance(error, RuntimeError)
    assert str(error) in (logged.getMessage() if logged.exc_info is None else str(logged.exc_info[1]))


def test_it_breaks_in_old_http_too(url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(memory)
    _breaks(memory, monkeypatch, StoreDamaged("a page is gone"))
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=DEADLINE_S) as connection:
        connection.sendall(f"GET {REPLAY} HTTP/1.0\r\n\r\n".encode())
        with pytest.raises(ConnectionResetError):
            _read_all(connection)


def _read_all(connection: socket.socket) -> None:
    while connection.recv(10_000):
        pass


def test_a_slow_reader_holds_nobody_up(url: str, memory: Memory) -> None:
    text = "x" * 100_000
    memory.append({"type": "Observed", "space": SPACE, "role": "user", "text": text} for _ in range(200))
    parts = urlsplit(url)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.settimeout(DEADLINE_S)
        slow.connect((parts.hostname, parts.port))
        slow.sendall(f"GET {REPLAY} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert slow.recv(12) == b"HTTP/1.1 200"
        for _ in range(20):
            assert ask(url, f"{AT}/resolve").status == 200
        memory.remember(SPACE, ALICE, "employer", "Acme")
        rest = b""
        while not rest.endswith(b"0\r\n\r\n"):
            rest = rest[-5:] + (piece := slow.recv(1_000_000))
            assert piece


def test_a_client_that_goes_away_ends_its_stream(url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.append({"type": "Observed", "space": SPACE, "role": "user", "text": "x" * 100_000} for _ in range(200))
    ended = threading.Event()
    real = following._replayed

    async def replayed(*given: Any) -> Any:
        try:
            async for piece in real(*given):
                yield piece
        finally:
            ended.set()

    monkeypatch.setattr(following, "_replayed", replayed)
    with opened(url, REPLAY) as response:
        response.read(1_000)
    assert ended.wait(DEADLINE_S)


# Changes.


class Messages:
    """Server-sent events as they come."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"] == "text/event-stream"
        self._response = response

    def next(self) -> dict[str, str]:
        """The fields of the next message."""
        found: dict[str, str] = {}
        while line := self._response.readline().decode().rstrip("\n"):
            name, _, text = line.partition(": ")
            found[name] = text
        return found

    def changed(self) -> dict[str, Any]:
        """The next message about a change, passing over those that only keep the place."""
        while (found := self.next()).get("event") != "changed":
            assert found
        data: dict[str, Any] = json.loads(found["data"])
        assert found["id"] == str(data["position"]["offset"])
        return data


def _values(beliefs: list[dict[str, Any]]) -> list[Any]:
    return [one["value"] for one in beliefs]


def test_changes_come_as_they_happen(url: str, memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme")
    with opened(url, CHANGES) as response:
        messages = Messages(response)
        assert messages.next() == {"retry": "1000", "id": "0"}
        memory.observe(SPACE, "user", "no change")
        memory.remember(SPACE, ALICE, "employer", "Acme", actor="agent:b")
        memory.remember(SPACE, ALICE, "employer", "Globex")
        found = messages.changed()
        assert found["position"] == {"partition": 0, "offset": 3}
        assert found["event"]["value"] == "Globex"
        (change,) = found["changes"]
        assert (change["entity"], change["slot"]) == (ALICE, "employer")
        assert (_values(change["before"]), _values(change["after"])) == (["Acme"], ["Globex"])


def _every_change(url: str, query: str = "", last: int = -1, upto: int | None = None) -> list[dict[str, Any]]:
    """All changes after `last`, in a space where the event `upto` changes something."""
    found = []
    with opened(url, f"{CHANGES}?{query}", headers={"Last-Event-ID": str(last)}) as response:
        messages = Messages(response)
        while not found or found[-1]["position"]["offset"] != upto:
            found.append(messages.changed())
    return found


BRANCH_AT = f"branch=draft&at_sha={FIRST_SHA}&also_at={LATER_SHA}"
VIEWS = {
    "": View(),
    "without_actor=agent:a&trust=candidate": View(without_actors=("agent:a",)),
    "branch=draft": View(branch="draft"),
    f"at_sha={FIRST_SHA}": View(at_sha=FIRST_SHA),
    BRANCH_AT: View(branch="draft", at_sha=FIRST_SHA, also_at=(LATER_SHA,)),
}


@pytest.mark.parametrize("query", VIEWS)
def test_changes_are_differences_of_beliefs(url: str, memory: Memory, query: str) -> None:
    """Against `Memory.diff` of each event and the one before, at the event's append time."""
    fill(memory)
    view = VIEWS[query]
    forked = [one.forked_at.offset for one in memory.branches(SPACE) if one.name == view.branch and one.forked_at]
    since = forked[0] if forked else -1
    code = ev.Code(repo="app", sha=FIRST_SHA)
    final = memory.remember(SPACE, ALICE, "note", "Final", branch=view.branch, code=code).position.offset
    expected = []
    for recorded in memory.replay(SPACE, start=since + 1):
        partition, offset = recorded.position
        views = [
            msgspec.structs.replace(view, as_of=Position(partition, at), valid_at=recorded.append_time)
            for at in (offset - 1, offset)
        ]
        if found := memory.diff(SPACE, *views):
            changes = [(one.entity, one.slot, _beliefs(one.before), _beliefs(one.after)) for one in found]
            expected.append((offset, json_of(changes)))
    found = _every_change(url, query, last=since, upto=final)
    assert [
        (
            one["position"]["offset"],
            [[change["entity"], change["slot"], change["before"], change["after"]] for change in one["changes"]],
        )
        for one in found
    ] == expected
    assert len(expected) > (3 if forked else 12)


def test_a_branch_is_followed_until_it_is_deleted(url: str, memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme")
    wrong = ("branch=draft", "at_sha=abc", f"also_at={FIRST_SHA}", "trust=none", "since=0&branch=draft")
    for query in wrong:
        assert ask(url, f"{CHANGES}?{query}").status == 400, query
    forked = memory.fork(SPACE, "draft").position.offset
    assert ask(url, f"{CHANGES}?branch=draft&since={forked - 1}").status == 400
    with opened(url, f"{CHANGES}?branch=draft&since={forked}") as response:
        messages = Messages(response)
        memory.remember(SPACE, ALICE, "employer", "Globex")
        memory.remember(SPACE, ALICE, "employer", "Initech", branch="draft")
        (change,) = messages.changed()["changes"]
        assert (_values(change["before"]), _values(change["after"])) == (["Acme"], ["Initech"])
        memory.delete_branch(SPACE, "draft")
        assert b"changed" not in response.read()
    assert ask(url, f"{CHANGES}?branch=draft").status == 400


def _beliefs(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else [] if answer is None else [answer]


def test_changes_go_on_where_one_left_off(url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "EVENTS_AT_ONCE", 2)
    fill(memory)
    final = memory.remember(SPACE, ALICE, "employer", "Final").position.offset
    whole = _every_change(url, upto=final)
    for cut in range(len(whole) - 1):
        place = whole[cut]["position"]["offset"]
        assert _every_change(url, last=place, upto=final) == whole[cut + 1 :]
    assert _every_change(url, "since=99999", last=-1, upto=final) == whole  # Last-Event-ID wins


def test_changes_of_one_slot(url: str, memory: Memory) -> None:
    fill(memory)
    final = memory.remember(SPACE, ALICE, "employer", "Final").position.offset
    whole = _every_change(url, upto=final)
    one_slot = _every_change(url, f"entity={ALICE}&slot=employer", upto=final)
    wanted = [
        {**one, "changes": changes}
        for one in whole
        if (
            changes := [
                change for change in one["changes"] if (change["entity"], change["slot"]) == (ALICE, "employer")
            ]
        )
    ]
    assert one_slot == wanted
    assert {change["slot"] for one in _every_change(url, "slot=employer", upto=final) for change in one["changes"]} == {
        "employer"
    }


def test_changes_among_what_is_trusted(url: str, memory: Memory) -> None:
    first = memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.remember(SPACE, ALICE, "employer", "Globex")
    verdict = memory.review(SPACE, first.event_id, "verified").position.offset
    found = _every_change(url, "trust=verified", upto=verdict)
    assert [_values(one["changes"][0]["after"]) for one in found] == [["Acme"]]


def test_the_place_is_kept_where_nothing_changes(url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "KEEP_ALIVE_S", 0.0)
    with opened(url, f"{CHANGES}?entity=nobody") as response:
        messages = Messages(response)
        assert messages.next() == {"retry": "1000", "id": "-1"}
        memory.remember(SPACE, ALICE, "employer", "Acme")
        while (found := messages.next()) != {"id": "0"}:
            assert found == {"id": "-1"}


def test_the_stream_ends_when_the_space_is_answered_for_elsewhere(memory: Memory) -> None:
    class Leaving(Alone):
        left = False

        def elsewhere(self, space: str) -> str | None:
            if self.left:
                raise NotServing("handed over")
            return None

    fleet = Leaving(memory)
    with api(memory, fleet) as url, opened(url, CHANGES) as response:
        messages = Messages(response)
        assert messages.next()
        fleet.left = True
        assert response.read() == b""


def test_the_stream_ends_with_the_server(memory: Memory) -> None:
    with api(memory) as url:
        parts = urlsplit(url)
        assert parts.hostname
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=DEADLINE_S)
        connection.request("GET", CHANGES)
        response = connection.getresponse()
        Messages(response).next()
    assert response.read() == b""
    connection.close()


def test_a_follower_that_goes_away_is_forgotten(url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "KEEP_ALIVE_S", 0.0)
    ended = threading.Event()
    real = following._followed

    async def followed(*given: Any) -> Any:
        try:
            async for piece in real(*given):
                yield piece
        finally:
            ended.set()

    monkeypatch.setattr(following, "_followed", followed)
    with opened(url, CHANGES) as response:
        Messages(response).next()
    assert ended.wait(DEADLINE_S)
