"""copy, export and import: the same memory elsewhere, however often it is moved and whatever stops it on the way."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_broker import Broker
from quick_folder import quick_folder

from schemas import archive
from schemas import events as ev
from schemas.archive import read_archive, write_archive
from schemas.codec import Codec
from schemas.errors import FormatTooNew, InvalidInput, NotFound, StoreDamaged, StoreFull
from streams import Belief, Memory, new_event_id, transfer
from streams.clock import now_micros
from streams.envelope import APPEND_TIME, QUARANTINED, message
from streams.ports import Message
from streams.stores import open_store
from streams.transfer import Transferred
from streams.view import View

SPACES = ("acme/support", "acme/support-eu", "globex", "日本/メモ")
ALICE = "user:alice"
Opener = Callable[[str], Memory]


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as made:
        yield made


@pytest.fixture
def opened(folder: Path) -> Iterator[Opener]:
    """Opens stores by name in one folder, or by their full name; all are closed at the end."""
    with ExitStack() as stack:

        def one(name: str) -> Memory:
            where = name if "://" in name else folder / name
            return stack.enter_context(Memory.open(where, actor="agent:planner"))

        yield one


def fact(space: str, value: Any, **fields: Any) -> ev.FactAsserted:
    return ev.FactAsserted(
        event_id=new_event_id().bytes, space=space, actor="user:ana", recorded_at=now_micros(),
        entity=ALICE, slot="employer", value=value, **fields,
    )  # fmt: skip


def fill(memory: Memory) -> None:
    """Something of everything in each space."""
    for number, space in enumerate(SPACES):
        turn = memory.observe(space, "user", "I work at Acme", session="run-1")
        first = memory.remember(space, ALICE, "employer", "Acme", cause=turn.event_id, session="run-1")
        memory.remember(space, ALICE, "employer", f"Globex {number}", valid_from=day(3), valid_to=day(9))
        memory.review(space, first.event_id, "verified")
        memory.declare(space, "tag", cardinality="many")
        for tag in ("a", "b", 1, 1.0, True):
            memory.remember(space, ALICE, "tag", tag, actor=f"agent:{tag}")
        memory.end(space, ALICE, "tag", value="a")
        memory.forbid(space, ALICE, "tag", "B")
        memory.forget(space, ALICE, "tag", 1.0)
        memory.policy(space, [{"actors": "user:*", "starting_trust": "verified", "may_verify": True}])
        memory.remember(space, "user:bob", "employer", "Initech", actor="user:ana")
        memory.distrust(space, "agent:True", since=now_instant() - timedelta(days=1))


def now_instant() -> datetime:
    return datetime.now(UTC)


def spoil(store: str | Path, space: str = SPACES[0]) -> list[str]:
    """Append records that don't count, as foreign producers would, and duplicates; returns the codes to expect."""
    opened = open_store(store, create=False, timeout_s=30)
    codec = Codec()
    good, other = fact(space, "twice"), fact(space, "other")
    retraction = ev.FactRetracted(
        event_id=new_event_id().bytes, space=space, actor="x", recorded_at=0,
        entity="user:nobody", slot="s", value="n" * 90_000,
    )  # fmt: skip
    as_sent = message(good, codec)
    opened.log.append(
        [
            as_sent,
            as_sent,
            message(ev.FactAsserted(**{**_fields(good), "value": "conflicting"}), codec),
            message(retraction, codec),
            Message(space.encode(), b"no event at all", (("content-type", b"text/plain"),)),
            Message(space.encode(), b"\xc3\x01 nor this"),
            Message(b"acme/elsewhere", message(other, codec).value),
            Message(space.encode(), message(fact(space, "x", valid_to=0, valid_from=0), codec).value),
            Message(space.encode(), message(fact(space, "x"), codec).value, ((APPEND_TIME, b"yesterday"),)),
            Message(space.encode(), message(fact("acme//empty", "x"), codec).value),
        ]
    )
    opened.log.close()
    return ["conflict", "unknown_target", "undecodable", "undecodable", "wrong_key", "invalid", "invalid", "invalid"]


