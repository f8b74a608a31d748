"""verify: a log or tables edited by hand are found, and the place is named."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from quick_folder import quick_folder
from rocksdict import Options, Rdict

from schemas.codec import Codec
from schemas.errors import LogTruncated
from streams import Memory, Position, integrity, keys
from streams.clock import now_micros
from streams.envelope import message
from streams.fold import CHECKPOINT_OFFSETS, fold
from streams.integrity import Problem, verify_log
from streams.overlay import Empty, Overlay
from streams.ports import Batch, Message, Record
from streams.rows import Head, SpaceRow, decode, encode
from streams.sqlite_log import SqliteLog

SPACE, OTHER = "acme/support", "globex"
ALICE = "user:alice"
EVENTS = 12


@pytest.fixture
def folder() -> Iterator[Path]:
    """A store of twelve events in two spaces, and a record that does not count at offset 12; nobody has it open."""
    with quick_folder() as made:
        with Memory.open(made, actor="agent:planner") as memory:
            for number in range(EVENTS):
                memory.remember((SPACE, OTHER)[number % 3 == 2], ALICE, "n", number)
            memory._log.append([Message(SPACE.encode(), b"junk")])
            assert memory.verify() == []
        yield made


def edit(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "log.sqlite")
    connection.create_function("flipped", 1, lambda value: value[:-1] + bytes([value[-1] ^ 1]))
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def problems(folder: Path) -> list[Problem]:
    with Memory.open(folder, create=False) as memory:
        return memory.verify()


_NOT_FOLDED = "the record is not the one that was folded here"
_STRETCH = "between offsets 0 and 12 a record is missing, or its key, time or headers were changed"
_COPY = 'INSERT INTO log SELECT {0}, append_time, key, value, headers FROM log WHERE "offset" = {1}'
_DELETE = 'DELETE FROM log WHERE "offset" = {0}'


def _set(what: str, offset: int) -> list[str]:
    return [f'UPDATE log SET {what} WHERE "offset" = {offset}']


def _move(offset: int, to: int) -> str:
    return f'UPDATE log SET "offset" = {to} WHERE "offset" = {offset}'


def _swap(one: int, other: int) -> list[str]:
    return [_move(one, -1), _move(other, one), _move(-1, other)]


def _insert_at_4() -> list[str]:
    """A copy of what is at 9, with a place made for it."""
    shift = ['"offset" = -"offset" - 1 WHERE "offset" >= 4', '"offset" = -"offset" WHERE "offset" < 0']
    return [f"UPDATE log SET {one}" for one in shift] + [_COPY.format(4, 9)]


LOG_EDITS: dict[str, tuple[list[str], Position | None, str]] = {
    "a value": (_set('value = (SELECT value FROM log WHERE "offset" = 7)', 4), Position(0, 4), _NOT_FOLDED),
    "a byte of a value": (
        _set("value = flipped(value)", 4),
        Position(0, 4),
        _NOT_FOLDED,
    ),
    "a value that is none any more": (_set("value = x'c301'", 4), Position(0, 4), _NOT_FOLDED),
    "a value removed": (_set("value = NULL", 4), Position(0, 4), _NOT_FOLDED),
    "a key": (_set("key = CAST('globex' AS BLOB)", 4), Position(0, 4), _NOT_FOLDED),
    "a time": (_set("append_time = append_time - 1", 4), Position(0, 0), _STRETCH),
    "headers": (_set("headers = NULL", 4), Position(0, 0), _STRETCH),
    "headers that are none": (_set("headers = x'c1'", 4), None, "headers in .*log.sqlite can't be read"),
    "what did not count": (_set("value = CAST('other junk' AS BLOB)", 12), Position(0, 0), _STRETCH),
    "a row deleted": ([_DELETE.format(4)], None, "offset 4 is missing in "),
    "the first deleted": ([_DELETE.format(0)], None, "offset 0 was asked for; the log in .* begins at 1"),
    "two swapped": (_swap(3, 7), Position(0, 3), _NOT_FOLDED),
    "two of two spaces swapped": (_swap(2, 3), Position(0, 2), _NOT_FOLDED),
    "one inserted": (_insert_at_4(), Position(0, 4), _NOT_FOLDED),
    "one inserted, the last cut": ([_DELETE.format(12), *_insert_at_4()], Position(0, 4), _NOT_FOLDED),
    "the last replaced": ([_DELETE.format(12), _COPY.format(12, 11)], Position(0, 0), _STRETCH),
}


@pytest.mark.parametrize(("statements", "position", "what"), LOG_EDITS.values(), ids=LOG_EDITS.keys())
def test_an_edit_of_the_log_is_found_and_located(
    folder: Path, statements: list[str], position: Position | None, what: str
) -> None:
    edit(folder, *statements)
    [found] = problems(folder)
    assert (found.position, found.in_tables) == (position, False)
    assert re.search(what, found.what), found.what
    assert problems(folder) == [found], "looking changes nothing"


@pytest.mark.parametrize("value", ["'text'", "x'ff' || 'text'", "7"])
def test_a_value_of_another_type_is_damage(folder: Path, value: str) -> None:
    """SQLite keeps what it is given: text or a number in a column that is for bytes."""
    edit(folder, *_set(f"value = {value}", 4))
    [found] = problems(folder)
    assert not found.in_tables
    assert "4" in f"{found.position} {found.what}"


def test_a_cut_at_the_end_is_refused_before_anything_else(folder: Path) -> None:
    """The tables know more than the log holds, so nothing is answered at all."""
    edit(folder, 'DELETE FROM log WHERE "offset" >= 11')
    with pytest.raises(LogTruncated, match="ends at offset 11, and the tables have read up to 13") as caught:
        problems(folder)
    assert "restore the log from its archive" in str(caught.value.hint)


def test_nothing_can_be_found_once_the_tables_are_gone(folder: Path) -> None:
    """They are what the log is compared with; a store that was only edited and folded anew has nothing to say."""
    edit(folder, LOG_EDITS["a value"][0][0])
    with Memory.open(folder) as memory:
        memory.rebuild()
        assert memory.verify() == []


def test_damage_is_found_between_two_checkpoints() -> None:
    """In a log of 3,000 records, at either side of a checkpoint, with an edit that only the chain can see."""
    codec, log = Codec(), _LogInMemory(3_000)
    rows, head = Overlay(Empty()), Head(log.identity, 0, 1)
    for batch in log.read(0, 0):
        head = fold(batch, rows, head, codec)
    assert verify_log(log, head, rows, codec) is None  # type: ignore[arg-type]
    kept_headers = log.records[1_500].headers
    for offset in (0, 1023, 1024, 2047, 2048, 2999):
        record = log.records[offset]
        log.records[offset] = record._replace(headers=())
        found = verify_log(log, head, rows, codec)  # type: ignore[arg-type]
        first = offset // CHECKPOINT_OFFSETS * CHECKPOINT_OFFSETS
        last = min(first + CHECKPOINT_OFFSETS, 3_000) - 1
        assert found is not None
        assert found.position == Position(0, first)
        assert found.what.startswith(f"between offsets {first} and {last} a record is missing")
        log.records[offset] = record
    kept = rows.writes.pop(keys.checkpoint(1024))
    log.records[1_500] = log.records[1_500]._replace(headers=())
    found = verify_log(log, head, rows, codec)  # type: ignore[arg-type]
    assert found is not None
    assert found.what.startswith("between offsets 0 and 2047 "), "as near as there is a checkpoint"
    log.records[1_500] = log.records[1_500]._replace(headers=kept_headers)
    rows.put(keys.checkpoint(1024), bytes(len(kept)))
    assert verify_log(log, head, rows, codec) is None, "the tables' fault, not the log's"  # type: ignore[arg-type]


def test_offsets_without_a_record_are_no_damage() -> None:
    """Markers of a transaction lie over a checkpoint, and the batch that was folded ended in them."""
    codec, log = Codec(), _LogInMemory(1_020)
    gap = [record._replace(offset=record.offset + 1_031) for record in _LogInMemory(10).records]
    rows, head = Overlay(Empty()), Head(log.identity, 0, 1)
    head = fold(Batch(log.records, 1_031), rows, head, codec)
    head = fold(Batch(gap, 1_041), rows, head, codec)
    log.records += gap
    assert verify_log(log, head, rows, codec) is None  # type: ignore[arg-type]
    again = Overlay(Empty())
    fold(Batch(log.records, 1_041), again, Head(log.identity, 0, 1), codec)
    assert integrity.verify_tables(rows, again) == []
    log.records[-1] = log.records[-1]._replace(headers=())
    found = verify_log(log, head, rows, codec)  # type: ignore[arg-type]
    assert found is not None
    assert found.what.startswith("between offsets 1031 and 1040 "), "the first record past 1,024 has a checkpoint"


class _LogInMemory:
    """Just enough of a Log to be read."""

    identity = "in memory"
    _made: ClassVar[dict[int, list[Record]]] = {}

    def __init__(self, count: int) -> None:
        if count not in self._made:
            with quick_folder() as folder, Memory.open(folder, actor="a") as memory:
                fact = {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "n"}
                memory.append([fact | {"value": number} for number in range(count)])
                self._made[count] = [record for batch in memory._log.read(0, 0) for record in batch.records]
        self.records = list(self._made[count])

    def read(self, partition: int, start: int, end: int | None = None) -> Iterator[Batch]:
        for first in range(0, len(self.records), 700):
            page = self.records[first : first + 700]
            yield Batch(page, page[-1].offset + 1)


# -- tables altered by hand


def alter(folder: Path, change: Callable[[Rdict], None]) -> None:
    database = Rdict(str(folder / "tables" / "p0"), Options(raw_mode=True))
    change(database)
    database.flush()
    database.close()


def first_key(database: Rdict, family: bytes) -> bytes:
    return next(key for key in database.keys() if key[:1] == family)  # type: ignore[union-attr, misc]  # noqa: SIM118


def _alter_family(family: bytes) -> Callable[[Rdict], None]:
    def change(database: Rdict) -> None:
        key = first_key(database, family)
        database[key] = database[key] + b"\x00" if family != b"R" else b"x"

    return change


def _delete_family(family: bytes) -> Callable[[Rdict], None]:
    return lambda database: database.delete(first_key(database, family))


def _alter_count(database: Rdict) -> None:
    row = decode(SpaceRow, database[keys.space(SPACE)])
    row.events += 1
    database[keys.space(SPACE)] = encode(row)


def _put(key: bytes, row: bytes) -> Callable[[Rdict], None]:
    def change(database: Rdict) -> None:
        database[key] = row

    return change


_SPACE_DIFFERS = f"the tables of space '{SPACE}' are not what the log says"
TABLE_EDITS: dict[str, tuple[Callable[[Rdict], None], str]] = {
    "a count": (_alter_count, _SPACE_DIFFERS),
    "an event deleted": (_delete_family(b"E"), _SPACE_DIFFERS),
    "an id deleted": (_delete_family(b"I"), _SPACE_DIFFERS),
    "a claim deleted": (_delete_family(b"F"), _SPACE_DIFFERS),
    "a slot deleted": (_delete_family(b"L"), _SPACE_DIFFERS),
    "an id added": (_put(keys.event_id(SPACE, bytes(16)), encode(3)), _SPACE_DIFFERS),
    "an id of nowhere added": (_put(keys.event_id(SPACE, bytes(16)), encode(99)), _SPACE_DIFFERS),
    "a session added": (_put(keys.session(SPACE, "s"), encode([1, 1, 1])), _SPACE_DIFFERS),
    "a rule added": (_put(keys.rule(SPACE, 3), b""), _SPACE_DIFFERS),
    "a row that is none": (_put(keys.slot(keys.slot_part(SPACE, ALICE, "n")), b"\xc1"), _SPACE_DIFFERS),
    "another space's row": (
        _put(keys.session("initech", "s"), encode([1, 1, 1])),
        "the tables of space 'initech' are not what the log says",
    ),
    "the quarantine emptied": (_delete_family(b"Q"), "the quarantine's rows are not what the log says"),
    "a checkpoint deleted": (_delete_family(b"C"), "the hash chain's checkpoints are not what the log says"),
    "a checkpoint": (_put(keys.checkpoint(0), bytes(32)[:31] + b"x"), "the hash chain's checkpoints are not what"),
    "a strange key": (_put(b"X", b""), "rows under keys that are none of ours are not what the log says"),
    "half a key": (_put(b"Eacme", b""), "rows under keys that are none of ours are not what the log says"),
}


@pytest.mark.parametrize(("change", "what"), TABLE_EDITS.values(), ids=TABLE_EDITS.keys())
def test_tables_altered_by_hand_are_found_and_a_rebuild_mends_them(
    folder: Path, change: Callable[[Rdict], None], what: str
) -> None:
    with Memory.open(folder) as memory:
        wanted = memory.digest()
    alter(folder, change)
    [found] = problems(folder)
    assert (found.position, found.in_tables) == (None, True)
    assert found.what.startswith(what)
    with Memory.open(folder) as memory:
        memory.rebuild()
        assert memory.verify() == []
        assert memory.digest() == wanted


def test_several_spaces_are_each_named(folder: Path) -> None:
    for space in (SPACE, OTHER):
        alter(folder, _put(keys.session(space, "s"), encode([1, 1, 1])))
    alter(folder, _delete_family(b"Q"))
    assert [found.what for found in problems(folder)] == [
        f"the tables of space '{SPACE}' are not what the log says",
        f"the tables of space '{OTHER}' are not what the log says",
        "the quarantine's rows are not what the log says",
    ]


def test_verify_beside_a_writer_takes_no_new_event_for_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that come in while it looks are not looked at."""
    log = SqliteLog(folder, clock=now_micros)
    with Memory.open(folder) as memory:
        [batch] = log.read(0, 0, 1)
        event = Codec().decode(batch.records[0].value or b"")
        verify_first = integrity.verify_log
        appended = []

        def and_append(*arguments: Any) -> Problem | None:
            found = verify_first(*arguments)
            appended.extend(log.append([message(msgspec.structs.replace(event, event_id=bytes(16)), Codec())]))
            return found

        monkeypatch.setattr(integrity, "verify_log", and_append)
        assert memory.verify() == []
        assert appended
        assert list(memory.tables_folder.glob("verify-*")) == []
    log.close()


@pytest.mark.parametrize("hold", [True, False])
def test_verify_of_a_store_without_tables(hold: bool, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "new", hold=hold) as memory:
        assert memory.verify() == []
        memory.remember(SPACE, ALICE, "n", 1)
        assert memory.verify() == []


def test_verify_on_kafka(broker: Any, topic: Callable[..., str], tmp_path: Path) -> None:
    name = f"kafka://{broker.bootstrap}/{topic(partitions=3)}?state={tmp_path}"
    with Memory.open(name, actor="a") as memory:
        for space in ("a", "b", "c", "d"):
            memory.remember(space, ALICE, "n", 1)
        assert memory.verify() == []
        partition = memory._log.partition_of(b"a")
    database = Rdict(str(tmp_path / f"p{partition}"), Options(raw_mode=True))
    database[keys.session("a", "s")] = encode([1, 1, 1])
    database.flush()
    database.close()
    with Memory.open(name, actor="a") as memory:
        assert [found.what for found in memory.verify()] == ["the tables of space 'a' are not what the log says"]
