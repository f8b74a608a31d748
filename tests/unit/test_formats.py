"""The bytes of the tables, as they are on people's disks: every key family and every row, against stored ones.

Run this file by itself to write `golden/tables-N.json` for a new FORMAT: `python tests/unit/test_formats.py`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from schemas.errors import FormatTooNew, StoreDamaged
from streams import keys, rows
from streams.fold import CHECKPOINT_OFFSETS, chained
from streams.ports import Record
from streams.rows import (
    BranchRow,
    ClaimRow,
    CommitRow,
    EventRow,
    Head,
    Mark,
    PinRow,
    QuarantineRow,
    Row,
    SessionRow,
    SlotRow,
    SpaceRow,
    Step,
    TombstoneRow,
    decode,
    decode_head,
    decode_offset,
    encode,
    encode_head,
)
from streams.values import digest_of

GOLDEN = Path(__file__).parent / "golden" / f"tables-{rows.FORMAT}.json"
SPACE, ENTITY, SLOT = "acme/日本", "user:alice", "a\x00b"
ID = bytes(range(16))
SHA = bytes(range(32))
PART = keys.slot_part(SPACE, ENTITY, SLOT)

KEYS: dict[str, bytes] = {
    "M head": keys.HEAD,
    "P space": keys.space(SPACE),
    "E event": keys.event(SPACE, 258),
    "I event id": keys.event_id(SPACE, ID),
    "F claim": keys.claim(PART, -1, 258),
    "F claim of long ago": keys.claim(PART, -(2**62), 0),
    "L slot": keys.slot(PART),
    "N session": keys.session(SPACE, "run-7"),
    "S event of a session": keys.session_event(SPACE, "run-7", 258),
    "R rule": keys.rule(SPACE, 258),
    "Z tombstone": keys.tombstone(PART, SHA, 258),
    "B branch": keys.branch(SPACE, "idea/deep"),
    "G commit": keys.commit(SPACE, "ab" * 20, 258),
    "W rewritten commit": keys.rewritten(SPACE, "ab" * 20, 258),
    "K pins": keys.pin(SPACE, "ab" * 20),
    "T branch event": keys.branch_event(SPACE, "idea", 258),
    "J pinned event": keys.pinned_event(SPACE, "ab" * 20, 258),
    "Q quarantined": keys.quarantined(258),
    "C checkpoint": keys.checkpoint(1024),
}

HEAD = Head(
    log_identity="0f" * 16,
    partition=2,
    partitions=3,
    next_offset=258,
    last_offset=257,
    chain=SHA,
    applied=200,
    duplicates=7,
    quarantined=51,
)
_MARK = Mark(9, 1_700_000_000_000_000, "agent:planner", None, "Acme")
_VERDICT = Mark(10, 1_700_000_000_000_001, "user:ana", "verified", None, "idea", "ab" * 20)
_MERGE = Step(12, 1_700_000_000_000_000, "agent:planner", "ab" * 20, 11, "fix", (("user:alice", "employer"),))
ROWS: dict[str, Row] = {
    "Head, fresh": Head("0f" * 16, 0, 1),
    "Head": HEAD,
    "SpaceRow": SpaceRow(3, 0, 258, 1_700_000_000_000_000),
    "SpaceRow with rules": SpaceRow(3, 0, 258, 1_700_000_000_000_000, 100, 101, 102, 103),
    "EventRow": EventRow(1_700_000_000_000_000, 257, b"\xc3\x01event"),
    "Mark": _MARK,
    "Mark with a verdict": _VERDICT,
    "ClaimRow, bare fact": ClaimRow(False, "", None, ID, "agent:planner", -1, 258),
    "ClaimRow, full fact": ClaimRow(False, 1.0, 5, ID, "a", 3, 258, "b", "ab" * 20, (_MARK,), (_VERDICT,)),
    "ClaimRow, boolean": ClaimRow(False, True, None, ID, "a", 3, 258),
    "ClaimRow, long": ClaimRow(False, -(2**63), None, ID, "a", 3, 258),
    "ClaimRow, end": ClaimRow(True, None, None, ID, "a", 3, 258),
    "SlotRow": SlotRow(),
    "SlotRow, full": SlotRow(2, (_MARK,)),
    "SessionRow": SessionRow(1, 5, 5),
    "SessionRow, full": SessionRow(4, 5, 9, "planner", "done", True),
    "Step": Step(14, 1_700_000_000_000_000, "agent:planner", None, 9),
    "Step, a merge": _MERGE,
    "BranchRow": BranchRow(),
    "BranchRow, full": BranchRow(8, "main", 7, 20, (_MERGE,)),
    "CommitRow": CommitRow((), None, "acme/app", 3, "git:sync", 4, "main", None),
    "CommitRow, full": CommitRow(("cd" * 20, "ef" * 20), "12" * 20, "acme/app", 3, "git:sync", 4, "idea", "ab" * 20),
    "PinRow": PinRow(),
    "PinRow, full": PinRow(7, 258),
    "TombstoneRow, on a branch": TombstoneRow(False, "user:ana", 1_700_000_000_000_000, "idea", "ab" * 20),
    "TombstoneRow": TombstoneRow(True, "user:ana", 1_700_000_000_000_000),
    "QuarantineRow": QuarantineRow("undecodable", "why", 3),
    "QuarantineRow, full": QuarantineRow("conflict", "why", 3, SPACE, ID),
}

RECORD = Record(0, 7, 1_700_000_000_000_000, b"acme", b"value", (("ce_id", b"1"), ("h", b"")))
OTHERS: dict[str, bytes] = {
    "offset": encode(258),
    "head with its version": encode_head(HEAD),
    "chain after a record": chained(bytes(32), RECORD),
    "chain after a record without key, value and headers": chained(SHA, Record(1, 8, 0, None, None, ())),
    "tombstone digest": digest_of(PART, "  ＡＣＭＥ\u200b Corp "),
    "tombstone digest of a number": digest_of(PART, 42),
}


def built() -> dict[str, dict[str, str]]:
    """Everything in hexadecimal."""
    return {
        "keys": {name: key.hex() for name, key in KEYS.items()},
        "rows": {name: encode(row).hex() for name, row in ROWS.items()},
        "others": {name: data.hex() for name, data in OTHERS.items()},
    }


def golden() -> dict[str, dict[str, str]]:
    assert GOLDEN.exists(), (
        f"format {rows.FORMAT} has no stored bytes: run `python tests/unit/test_formats.py` and keep {GOLDEN.name}"
    )
    loaded: dict[str, dict[str, str]] = json.loads(GOLDEN.read_text())
    return loaded


@pytest.mark.parametrize("part", ["keys", "rows", "others"])
def test_bytes_are_those_on_disk(part: str) -> None:
    stored, now = golden()[part], built()[part]
    changed = sorted(name for name in stored.keys() | now.keys() if stored.get(name) != now.get(name))
    assert not changed, (
        f"the bytes of {changed} are not those of format {rows.FORMAT}, which is on people's disks: "
        "raise FORMAT in streams/rows.py, so that old tables are folded again, and store the new bytes beside the old"
    )


@pytest.mark.parametrize("name", [name for name in ROWS if not name.startswith("Head")])
def test_stored_rows_are_read(name: str) -> None:
    row = ROWS[name]
    found = decode(type(row), bytes.fromhex(golden()["rows"][name]))
    assert found == row
    if isinstance(row, ClaimRow):
        assert isinstance(found, ClaimRow)
        assert type(found.value) is type(row.value)


def test_every_family_and_every_row_is_stored() -> None:
    assert keys.__doc__ is not None
    specified = set(re.findall(r"^    ([A-Z])  ", keys.__doc__, flags=re.MULTILINE))
    assert {name[0] for name in KEYS} == specified
    assert all(name[0] == chr(key[0]) for name, key in KEYS.items())
    assert {name.partition(",")[0].split()[0] for name in ROWS} == {cls.__name__ for cls in Row.__subclasses__()}


def test_keys_of_one_family_have_the_parts_their_page_names() -> None:
    """Read back by the same module: texts in order, then the numbers at the end."""
    assert keys.texts(KEYS["P space"], 1) == (SPACE,)
    assert keys.texts(KEYS["F claim"], 3) == (SPACE, ENTITY, SLOT)
    assert keys.claim_parts(KEYS["F claim of long ago"]) == (-(2**62), 0)
    assert keys.last_int(KEYS["Z tombstone"]) == 258
    assert decode_offset(OTHERS["offset"]) == 258
    assert CHECKPOINT_OFFSETS == 1024, "the page of keys.py says so"


# -- versions


def test_the_head_begins_with_the_version() -> None:
    data = encode_head(HEAD)
    assert data[0] == rows.FORMAT
    assert decode_head(data) == HEAD


def test_an_older_head_is_folded_again_and_a_newer_one_refused() -> None:
    data = encode_head(HEAD)
    assert decode_head(bytes([rows.FORMAT - 1]) + b"whatever it was") is None
    with pytest.raises(
        FormatTooNew, match=f"the tables have format {rows.FORMAT + 1}, .* up to {rows.FORMAT}"
    ) as caught:
        decode_head(bytes([rows.FORMAT + 1]) + data[1:])
    assert caught.value.hint == "upgrade slotlog"


def test_a_row_with_a_new_field_at_its_end_is_read() -> None:
    """What a newer minor version may add. An older reader passes it over."""
    assert decode(TombstoneRow, encode([True, "a", 3, "idea", None, "new"])) == TombstoneRow(True, "a", 3, "idea")


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01", encode([1, 2]), encode("text"), encode([True, "a", "b"])])
def test_a_row_that_is_none_names_itself(data: bytes) -> None:
    with pytest.raises(StoreDamaged, match="a TombstoneRow in the tables is unreadable: ") as caught:
        decode(TombstoneRow, data)
    assert caught.value.hint == "run slotlog rebuild"


@pytest.mark.parametrize("data", [b"", bytes([rows.FORMAT]), bytes([rows.FORMAT]) + b"\xff"])
def test_a_damaged_head_is_store_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        decode_head(data)


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(built(), indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{GOLDEN} written\n")