def _fields(event: ev.Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def told_times(memory: Memory) -> dict[str, list[tuple[bytes, datetime]]]:
    return {
        space: [(one.event.event_id, one.append_time) for one in memory.timeline(space)] for space in memory.digest()[1]
    }


def codes(memory: Memory) -> list[tuple[str, str]]:
    return sorted((one.code, one.reason[:100]) for one in memory.quarantined())


def test_one_digest_through_stores_of_any_shape(
    opened: Opener, broker: Broker, topic: Callable[..., str], folder: Path
) -> None:
    """Embedded → Kafka with 3 partitions → with 5 → embedded: memory, append times and quarantine stay as they were."""
    source = opened("source")
    fill(source)
    assert [code for code, _ in codes(source)] == []
    wanted_codes = sorted(spoil(folder / "source"))
    wanted, times, quarantined = source.digest(), told_times(source), codes(source)
    assert [code for code, _ in quarantined] == wanted_codes
    chain = [source]
    for partitions in (3, 5, 0):
        if partitions:
            name = f"kafka://{broker.bootstrap}/{topic(partitions=partitions)}?state={folder / f'state-{partitions}'}"
        else:
            name = "back"
        target = opened(name)
        done = chain[-1].copy(target)
        records = sum(space.events for space in source.info().spaces) + len(wanted_codes)
        assert done == Transferred(records, 0), "a duplicate is left out, all else is there"
        assert target.digest() == wanted
        assert told_times(target) == times
        assert codes(target) == quarantined
        assert chain[-1].copy(target) == Transferred(0, records)
        assert target.verify() == []
        for space in SPACES:
            for _, instant in times[space][::3]:
                view = View(as_of=instant)
                assert _answers(target, space, view) == _answers(source, space, view), instant
        chain.append(target)
    target.rebuild()
    assert target.digest() == wanted


def _answers(memory: Memory, space: str, view: View) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for entity in (ALICE, "user:bob"):
        for slot, answer in memory.entity(space, entity, view).items():
            found += [
                (entity, slot, one.value, one.valid_from, one.valid_to, one.trust, one.event_id, one.corroborations)
                for one in (answer if isinstance(answer, list) else [answer])
            ]
    return found


def test_a_record_in_the_wrong_partition_stays_quarantined(
    opened: Opener, broker: Broker, topic: Callable[..., str], folder: Path
) -> None:
    """A producer with another partitioner wrote it; in a log of one partition its place would have been right. And what
    is larger than our logs take is left out and counted, since it never counted for anything."""
    name = topic(partitions=3)
    source = opened(f"kafka://{broker.bootstrap}/{name}?state={folder / 'state'}")
    right = source.remember(SPACES[0], ALICE, "employer", "Acme").position.partition
    wrong = message(fact(SPACES[0], "Globex"), Codec())
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 1_048_000})
    for _ in range(2):
        producer.produce(name, wrong.value, wrong.key, partition=(right + 1) % 3)
    producer.produce(name, b"x" * 1_020_000, b"acme", partition=0)
    producer.produce(name, b"y", b"acme", partition=0, headers=[("h", b"z" * 40_000)])
    producer.produce(name, None, b"acme", partition=0)
    assert producer.flush(30) == 0
    assert sorted(one.code for one in source.quarantined()) == [
        "empty",
        "oversized",
        "undecodable",
        "wrong_partition",
        "wrong_partition",
    ]
    target = opened("target")
    assert source.copy(target) == Transferred(appended=3, known=1, left_out=2)
    assert [one.code for one in target.quarantined()].count("wrong_partition") == 1
    assert target.digest() == source.digest()
    belief = target.get(SPACES[0], ALICE, "employer")
    assert isinstance(belief, Belief)
    assert belief.value == "Acme"
    assert source.copy(target) == Transferred(appended=0, known=4, left_out=2)


