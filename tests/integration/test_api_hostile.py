"""Whatever is asked, the answer is an answer or a problem, and never a failure of ours."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from api_client import ALICE, AT, Reply, api, ask, filled
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from projectors.surfaces.api.calls import Route
from projectors.surfaces.api.routes import ROUTES
from schemas import errors
from schemas import events as ev
from streams import Memory
from streams.wire import PROBLEM

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
NAMES = st.sampled_from(["acme/support", ALICE, "employer", "..", "%", "a/b", "\x00", "x" * 600, "é"]) | TEXTS
VALUES = st.sampled_from(
    (
        *("0", "-1", "1", "0:1", "1:0", "-1:-1", "9" * 18, "9" * 30, "2026-01-01T00:00:00Z"),
        *("0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00", "verified", "rejected", "main", "other"),
        *("", "1000", "nan", "1e9", "e30", "true"),
    )
) | NAMES.map(lambda text: quote(text, safe=""))
RAW = st.binary(max_size=12).map(lambda data: "".join(f"%{byte:02x}" for byte in data))


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with filled() as opened:
        yield opened


@pytest.fixture(scope="module")
def url(memory: Memory) -> Iterator[str]:
    with api(memory) as url:
        yield url


def sent(url: str, method: str, target: str, body: bytes = b"") -> tuple[int, str]:
    """Status and media type of the answer to a target that is sent as it stands."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        answer = connection.makefile("rb")
        with answer:
            status = int(answer.readline().split()[1])
            headers = dict(line.decode().lower().split(": ", 1) for line in iter(answer.readline, b"\r\n"))
    return status, headers.get("content-type", "").strip()


def is_an_answer(method: str, target: str, status: int, media: str) -> None:
    assert status in (200, 202, 204, 400, 404, 405, 413, 415, 503, 504), (method, target, status)
    if status >= 400 and method != "HEAD":
        assert media == PROBLEM, (method, target, status, media)


@st.composite
def targets(draw: st.DrawFn) -> tuple[str, str]:
    """A method and a target of a known route, with whatever in it."""
    route: Route = draw(st.sampled_from(ROUTES))
    path = route.path
    for name in ("space", "entity", "slot", "event_id"):
        path = path.replace(f"{{{name}}}", draw(NAMES.map(lambda text: quote(text, safe="")) | RAW))
    names = [one.name for one in route.parameters if one.name not in ("timeout", "wait")]
    pairs = (
        [f"{name}={draw(VALUES | RAW)}" for name in draw(st.lists(st.sampled_from(names), max_size=4))] if names else []
    )
    if any(one.name == "timeout" for one in route.parameters):
        pairs.append("timeout=0")
    method = draw(st.sampled_from([route.method, route.method, "HEAD", "OPTIONS", "DELETE"]))
    return method, f"{path}?{'&'.join(pairs)}" if pairs else path


@given(targets())
@examples(300)
def test_known_routes_with_whatever_in_them(url: str, target: tuple[str, str]) -> None:
    is_an_answer(*target, *sent(url, *target))


@given(
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS"]),
    st.lists(
        st.sampled_from(["v1", "spaces", "facts", "", ".", "..", "%2e%2e", "x", "{space}", ";", "*"]) | RAW, max_size=6
    ),
    st.text(st.sampled_from("abc=&%+0?/;~"), max_size=12),
)
@examples(200)
def test_unknown_paths(url: str, method: str, parts: list[str], query: str) -> None:
    target = "/" + "/".join(parts) + (f"?{query}" if query else "")
    is_an_answer(method, target, *sent(url, method, target))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """Nearly an event."""
    name = draw(st.sampled_from(sorted(ev.EVENT_TYPES)))
    fields = [*ev.EVENT_TYPES[name].__struct_fields__, "type", "more"]
    likely = st.sampled_from(
        ["acme/support", ALICE, "employer", "verified", "one", 1, "2026-01-01T00:00:00Z", [], {}, None]
    )
    given = {field: draw(likely | JSON) for field in draw(st.lists(st.sampled_from(fields), unique=True, max_size=9))}
    return {"type": name, **given}


@given(events() | JSON | st.lists(events(), max_size=3), st.sampled_from(["events", "events/check"]))
@examples(300)
def test_whatever_is_given_as_events(url: str, body: Any, path: str) -> None:
    target = f"{AT}/{path}?timeout=0"
    is_an_answer("POST", target, *sent(url, "POST", target, json.dumps(body).encode()))


@given(st.binary(max_size=60))
@examples(100)
def test_whatever_bytes_are_given(url: str, body: bytes) -> None:
    is_an_answer("POST", AT, *sent(url, "POST", f"{AT}/events", body))


@pytest.mark.parametrize("target", ["*", "http://elsewhere/healthz", "healthz", "//healthz", "/healthz#x", "/healthz?"])
def test_odd_targets(url: str, target: str) -> None:
    for method in ("GET", "OPTIONS"):
        assert sent(url, method, target)[0] in (200, 204, 400, 404)


def kind(reply: Reply) -> tuple[int, str]:
    assert reply.headers["content-type"] == PROBLEM
    return reply.status, str(reply.json["type"]).removeprefix("urn:slotlog:problem:")


def test_pages_and_methods_that_are_not_there(url: str) -> None:
    assert kind(ask(url, "/")) == (404, "NotFound")
    assert kind(ask(url, "/v1/spaces/a/b")) == (404, "NotFound")
    reply = ask(url, f"{AT}/events", "DELETE")
    assert kind(reply) == (405, "InvalidInput")
    assert reply.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.StoreBusy("held"), 503),
        (errors.LogUnreachable("gone"), 503),
        (errors.StoreClosed("closed"), 503),
        (errors.StoreFull("full"), 507),
        (errors.StoreDamaged("damaged"), 500),
        (errors.LogTruncated("cut"), 500),
        (errors.InvalidView("no"), 400),
    ],
)
def test_errors_of_a_store_are_told(
    url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch, error: errors.SlotlogError, status: int
) -> None:
    def fails(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(memory, "get", fails)
    reply = ask(url, f"{AT}/facts/a/b")
    assert kind(reply) == (status, type(error).__name__)
    assert reply.json["detail"] == str(error)
    assert ("retry-after" in reply.headers) is (status == 503)


def test_what_nobody_expected_is_logged_and_not_told(
    url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(memory, "get", fails)
    with caplog.at_level(logging.ERROR, "slotlog.api"):
        reply = ask(url, f"{AT}/facts/a/b")
    assert kind(reply) == (500, "Internal")
    assert b"secret" not in reply.body
    assert b"Traceback" not in reply.body
    assert "a secret" in caplog.text
    assert f"{AT}/facts/a/b".replace("%2F", "/") in caplog.text


def test_a_store_that_fails_is_not_ready_and_still_alive(
    url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise errors.StoreDamaged("a page is gone")

    monkeypatch.setattr(memory, "heads", fails)
    reply = ask(url, "/readyz")
    assert (reply.status, reply.json) == (503, {"status": "not ready", "reasons": ["a page is gone"]})
    assert ask(url, "/healthz").status == 200
    assert ask(url, "/metrics").status == 200


def test_quarantine_makes_it_degraded(tmp_path_factory: pytest.TempPathFactory) -> None:
    from streams.ports import Message

    with Memory.open(tmp_path_factory.mktemp("m")) as memory, api(memory) as url:
        memory._log.append([Message(b"acme/support", b"no event")])  # type: ignore[attr-defined]
        reply = ask(url, "/readyz")
        assert (reply.status, reply.json["status"]) == (200, "degraded")
        assert "quarantined" in reply.json["reasons"][0]
