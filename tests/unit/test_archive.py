"""The archive's file format: what is written is read again, an old file stays readable, and anything else is refused.

Run this file by itself to write `golden/archive-N.avro` for a new FORMAT: `python tests/unit/test_archive.py`.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from schemas import archive
from schemas.archive import Archived, read_archive, write_archive
from schemas.errors import FormatTooNew, InvalidInput, NotFound, StoreDamaged

GOLDEN = Path(__file__).parent / "golden" / f"archive-{archive.FORMAT}.avro"
ORIGIN = "0f" * 16
NEWER = rf"new\.avro has archive format {archive.FORMAT + 1}, and this slotlog knows formats up to {archive.FORMAT}$"
RECORDS = [
    Archived(0, 0, 1_700_000_000_000_000, b"acme/support", b"\xc3\x01event", (("ce_id", b"1"), ("h", b"")), None),
    Archived(0, 1, 1_700_000_000_000_000, b"acme/support", b"", (), "empty: the record has no value"),
    Archived(2, 7, -(2**63), b"", bytes(range(256)), (("日本", b"\xff"), ("日本", b"\xff")), "x: ∀"),
    Archived(2, 2**62, 2**63 - 1, "日本/メモ".encode(), b"v" * 3000, (), None),
]
Edit = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def made(records: list[Archived] = RECORDS) -> bytes:
    file = io.BytesIO()
    assert write_archive(file, iter(records), ORIGIN) == len(records)
    return file.getvalue()


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def remade(edit: Edit, *, metadata: dict[str, str] | None = None) -> bytes:
    """The archive with other records in it, written anew as a container file in good order."""
    reader: Any = fastavro.reader(io.BytesIO(made()))
    out = io.BytesIO()
    about = {"slotlog.archive": str(archive.FORMAT), "slotlog.origin": ORIGIN} if metadata is None else metadata
    fastavro.writer(out, reader.writer_schema, edit(list(reader)), codec="deflate", metadata=about)
    return out.getvalue()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert list(read_archive(written(tmp_path / "a.avro", made()))) == RECORDS
    assert list(read_archive(written(tmp_path / "none.avro", made([])))) == []


def test_the_stored_archive_is_read() -> None:
    """A file written when this format was new. It stays readable for ever."""
    assert list(read_archive(GOLDEN)) == RECORDS
    reader: Any = fastavro.reader(io.BytesIO(GOLDEN.read_bytes()))
    assert reader.metadata["slotlog.archive"] == str(archive.FORMAT)
    assert reader.metadata["slotlog.origin"] == ORIGIN
    assert reader.metadata["avro.codec"] == "deflate"


def test_the_chain_is_what_the_page_says() -> None:
    """Any reader can check it: the stored chains are those of today's writer."""
    chains = [
        [fields["chain"] for fields in fastavro.reader(io.BytesIO(data))] for data in (made(), GOLDEN.read_bytes())
    ]
    assert chains[0] == chains[1]
    assert len(set(chains[0])) == len(RECORDS), "the end repeats the last one"


