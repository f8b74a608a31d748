"""What a store must not be talked into: another log under its tables, waits, lost files, a forked holder."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka_broker import Broker

from schemas.errors import InvalidEvent, InvalidInput, InvalidView, LogChanged, LogTruncated, StoreDamaged
from streams import Memory, View, new_event_id
from streams.kafka_log import KafkaLog, create_topic
from streams.ports import Message

SPACE = "acme/support"
ALICE = "user:alice"
DEADLINE_S = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(params=["embedded", "kafka"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "embedded":
        return str(tmp_path / "store")
    broker = request.getfixturevalue("broker")
    return f"kafka://{broker.bootstrap}/{request.getfixturevalue('topic')(partitions=1)}?state={tmp_path / 'state'}"


def numbered(count: int, slot: str = "x") -> Iterator[dict[str, object]]:
    for number in range(count):
        yield {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": f"{slot}{number}", "value": number}


def test_a_repeated_call_is_a_duplicate_whatever_was_read_between(store: str) -> None:
    with Memory.open(store) as memory:
        for write in (
            lambda own: memory.remember(SPACE, ALICE, "employer", "Acme", event_id=own),
            lambda own: memory.observe(SPACE, "user", "hello", event_id=own),
        ):
            own = new_event_id()
            write(own)
            memory.get(SPACE, ALICE, "employer")
            assert memory.wait(write(own)).status == "duplicate"
        assert memory.quarantined() == []


def test_records_without_a_value_count_the_same_for_every_reader(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=1)
    log = KafkaLog(broker.bootstrap, name)
    seen = []
    for number, values in enumerate([(b"",), (b"", b"{}"), (b"{}", b"", b"")]):
        log.append([Message(SPACE.encode(), value) for value in values])
        with Memory.open(f"kafka://{broker.bootstrap}/{name}?state={tmp_path / 'kept'}") as kept:
            kept.get(SPACE, ALICE, "employer")
            state = tmp_path / f"fresh-{number}"
            with Memory.open(f"kafka://{broker.bootstrap}/{name}?state={state}") as fresh:
                seen.append((kept.info().partitions[0].chain, kept.info().partitions[0].quarantined))
                assert (fresh.info().partitions[0].chain, fresh.info().partitions[0].quarantined) == seen[-1]
    log.close()
    assert [quarantined for _, quarantined in seen] == [1, 3, 6]


def test_a_log_that_was_cut_and_grew_again_is_another_log(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory.append(numbered(8))
        memory.get(SPACE, ALICE, "x1")
    with sqlite3.connect(folder / "log.sqlite") as connection:
        connection.execute('DELETE FROM log WHERE "offset" >= 5')
    connection.close()
    with Memory.open(folder, hold=False) as memory:
        memory.append(numbered(8, "new"))
        with pytest.raises(LogChanged, match="offset 7 of partition 0 is not the record that the tables"):
            memory.get(SPACE, ALICE, "x7")
        assert "slotlog rebuild" in str(caught_hint(memory))
    with Memory.open(folder) as memory:
        memory.rebuild()
        assert memory.get(SPACE, ALICE, "x7") is None
        assert memory.get(SPACE, ALICE, "new7") is not None


def caught_hint(memory: Memory) -> str | None:
    try:
        memory.get(SPACE, ALICE, "x7")
    except LogChanged as error:
        return error.hint
    return None


def test_a_topic_that_is_made_again_under_a_reader_is_another_log(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient

    name = topic(partitions=1)
    with Memory.open(f"kafka://{broker.bootstrap}/{name}?state={tmp_path / 'a'}") as memory:
        memory.append(numbered(3, "old"))
        memory.get(SPACE, ALICE, "old0")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics([name])[name].result(30)
        made_again(broker, name)
        with Memory.open(f"kafka://{broker.bootstrap}/{name}?state={tmp_path / 'b'}") as other:
            other.append(numbered(6, "new"))
        with pytest.raises(LogChanged):
            memory.get(SPACE, ALICE, "old0")


def made_again(broker: Broker, name: str) -> None:
    """A topic is deleted a moment after the broker says so."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            create_topic(broker.bootstrap, name, partitions=1)
            return
        except InvalidInput:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_an_append_waits_for_no_table(folder: Path) -> None:
    held, done = threading.Event(), threading.Event()
    with Memory.open(folder) as memory:
        memory.remember(SPACE, ALICE, "employer", "Acme")
        memory.get(SPACE, ALICE, "employer")

        def hold() -> None:
            with memory._lock:  # as a rebuild or a verify does
                held.set()
                assert done.wait(DEADLINE_S)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(DEADLINE_S)
        receipt = memory.remember(SPACE, ALICE, "employer", "Globex")
        done.set()
        thread.join()
        assert receipt.status == "accepted"
        assert memory.wait(receipt).status == "applied"


