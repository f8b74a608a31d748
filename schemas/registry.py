"""Every version of every event schema ever released. Bytes written with any of them stay readable for ever.

`avro/NAME.avsc` is what is written today: the newest version. A version that is succeeded moves to
`avro/NAME.N.avsc` unchanged. `avro/released.json` lists them all with the fingerprint that dispatches decoding and the
SHA-256 of the whole file: Avro's canonical form leaves out logical types and defaults, so two versions that differ in
those alone would share a fingerprint, which `tests/unit/test_registry.py` forbids.
"""

from __future__ import annotations

import pkgutil
from typing import Any, NamedTuple, cast

import fastavro
import msgspec

from schemas.errors import StoreDamaged, UndecodableEvent

Schema = dict[str, Any]


class Version(NamedTuple):
    """One released schema: event type, version from 1, file name, CRC-64-AVRO and SHA-256 in hexadecimal."""

    type: str
    version: int
    file: str
    fingerprint: str
    sha256: str


def _data(name: str) -> bytes:
    data = pkgutil.get_data("schemas", f"avro/{name}")
    if data is None:
        raise StoreDamaged(f"schemas/avro/{name} is missing from the installation", hint="install slotlog again")
    return data


def _read_released() -> tuple[Version, ...]:
    return tuple(Version(**entry) for entry in msgspec.json.decode(_data("released.json")))


RELEASED: tuple[Version, ...] = _read_released()
_by_fingerprint: dict[bytes, Version] = {bytes.fromhex(v.fingerprint): v for v in RELEASED}
_newest: dict[str, Version] = {v.type: v for v in sorted(RELEASED, key=lambda v: v.version)}
_parsed: dict[str, Schema] = {}


def newest(event_type: str) -> Version:
    """The version that events of this type are written with."""
    return _newest[event_type]


def by_fingerprint(fingerprint: bytes) -> Version:
    """The version with these 8 bytes of CRC-64-AVRO, in the order they have in single-object encoding.

    Raises:
        UndecodableEvent: no version ever released has it.
    """
    try:
        return _by_fingerprint[fingerprint]
    except KeyError:
        raise UndecodableEvent(
            f"no released schema has the fingerprint {fingerprint.hex()}",
            hint="the producer writes another schema, or a newer slotlog does",
        ) from None


def source(version: Version) -> Schema:
    """The schema as it is in its file, with logical types."""
    return cast(Schema, msgspec.json.decode(_data(version.file)))


def parsed(version: Version) -> Schema:
    """The schema ready for fastavro, without logical types: times stay ints, and the bytes are the same."""
    if version.file not in _parsed:
        _parsed[version.file] = parse(source(version))
    return _parsed[version.file]


def parse(schema: Any) -> Schema:
    """Any Avro schema ready for fastavro, without its logical types."""
    return cast(Schema, fastavro.parse_schema(_without_logical_types(schema)))


def fingerprint(schema: Any) -> str:
    """CRC-64-AVRO of the schema's canonical form, in hexadecimal."""
    return fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")


def _without_logical_types(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_logical_types(child) for child in node]
    if isinstance(node, dict):
        return {
            key: _without_logical_types(child) if key in ("type", "fields", "items", "values") else child
            for key, child in node.items()
            if key != "logicalType"
        }
    return node
