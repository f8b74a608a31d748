"""The fold: whatever the batches, the garbage between and the tables underneath, one log makes the same rows."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import reference
from comparing import FromMemory, check_slot
from hypothesis import given
from hypothesis import strategies as st
from reference import Lens
from strategies import BASE, CODEC, ENTITIES, SLOTS, SPACE, STEP, Step, built, examples, folded, histories

from schemas import events as ev
from streams.clock import now_micros
from streams.digest import digests
from streams.envelope import copied
from streams.fold import fold
from streams.memory import Memory
from streams.overlay import Empty, Overlay
from streams.ports import Batch, Message, Record
from streams.reads import Reads
from streams.rows import Head
from streams.sqlite_log import SqliteLog


def _splits(size: int) -> st.SearchStrategy[list[int]]:
    """Where batches begin and end: 0, some places between, `size`."""
    inner = st.sets(st.integers(1, size - 1), max_size=5) if size > 1 else st.just(set())
    return inner.map(lambda places: sorted({0, size, *places}))


@examples(150)
@given(given_steps=histories(), data=st.data())
def test_batches_and_redelivery_change_nothing(given_steps: list[Step], data: st.DataObject) -> None:
    """Any split, each batch with some older records again before it, makes the same rows and the same head."""
    records = built(given_steps).records()
    if not records:
        return
    whole, head = folded(records)
    rows, own = Overlay(Empty()), Head("a log", 0, 1)
    for start, stop in pairwise(data.draw(_splits(len(records)))):
        again = data.draw(st.integers(0, start))
        own = fold(Batch(records[again:stop], stop), rows, own, CODEC)
    assert own == head
    assert rows.writes == whole.writes


@examples(100)
@given(given_steps=histories())
def test_what_counts_agrees_with_the_reference(given_steps: list[Step]) -> None:
    """Each record counts, is a duplicate, a conflict, or is refused; the head's counts say so."""
    history = built(given_steps)
    rows, head = folded(history.records())
    fates = history.reference().fates
    codes = {one.position.offset: one.code for one in Reads(rows, 0, CODEC).quarantined()}
    refused = {offset for offset, fate in fates.items() if fate in ("refused", "conflict")}
    assert set(codes) == refused
    assert {offset for offset, code in codes.items() if code == "conflict"} == {
        offset for offset, fate in fates.items() if fate == "conflict"
    }
    counts = list(fates.values()).count
    assert (head.applied, head.duplicates, head.quarantined) == (counts("counts"), counts("duplicate"), len(refused))


@examples(60)
@given(given_steps=histories(max_size=10), gaps=st.lists(st.integers(0, 5_000), min_size=10, max_size=10))
def test_gaps_between_offsets_change_no_digest(given_steps: list[Step], gaps: list[int]) -> None:
    """Offsets of markers and aborted transactions hold no record; what is left says the same."""
    history = built(given_steps)
    records = history.records()
    moved, offset = [], 0
    for record, gap in zip(records, gaps, strict=False):
        offset += gap
        moved.append(record._replace(offset=offset))
        offset += 1
    rows, head = Overlay(Empty()), Head("a log", 0, 1)
    head = fold(Batch(moved, offset + 7), rows, head, CODEC)
    assert head.next_offset == offset + 7
    assert digests(rows) == digests(folded(records)[0])


@examples(80)
@given(given_steps=histories(), data=st.data())
def test_a_copy_has_the_same_digest(given_steps: list[Step], data: st.DataObject) -> None:
    """Records carried to another log, at other offsets and times, with and without those that do not count, even when
    the copy began again in the middle."""
    history = built(given_steps)
    records = history.records()
    rows, _ = folded(records)
    refused = {one.position.offset: one for one in Reads(rows, 0, CODEC).quarantined()}
    times = {entry.offset: entry.time for entry in history.reference().entries}
    messages = []
    for record in records:
        if record.offset in refused:
            one = refused[record.offset]
            messages.append(copied(record, record.append_time, f"{one.code}: {one.reason}"))
        elif record.offset in times:
            messages.append(copied(record, times[record.offset], None))
    again = data.draw(st.integers(0, len(messages)))
    carried = [*messages[:again], *messages]
    target = [
        Record(0, 3 + number, BASE + 500 * STEP + number, key, value, headers)
        for number, (key, value, headers) in enumerate(carried)
    ]
    copy, _ = folded(target)
    assert digests(copy) == digests(rows)
    kept = [one.code for one in Reads(copy, 0, CODEC).quarantined()]
    assert len(kept) >= len(refused)
    assert set(kept) == {one.code for one in refused.values()}


