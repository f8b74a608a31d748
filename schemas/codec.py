"""Bytes of an event, both ways: Avro single-object encoding, and Confluent framing for what others wrote.

C3 01 | 8 bytes CRC-64-AVRO of the schema, little-endian | Avro body        written, and read
00 | 4 bytes schema id, big-endian | Avro body                              read, when a registry is configured
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import msgspec

from schemas import events as ev
from schemas import registry
from schemas.errors import UndecodableEvent

MARKER = b"\xc3\x01"
CONFLUENT_MARKER = b"\x00"
_HEADER_BYTES = 10
_CONFLUENT_HEADER_BYTES = 5

SchemaResolver = Callable[[int], str]
"""From a schema registry's id to the JSON text of that Avro schema. Raises UndecodableEvent for an unknown id."""

_Reader = tuple[type[ev.Event], registry.Schema, registry.Schema | None, tuple[tuple[str, Any], ...]]


class Codec:
    """Encodes and decodes events. `resolver` reads schemas from a registry; without one its framing is refused."""

    def __init__(self, resolver: SchemaResolver | None = None) -> None:
        self._resolver = resolver
        self._readers: dict[bytes, _Reader] = {}

    def decode(self, data: bytes) -> ev.Event:
        """The event in `data`, in its newest version; its types are right, its rules (`schemas.checks`) unchecked.

        Raises:
            UndecodableEvent: the framing, the fingerprint or the body is wrong, or bytes are left over.
        """
        header = data[:_HEADER_BYTES]
        reader = self._readers.get(header)
        if reader is None:
            if data[:1] == CONFLUENT_MARKER:
                return self._decode_confluent(data)
            reader = self._readers[header] = _reader(header)
        return _read(reader, data, _HEADER_BYTES)

    def encode(self, event: ev.Event) -> bytes:
        """Single-object encoding of `event`, which must have passed `schemas.checks.check_given`."""
        version = registry.newest(type(event).__name__)
        fields = msgspec.structs.asdict(event)
        for name in type(event).PARTS:
            part = fields[name]
            if part is not None:
                plain = msgspec.to_builtins(part, builtin_types=(bytes,))
                fields[name] = (
                    list(plain) if isinstance(plain, tuple) else plain
                )  # fastavro reads a tuple as (branch, datum)
        out = BytesIO()
        out.write(MARKER + bytes.fromhex(version.fingerprint))
        fastavro.schemaless_writer(out, registry.parsed(version), fields)
        return out.getvalue()

    def _decode_confluent(self, data: bytes) -> ev.Event:
        header = data[:_CONFLUENT_HEADER_BYTES]
        reader = self._readers.get(header)
        if reader is None:
            if self._resolver is None:
                raise UndecodableEvent(
                    "framed for a schema registry, and none is configured", hint="open the store with ?registry=URL"
                )
            if len(header) < _CONFLUENT_HEADER_BYTES:
                raise UndecodableEvent(f"only {len(data)} bytes, too few for a schema id")
            schema_id = int.from_bytes(header[1:], "big")
            reader = self._readers[header] = _reader_for_schema(self._resolver(schema_id), schema_id)
        return _read(reader, data, _CONFLUENT_HEADER_BYTES)


def _read(reader: _Reader, data: bytes, start: int) -> ev.Event:
    cls, writer_schema, reader_schema, parts = reader
    stream = BytesIO(data)
    stream.seek(start)
    try:
        fields: dict[str, Any] = fastavro.schemaless_reader(stream, writer_schema, reader_schema)  # type: ignore[assignment]
    except (EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise UndecodableEvent(f"the body is no {cls.__name__}: {str(error) or type(error).__name__}") from error
    if stream.tell() != len(data):
        raise UndecodableEvent(f"{len(data) - stream.tell()} bytes are left over after a {cls.__name__}")
    for name, shape in parts:
        if fields[name] is not None:
            fields[name] = msgspec.convert(fields[name], shape)
    return cls(**fields)


def _reader(header: bytes) -> _Reader:
    if header[:2] != MARKER:
        raise UndecodableEvent(f"begins with {header[:2].hex(' ') or 'nothing'} and not with c3 01, as events do")
    if len(header) < _HEADER_BYTES:
        raise UndecodableEvent(f"only {len(header)} bytes, too few for a fingerprint")
    version = registry.by_fingerprint(header[2:])
    newest = registry.newest(version.type)
    cls = ev.EVENT_TYPES[version.type]
    resolved = None if version == newest else registry.parsed(newest)
    return cls, registry.parsed(version), resolved, tuple(cls.PARTS.items())


def _reader_for_schema(text: str, schema_id: int) -> _Reader:
    try:
        schema = msgspec.json.decode(text)
        name = str(schema["name"]).rpartition(".")[2]
        writer_schema = registry.parse(schema)
    except (msgspec.DecodeError, TypeError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise UndecodableEvent(f"schema {schema_id} of the registry is no Avro record") from error
    if name not in ev.EVENT_TYPES:
        raise UndecodableEvent(f"schema {schema_id} of the registry is a {name}, which is no event type")
    cls = ev.EVENT_TYPES[name]
    return cls, writer_schema, registry.parsed(registry.newest(name)), tuple(cls.PARTS.items())
