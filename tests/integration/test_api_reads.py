"""What the HTTP API answers: the same as Memory, page by page, and once the tables are there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import msgspec
import pytest
from api_client import ALICE, AT, FIRST_SHA, LATER_SHA, SPACE, api, ask, filled, pages

from projectors.surfaces.api import Limits
from schemas.times import micros, rfc3339
from streams import Memory, Position, View
from streams.local import LocalMemory
from streams.view import ResolvedView
from streams.wire import plain, typed

FACT = f"{AT}/facts/{ALICE}/employer"


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with filled() as opened:
        yield opened


@pytest.fixture(scope="module")
def url(memory: Memory) -> Iterator[str]:
    with api(memory) as url:
        yield url


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Memory]:
    """A store that a test may write to."""
    with Memory.open(tmp_path / "m", actor="agent:planner") as opened:
        yield opened


def view_of(found: Any) -> View:
    """The View that an answer says it is of."""
    return typed(ResolvedView, found["view"]).view()


def json_of(found: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(plain(found)))


ANSWERS: tuple[tuple[str, str, Callable[[Memory, View], Any]], ...] = (
    ("facts/user:alice/employer", "answer", lambda memory, view: memory.get(SPACE, ALICE, "employer", view)),
    ("facts/user:alice/tag", "answer", lambda memory, view: memory.get(SPACE, ALICE, "tag", view)),
    ("facts/user:alice/age", "answer", lambda memory, view: memory.get(SPACE, ALICE, "age", view)),
    ("facts/nobody/none", "answer", lambda memory, view: memory.get(SPACE, "nobody", "none", view)),
    ("facts/a%2Fb%20%25%3F/%2E%2E", "answer", lambda memory, view: memory.get(SPACE, "a/b %?", "..", view)),
    ("facts/user:alice", "slots", lambda memory, view: memory.entity(SPACE, ALICE, view)),
    ("facts/user:alice/tag/history", "items", lambda memory, view: memory.history(SPACE, ALICE, "tag", view)),
    ("facts/user:alice/age/changes", "items", lambda memory, view: memory.changes(SPACE, ALICE, "age", view)),
    ("facts/user:alice/age/explain", "explanation", lambda memory, view: memory.explain(SPACE, ALICE, "age", view)),
    ("timeline", "items", lambda memory, view: list(memory.timeline(SPACE, view=view))),
    ("timeline?entity=org:acme", "items", lambda memory, view: list(memory.timeline(SPACE, "org:acme", view=view))),
    ("schema", "items", lambda memory, view: memory.schema(SPACE, view)),
    ("policy", "items", lambda memory, view: memory.policy_in_force(SPACE, view)),
    ("declarations", "items", lambda memory, view: memory.declarations(SPACE, view)),
    ("facts", "items", lambda memory, view: memory.ls(SPACE, view=view)),
    ("facts?prefix=a", "items", lambda memory, view: memory.ls(SPACE, "a", view)),
    ("facts/app/port/explain", "explanation", lambda memory, view: memory.explain(SPACE, "app", "port", view)),
)
VIEWS = (
    "",
    "as_of=3",
    "as_of=0:9&valid_at=2026-02-01T00:00:00Z",
    "trust=verified",
    "without_actor=agent:a&as_of=8",
    "branch=draft",
    f"at_sha={FIRST_SHA}",
    f"branch=draft&at_sha={FIRST_SHA}&also_at={LATER_SHA}&also_at={'c' * 40}",
)


@pytest.mark.parametrize("parameters", VIEWS)
@pytest.mark.parametrize(("path", "field", "answer"), ANSWERS, ids=[one[0] for one in ANSWERS])
def test_an_answer_is_that_of_memory(
    url: str, memory: Memory, path: str, field: str, answer: Callable[[Memory, View], Any], parameters: str
) -> None:
    reply = ask(url, f"{AT}/{path}{'&' if '?' in path else '?'}{parameters}")
    assert reply.status == 200, reply.body
    view = view_of(reply.json)
    assert reply.json[field] == json_of(answer(memory, view))
    assert reply.headers["slotlog-position"] == str(memory.reached(SPACE))
    assert view.as_of is not None
    there = next(iter(memory.timeline(SPACE, view=View(as_of=view.as_of))), None)
    assert ("slotlog-seen" in reply.headers) is (there is not None)


def test_answers_without_a_view(url: str, memory: Memory) -> None:
    assert ask(url, f"{AT}/sessions").json["items"] == json_of(memory.sessions(SPACE))
    some = list(memory.replay(SPACE))[4]
    event_id = str(plain(some.event)["event_id"])
    assert ask(url, f"{AT}/events/{event_id}").json == json_of(some)
    assert ask(url, f"{AT}/events/{event_id}/known").json == json_of(memory.known_at(SPACE, event_id))
    whole, spaces = memory.digest()
    assert ask(url, f"{AT}/digest").json == {"space": SPACE, "digest": spaces[SPACE]}
    assert ask(url, "/v1/digest").json == {"digest": whole, "spaces": spaces}
    assert ask(url, "/v1/info").json == json_of(memory.info())
    assert ask(url, "/v1/spaces").json["items"] == json_of(memory.info().spaces)
    assert ask(url, "/v1/quarantine").json == {"items": [], "next": None}
    assert "slotlog-seen" not in ask(url, f"{AT}/sessions").headers


def test_branches_and_commits_without_a_view(url: str, memory: Memory) -> None:
    for path, found in (
        ("branches", memory.branches(SPACE)),
        ("branches?deleted=true", memory.branches(SPACE, deleted=True)),
        ("branches?deleted=false", memory.branches(SPACE)),
        ("branches/draft/log", memory.branch_log(SPACE, "draft")),
        ("entities", memory.ls(SPACE)),
        ("entities?prefix=a/", memory.ls(SPACE, "a")),
        ("commits", list(memory.commits(SPACE))),
        (f"commits?sha={LATER_SHA}", list(memory.commits(SPACE, [LATER_SHA]))),
        ("pins", [{"sha": sha, "claims": claims} for sha, claims in memory.pinned(SPACE).items()]),
    ):
        assert ask(url, f"{AT}/{path}").json["items"] == json_of(found) != [], path
    assert ask(url, f"{AT}/branches/none/log").status == 404
    assert ask(url, f"{AT}/branches?deleted=yes").status == 400


def test_a_list_goes_on_where_somebody_else_has_got_to(own: Memory) -> None:
    """The next page is not given by tables that are behind those of the page before, nor does it skip what moved."""
    with api(own) as url:
        for name in ("one", "two", "three"):
            own.fork(SPACE, name)
        first = ask(url, f"{AT}/branches?limit=2").json
        own.delete_branch(SPACE, "one")
        rest = ask(url, f"{AT}/branches?cursor={quote(first['next'])}").json
        assert [one["name"] for page in (first, rest) for one in page["items"]] == ["main", "one", "two", "three"]
        with patch.object(LocalMemory, "reached", return_value=Position(0, 0)):
            behind = ask(url, f"{AT}/branches?timeout=0&cursor={quote(first['next'])}")
        assert (behind.status, behind.json["reached"]) == (504, "0:0")


def test_an_answer_outlives_the_start_of_the_log(own: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log let go of all that the space holds: what is believed now is known all the same, but not as of then."""
    with api(own) as url:
        own.append(_fact(number) for number in range(5))
        own.remember("acme/other", ALICE, "n", 1)
        first = ask(url, f"{AT}/timeline?limit=2").json
        monkeypatch.setattr(LocalMemory, "_first", lambda self, partition: 6)
        for path in (
            "facts/none/none",
            "facts/n:1/n",
            "facts/n:1/n/explain",
            "facts/n:1/n/history",
            "facts/n:1",
            "diff",
        ):
            assert ask(url, f"{AT}/{path}").status == 200, path
        rest = ask(url, f"{AT}/timeline?cursor={quote(first['next'])}").json
        assert len(first["items"] + rest["items"]) == 5
        assert ask(url, f"{AT}/facts/n:1/n?as_of=3").status == 400