def test_many_blocks(tmp_path: Path) -> None:
    """A container file is cut into blocks of some 16 kB; the chain runs through them, and so does the damage report."""
    records = [Archived(0, number, number, b"k", b"%06d" % number * 50, (), None) for number in range(400)]
    data = made(records)
    assert list(read_archive(written(tmp_path / "a.avro", data))) == records
    cut = written(tmp_path / "cut.avro", data[: len(data) // 2])
    with pytest.raises(
        StoreDamaged, match=r"cut\.avro is damaged or cut off: the last good record is 0:\d+$"
    ) as caught:
        list(read_archive(cut))
    last = int(str(caught.value).rpartition(":")[2])
    assert 100 < last < 300


EDITS: dict[str, tuple[Edit, str]] = {
    "a value edited": (lambda r: [r[0] | {"value": b"other"}, *r[1:]], "is damaged after nothing: what follows is not"),
    "a time edited": (lambda r: [r[0], r[1] | {"append_time": 1}, *r[2:]], "is damaged after 0:0: what follows is not"),
    "a mark removed": (lambda r: [r[0], r[1] | {"quarantined": None}, *r[2:]], "is damaged after 0:0: what follows"),
    "headers dropped": (lambda r: [r[0] | {"headers": []}, *r[1:]], "is damaged after nothing: what follows is not"),
    "one left out": (lambda r: [r[0], *r[2:]], "is damaged after 0:0: what follows is not what was written"),
    "the last left out": (lambda r: [*r[:3], r[4]], "is damaged at its end: the last good record is 2:7"),
    "two swapped": (lambda r: [r[1], r[0], *r[2:]], "is damaged after nothing: what follows is not what was written"),
    "one twice": (lambda r: [r[0], *r], "is damaged after 0:0: what follows is not what was written"),
    "no end": (lambda r: r[:-1], f"is cut off: the last good record is 2:{2**62}"),
    "nothing at all": (lambda r: [], "is cut off: the last good record is nothing"),
    "an end with another count": (
        lambda r: [*r[:-1], r[-1] | {"offset": 5}],
        f"is damaged at its end: the last good record is 2:{2**62}",
    ),
    "more after the end": (lambda r: [*r, r[0]], f"goes on after its end: the last good record is 2:{2**62}"),
    "two ends": (lambda r: [*r, r[-1]], f"goes on after its end: the last good record is 2:{2**62}"),
}


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS.keys())
def test_edited_archives_are_refused(edit: Edit, message: str, tmp_path: Path) -> None:
    with pytest.raises(StoreDamaged) as caught:
        list(read_archive(written(tmp_path / "a.avro", remade(edit))))
    assert message in str(caught.value)


def test_bytes_after_the_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreDamaged, match=f"is damaged or cut off: the last good record is 2:{2**62}"):
        list(read_archive(written(tmp_path / "a.avro", made() + b"more")))


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "new.avro", remade(lambda r: r, metadata={"slotlog.archive": str(archive.FORMAT + 1)}))
    with pytest.raises(FormatTooNew, match=NEWER) as e:
        list(read_archive(path))
    assert e.value.hint == "upgrade slotlog"


@pytest.mark.parametrize(
    "metadata", [{}, {"slotlog.archive": "one"}, {"slotlog.archive": "²"}, {"slotlog.archive": ""}]
)
def test_another_avro_file_is_no_archive(metadata: dict[str, str], tmp_path: Path) -> None:
    path = written(tmp_path / "a.avro", remade(lambda r: r, metadata=metadata))
    with pytest.raises(InvalidInput, match=r"a\.avro is an Avro file, and no archive of slotlog"):
        list(read_archive(path))


def test_an_archive_of_another_schema_is_damaged(tmp_path: Path) -> None:
    """Its metadata claims to be one of ours, and its records are something else."""
    out = io.BytesIO()
    schema = {"type": "record", "name": "Other", "fields": [{"name": "kind", "type": "string"}]}
    fastavro.writer(out, schema, [{"kind": "record"}], metadata={"slotlog.archive": "1"})
    with pytest.raises(StoreDamaged, match="is damaged or cut off: the last good record is nothing"):
        list(read_archive(written(tmp_path / "a.avro", out.getvalue())))


@pytest.mark.parametrize("content", [b"", b"Obj\x01", b"Obj\x02rest", b"PK\x03\x04", b"{}", b"\x00" * 100])
def test_other_files_are_no_archive(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"a\.avro is no archive: it does not begin as an Avro container file does"):
        list(read_archive(written(tmp_path / "a.avro", content)))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.avro can't be read: No such file or directory"):
        list(read_archive(tmp_path / "none.avro"))


if __name__ == "__main__":
    GOLDEN.write_bytes(made())
    sys.stdout.write(f"{GOLDEN} written\n")