@pytest.mark.parametrize("batches", [0, 1, 2, 5])
def test_an_interrupted_copy_is_simply_done_again(
    opened: Opener, folder: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    source, target = opened("source"), opened("target")
    fill(source)
    spoil(folder / "source")
    monkeypatch.setattr(transfer, "_BATCH_RECORDS", 10)
    left, append = batches, target._log.append

    def failing(messages: Any) -> Any:
        nonlocal left
        if left == 0:
            raise StoreFull("no room")
        left -= 1
        return append(messages)

    monkeypatch.setattr(target._log, "append", failing)
    read: list[int] = []
    with pytest.raises(StoreFull):
        source.copy(target, read.append)
    assert read == [10 * number for number in range(1, batches + 1)]
    monkeypatch.undo()
    assert source.copy(target).known == 10 * batches
    assert target.digest() == source.digest()
    assert codes(target) == codes(source)


def test_a_store_is_not_copied_onto_itself(opened: Opener, folder: Path) -> None:
    source, again = opened("source"), opened("source")
    source.remember(SPACES[0], ALICE, "employer", "Acme")
    for target in (source, again):
        with pytest.raises(InvalidInput, match="a store can't be copied onto itself"):
            source.copy(target)
    assert source.info().partitions[0].next == 1


def test_into_a_space_that_has_other_events(opened: Opener) -> None:
    """The moved events come after those that are there, and so do their append times: a fact that relied on its append
    time begins when it came in. What states its own instant keeps it. Twice still changes nothing."""
    source, target = opened("source"), opened("target")
    space = SPACES[0]
    moved = source.remember(space, ALICE, "employer", "Acme")
    source.remember(space, ALICE, "city", "Paris", valid_from=day(1))
    present = target.remember(space, ALICE, "employer", "Globex")
    target.remember(space, ALICE, "city", "Rome", valid_from=day(2))
    assert source.copy(target) == Transferred(2, 0)
    order = [one.event.event_id for one in target.timeline(space)]
    assert order[0] == present.event_id.bytes
    assert order[2] == moved.event_id.bytes
    times = [one.append_time for one in target.timeline(space)]
    assert times == sorted(times)
    employer, city = (target.get(space, ALICE, slot) for slot in ("employer", "city"))
    assert isinstance(employer, Belief)
    assert isinstance(city, Belief)
    assert (employer.value, city.value) == ("Acme", "Rome")
    before = target.digest()
    assert source.copy(target) == Transferred(0, 2)
    assert target.digest() == before


def test_the_same_id_with_other_content_is_a_conflict_in_the_target(opened: Opener) -> None:
    """It is neither taken for known nor silently dropped."""
    source, target = opened("source"), opened("target")
    mine = new_event_id()
    source.remember(SPACES[0], ALICE, "employer", "Acme", event_id=mine)
    target.remember(SPACES[0], ALICE, "employer", "Globex", event_id=mine)
    assert source.copy(target) == Transferred(1, 0)
    assert [one.code for one in target.quarantined()] == ["conflict"]
    belief = target.get(SPACES[0], ALICE, "employer")
    assert isinstance(belief, Belief)
    assert belief.value == "Globex"
    assert source.copy(target) == Transferred(0, 1)
    assert len(target.quarantined()) == 1


def test_marks_of_an_earlier_copy_give_way(opened: Opener) -> None:
    """After three moves a record carries one append time and one mark, not three."""
    names = ("one", "two", "three", "four")
    stores = [opened(name) for name in names]
    stores[0].remember(SPACES[0], ALICE, "employer", "Acme")
    stores[0]._log.append([Message(b"acme", b"junk", (("h", b"1"),))])
    for source, target in pairwise(stores):
        source.copy(target)
    [batch] = stores[-1]._log.read(0, 0)
    names_of = [[name for name, _ in record.headers] for record in batch.records]
    assert [one.count(APPEND_TIME) for one in names_of] == [1, 1]
    assert names_of[1] == ["h", APPEND_TIME, QUARANTINED]
    assert stores[-1].digest() == stores[0].digest()
    assert codes(stores[-1]) == codes(stores[0])


# -- archives


def test_export_and_import_again(opened: Opener, folder: Path) -> None:
    source = opened("source")
    fill(source)
    spoil(folder / "source")
    count = source.export(folder / "all.avro")
    assert count == sum(space.events for space in source.info().spaces) + len(source.quarantined())
    target = opened("target")
    assert target.import_(folder / "all.avro") == Transferred(count, 0)
    assert target.digest() == source.digest()
    assert told_times(target) == told_times(source)
    assert codes(target) == codes(source)
    assert target.import_(folder / "all.avro") == Transferred(0, count)
    assert target.export(folder / "again.avro") == count
    assert [one[2:5] for one in read_archive(folder / "again.avro")] == [
        one[2:5] for one in read_archive(folder / "all.avro")
    ], "append time, key and value"
    assert source.import_(folder / "all.avro") == Transferred(0, count)


def test_an_empty_store_has_an_archive_too(opened: Opener, folder: Path) -> None:
    assert opened("source").export(folder / "none.avro") == 0
    assert opened("target").import_(folder / "none.avro") == Transferred(0, 0)


@pytest.fixture(scope="module")
def small() -> Iterator[tuple[bytes, str]]:
    """Bytes of a small archive, and the position of its last record."""
    with quick_folder() as made, Memory.open(made / "source", actor="agent:planner") as memory:
        for value in ("Acme", "Globex"):
            last = memory.remember("a/b", ALICE, "employer", value)
        memory._log.append([Message(b"a/b", b"junk")])
        memory.export(made / "small.avro")
        yield (made / "small.avro").read_bytes(), str(last.position)


def test_a_cut_archive_is_refused_wherever_it_was_cut(small: tuple[bytes, str], opened: Opener, folder: Path) -> None:
    """At every seventh byte: the error names the last good record, and nothing is imported."""
    target, path = opened("target"), folder / "cut.avro"
    told = set()
    for size in [*range(0, len(small[0]), 7), len(small[0]) - 1]:
        path.write_bytes(small[0][:size])
        with pytest.raises((StoreDamaged, InvalidInput)) as caught:
            target.import_(path)
        text = str(caught.value)
        assert "the last good record is" in text or "does not begin as an Avro container file does" in text, size
        told.add(text.rpartition(" ")[2])
    assert target.info().partitions[0].next == 0
    assert {"nothing", "0:2"} <= told


def test_a_flipped_byte_is_found_or_changes_nothing(small: tuple[bytes, str], opened: Opener, folder: Path) -> None:
    """Every third byte is changed in two ways. What is accepted all the same has the very content of the original."""
    path = folder / "flipped.avro"
    path.write_bytes(small[0])
    wanted = list(read_archive(path))
    accepted = 0
    for number in range(0, len(small[0]), 3):
        for mask in (0x01, 0xA5):
            spoilt = bytearray(small[0])
            spoilt[number] ^= mask
            path.write_bytes(spoilt)
            try:
                found = list(read_archive(path))
            except (StoreDamaged, InvalidInput, FormatTooNew):
                continue
            assert found == wanted, f"byte {number} of {len(spoilt)}"
            accepted += 1
    assert accepted < len(small[0]) // 3, "most of the file matters"


@pytest.mark.parametrize("content", [b"", b"Obj\x01", b"PK\x03\x04 a zip file", b"{}", b"Obj\x01" + b"\xff" * 200])
def test_what_is_no_archive(content: bytes, opened: Opener, folder: Path) -> None:
    (folder / "no.avro").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"no\.avro is no archive: it does not begin as an Avro container file does"):
        opened("target").import_(folder / "no.avro")