def test_a_merge_is_planned(url: str, memory: Memory) -> None:
    path = f"{AT}/branches/draft/merge"
    found = ask(url, f"{path}?actor=agent:m&session=s")
    assert found.status == 200, found.body
    planned = memory.merge_plan(SPACE, "draft", actor="agent:m", session="s")
    assert _without_view(found.json["conflicts"]) == _without_view(json_of(planned.conflicts)) != []
    assert found.json["events"] == []
    settled = ask(url, f"{path}?take=theirs&actor=agent:m&session=s&into=main").json
    events = memory.merge_plan(SPACE, "draft", take="theirs").events
    assert [one["type"] for one in settled["events"]] == [type(one).__name__ for one in events] != []
    assert {(one["actor"], one["session"]) for one in settled["events"]} == {("agent:m", "s")}
    only = quote('["app","port"]', safe="")
    assert ask(url, f"{path}?only={only}").json["conflicts"] == []
    for query in (
        "take=mine",
        "only=app",
        "only=[]",
        "only=%5B1,2%5D",
        "into=draft",
        "into=none",
        "take=ours&take=ours",
    ):
        assert ask(url, f"{path}?{query}").status == 400, query
    assert ask(url, path, "POST", {}).status == 405  # whoever merges appends the events of a plan


def test_a_preview_is_that_of_memory(url: str, memory: Memory) -> None:
    before = memory.reached(SPACE)
    fact = {"type": "FactAsserted", "entity": ALICE, "slot": "employer", "value": "Initech"}
    found = ask(url, f"{AT}/events/preview", "POST", [fact, {**fact, "branch": "draft"}])
    assert found.status == 200, found.body
    assert [(one["slot"], one["after"]["value"]) for one in found.json["items"]] == [("employer", "Initech")]
    on_draft = ask(url, f"{AT}/events/preview?branch=draft", "POST", {**fact, "branch": "draft"})
    assert [one["after"]["value"] for one in on_draft.json["items"]] == ["Initech"]
    assert "slotlog-seen" in found.headers
    wrong = ask(url, f"{AT}/events/preview", "POST", [fact, {**fact, "branch": "none"}])
    assert (wrong.status, wrong.json["field"], wrong.json["event"]) == (400, "branch", 1)
    assert memory.reached(SPACE) == before


