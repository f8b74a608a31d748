"""doctor: whatever is wrong with a store is named; what is derived is mended; the log is never touched."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from quick_folder import quick_folder
from rocksdict import Options, Rdict

from streams import Memory, keys
from streams.doctor import Check, doctor
from streams.file_lock import FileLock
from streams.ports import Message
from streams.rows import FORMAT, encode

SPACE, ALICE = "acme/support", "user:alice"
ORDER = [
    "store opens",
    "storage of the log",
    "leftovers",
    "tables open",
    "log is what was folded",
    "tables are what the log says",
    "quarantine",
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A store of three hundred events whose tables are flushed; nobody has it open."""
    with quick_folder() as made:
        store = made / "store"
        with Memory.open(store, actor="agent:planner") as memory:
            fact = {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "n", "session": "run-1"}
            memory.append([fact | {"value": f"value {number}"} for number in range(300)])
            memory.info()
        yield store


def told(checks: list[Check]) -> dict[str, str]:
    """What is not well."""
    return {one.name: one.outcome for one in checks if one.outcome != "well"}


def look(store: Path, *, repair: bool = True) -> tuple[dict[str, str], str]:
    """(what is not well, all details); the log's bytes are the same before and after, whatever was done."""
    before = _log_bytes(store)
    checks = list(doctor(store, repair=repair, busy_timeout_s=1.0))
    assert [one.name for one in checks] == ORDER[: len(checks)]
    assert _log_bytes(store) == before, "the log was touched"
    return told(checks), "\n".join(f"{one.name}: {one.detail}" for one in checks)


def _log_bytes(store: Path) -> bytes:
    """Of the file, without what an empty -wal beside it might hold: nobody has the store open."""
    path = store / "log.sqlite"
    return path.read_bytes() if path.exists() else b""


def alter(store: Path, key: bytes, row: bytes) -> None:
    database = Rdict(str(store / "tables" / "p0"), Options(raw_mode=True))
    database[key] = row
    database.flush()
    database.close()


def edit(store: Path, statement: str) -> None:
    connection = sqlite3.connect(store / "log.sqlite")
    connection.execute(statement)
    connection.commit()
    connection.close()


def digest(store: Path) -> str:
    with Memory.open(store, create=False) as memory:
        return memory.digest()[0]


def test_a_store_in_good_order(folder: Path) -> None:
    assert [one.outcome for one in doctor(folder)] == ["well"] * len(ORDER)
    assert look(folder)[0] == {}
    assert [one.name for one in doctor(folder)] == ORDER


def test_a_store_that_does_not_exist(tmp_path: Path) -> None:
    [check] = doctor(tmp_path / "none")
    assert (check.name, check.outcome) == ("store opens", "wrong")
    assert check.detail.startswith(f"there is no log in {tmp_path / 'none'} (check the folder")
    assert not (tmp_path / "none").exists(), "looking makes nothing"
    [check] = doctor("ftp://nowhere")
    assert (check.outcome, check.detail) == (
        "wrong",
        "'ftp://nowhere' is no store (a folder, or kafka://HOST:PORT/TOPIC)",
    )


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "log.sqlite").write_bytes(b"not a database, but long enough to look at" * 100)
    [check] = doctor(tmp_path)
    assert check.outcome == "wrong"
    assert "log.sqlite can't be used: file is not a database" in check.detail


def test_altered_tables_are_mended_by_a_rebuild_or_named(folder: Path) -> None:
    wanted = digest(folder)
    alter(folder, keys.session(SPACE, "never"), encode([1, 1, 1]))
    name = "tables are what the log says"
    for _ in range(2):
        found, detail = look(folder, repair=False)
        assert found == {name: "wrong"}
        assert f"the tables of space '{SPACE}' are not what the log says" in detail
    found, detail = look(folder)
    assert found == {name: "mended"}
    assert "are not what the log says; folded again" in detail
    assert look(folder)[0] == {}
    assert digest(folder) == wanted


