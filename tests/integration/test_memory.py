"""The façade on both logs: what a caller is promised, asked of a real store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from http_server import serving

from schemas import events as ev
from schemas.errors import InvalidEvent, InvalidInput, InvalidView, NotFound, StoreClosed
from streams import Belief, Memory, Position, Receipt, View, new_event_id
from streams.clock import now_micros
from streams.metrics import Metrics
from streams.status import Alone
from streams.stores import open_store

SPACE = "acme/support"
ALICE = "user:alice"
NOW = View()


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


@pytest.fixture(params=["embedded", "kafka"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "embedded":
        return str(tmp_path / "store")
    broker = request.getfixturevalue("broker")
    topic = request.getfixturevalue("topic")(partitions=3)
    return f"kafka://{broker.bootstrap}/{topic}?state={tmp_path / 'state'}"


@pytest.fixture(params=["itself", "http"])
def memory(request: pytest.FixtureRequest, store: str) -> Iterator[Memory]:
    """The store opened here, and opened by a server that is asked through the real API."""
    with Memory.open(store, actor="agent:planner") as opened:
        if request.param == "itself":
            yield opened
            return
        from projectors.surfaces.api import Limits, install

        with (
            serving(lambda app: install(app, opened, Alone(opened), Metrics(), Limits())) as url,
            Memory.open(url, actor="agent:planner") as remote,
        ):
            yield remote


def value_of(memory: Memory, view: View = NOW, slot: str = "employer") -> object:
    belief = memory.get(SPACE, ALICE, slot, view)
    assert not isinstance(belief, list)
    return None if belief is None else belief.value


def test_a_write_is_read_at_once(memory: Memory) -> None:
    receipt = memory.remember(SPACE, ALICE, "employer", "Acme")
    belief = memory.get(SPACE, ALICE, "employer")
    assert isinstance(belief, Belief)
    assert (belief.value, belief.position, belief.event_id) == ("Acme", receipt.position, receipt.event_id)
    assert (belief.actor, belief.trust, belief.corroborations, belief.contested) == (
        "agent:planner",
        "candidate",
        1,
        None,
    )
    assert belief.valid_to is None


def test_two_time_axes(memory: Memory) -> None:
    first = memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    memory.remember(SPACE, ALICE, "employer", "Globex", valid_from=day(10))
    late = memory.remember(SPACE, ALICE, "employer", "Initech", valid_from=day(5))
    assert value_of(memory) == "Globex"
    assert value_of(memory, View(valid_at=day(7))) == "Initech"
    before = View(as_of=Position(late.position.partition, late.position.offset - 1), valid_at=day(7))
    assert value_of(memory, before) == "Acme"
    assert value_of(memory, View(as_of=first.position)) == "Acme"
    assert value_of(memory, View(valid_at=day(-1))) is None
    assert [belief.value for belief in memory.history(SPACE, ALICE, "employer")] == ["Acme", "Initech", "Globex"]


def test_an_end_is_a_change_and_a_retraction_a_correction(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    memory.end(SPACE, ALICE, "employer", at=day(3))
    assert value_of(memory) is None
    assert value_of(memory, View(valid_at=day(2))) == "Acme"
    receipt = memory.forget(SPACE, ALICE, "employer", reason="another Alice")
    assert value_of(memory, View(valid_at=day(2))) is None
    before = View(as_of=receipt.position.offset - 1, valid_at=day(2))
    assert value_of(memory, before) == "Acme"


def test_the_empty_string_is_a_value_and_null_is_none(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "note", "")
    assert value_of(memory, slot="note") == ""
    assert memory.get(SPACE, ALICE, "employer") is None
    with pytest.raises(InvalidEvent, match="null is no value") as caught:
        memory.remember(SPACE, ALICE, "note", None)  # type: ignore[arg-type]
    assert "end the fact" in str(caught.value.hint)
    assert value_of(memory, slot="note") == ""


def test_a_repeated_call_is_a_duplicate_and_another_fact_a_conflict(memory: Memory) -> None:
    mine = new_event_id()
    first = memory.remember(SPACE, ALICE, "employer", "Acme", event_id=mine)
    again = memory.remember(SPACE, ALICE, "employer", "Acme", event_id=str(mine))
    other = memory.remember(SPACE, ALICE, "employer", "Globex", event_id=mine)
    assert memory.wait(first).status == "applied"
    assert memory.wait(again).status == "duplicate"
    settled = memory.wait(other)
    assert settled.status == "conflict"
    assert f"is at offset {first.position.offset} with other content" in str(settled.reason)
    assert value_of(memory) == "Acme"
    assert [one.code for one in memory.quarantined()] == ["conflict"]


def test_the_same_id_in_another_space_is_another_event(memory: Memory) -> None:
    mine = new_event_id()
    memory.remember(SPACE, ALICE, "employer", "Acme", event_id=mine)
    other = memory.remember("acme/support-eu", ALICE, "employer", "Globex", event_id=mine)
    assert memory.wait(other).status == "applied"
    assert value_of(memory) == "Acme"


def test_an_id_that_holds_no_time_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidEvent, match="is no UUIDv7"):
        memory.remember(SPACE, ALICE, "employer", "Acme", event_id=UUID(int=7))


def test_a_retraction_that_names_nothing_is_refused_and_not_written(memory: Memory) -> None:
    with pytest.raises(InvalidEvent, match="no fact or end of user:alice employer is known"):
        memory.forget(SPACE, ALICE, "employer")
    with pytest.raises(InvalidEvent, match=r"no event .* is known in space"):
        memory.forget(SPACE, event_id=new_event_id())
    heard = memory.observe(SPACE, "user", "hello")
    with pytest.raises(InvalidEvent, match="is a Observed, no fact and no end"):
        memory.forget(SPACE, event_id=heard.event_id)
    assert [type(one.event) for one in memory.timeline(SPACE)] == [ev.Observed]


def test_append_is_all_or_nothing_and_may_name_what_it_brings(memory: Memory) -> None:
    mine = new_event_id()
    fact = {"type": "FactAsserted", "event_id": str(mine), "space": SPACE, "entity": ALICE, "slot": "x", "value": 1}
    retraction = {"type": "FactRetracted", "space": SPACE, "target": str(mine)}
    with pytest.raises(InvalidEvent, match="slot: is missing"):
        memory.append([fact, {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "value": 1}])
    assert list(memory.timeline(SPACE)) == []
    receipts = memory.append([fact, retraction])
    assert [memory.wait(receipt).status for receipt in receipts] == ["applied", "applied"]
    assert memory.get(SPACE, ALICE, "x") is None


def test_a_session_is_replayed_from_an_offset(memory: Memory) -> None:
    memory.append([{"type": "SessionStarted", "space": SPACE, "session": "run-1", "agent": "planner"}])
    heard = memory.observe(SPACE, "user", "I moved to Globex", session="run-1")
    memory.observe(SPACE, "user", "something else", session="run-2")
    memory.remember(SPACE, ALICE, "employer", "Globex", session="run-1", cause=heard.event_id)
    memory.append([{"type": "SessionEnded", "space": SPACE, "session": "run-1", "outcome": "done"}])
    replayed = list(memory.replay(SPACE, session="run-1"))
    assert [type(one.event).__name__ for one in replayed] == [
        "SessionStarted",
        "Observed",
        "FactAsserted",
        "SessionEnded",
    ]
    assert [one.position.offset for one in replayed] == sorted(one.position.offset for one in replayed)
    assert replayed[1].position == heard.position
    assert list(memory.replay(SPACE, session="run-1", start=heard.position, end=replayed[2].position)) == [replayed[1]]
    assert list(memory.replay(SPACE, start=replayed[3].append_time))[-1] == replayed[3]
    assert len(list(memory.replay(SPACE))) == 5
    run = memory.sessions(SPACE)[0]
    assert (run.name, run.agent, run.events, run.ended, run.outcome) == ("run-1", "planner", 4, True, "done")
    assert (run.first, run.last) == (replayed[0].position, replayed[-1].position)
    with pytest.raises(NotFound, match="has no session 'run-9'"):
        memory.replay(SPACE, session="run-9")


def test_views_that_cannot_be_answered_are_refused(memory: Memory) -> None:
    with pytest.raises(InvalidView, match="as_of 0 is past the end: the log is empty"):
        memory.get(SPACE, ALICE, "employer", View(as_of=0))
    receipt = memory.remember(SPACE, ALICE, "employer", "Acme")
    partition, offset = receipt.position
    for view, complaint in [
        (View(as_of=offset + 1), f"as_of {offset + 1} is past the end: the last offset is {offset}"),
        (View(as_of=Position(partition + 1, 0)), "is in another partition"),
        (View(as_of=datetime.now(UTC) + timedelta(days=1)), "is in the future"),
        (View(as_of="yesterday"), "must be an offset, a Position or an aware datetime"),  # type: ignore[arg-type]
        (View(trust="rejected"), "trust 'rejected' is no least trust"),
        (View(branch="other"), "has no branch 'other'"),
        (View(at_sha="abc"), "is no full id of a commit"),
        (View(without_actors="agent:x"), "several names, not one text"),
    ]:
        with pytest.raises(InvalidView, match=complaint):
            memory.get(SPACE, ALICE, "employer", view)
    for naive in (View(as_of=datetime(2026, 1, 1)), View(valid_at=datetime(2026, 1, 1))):
        with pytest.raises(InvalidInput, match="has no zone"):
            memory.get(SPACE, ALICE, "employer", naive)


def test_as_of_a_time_is_the_last_event_the_space_had_by_then(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    recorded = next(memory.timeline(SPACE)).append_time
    assert value_of(memory, View(as_of=recorded)) == "Acme"
    assert value_of(memory, View(as_of=recorded - timedelta(microseconds=1), valid_at=day(1))) is None


def test_a_resolved_view_gives_the_same_answer_for_ever(memory: Memory) -> None:
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(0))
    belief = memory.get(SPACE, ALICE, "employer")
    assert isinstance(belief, Belief)
    memory.remember(SPACE, ALICE, "employer", "Globex", valid_from=day(1))
    again = memory.get(SPACE, ALICE, "employer", belief.view.view())
    assert again == belief
    assert value_of(memory) == "Globex"


def test_names_with_any_separator_stay_apart(memory: Memory) -> None:
    names = ["a", "a\u0080b", "a/b", "a:b", "a|b", "a b", "ab", "a\\b", "a\u2028b", "ａ", "é", "e\u0301"]
    names = [name for name in names if "\u0080" not in name]
    for number, name in enumerate(names):
        memory.remember(SPACE, name, name, number)
    for number, name in enumerate(names):
        assert list(memory.entity(SPACE, name)) == [name]
        assert value_of_entity(memory, name) == number


def value_of_entity(memory: Memory, name: str) -> object:
    belief = memory.get(SPACE, name, name)
    assert isinstance(belief, Belief)
    return belief.value


def test_rebuilt_tables_hold_the_same(store: str) -> None:
    with Memory.open(store) as memory:
        for number in range(50):
            memory.remember(
                f"acme/space-{number % 7}", ALICE, f"slot-{number % 5}", number, session=f"run-{number % 3}"
            )
        memory.forget("acme/space-1", ALICE, "slot-1")
        before = memory.digest()
        assert len(before[1]) == 7
        memory.rebuild()
        assert memory.digest() == before


def test_it_is_all_there_after_closing(store: str) -> None:
    with Memory.open(store) as memory:
        receipt = memory.remember(SPACE, ALICE, "employer", "Acme")
        before = memory.digest()
    with pytest.raises(StoreClosed):
        memory.get(SPACE, ALICE, "employer")
    memory.close()
    with Memory.open(store, hold=False) as reader:
        assert value_of(reader) == "Acme"
        assert reader.digest() == before
        assert reader.wait(receipt).status == "applied"


def test_two_memories_on_one_store_see_each_other(store: str) -> None:
    with Memory.open(store) as one, Memory.open(store) as two:
        for number in range(20):
            writer, reader = (one, two) if number % 2 else (two, one)
            writer.remember(SPACE, ALICE, "count", number)
            assert value_of(reader, slot="count") == number
        assert one.digest() == two.digest()
        holding = [part.holding for opened in (one, two) for part in opened.info().partitions]
        assert sorted(holding) == [False] * (len(holding) // 2) + [True] * (len(holding) // 2)


def test_garbage_of_others_is_quarantined_and_nothing_else_changes(store: str) -> None:
    with Memory.open(store) as memory:
        memory.remember(SPACE, ALICE, "employer", "Acme")
        before = memory.digest()
    raw = open_store(store, create=False, timeout_s=10)
    for value in (b"{}", b"\xc3\x01" + bytes(8) + b"x", b""):
        raw.log.append([raw_message(SPACE, value)])
    raw.log.close()
    with Memory.open(store) as memory:
        assert memory.digest() == before
        assert [one.code for one in memory.quarantined()] == ["undecodable", "undecodable", "empty"]
        assert memory.remember(SPACE, ALICE, "employer", "Globex").status in ("applied", "accepted")
        assert value_of(memory) == "Globex"


def raw_message(space: str, value: bytes):
    from streams.ports import Message

    return Message(space.encode(), value)


def test_a_producer_whose_clock_is_wrong_decides_nothing(memory: Memory) -> None:
    hour = 3_600_000_000
    events = [
        ev.FactAsserted(
            event_id=new_event_id().bytes,
            space=SPACE,
            actor="agent:skewed",
            recorded_at=now_micros() + skew,
            entity=ALICE,
            slot="employer",
            value=value,
        )
        for value, skew in (("Acme", hour), ("Globex", -hour))
    ]
    receipts: list[Receipt] = memory.append(events)
    assert value_of(memory) == "Globex"
    assert value_of(memory, View(as_of=receipts[0].position)) == "Acme"


def test_seen_names_the_newest_event_of_the_last_answer(memory: Memory) -> None:
    first = memory.remember(SPACE, ALICE, "employer", "Acme")
    memory.get(SPACE, ALICE, "employer")
    memory.remember(SPACE, ALICE, "employer", "Globex")
    assert [one.event.seen for one in memory.timeline(SPACE)] == [None, first.event_id.bytes]


def test_a_fact_that_would_be_over_before_it_holds_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidEvent, match="is past, and without valid_from the fact begins to hold now") as caught:
        memory.remember(SPACE, ALICE, "employer", "Acme", valid_to=day(0))
    assert caught.value.field == "valid_to"
    assert list(memory.timeline(SPACE)) == []
    memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=day(-1), valid_to=day(0))
    assert value_of(memory, View(valid_at=day(-1))) == "Acme"


def test_what_vouches_for_the_log_is_what_was_folded_before(store: str) -> None:
    with Memory.open(store) as memory:
        memory.remember(SPACE, ALICE, "employer", "Acme")
        memory.remember(SPACE, ALICE, "employer", "Globex")
        assert memory.vouched() == (0, 2)
        assert memory.verify() == []
        assert memory.vouched() == (2, 2)
    with Memory.open(store, hold=False) as memory:
        memory.remember(SPACE, ALICE, "employer", "Initech")
        assert memory.vouched() == (2, 3)


def test_a_declaration_for_a_kind_is_for_entities_that_have_one(memory: Memory) -> None:
    memory.declare(SPACE, "tag", cardinality="many", entity_kind="user")
    for entity in ("user", "user:alice"):
        memory.remember(SPACE, entity, "tag", "x")
    assert isinstance(memory.get(SPACE, "user", "tag"), Belief)
    assert isinstance(memory.get(SPACE, "user:alice", "tag"), list)
    with pytest.raises(InvalidEvent, match="entity_kind: 'user:' has a colon"):
        memory.declare(SPACE, "tag", cardinality="one", entity_kind="user:")


def test_an_event_is_found_by_its_id(memory: Memory) -> None:
    receipt = memory.remember(SPACE, ALICE, "employer", "Acme")
    found = memory.event(SPACE, str(receipt.event_id))
    assert (found.position, found.event.event_id) == (receipt.position, receipt.event_id.bytes)
    with pytest.raises(NotFound, match=r"no event .* is known in space"):
        memory.event(SPACE, new_event_id())


def test_events_without_effect_in_this_version_are_refused(memory: Memory) -> None:
    with pytest.raises(InvalidEvent, match="SubjectErased has no effect in this version"):
        memory.append([{"type": "SubjectErased", "space": SPACE, "subject": "person-31"}])
    with pytest.raises(InvalidEvent, match="has no branch 'b'"):
        memory.remember(SPACE, ALICE, "x", 1, branch="b")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("ftp://localhost", "is no store"), ("kafka://", "is no Kafka store"), ("kafka://h:1/a/b", "is no Kafka store")],
)
def test_a_name_that_is_no_store_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Memory.open(name)


def test_an_embedded_store_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Memory.open(tmp_path / "nothing", create=False)
    assert not (tmp_path / "nothing").exists()