def test_a_difference_is_that_of_memory(url: str, memory: Memory) -> None:
    reply = ask(url, f"{AT}/diff?a.as_of=4&b.without_actor=agent:a")
    views = [view_of({"view": one}) for one in reply.json["views"]]
    assert reply.json["items"] == json_of(memory.diff(SPACE, *views)) != []
    same = ask(url, f"{AT}/diff").json
    assert same["items"] == []
    assert same["views"][0] == same["views"][1]
    assert ask(url, f"{AT}/diff?a.trust=verified").json["items"] != []


def test_the_newest_event_of_a_view_is_named(url: str, memory: Memory) -> None:
    events = list(memory.replay(SPACE))
    reply = ask(url, f"{FACT}?as_of={events[3].position.offset}")
    assert reply.headers["slotlog-seen"] == plain(events[3].event)["event_id"]
    assert "slotlog-seen" not in ask(url, f"{FACT}?as_of=-1").headers
    of_diff = ask(url, f"{AT}/diff?a.as_of=1&b.as_of={events[5].position}")
    assert of_diff.headers["slotlog-seen"] == plain(events[5].event)["event_id"]


def test_a_space_with_nothing(url: str, memory: Memory) -> None:
    reply = ask(url, "/v1/spaces/nobody/resolve")
    assert reply.json["as_of"]["offset"] == -1
    assert reply.headers["slotlog-position"] == str(memory.reached("nobody"))
    assert "slotlog-seen" not in reply.headers
    assert ask(url, "/v1/spaces/nobody/facts/a/b").json["answer"] is None
    assert ask(url, "/v1/spaces/nobody/replay").body == b""
    assert ask(url, "/v1/spaces/nobody/timeline").json["items"] == []


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    "path",
    [
        "timeline",
        "timeline?entity=user:alice",
        "timeline?entity=user:alice&slot=tag",
        "facts/user:alice/tag/history",
        "facts/user:alice/age/changes",
        "diff?a.as_of=-1",
        "schema",
        "policy",
        "declarations",
        "sessions",
        "facts?prefix=",
        "facts?prefix=a&branch=draft",
        "entities",
        "entities?prefix=a",
        "branches",
        "branches?deleted=true",
        "branches/draft/log",
        "branches/gone/log",
        "commits",
        f"commits?sha={FIRST_SHA}&sha={LATER_SHA}",
        "pins",
    ],
)
def test_pages_are_the_whole_answer(url: str, path: str, limit: int) -> None:
    whole = ask(url, f"{AT}/{path}{'&' if '?' in path else '?'}limit=1000").json["items"]
    found = list(pages(url, f"{AT}/{path}", limit))
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert [_without_view(one) for page in found for one in page] == [_without_view(one) for one in whole]


def _without_view(found: Any) -> Any:
    """An item without the View that it is of: two lists were asked for at two moments."""
    if isinstance(found, dict):
        return {name: _without_view(one) for name, one in found.items() if name != "view"}
    return [_without_view(one) for one in found] if isinstance(found, list) else found


def test_pages_of_slots(url: str) -> None:
    path = f"{AT}/facts/{quote(ALICE)}"
    found = list(pages(url, path, 1, "slots"))
    assert [list(page) for page in found] == [[slot] for slot in ask(url, path).json["slots"]]


def test_pages_over_everything(url: str) -> None:
    names = [one["name"] for page in pages(url, "/v1/spaces", 1) for one in page]
    assert names == sorted(names) == ["acme/ops", "acme/sales", SPACE]


def test_a_page_may_be_full_by_size(memory: Memory) -> None:
    with api(memory, limits=Limits(page_bytes=1)) as url:
        found = list(pages(url, f"{AT}/timeline", 100))
        whole = list(memory.timeline(SPACE))
        assert [len(page) for page in found] == [1] * len(whole)
        assert [one for page in found for one in page] == json_of(whole)