@pytest.mark.parametrize("key", ["space", "slot", "event", "claim", "head"])
def test_an_unreadable_row_is_mended(folder: Path, key: str) -> None:
    wanted = digest(folder)
    part = keys.slot_part(SPACE, ALICE, "n")
    with Memory.open(folder) as memory:
        rows = memory._follower(SPACE)
        memory.info()
        first = next(iter(rows.rows.scan(*keys.claims_of(part))))[0]
    at = {"space": keys.space(SPACE), "slot": keys.slot(part), "event": keys.event(SPACE, 7), "claim": first}
    alter(folder, at.get(key, keys.HEAD), bytes([FORMAT]) + b"\xc1\xc1")
    assert "wrong" in look(folder, repair=False)[0].values()
    found, detail = look(folder)
    assert set(found.values()) == {"mended"}, detail
    assert look(folder)[0] == {}
    assert digest(folder) == wanted


def test_deleted_tables_are_folded_again(folder: Path) -> None:
    wanted = digest(folder)
    shutil.rmtree(folder / "tables")
    assert look(folder)[0] == {}
    assert digest(folder) == wanted


@pytest.mark.parametrize("damage", ["cut", "overwritten", "removed"])
@pytest.mark.parametrize("what", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_damaged_files_of_the_tables(folder: Path, what: str, damage: str) -> None:
    """RocksDB finds it when it opens them or when it reads the block; either way it is named, and mended."""
    wanted = digest(folder)
    for path in (folder / "tables" / "p0").glob(what):
        data = path.read_bytes()
        if damage == "removed":
            path.unlink()
        else:
            path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"\xa5" * len(data))
    before, _ = look(folder, repair=False)
    assert "wrong" in before.values() or (what, damage) == ("CURRENT", "removed")
    found, detail = look(folder)
    assert set(found.values()) <= {"mended"}, detail
    assert look(folder)[0] == {}
    assert digest(folder) == wanted


