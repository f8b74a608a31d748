"""Memory through the real HTTP API, against the same Memory asked without it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from http_server import serving
from kafka_broker import Broker

from schemas import events as ev
from schemas.errors import InvalidEvent, InvalidInput, MergeConflict, NotFound, SlotlogError, StoreClosed
from streams import Belief, Memory, Position, View
from streams.compare import believed
from streams.local import LocalMemory
from streams.metrics import Metrics
from streams.remote import AsyncMemory, RemoteMemory
from streams.status import Alone

SPACE = "acme/support"
ALICE = "user:alice"
NOW = View()
SHAS = ("a" * 40, "b" * 40, "c" * 40)
ODD = ("..", ".", "a/b", "%2F", "a?b#c", "a b+c", "é", "ＡＣＭＥ", "\u2028", "&=;", "\\", "x" * 512)


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


LATER = View(valid_at=day(400))


def numbered_id(number: int) -> UUID:
    """A UUIDv7 of the first second of 2026."""
    return UUID(
        bytes=int(day(0).timestamp() * 1000).to_bytes(6, "big") + b"\x70\x00\x80\x00" + number.to_bytes(6, "big")
    )


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "store", actor="agent:server") as opened:
        yield opened


@pytest.fixture
def url(local: Memory) -> Iterator[str]:
    with served(local) as found:
        yield found


@pytest.fixture
def remote(url: str) -> Iterator[Memory]:
    with Memory.open(url, actor="agent:planner") as opened:
        yield opened


def served(memory: Memory) -> AbstractContextManager[str]:
    """The base URL of the real API over `memory`."""
    from projectors.surfaces.api import Limits, install

    return serving(lambda app: install(app, memory, Alone(memory), Metrics(), Limits()))


def told(memory: Memory) -> None:
    """A history in which every verb that writes has its place. All ids are given, so two such stores are equal."""
    ids = map(numbered_id, range(1, 1_000))

    def number(value: object, back: int, slot: str = "employer") -> UUID:
        own = next(ids)
        memory.remember(SPACE, ALICE, slot, value, valid_from=day(back), session="run-1", event_id=own)  # type: ignore[arg-type]
        return own

    memory.append(
        [{"type": "SessionStarted", "space": SPACE, "session": "run-1", "agent": "planner", "event_id": str(next(ids))}]
    )
    acme, _, initech = number("Acme", 0), number("Globex", 10), number("Initech", 5)
    for value in (1, 1.0, True, "1", "", 2**63 - 1, -(2**63), 1e22, -0.0):
        number(value, 0, slot=f"as {type(value).__name__} {value!r}")
    memory.declare(SPACE, "tag", cardinality="many", event_id=next(ids))
    for value in ("x", "y", "z", "poison"):
        number(value, 1, slot="tag")
    memory.get(SPACE, ALICE, "tag")
    memory.end(SPACE, ALICE, "tag", value="y", at=day(3), reason="done", event_id=next(ids))
    memory.review(SPACE, acme, "verified", actor="user:ana", own_id=next(ids))
    memory.forget(SPACE, event_id=initech, reason="mistaken", own_id=next(ids))
    memory.forbid(SPACE, ALICE, "tag", "poison", event_id=next(ids))
    memory.policy(SPACE, [{"actors": "user:*", "starting_trust": "verified", "may_verify": True}], event_id=next(ids))
    memory.remember(SPACE, ALICE, "note", "lies", actor="agent:bad", valid_from=day(0), event_id=next(ids))
    memory.distrust(SPACE, "agent:bad", reason="lied", event_id=next(ids))
    heard = next(ids)
    memory.observe(SPACE, "user", "hello\n", session="run-2", attributes={"a": "b"}, event_id=heard)
    memory.remember(
        SPACE, "org:acme", "city", "Köln", valid_from=day(0), valid_to=day(50), session="run-2", cause=heard,
        confidence=0.5, origin="extracted", engine="rules@1", event_id=next(ids),
    )  # fmt: skip
    for name in ODD:
        memory.remember(SPACE, name, name, name, valid_from=day(0), event_id=next(ids))
    memory.remember("acme/other%2F..", ALICE, "employer", "Umbrella", valid_from=day(0), event_id=next(ids))
    branched(memory, ids)


def branched(memory: Memory, ids: Iterator[UUID]) -> None:
    """Branches, merges, a rollback, and facts at commits of the code."""
    memory.append(
        {
            "type": "CommitSeen", "space": SPACE, "repo": "app", "sha": sha, "parents": list(parents),
            "committed_at": "2026-01-01T00:00:00Z", "event_id": str(next(ids)),
        }
        for sha, parents in ((SHAS[0], ()), (SHAS[1], (SHAS[0],)), (SHAS[2], (SHAS[0],)))
    )  # fmt: skip
    for number, sha in enumerate((*SHAS, "d" * 40)):
        code = ev.Code(repo="app", sha=sha)
        memory.remember(SPACE, "app/api", "port", number, valid_from=day(0), code=code, event_id=next(ids))
    for name in ("draft", "a/b %?", "gone"):
        memory.fork(SPACE, name, event_id=next(ids))
    kept = next(ids)
    memory.remember(SPACE, ALICE, "office", "Hooli", valid_from=day(20), branch="draft", event_id=kept)
    memory.remember(SPACE, ALICE, "mood", "good", valid_from=day(0), branch="draft", event_id=next(ids))
    memory.rollback(SPACE, "draft", kept, reason="wrong", event_id=next(ids))
    memory.append([{"type": "BranchMerged", "space": SPACE, "branch": "a/b %?", "from_branch": "draft",
                    "event_id": str(next(ids))}])  # fmt: skip
    memory.delete_branch(SPACE, "gone", event_id=next(ids))
    memory.remember(SPACE, ALICE, "office", "Initech", valid_from=day(21), event_id=next(ids))


VIEWS = (
    LATER,
    View(as_of=3, valid_at=day(7)),
    View(as_of=Position(0, 20), valid_at=day(2), trust="verified"),
    View(valid_at=day(7) + timedelta(microseconds=1), without_actors=("agent:planner", "agent:bad & co")),
    View(as_of=-1, valid_at=day(7)),
    View(valid_at=day(400), branch="a/b %?"),
    View(valid_at=day(400), at_sha=SHAS[1]),
    View(valid_at=day(400), at_sha=SHAS[1], also_at=(SHAS[2], "e" * 40)),
)
THROUGH: dict[str, Callable[[Any, View], Any]] = {
    "get": lambda memory, view: memory.get(SPACE, ALICE, "employer", view),
    "get many": lambda memory, view: memory.get(SPACE, ALICE, "tag", view),
    "get nothing": lambda memory, view: memory.get(SPACE, "user:bob", "employer", view),
    "entity": lambda memory, view: memory.entity(SPACE, ALICE, view),
    "history": lambda memory, view: memory.history(SPACE, ALICE, "employer", view),
    "changes": lambda memory, view: memory.changes(SPACE, ALICE, "employer", view),
    "explain": lambda memory, view: memory.explain(SPACE, ALICE, "employer", view),
    "explain many": lambda memory, view: memory.explain(SPACE, ALICE, "tag", view),
    "diff": lambda memory, view: memory.diff(SPACE, view, LATER),
    "schema": lambda memory, view: memory.schema(SPACE, view),
    "policy": lambda memory, view: memory.policy_in_force(SPACE, view),
    "declarations": lambda memory, view: memory.declarations(SPACE, view),
    "timeline": lambda memory, view: memory.timeline(SPACE, view=view),
    "timeline of a slot": lambda memory, view: memory.timeline(SPACE, ALICE, "tag", view),
    "resolve": lambda memory, view: memory.resolve(SPACE, view),
    "get at a commit": lambda memory, view: memory.get(SPACE, "app/api", "port", view),
    "ls": lambda memory, view: memory.ls(SPACE, view=view),
    "ls below": lambda memory, view: memory.ls(SPACE, "app/", view),
}
OTHERWISE: dict[str, Callable[[Any], Any]] = {
    "event": lambda memory: memory.event(SPACE, numbered_id(2)),
    "known_at": lambda memory: memory.known_at(SPACE, str(numbered_id(2))),
    "replay": lambda memory: memory.replay(SPACE),
    "replay a session": lambda memory: memory.replay(SPACE, session="run-1", start=3, end=Position(0, 9)),
    "replay from a time": lambda memory: memory.replay(SPACE, start=day(0), end=day(1)),
    "sessions": lambda memory: memory.sessions(SPACE),
    "sessions of nothing": lambda memory: memory.sessions("acme/nothing"),
    "branches": lambda memory: memory.branches(SPACE),
    "branches of nothing": lambda memory: memory.branches("acme/nothing"),
    "deleted branches": lambda memory: memory.branches(SPACE, deleted=True),
    "branch log": lambda memory: memory.branch_log(SPACE, "draft"),
    "odd branch log": lambda memory: memory.branch_log(SPACE, "a/b %?"),
    "main's log": lambda memory: memory.branch_log(SPACE, "main"),
    "ls of all": lambda memory: memory.ls(SPACE),
    "ls of all below": lambda memory: memory.ls(SPACE, "a"),
    "commits": lambda memory: memory.commits(SPACE),
    "some commits": lambda memory: memory.commits(SPACE, [SHAS[2], SHAS[0], SHAS[2], "f" * 40]),
    "no commits": lambda memory: memory.commits(SPACE, []),
    "pinned": lambda memory: memory.pinned(SPACE),
    "nothing to merge": lambda memory: memory.merge_plan(SPACE, "draft", into="a/b %?"),
    "reached": lambda memory: memory.reached(SPACE),
    "quarantined": lambda memory: memory.quarantined(),
    "digest": lambda memory: memory.digest(),
    "info": lambda memory: memory.info(),
    "another space": lambda memory: memory.get("acme/other%2F..", ALICE, "employer", LATER),
    "a space of nothing": lambda memory: memory.get("acme/nothing", ALICE, "employer", LATER),
} | {f"odd {name[:9]!r}": lambda memory, name=name: memory.get(SPACE, name, name, LATER) for name in ODD}
BATTERY = OTHERWISE | {
    f"{name}, view {number}": lambda memory, ask=ask, view=view: ask(memory, view)
    for name, ask in THROUGH.items()
    for number, view in enumerate(VIEWS)
}


def memory_events() -> list[dict[str, Any]]:
    return [{"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "office", "value": "Pied Piper"}]


WRONG: dict[str, Callable[[Any], Any]] = {
    "past the end": lambda memory: memory.get(SPACE, ALICE, "employer", View(as_of=10_000)),
    "another partition": lambda memory: memory.get(SPACE, ALICE, "employer", View(as_of=Position(7, 0))),
    "the future": lambda memory: memory.timeline(SPACE, view=View(as_of=day(200_000))),
    "no view": lambda memory: memory.get(SPACE, ALICE, "employer", 7),
    "no as_of": lambda memory: memory.get(SPACE, ALICE, "employer", View(as_of="yesterday")),  # type: ignore[arg-type]
    "no zone": lambda memory: memory.entity(SPACE, ALICE, View(valid_at=datetime(2026, 1, 1))),
    "rejected": lambda memory: memory.diff(SPACE, View(trust="rejected")),
    "branch": lambda memory: memory.schema(SPACE, View(branch="b")),
    "at_sha": lambda memory: memory.schema(SPACE, View(at_sha="ab")),
    "one actor": lambda memory: memory.schema(SPACE, View(without_actors="agent:x")),
    "no space": lambda memory: memory.get("acme//x", ALICE, "employer"),
    "no session": lambda memory: memory.replay(SPACE, session="run-9"),
    "no point": lambda memory: memory.replay(SPACE, start="today"),
    "no such event": lambda memory: memory.event(SPACE, numbered_id(999)),
    "no such event known": lambda memory: memory.known_at(SPACE, numbered_id(999)),
    "no id": lambda memory: memory.event(SPACE, "x"),
    "null": lambda memory: memory.remember(SPACE, ALICE, "note", None),
    "too long": lambda memory: memory.remember(SPACE, ALICE, "note", "x" * 300_000),
    "nothing to forget": lambda memory: memory.forget(SPACE, ALICE, "nothing"),
    "nothing to review": lambda memory: memory.review(SPACE, numbered_id(999), "verified"),
    "over before it holds": lambda memory: memory.forget(SPACE, event_id=numbered_id(1)),
    "no branch": lambda memory: memory.remember(SPACE, ALICE, "note", 1, branch="b"),
    "no effect": lambda memory: memory.append([{"type": "BranchDeleted", "space": SPACE}]),
    "branch log of none": lambda memory: memory.branch_log(SPACE, "none"),
    "fork of none": lambda memory: memory.fork(SPACE, "new", parent="none"),
    "fork twice": lambda memory: memory.fork(SPACE, "draft"),
    "merge of none": lambda memory: memory.merge_plan(SPACE, "none"),
    "merge of a deleted one": lambda memory: memory.merge(SPACE, "gone"),
    "merge with itself": lambda memory: memory.merge(SPACE, "draft", into="draft"),
    "merge with a conflict": lambda memory: memory.merge(SPACE, "draft"),
    "no side": lambda memory: memory.merge(SPACE, "draft", take="mine"),  # type: ignore[arg-type]
    "rollback to none": lambda memory: memory.rollback(SPACE, "draft", numbered_id(999)),
    "preview elsewhere": lambda memory: memory.preview("acme/other", memory_events()),
    "preview of none": lambda memory: memory.preview(SPACE, [{**memory_events()[0], "branch": "none"}]),
    "view of a deleted one": lambda memory: memory.get(SPACE, ALICE, "employer", View(branch="gone")),
    "also_at alone": lambda memory: memory.get(SPACE, ALICE, "employer", View(also_at=SHAS)),
    "no type": lambda memory: memory.append([{"space": SPACE}]),
    "no event": lambda memory: memory.append([7]),
}


def answer(found: Any) -> Any:
    return list(found) if isinstance(found, Iterator) else found


async def awaited(found: Any) -> Any:
    return [one async for one in found] if isinstance(found, AsyncIterator) else await found


def test_every_answer_is_the_same_through_the_api(local: Memory, url: str) -> None:
    told(local)
    with (
        patch("streams.remote_questions.PAGE_ITEMS_MAX", 2),
        patch("streams.remote_branches.SHAS_AT_ONCE", 1),
        patch("streams.remote_calls.PAGE_OF_TIMELINE", 7),
    ):
        with Memory.open(url) as remote:
            for name, ask in BATTERY.items():
                assert repr(answer(ask(remote))) == repr(answer(ask(local))), name

        async def ask_all() -> None:
            async with AsyncMemory.open(url) as memory:
                for name, ask in BATTERY.items():
                    assert repr(await awaited(ask(memory))) == repr(answer(ask(local))), name

        asyncio.run(ask_all())


def test_every_refusal_is_the_same_through_the_api(local: Memory, remote: Memory) -> None:
    told(local)
    for name, ask in WRONG.items():
        with pytest.raises(SlotlogError) as here:
            answer(ask(local))
        with pytest.raises(SlotlogError) as there:
            answer(ask(remote))
        assert (type(there.value), str(there.value), there.value.hint) == (
            type(here.value), str(here.value), here.value.hint,
        ), name  # fmt: skip


def test_a_merge_is_the_same_through_the_api(tmp_path: Path, local: Memory, remote: Memory, url: str) -> None:
    told(local)
    with Memory.open(tmp_path / "other", actor="agent:planner") as other:
        told(other)
        for memory in (other, remote):
            assert [one.slot for one in memory.merge_plan(SPACE, "draft").conflicts] == ["office"]
            assert memory.merge(SPACE, "draft", only=[("app/api", "port")]).receipts == ()
            merged = memory.merge(SPACE, "draft", take="theirs", session="s")
            assert [one.status for one in merged.receipts] == ["applied"] * len(merged.plan.events)
        assert merged.plan.events[0].actor == "agent:planner"
        for kept in (lambda one: one.value, lambda one: one.valid_from, lambda one: one.trust):
            found = [[kept(one) for one in memory.history(SPACE, ALICE, "office")] for memory in (local, other)]
            assert found[0] == found[1]

    async def again() -> None:
        async with AsyncMemory.open(url, actor="agent:other") as memory:
            assert (await memory.merge(SPACE, "draft")).receipts == ()
            await memory.fork(SPACE, "other")
            with_draft = await memory.merge(SPACE, "draft", into="other", take="ours")
            assert [one.status for one in with_draft.receipts] == ["applied"] * len(with_draft.plan.events)
            await memory.remember(SPACE, ALICE, "office", "Umbrella", branch="draft")
            await memory.remember(SPACE, ALICE, "office", "Soylent")
            with pytest.raises(MergeConflict) as conflict:
                await memory.merge(SPACE, "draft")
            assert conflict.value.slots == ((ALICE, "office"),)

    asyncio.run(again())


def test_a_preview_is_the_same_through_the_api(local: Memory, remote: Memory) -> None:
    told(local)
    for view in (LATER, View(branch="draft"), View(as_of=4)):
        seen = [
            [(one.entity, one.slot, one.kind, believed(one.before), believed(one.after)) for one in found]
            for found in (memory.preview(SPACE, memory_events(), view) for memory in (local, remote))
        ]
        assert seen[0] == seen[1]
        assert bool(seen[0]) is (view == LATER)
    assert remote.preview(SPACE, []) == []


def test_what_is_written_through_the_api_is_the_same_memory(tmp_path: Path, local: Memory, remote: Memory) -> None:
    told(remote)
    with Memory.open(tmp_path / "other", actor="agent:planner") as other:
        told(other)
        for space in (SPACE, "acme/other%2F.."):
            written = [one.event for one in local.timeline(space)]
            assert repr(written) == repr([one.event for one in other.timeline(space)])
        assert len({one.event.seen for one in local.timeline(SPACE)}) == 2


VERBS = sorted(
    name for name, verb in inspect.getmembers(Memory, callable) if not name.startswith("_") and name != "open"
)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_one_signature_and_one_docstring(name: str) -> None:
    signature = inspect.signature(getattr(Memory, name))
    assert inspect.getdoc(getattr(Memory, name))
    for cls in (LocalMemory, RemoteMemory, AsyncMemory):
        verb = getattr(cls, name)
        assert inspect.signature(verb).parameters == signature.parameters, cls
        if cls is not AsyncMemory or name != "close":
            assert inspect.getdoc(verb) == inspect.getdoc(getattr(Memory, name)), cls


def test_open_returns_what_the_name_means(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store") as memory:
        assert type(memory) is LocalMemory
    for name in ("http://127.0.0.1:1", "https://memory.example/slotlog/"):
        with Memory.open(name) as memory:
            assert type(memory) is RemoteMemory
    for name, api, complaint in [
        ("http://", None, "is no URL of an API"),
        ("http://h/?a=b", None, "is no URL of an API"),
        ("kafka://h:1/t", "ftp://h", "is no URL of an API"),
        ("http://h", "http://h", "is read through no API"),
        (str(tmp_path), "http://h", "is read through no API"),
    ]:
        with pytest.raises(InvalidInput, match=complaint):
            Memory.open(name, api=api)
        with pytest.raises(InvalidInput, match=complaint):
            AsyncMemory.open(name, api=api)
    with pytest.raises(InvalidInput, match="is no URL of an API"):
        AsyncMemory.open(str(tmp_path))


def test_what_works_on_the_log_itself_is_refused(remote: Memory, local: Memory, tmp_path: Path) -> None:
    for ask in (
        remote.rebuild,
        lambda: remote.copy(local),
        lambda: remote.export(tmp_path / "x"),
        lambda: remote.import_(tmp_path / "x"),
        remote.verify,
        remote.vouched,
        remote.flaws,
        lambda: remote.tables_folder,
    ):
        with pytest.raises(InvalidInput, match=r"works on the log itself: open kafka://… or the folder"):
            ask()
    with pytest.raises(InvalidInput, match="not through an HTTP API"):
        local.copy(remote)


def test_a_batch_is_refused_as_a_whole_and_the_event_is_named(local: Memory, remote: Memory) -> None:
    fact = {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "x", "value": 1}
    naming = {"type": "FactRetracted", "space": SPACE, "entity": "user:bob", "slot": "x"}
    with pytest.raises(InvalidEvent, match=r"no fact or end of user:bob x is known \(event 1 of those given") as caught:
        remote.append([fact, naming])
    assert caught.value.field == "entity"
    elsewhere = {**fact, "space": "acme/other"}
    with pytest.raises(InvalidEvent, match="no fact or end of user:bob x is known"):
        remote.append([elsewhere, fact, naming])
    assert list(local.timeline(SPACE)) == list(local.timeline("acme/other")) == []
    receipts = remote.append([elsewhere, fact, {**fact, "value": 2}, elsewhere])
    assert [receipt.space for receipt in receipts] == ["acme/other", SPACE, SPACE, "acme/other"]
    assert [remote.wait(receipt).status for receipt in receipts] == ["applied"] * 4
    assert remote.append([]) == []


def test_what_append_would_refuse_is_told_for_each_event(local: Memory, remote: Memory) -> None:
    fact = {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "x", "value": 1}
    given = [
        fact,
        {**fact, "value": None},
        {"type": "FactRetracted", "space": SPACE, "entity": ALICE, "slot": "x"},
        {"type": "FactRetracted", "space": SPACE, "entity": ALICE, "slot": "y"},
        {**fact, "space": "acme/other"},
        7,
    ]
    found, expected = remote.check(given), local.check(given)  # type: ignore[arg-type]
    assert [None if one is None else (str(one), one.field, one.hint) for one in found] == [
        None if one is None else (str(one), one.field, one.hint) for one in expected
    ]
    assert [one is None for one in found] == [True, False, True, False, True, False]
    assert list(local.timeline(SPACE)) == []


def test_a_receipt_is_awaited_until_its_event_is_folded(remote: Memory) -> None:
    own = numbered_id(1)
    first = remote.remember(SPACE, ALICE, "employer", "Acme", event_id=own)
    again = remote.remember(SPACE, ALICE, "employer", "Acme", event_id=own)
    other = remote.remember(SPACE, ALICE, "employer", "Globex", event_id=own)
    assert [remote.wait(one, timeout_s=30).status for one in (first, again, other)] == [
        "applied",
        "duplicate",
        "conflict",
    ]


def test_after_close_nothing_is_asked(url: str) -> None:
    remote = Memory.open(url)
    remote.remember(SPACE, ALICE, "employer", "Acme")
    remote.close()
    remote.close()
    for ask in (lambda: remote.get(SPACE, ALICE, "employer"), lambda: remote.remember(SPACE, ALICE, "employer", "x")):
        with pytest.raises(StoreClosed):
            ask()

    async def closed() -> None:
        memory = AsyncMemory.open(url)
        await memory.get(SPACE, ALICE, "employer")
        await memory.close()
        await memory.close()
        with pytest.raises(StoreClosed):
            await memory.get(SPACE, ALICE, "employer")

    asyncio.run(closed())


def test_several_threads_and_tasks_share_one_memory(local: Memory, remote: Memory, url: str) -> None:
    def count(number: int) -> None:
        remote.remember(SPACE, ALICE, f"slot-{number}", number)
        belief = remote.get(SPACE, ALICE, f"slot-{number}")
        assert isinstance(belief, Belief)
        assert belief.value == number

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(40)))

    async def side_by_side() -> None:
        async with AsyncMemory.open(url) as memory:
            await asyncio.gather(*(memory.remember(SPACE, ALICE, f"task-{one}", one) for one in range(40)))
            assert len(await memory.entity(SPACE, ALICE)) == 80

    asyncio.run(side_by_side())
    assert len(list(local.timeline(SPACE))) == 80


def test_a_replay_that_is_not_read_to_its_end_lets_go_of_its_connection(
    local: Memory, remote: Memory, url: str
) -> None:
    told(local)
    for _ in range(150):  # more than there may be connections
        assert next(remote.replay(SPACE)).position == Position(0, 0)
        remote.replay(SPACE)

    async def first() -> None:
        async with AsyncMemory.open(url) as memory:
            async for one in memory.replay(SPACE):
                assert one.position == Position(0, 0)
                break

    asyncio.run(first())


def test_written_to_kafka_and_read_through_the_api(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    name = f"kafka://{broker.bootstrap}/{topic(partitions=3)}"
    with Memory.open(f"{name}?state={tmp_path / 'state'}") as local, served(local) as url:
        with Memory.open(name, api=url, actor="agent:planner") as memory:
            receipt = memory.remember(SPACE, ALICE, "employer", "Acme")
            assert receipt.status == "accepted"
            belief = memory.get(SPACE, ALICE, "employer")
            assert isinstance(belief, Belief)
            assert (belief.value, belief.position, belief.actor) == ("Acme", receipt.position, "agent:planner")
            assert memory.wait(receipt).status == "applied"
            with pytest.raises(InvalidEvent, match="no fact or end of user:alice nothing is known"):
                memory.forget(SPACE, ALICE, "nothing")
            with pytest.raises(InvalidEvent, match="has no branch"):
                memory.remember(SPACE, ALICE, "x", 1, branch="b")
            with pytest.raises(InvalidEvent, match="is past, and without valid_from"):
                memory.remember(SPACE, ALICE, "x", 1, valid_to=day(0))
            forgotten = memory.forget(SPACE, ALICE, "employer")
            assert local.wait(forgotten).status == "applied"
            assert [one.event.seen for one in memory.timeline(SPACE)] == [None, receipt.event_id.bytes]
            assert memory.digest() == local.digest()

        async def write() -> None:
            async with AsyncMemory.open(name, api=url, actor="agent:planner") as memory:
                receipt = await memory.remember(SPACE, ALICE, "employer", "Globex")
                assert (await memory.wait(receipt)).status == "applied"

        asyncio.run(write())
        assert len(list(local.timeline(SPACE))) == 3
    with pytest.raises(NotFound):
        Memory.open(f"kafka://{broker.bootstrap}/no-such-topic", api=url)