def test_a_holder_folds_what_others_append_without_being_asked(folder: Path) -> None:
    with Memory.open(folder) as holder, Memory.open(folder, hold=False) as writer:
        writer.append(numbered(3))
        holder.get(SPACE, ALICE, "x1")
        writer.append(numbered(5_000, "y"))
        deadline = time.monotonic() + DEADLINE_S
        while holder._followers[0].head.next_offset < 5_003:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_forked_child_leaves_the_tables_to_its_parent(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory.remember(SPACE, ALICE, "employer", "Acme")
        memory.get(SPACE, ALICE, "employer")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                memory.remember(SPACE, ALICE, "child", "was here")
                belief = memory.get(SPACE, ALICE, "child")
                held = memory.info().partitions[0].holding
                memory.close()
                code = 0 if belief is not None and not held else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert memory.info().partitions[0].holding
        assert memory.get(SPACE, ALICE, "child") is not None


def test_a_log_that_was_deleted_while_open_takes_no_event(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory.remember(SPACE, ALICE, "employer", "Acme")
        (folder / "log.sqlite").rename(folder / "elsewhere")
        with pytest.raises(StoreDamaged, match="was deleted or replaced while it was open"):
            memory.remember(SPACE, ALICE, "employer", "Globex")
        (folder / "elsewhere").rename(folder / "log.sqlite")
        memory.remember(SPACE, ALICE, "employer", "Globex")
        assert len(list(memory.timeline(SPACE))) == 2


def test_tables_whose_log_is_gone_are_not_given_a_new_one(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory.remember(SPACE, ALICE, "employer", "Acme")
        memory.get(SPACE, ALICE, "employer")
    (folder / "log.sqlite").unlink()
    for create in (True, False):
        with pytest.raises(LogTruncated, match="has tables, and the log they were made from is gone") as caught:
            Memory.open(folder, create=create)
        assert str(folder / "tables") in str(caught.value.hint)
    assert not (folder / "log.sqlite").exists()


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInput, match="is a file, and a store is a folder"):
        Memory.open(tmp_path / "file")


def test_a_receipt_says_why_a_fact_is_not_believed(store: str) -> None:
    with Memory.open(store) as memory:
        forbidden = memory.forbid(SPACE, ALICE, "employer", "Acme")
        distrusted = memory.distrust(SPACE, "agent:bad")
        blocked = memory.wait(memory.remember(SPACE, ALICE, "employer", "ACME"))
        unheard = memory.wait(memory.remember(SPACE, ALICE, "employer", "Globex", actor="agent:bad"))
        assert (blocked.status, unheard.status) == ("blocked", "blocked")
        assert blocked.reason == f"the value is forbidden since {forbidden.position}; allow lifts that"
        assert unheard.reason == f"agent:bad is distrusted since {distrusted.position}"
        assert memory.get(SPACE, ALICE, "employer") is None


def test_a_slot_is_forgotten_again_and_again_without_growing_marks(folder: Path) -> None:
    with Memory.open(folder) as memory:
        for number in range(5):
            memory.remember(SPACE, ALICE, "employer", number)
            memory.forget(SPACE, ALICE, "employer")
        found = memory.explain(SPACE, ALICE, "employer")
        assert [len(one.said) for one in found.claims] == [1] * 5
        assert all(one.outcome == "retracted" for one in found.claims)
        memory.forget(SPACE, ALICE, "employer", actor="user:ana")
        assert [len(one.said) for one in memory.explain(SPACE, ALICE, "employer").claims] == [2] * 5


def test_misuse_is_told(folder: Path) -> None:
    with Memory.open(folder, actor="") as memory:
        with pytest.raises(InvalidEvent, match="actor: is empty"):
            memory.remember(SPACE, ALICE, "employer", "Acme")
        for view in (None, "now", 5):
            with pytest.raises(InvalidView, match="a view is a View"):
                memory.get(SPACE, ALICE, "employer", view)  # type: ignore[arg-type]
        with pytest.raises(InvalidView, match="several names, not None"):
            memory.get(SPACE, ALICE, "employer", View(without_actors=None))  # type: ignore[arg-type]
        with pytest.raises(InvalidEvent, match="space: must be text, not 5"):
            memory.get(5, ALICE, "employer")  # type: ignore[arg-type]