def test_a_damaged_block_in_the_middle(folder: Path) -> None:
    wanted = digest(folder)
    for path in (folder / "tables" / "p0").glob("*.sst"):
        data = bytearray(path.read_bytes())
        for number in range(200, min(len(data) // 2, 4_000)):
            data[number] ^= 0xA5
        path.write_bytes(data)
    found, detail = look(folder)
    assert set(found.values()) == {"mended"}, detail
    assert look(folder)[0] == {}
    assert digest(folder) == wanted


def test_leftovers_are_removed(folder: Path) -> None:
    tables = folder / "tables"
    for name in ("p0.fresh", "p0.old", "verify-x1"):
        (tables / name).mkdir()
        (tables / name / "000012.sst").write_bytes(b"x")
    found, detail = look(folder, repair=False)
    assert found == {"leftovers": "noticed"}
    assert "p0.fresh, p0.old, verify-x1" in detail
    assert (tables / "verify-x1").exists()
    assert look(folder)[0] == {"leftovers": "mended"}
    assert sorted(path.name for path in tables.iterdir() if path.is_dir()) == ["p0"]
    assert look(folder)[0] == {}


def test_what_another_process_is_about_is_no_leftover(folder: Path) -> None:
    """A rebuild and a verification that are going on hold a lock; their folders stay."""
    tables = folder / "tables"
    (tables / "p0.fresh").mkdir()
    (tables / "verify-x1").mkdir()
    locks = [FileLock(tables / "p0.lock"), FileLock(tables / "verify-x1" / "lock")]
    for lock in locks:
        lock.acquire(0.0)
    found, detail = look(folder)
    assert found["leftovers"] == "noticed"
    assert f"p0.lock is held by process {os.getpid()}" in detail
    assert (tables / "p0.fresh").exists()
    assert (tables / "verify-x1").exists()
    for lock in locks:
        lock.close()
    assert look(folder)[0] == {"leftovers": "mended"}


def test_altered_tables_that_another_process_holds_are_named(folder: Path) -> None:
    alter(folder, keys.session(SPACE, "never"), encode([1, 1, 1]))
    with Memory.open(folder) as holder:
        holder.info()
        found, detail = look(folder)
        assert found == {"tables are what the log says": "wrong"}
        assert "folded again, which failed: " in detail
        assert f"p0.lock is held by process {os.getpid()}" in detail


def test_an_edited_log_is_named_and_never_mended(folder: Path) -> None:
    edit(folder, 'UPDATE log SET value = (SELECT value FROM log WHERE "offset" = 7) WHERE "offset" = 4')
    for _ in range(2):
        found, detail = look(folder)
        assert found == {"log is what was folded": "wrong"}
        assert "0:4: the record is not the one that was folded here" in detail


@pytest.mark.parametrize(
    ("statement", "name", "what"),
    [
        (
            'DELETE FROM log WHERE "offset" = 299',
            "tables open",
            "ends at offset 299, and the tables have read up to 300",
        ),
        ('DELETE FROM log WHERE "offset" = 4', "log is what was folded", "offset 4 is missing in "),
        ('DELETE FROM log WHERE "offset" < 4', "log is what was folded", "begins at 4"),
        ("UPDATE meta SET value = 'other'", "tables open", "were made from log "),
        ("DELETE FROM meta", "store opens", "log.sqlite has lost its identity"),
        ("PRAGMA user_version = 9", "store opens", "has format 9; this slotlog knows up to 1 (upgrade slotlog)"),
    ],
)
def test_what_was_done_to_the_log(folder: Path, statement: str, name: str, what: str) -> None:
    edit(folder, statement)
    found, detail = look(folder)
    assert found == {name: "wrong"}
    assert what in detail


def test_damaged_pages_of_the_log_are_named(folder: Path) -> None:
    """The file is damaged where its rows are. No repair: that is what a copy or an archive is for."""
    path = folder / "log.sqlite"
    data = bytearray(path.read_bytes())
    for number in range(len(data) // 2, len(data) // 2 + 9_000):
        data[number] ^= 0xA5
    path.write_bytes(data)
    found, detail = look(folder)
    assert found["storage of the log"] == "wrong"
    assert "mended" not in found.values(), detail
    assert found.get("log is what was folded", found.get("tables open")) == "wrong", detail


def test_tables_of_another_store(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with Memory.open(other) as memory:
        memory.remember(SPACE, ALICE, "n", 1)
    shutil.copytree(folder / "tables", other / "tables", dirs_exist_ok=True)
    found, detail = look(other)
    assert found == {"tables open": "wrong"}
    assert f"the tables in {other / 'tables' / 'p0'} were made from log " in detail
    assert "this is another store's folder; delete it to fold this" in detail
    shutil.rmtree(other / "tables")
    assert look(other)[0] == {}


def test_tables_of_a_newer_and_of_an_older_format(folder: Path) -> None:
    wanted = digest(folder)
    with Memory.open(folder) as memory:
        memory.info()
        head = memory._followers[0].rows.get(keys.HEAD)
    assert head is not None
    alter(folder, keys.HEAD, bytes([FORMAT + 1]) + head[1:])
    found, detail = look(folder)
    assert found == {"tables open": "wrong"}
    assert (
        f"the tables have format {FORMAT + 1}, and this slotlog knows formats up to {FORMAT} (upgrade slotlog)"
        in detail
    )
    alter(folder, keys.HEAD, bytes([FORMAT - 1]) + b"as it was then")
    alter(folder, keys.session(SPACE, "never"), b"a row of that format")
    assert look(folder)[0] == {}, "it is folded again as it is opened"
    assert digest(folder) == wanted


def test_a_folder_that_others_may_read(folder: Path) -> None:
    folder.chmod(0o755)
    found, detail = look(folder)
    assert set(found) == {"storage of the log"}
    assert f"{folder} is open to other users; chmod 700 closes it" in detail
    folder.chmod(0o700)
    assert look(folder)[0] == {}


def test_records_that_do_not_count_are_noticed(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory._log.append([Message(SPACE.encode(), b"junk")])
    found, detail = look(folder)
    assert found == {"quarantine": "noticed"}
    assert "records that do not count: 1; slotlog quarantine lists them" in detail
