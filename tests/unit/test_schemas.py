"""The schemas, their registry, and the bytes that must stay readable for ever."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import avro.compatibility
import avro.io
import avro.schema
import fastavro
import pytest
from samples import all_samples, full

from schemas import events as ev
from schemas import registry
from schemas.checks import check_given
from schemas.codec import Codec
from schemas.errors import UndecodableEvent
from schemas.jsonform import from_json, to_json

GOLDEN = Path(__file__).parent / "golden"
SCHEMA_FOLDER = Path(registry.__file__).parent / "avro"
TYPES = sorted(ev.EVENT_TYPES)


def golden_events(version: registry.Version) -> list[dict[str, object]]:
    return json.loads((GOLDEN / f"{version.type}.{version.version}.json").read_text())


def test_every_event_type_has_a_class_and_a_released_schema() -> None:
    assert sorted({version.type for version in registry.RELEASED}) == TYPES


def test_every_file_is_a_released_version_unchanged() -> None:
    files = {file.name for file in SCHEMA_FOLDER.glob("*.avsc")}
    assert files == {version.file for version in registry.RELEASED}
    for version in registry.RELEASED:
        data = (SCHEMA_FOLDER / version.file).read_bytes()
        assert hashlib.sha256(data).hexdigest() == version.sha256, f"{version.file} was changed after its release"
        assert registry.fingerprint(json.loads(data)) == version.fingerprint


def test_fingerprints_tell_versions_apart() -> None:
    assert len({version.fingerprint for version in registry.RELEASED}) == len(registry.RELEASED)


def test_newest_version_is_in_the_plain_file() -> None:
    for name in TYPES:
        numbers = sorted(version.version for version in registry.RELEASED if version.type == name)
        assert numbers == list(range(1, len(numbers) + 1))
        assert registry.newest(name).file == f"{name}.avsc"


@pytest.mark.parametrize("name", TYPES)
def test_every_field_says_what_it_means(name: str) -> None:
    def undocumented(schema: object, path: str) -> list[str]:
        if isinstance(schema, list):
            return [found for part in schema for found in undocumented(part, path)]
        if not isinstance(schema, dict):
            return []
        found = [] if schema.get("type") not in ("record", "enum") or schema.get("doc") else [path]
        for field in schema.get("fields", ()):
            here = f"{path}.{field['name']}"
            found += ([] if field.get("doc") else [here]) + undocumented(field["type"], here)
        return found + undocumented(schema.get("items"), path) + undocumented(schema.get("values"), path)

    assert undocumented(registry.source(registry.newest(name)), name) == []


@pytest.mark.parametrize("name", TYPES)
def test_class_has_the_fields_of_its_schema_in_order(name: str) -> None:
    fields = [field["name"] for field in registry.source(registry.newest(name))["fields"]]
    assert list(ev.EVENT_TYPES[name].__struct_fields__) == fields


@pytest.mark.parametrize("version", registry.RELEASED, ids=lambda version: f"{version.type}.{version.version}")
def test_every_version_is_compatible_both_ways_with_the_newest(version: registry.Version) -> None:
    newest = avro.schema.parse(json.dumps(registry.source(registry.newest(version.type))))
    then = avro.schema.parse(json.dumps(registry.source(version)))
    for reader, writer in ((newest, then), (then, newest)):
        result = avro.compatibility.ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)
        assert result.compatibility is avro.compatibility.SchemaCompatibilityType.compatible, result.messages


@pytest.mark.parametrize("version", registry.RELEASED, ids=lambda version: f"{version.type}.{version.version}")
def test_golden_bytes_of_every_version_stay_readable(version: registry.Version) -> None:
    golden = golden_events(version)
    assert golden, "a released version needs golden bytes"
    for one in golden:
        data = bytes.fromhex(str(one["bytes"]))
        event = Codec().decode(data)
        assert to_json(event) == one["event"]
        if version == registry.newest(version.type):
            assert Codec().encode(event) == data


@pytest.mark.parametrize("event", all_samples(), ids=lambda event: type(event).__name__)
def test_apache_avro_reads_the_same_record(event: ev.Event) -> None:
    version = registry.newest(type(event).__name__)
    schema = avro.schema.parse(json.dumps(registry.source(version)))
    body = Codec().encode(event)[10:]
    theirs = avro.io.DatumReader(schema).read(avro.io.BinaryDecoder(io.BytesIO(body)))
    ours = fastavro.schemaless_reader(io.BytesIO(body), registry.source(version))
    assert theirs == ours


@pytest.mark.parametrize("event", all_samples(), ids=lambda event: type(event).__name__)
def test_bytes_and_json_round_trip(event: ev.Event) -> None:
    check_given(event)
    assert Codec().decode(Codec().encode(event)) == event
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


def test_an_older_writer_is_read_with_the_newest_class() -> None:
    """A producer whose schema lacks a field that has a default, as one from before the field would be."""
    schema = registry.source(registry.newest("FactAsserted"))
    schema["fields"] = [field for field in schema["fields"] if field["name"] not in ("confidence", "source")]
    out = io.BytesIO()
    sample = full(ev.FactAsserted)
    fields = {field: getattr(sample, field) for field in sample.__struct_fields__ if field != "code"}
    fastavro.schemaless_writer(out, registry.parse(schema), {**fields, "code": None})
    codec = Codec(lambda schema_id: json.dumps(schema) if schema_id == 12 else "{}")
    event = codec.decode(b"\x00\x00\x00\x00\x0c" + out.getvalue())
    assert isinstance(event, ev.FactAsserted)
    assert (event.value, event.confidence, event.source) == ("Acme", None, None)
    with pytest.raises(UndecodableEvent, match="schema 13 of the registry is no Avro record"):
        codec.decode(b"\x00\x00\x00\x00\x0d" + out.getvalue())


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda data: b"", "begins with nothing and not with c3 01"),
        (lambda data: b'{"type": "FactAsserted"}', "begins with 7b 22 and not with c3 01"),
        (lambda data: data[:5], "only 5 bytes, too few for a fingerprint"),
        (lambda data: data[:2] + bytes(8) + data[10:], "no released schema has the fingerprint 0000000000000000"),
        (lambda data: data[:-1], "the body is no FactAsserted"),
        (lambda data: data + b"\x00\x00", "2 bytes are left over after a FactAsserted"),
        (lambda data: b"\x00\x00\x00\x00\x01" + data[10:], "framed for a schema registry, and none is configured"),
    ],
)
def test_what_is_no_event_is_refused_by_name(damage, complaint: str) -> None:
    data = Codec().encode(full(ev.FactAsserted))
    with pytest.raises(UndecodableEvent, match=complaint):
        Codec().decode(damage(data))
