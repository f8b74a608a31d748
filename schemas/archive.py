"""The archive: events of a store in one Avro object container file. This page is the format's specification.

A file holds records of the schema below with the deflate codec. Each carries the log's own key, value and headers, the
append time that counts, in µs since 1970 UTC, and why it is quarantined where it is. `chain` is SHA-256 over the
record before's chain (32 zero bytes before the first) and the MessagePack array of the record's other fields. The last
record has kind `end` and no content: a file without it is truncated. The file's metadata has `slotlog.archive`, the
version of this format, and `slotlog.origin`, the identity of the log that it was made from.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import fastavro
import msgspec

from schemas.errors import FormatTooNew, InvalidInput, NotFound, StoreDamaged
from schemas.times import Micros

FORMAT = 1
_VERSION_KEY, _ORIGIN_KEY = "slotlog.archive", "slotlog.origin"
_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "ArchivedRecord",
        "namespace": "slotlog.archive",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["record", "end"]}},
            {"name": "partition", "type": "int"},
            {"name": "offset", "type": "long"},
            {"name": "append_time", "type": "long"},
            {"name": "key", "type": "bytes"},
            {"name": "value", "type": "bytes"},
            {
                "name": "headers",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Header",
                        "fields": [{"name": "name", "type": "string"}, {"name": "content", "type": "bytes"}],
                    },
                },
            },
            {"name": "quarantined", "type": ["null", "string"]},
            {"name": "chain", "type": {"type": "fixed", "name": "Chain", "size": 32}},
        ],
    }
)
_pack = msgspec.msgpack.Encoder().encode
_UNREADABLE = (
    ValueError, EOFError, KeyError, IndexError, TypeError, AttributeError, OverflowError, MemoryError, zlib.error,
    fastavro.schema.SchemaParseException,
)  # fmt: skip
"""What fastavro raises on bytes that are no container file, or no longer one."""


class Archived(NamedTuple):
    """One record of an archive; partition and offset are those it had where the archive was made."""

    partition: int
    offset: int
    append_time: Micros
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    quarantined: str | None


def write_archive(file: IO[bytes], records: Iterable[Archived], origin: str) -> int:
    """Write an archive of `records` and return how many there were."""
    count = 0

    def chained() -> Iterator[dict[str, Any]]:
        nonlocal count
        chain = bytes(32)
        for record in records:
            chain = _next(chain, record)
            count += 1
            yield _fields("record", record, chain)
        yield _fields("end", Archived(0, count, 0, b"", b"", (), None), chain)

    metadata = {_VERSION_KEY: str(FORMAT), _ORIGIN_KEY: origin}
    fastavro.writer(file, _SCHEMA, chained(), codec="deflate", metadata=metadata)
    return count


def read_archive(path: Path) -> Iterator[Archived]:
    """The records of the archive in order, each after its chain was checked.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is no archive of ours.
        FormatTooNew: a newer slotlog wrote it.
        StoreDamaged: it is damaged or cut off; the text names the last good record. Whoever must have all or nothing
            reads it to the end first.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise NotFound(f"{path} can't be read: {error.strerror}") from error
    with file:
        try:
            reader = fastavro.reader(file)
        except _UNREADABLE as error:
            raise InvalidInput(f"{path} is no archive: it does not begin as an Avro container file does") from error
        version = str(reader.metadata.get(_VERSION_KEY, ""))
        if not (version.isascii() and version.isdigit()):
            raise InvalidInput(f"{path} is an Avro file, and no archive of slotlog")
        if int(version) > FORMAT:
            raise FormatTooNew(
                f"{path} has archive format {version}, and this slotlog knows formats up to {FORMAT}",
                hint="upgrade slotlog",
            )
        yield from _checked(reader, path)


def _checked(reader: Iterable[Any], path: Path) -> Iterator[Archived]:
    chain, last, count, ended = bytes(32), "nothing", 0, False
    try:
        for fields in reader:
            record = _record(fields)
            if ended:
                raise StoreDamaged(f"{path} goes on after its end: the last good record is {last}")
            if fields["kind"] == "end":
                if fields["chain"] != chain or record.offset != count:
                    raise StoreDamaged(f"{path} is damaged at its end: the last good record is {last}")
                ended = True
                continue
            chain = _next(chain, record)
            if fields["chain"] != chain:
                raise StoreDamaged(f"{path} is damaged after {last}: what follows is not what was written")
            last, count = f"{record.partition}:{record.offset}", count + 1
            yield record
    except _UNREADABLE as error:
        raise StoreDamaged(f"{path} is damaged or cut off: the last good record is {last}") from error
    if not ended:
        raise StoreDamaged(f"{path} is cut off: the last good record is {last}")


def _next(chain: bytes, record: Archived) -> bytes:
    return hashlib.sha256(chain + _pack(tuple(record))).digest()


def _fields(kind: str, record: Archived, chain: bytes) -> dict[str, Any]:
    headers = [{"name": name, "content": content} for name, content in record.headers]
    return {**record._asdict(), "kind": kind, "headers": headers, "chain": chain}


def _record(fields: dict[str, Any]) -> Archived:
    headers = tuple((header["name"], cast(bytes, header["content"])) for header in fields["headers"])
    named = {name: fields[name] for name in Archived._fields if name != "headers"}
    return Archived(**named, headers=headers)
