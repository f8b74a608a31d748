"""A plain client of the HTTP API, and stores to ask about."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from http_server import serving
from quick_folder import quick_folder

from projectors.surfaces.api import Limits, install
from schemas import events as ev
from streams.local import LocalMemory
from streams.memory import Memory
from streams.metrics import Metrics
from streams.ports import Fleet
from streams.status import Alone

SPACE = "acme/support"
ALICE = "user:alice"
AT = f"/v1/spaces/{quote(SPACE, safe='')}"
TIMEOUT_S = 60


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


@contextmanager
def opened(
    url: str,
    path: str,
    method: str = "GET",
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Iterator[http.client.HTTPResponse]:
    """The response to one request, its body still to be read. A body that is not bytes is sent as JSON."""
    parts = urlsplit(url)
    assert parts.hostname
    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)) as connection:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        own = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, body=data, headers={**own, **(headers or {})})
        with connection.getresponse() as response:
            yield response


def ask(url: str, path: str, method: str = "GET", body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
    """One request and the whole reply."""
    with opened(url, path, method, body, headers) as response:
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())


def pages(url: str, path: str, limit: int, field: str = "items") -> Iterator[Any]:
    """What every page of a list has in `field`, each asked for as the page before says."""
    joint = "&" if "?" in path else "?"
    cursor = ""
    while True:
        reply = ask(url, f"{path}{joint}limit={limit}{cursor}")
        assert reply.status == 200, reply.body
        yield reply.json[field]
        if reply.json["next"] is None:
            return
        cursor = f"&cursor={quote(reply.json['next'])}"


@contextmanager
def api(memory: Memory, fleet: Fleet | None = None, limits: Limits | None = None) -> Iterator[str]:
    """The URL of the API of a memory."""
    assert isinstance(memory, LocalMemory)
    metrics = Metrics()
    with serving(lambda app: install(app, memory, fleet or Alone(memory), metrics, limits or Limits())) as url:
        yield url


@contextmanager
def filled() -> Iterator[Memory]:
    """A store in memory, with something of every kind in it."""
    with quick_folder() as folder, Memory.open(folder / "m", actor="agent:planner") as opened:
        fill(opened)
        yield opened


FIRST_SHA, LATER_SHA = "a" * 40, "b" * 40
AT_COMMIT = "2026-01-01T00:00:00Z"


def fill(memory: Memory) -> None:
    """Something of every kind that an answer may hold."""
    then = datetime(2026, 1, 1, tzinfo=UTC)
    memory.declare(SPACE, "tag", cardinality="many", description="What it is.")
    memory.declare(SPACE, "tag", cardinality="many", entity_kind="user")
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=then, session="run-1", actor="agent:a")
    memory.remember(SPACE, ALICE, "employer", "Globex", actor="agent:b", confidence=0.5, origin="extracted", engine="x")
    for value in ("a", 1, 1.0, True, ""):
        memory.remember(SPACE, ALICE, "tag", value, actor="agent:c", session="run-2")
    wrong = memory.remember(SPACE, ALICE, "age", 41)
    memory.review(SPACE, wrong.event_id, "rejected", reason="a guess")
    memory.review(SPACE, memory.remember(SPACE, ALICE, "age", 40).event_id, "verified")
    memory.remember(SPACE, ALICE, "age", 43)
    memory.end(SPACE, ALICE, "tag", value="a")
    memory.remember(SPACE, ALICE, "secret", "x")
    memory.forbid(SPACE, ALICE, "secret", "X")
    memory.remember(SPACE, "org:acme", "city", "Paris")
    memory.forget(SPACE, "org:acme", "city", reason="typo")
    memory.remember(SPACE, "org:acme", "city", "Bern")
    memory.observe(SPACE, "user", "I moved.\nLast week: «yes»", session="run-1", attributes={"tool": "x"})
    memory.policy(SPACE, [{"actors": "user:*", "starting_trust": "verified", "may_verify": True}])
    memory.append([{"type": "SessionStarted", "space": SPACE, "session": "run-3", "agent": "planner"}])
    memory.distrust(SPACE, "agent:b", reason="poisoned")
    memory.remember(SPACE, "a/b %?", "..", "odd names")
    _fill_branches(memory)
    for name in ("acme/ops", "acme/sales"):
        memory.remember(name, ALICE, "employer", "Acme")


def _fill_branches(memory: Memory) -> None:
    """Branches, one of them deleted, a merge that conflicts, and commits."""
    memory.append(
        {
            "type": "CommitSeen",
            "space": SPACE,
            "repo": "app",
            "sha": sha,
            "parents": list(parents),
            "committed_at": AT_COMMIT,
        }
        for sha, parents in ((FIRST_SHA, ()), (LATER_SHA, (FIRST_SHA,)))
    )
    memory.remember(SPACE, "app", "port", 80, code=ev.Code(repo="app", sha=FIRST_SHA))
    memory.remember(SPACE, "app", "port", 81, code=ev.Code(repo="app", sha=LATER_SHA))
    for name in ("draft", "gone"):
        memory.fork(SPACE, name)
    kept = memory.remember(SPACE, ALICE, "plan", "stay", branch="draft")
    memory.remember(SPACE, ALICE, "mood", "good", branch="draft")
    memory.rollback(SPACE, "draft", kept.event_id, reason="wrong")
    memory.merge(SPACE, "draft", into="gone")
    memory.delete_branch(SPACE, "gone")
    memory.remember(SPACE, ALICE, "plan", "leave")