def test_missing_files_and_folders(opened: Opener, folder: Path) -> None:
    memory = opened("source")
    memory.remember(SPACES[0], ALICE, "employer", "Acme")
    with pytest.raises(NotFound, match=r"none\.avro can't be read: No such file or directory"):
        memory.import_(folder / "none.avro")
    with pytest.raises(NotFound, match="can't be read: Is a directory"):
        memory.import_(folder)
    with pytest.raises(InvalidInput, match=r"missing/all\.avro can't be written: No such file or directory"):
        memory.export(folder / "missing" / "all.avro")
    (folder / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"file/all\.avro can't be written: Not a directory"):
        memory.export(folder / "file" / "all.avro")
    (folder / "taken").mkdir()
    with pytest.raises(InvalidInput, match="taken can't be written: Is a directory"):
        memory.export(folder / "taken")
    for name in (".", "/", ""):
        with pytest.raises(InvalidInput, match="names no file"):
            memory.export(name)
    assert sorted(path.name for path in folder.iterdir()) == ["file", "source", "taken"], "no partial file is left"


def test_an_export_that_fails_leaves_the_old_archive(
    opened: Opener, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened("source")
    memory.remember(SPACES[0], ALICE, "employer", "Acme")
    memory.export(folder / "all.avro")
    kept = (folder / "all.avro").read_bytes()

    def full(file: Any, records: Any, origin: str) -> int:
        write_archive(file, records, origin)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive, "write_archive", full)
    with pytest.raises(StoreFull, match=r"all\.avro can't be written: No space left on device") as caught:
        memory.export(folder / "all.avro")
    assert caught.value.hint == "make room, then repeat"
    assert (folder / "all.avro").read_bytes() == kept
    assert sorted(path.name for path in folder.iterdir()) == ["all.avro", "source"]