def test_all_pages_are_of_one_moment(own: Memory) -> None:
    with api(own) as url:
        own.append(_fact(number) for number in range(5))
        first = ask(url, f"{AT}/timeline?limit=2").json
        own.remember(SPACE, ALICE, "employer", "late")
        own.distrust(SPACE, "agent:planner")
        following = ask(url, f"{AT}/timeline?limit=9&as_of=0&cursor={quote(first['next'])}").json
        assert following["view"] == first["view"]
        offsets = [one["position"]["offset"] for page in (first, following) for one in page["items"]]
        assert offsets == [0, 1, 2, 3, 4]


def _fact(number: int) -> dict[str, Any]:
    return {"type": "FactAsserted", "space": SPACE, "entity": f"n:{number}", "slot": "n", "value": number}


def test_a_cursor_belongs_to_its_list(url: str) -> None:
    cursor = ask(url, f"{AT}/timeline?limit=1").json["next"]
    for path in (f"{AT}/schema", "/v1/spaces/acme%2Fops/timeline", f"{AT}/diff", f"{AT}/sessions", "/v1/spaces"):
        reply = ask(url, f"{path}?cursor={quote(cursor)}")
        assert (reply.status, reply.json["type"]) == (400, "urn:slotlog:problem:InvalidInput"), path
    damaged = cursor[:-4] + ("AAAA" if cursor[-4:] != "AAAA" else "BBBB")
    for text in (damaged, "", "x", "e30", "%00", "é"):
        assert ask(url, f"{AT}/timeline?cursor={quote(text)}").status == 400, text


def test_a_cursor_keeps_the_filter(url: str) -> None:
    first = ask(url, f"{AT}/timeline?entity=user:alice&slot=tag&limit=1").json
    rest = ask(url, f"{AT}/timeline?cursor={quote(first['next'])}").json
    assert {one["event"].get("slot") for one in rest["items"]} == {"tag"}


def test_min_offset_waits_until_the_tables_are_there(own: Memory) -> None:
    own.remember(SPACE, ALICE, "employer", "Acme")
    with api(own) as url:
        found: list[Any] = []
        waiting = threading.Thread(target=lambda: found.append(ask(url, f"{FACT}?min_offset=0:1&timeout=60")))
        waiting.start()
        own.remember(SPACE, ALICE, "employer", "Globex")
        waiting.join()
        assert found[0].json["answer"]["value"] == "Globex"
        late = ask(url, f"{FACT}?min_offset=2&timeout=0.05")
        assert late.status == 504
        assert (late.json["type"], late.json["reached"]) == ("urn:slotlog:problem:NotReached", "0:1")
        assert ask(url, f"{FACT}?min_offset=9:0").json["type"] == "urn:slotlog:problem:InvalidView"
        assert ask(url, f"{FACT}?min_offset=1&timeout=0").status == 200


def test_times_in_a_url(url: str, memory: Memory) -> None:
    at = memory.info().spaces[-1].last.offset
    recorded = list(memory.replay(SPACE))[4]
    text = rfc3339(micros(recorded.append_time))
    found = ask(url, f"{AT}/resolve?as_of={quote(text)}").json
    assert found["as_of"]["offset"] <= at
    plus = text.replace("Z", "+00:00")
    assert ask(url, f"{AT}/resolve?as_of={plus}").json == ask(url, f"{AT}/resolve?as_of={quote(plus)}").json == found


def test_head_and_options(url: str) -> None:
    get, head = ask(url, f"{AT}/sessions"), ask(url, f"{AT}/sessions", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(get.body))
    assert ask(url, f"{AT}/replay", "HEAD").body == b""
    options = ask(url, f"{AT}/sessions", "OPTIONS")
    assert (options.status, options.headers["allow"]) == (204, "GET,HEAD,OPTIONS")
    assert ask(url, f"{AT}/events", "OPTIONS").headers["allow"] == "OPTIONS,POST"
    assert ask(url, "/nothing", "OPTIONS").status == 404


def test_what_a_process_says_of_itself(url: str, memory: Memory) -> None:
    assert ask(url, "/healthz").json == {"status": "alive"}
    assert ask(url, "/readyz").json == {"status": "ready", "reasons": []}
    (alone,) = ask(url, "/v1/workers").json["workers"]
    assert alone["partitions"][0]["next"] == memory.reached(SPACE).offset + 1
    ask(url, "/v1/spaces/x/facts/never/asked?for=this")
    metrics = ask(url, "/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert b'route="/v1/spaces/{space}/facts/{entity}/{slot}"' in metrics.body
    assert b"never" not in metrics.body
    assert b'code="404",' in (ask(url, "/x"), ask(url, "/metrics"))[1].body