_GARBAGE = ("no value", "empty value", "no key", "wrong key", "random", "truncated", "trailing", "unknown fingerprint")


def _garbage(kind: str, good: Record, noise: bytes) -> tuple[bytes | None, bytes | None]:
    value = good.value or b""
    match kind:
        case "no value":
            return good.key, None
        case "empty value":
            return good.key, b""
        case "no key":
            return None, value
        case "wrong key":
            return b"acme/other", value
        case "truncated":
            return good.key, value[: len(value) // 2]
        case "trailing":
            return good.key, value + b"\x00" + noise
        case "unknown fingerprint":
            return good.key, value[:2] + bytes(8) + value[10:]
        case _:
            return good.key, b"\x7f" + noise


@examples(120)
@given(
    given_steps=histories(max_size=10),
    noise=st.lists(st.tuples(st.integers(0, 10), st.sampled_from(_GARBAGE), st.binary(max_size=40)), max_size=6),
)
def test_garbage_is_quarantined_and_changes_nothing(
    given_steps: list[Step], noise: list[tuple[int, str, bytes]]
) -> None:
    """Between the records of a history, bytes that are no event leave the space's digest as it is."""
    history = built(given_steps)
    clean = history.records()
    if not clean:
        return
    mixed: list[Record] = []
    dirty = set()
    for place, record in enumerate(clean):
        for where, kind, content in noise:
            if where % len(clean) == place:
                key, value = _garbage(kind, record, content)
                dirty.add(len(mixed))
                mixed.append(Record(0, len(mixed), record.append_time + 9 * STEP, key, value, ()))
        mixed.append(record._replace(offset=len(mixed)))
    clean_rows, clean_head = folded(clean)
    rows, head = folded(mixed)
    assert digests(rows) == digests(clean_rows)
    assert (head.applied, head.duplicates) == (clean_head.applied, clean_head.duplicates)
    found = {one.position.offset: one.reason for one in Reads(rows, 0, CODEC).quarantined()}
    assert dirty <= set(found)
    assert len(found) == clean_head.quarantined + len(dirty)
    assert all(found.values())


@examples(40)
@given(given_steps=histories(max_size=6), partitions=st.integers(2, 5))
def test_a_foreign_partition_is_quarantined(given_steps: list[Step], partitions: int) -> None:
    """In every partition but one a space's records are refused for being there; in that one they count as ever."""
    records = built(given_steps).records()
    if not records:
        return
    wanted = digests(folded(records)[0])
    at_home = 0
    for partition in range(partitions):
        rows = Overlay(Empty())
        batch = Batch([record._replace(partition=partition) for record in records], len(records))
        fold(batch, rows, Head("a log", partition, partitions), CODEC)
        codes = [one.code for one in Reads(rows, partition, CODEC).quarantined()]
        if codes == ["wrong_partition"] * len(records):
            assert digests(rows) == {}
        else:
            assert digests(rows) == wanted
            at_home += 1
    assert at_home == 1


@examples(100)
@given(given_steps=histories(max_size=8), data=st.data())
def test_another_history_has_another_digest(given_steps: list[Step], data: st.DataObject) -> None:
    """Leaving out one event that counts, or changing one byte of what it says, changes the digest."""
    history = built(given_steps)
    records = history.records()
    fates = history.reference().fates
    counting = [offset for offset, fate in fates.items() if fate == "counts"]
    if not counting:
        return
    whole = digests(folded(records)[0])
    gone = data.draw(st.sampled_from(counting))
    doubles = [record for record in records if record.value == records[gone].value]
    if len(doubles) == 1:
        assert digests(folded([record for record in records if record.offset != gone])[0]) != whole
    later = [record._replace(append_time=record.append_time + 1) for record in records]
    assert digests(folded(later)[0]) != whole


@examples(60)
@given(given_steps=histories(max_size=8), other_steps=histories(max_size=8), data=st.data())
def test_spaces_do_not_touch_each_other(given_steps: list[Step], other_steps: list[Step], data: st.DataObject) -> None:
    """Two spaces interleaved on one partition, even with the same event ids, are what each is alone."""
    own, other = built(given_steps), built(other_steps, space=SPACE + "-2")
    order = data.draw(st.permutations([0] * len(own.events) + [1] * len(other.events)))
    queues = [iter(own.records()), iter(other.records())]
    mixed = [next(queues[which])._replace(offset=offset) for offset, which in enumerate(order)]
    together = digests(folded(mixed)[0])
    assert together == digests(folded(own.records())[0]) | digests(folded(other.records())[0])


@examples(12)
@given(given_steps=histories(), data=st.data())
def test_live_rebuilt_and_at_once_are_the_same(given_steps: list[Step], data: st.DataObject) -> None:
    """Real tables: folded live with reads between, rebuilt, folded in one go and in memory have one digest."""
    records = built(given_steps).records()
    with tempfile.TemporaryDirectory() as folder:
        log = SqliteLog(Path(folder), clock=now_micros)
        with Memory.open(folder, actor="agent:a") as memory:
            for start, stop in pairwise(data.draw(_splits(len(records)))):
                log.append([Message(record.key or b"", record.value or b"", ()) for record in records[start:stop]])
                memory.get(SPACE, ENTITIES[0], SLOTS[0])
            live = memory.digest()
            memory.rebuild()
            assert memory.digest() == live
        with Memory.open(folder, hold=False) as reader:
            assert reader.digest() == live
        kept = [record for batch in log.read(0, 0) for record in batch.records]
        log.close()
    assert digests(folded(kept)[0]) == live[1]


@examples(12)
@given(given_steps=histories(max_size=10), data=st.data())
def test_real_tables_answer_as_the_reference(given_steps: list[Step], data: st.DataObject) -> None:
    """The reads of the property tests above, from RocksDB, flushed and reopened at some point."""
    history = built(given_steps)
    records = history.records()
    clock = iter([record.append_time for record in records])
    with tempfile.TemporaryDirectory() as folder:
        log = SqliteLog(Path(folder), clock=lambda: next(clock))
        reopen_at = data.draw(st.integers(0, len(records)))
        memory = Memory.open(folder)
        for number, record in enumerate(records):
            log.append([Message(record.key or b"", record.value or b"", ())])
            if number == reopen_at:
                memory.get(SPACE, ENTITIES[0], SLOTS[0])
                memory.close()
                memory = Memory.open(folder)
        oracle = reference.Space()
        for kept in log.read(0, 0):
            for record in kept.records:  # with the log's own append times, which rise over refused records too
                oracle.append(record.offset, record.append_time, CODEC.decode(record.value or b""))
        with memory:
            for offset in range(len(records)):
                lens = Lens(offset, BASE + 3 * STEP)
                check_slot(FromMemory(memory), SPACE, oracle, lens, ENTITIES[0], SLOTS[0])
        log.close()


def test_the_same_id_with_a_near_twin_is_a_conflict() -> None:
    """1, 1.0 and true are three values: one id with two of them is no duplicate."""
    common = {"event_id": bytes(16), "space": SPACE, "actor": "agent:a", "recorded_at": BASE}
    facts = [ev.FactAsserted(**common, entity="e", slot="s", value=value) for value in (1, 1.0, True)]
    records = [Record(0, offset, BASE, SPACE.encode(), CODEC.encode(fact), ()) for offset, fact in enumerate(facts)]
    rows, head = folded(records)
    assert (head.applied, head.duplicates, head.quarantined) == (1, 0, 2)
    assert [one.code for one in Reads(rows, 0, CODEC).quarantined()] == ["conflict"] * 2
