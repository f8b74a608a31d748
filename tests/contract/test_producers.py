"""Producers that are not ours: what they write is read as our own events are, and a wrong one stops nobody.

One is a Java program (`java/`, Apache Avro and kafka-clients); the other is librdkafka with hand-made framing. Neither
uses a line of slotlog: they have the released schemas and the README's page.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import fastavro
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka_broker import Broker
from raw_producer import with_header
from samples import T0, all_samples

from schemas import events as ev
from schemas.checks import MAX_EVENT_BYTES
from schemas.codec import Codec
from streams import Memory
from streams.envelope import message
from streams.kafka_log import KafkaLog
from streams.partitioner import partition_of
from streams.ports import Position, Record
from streams.sqlite_log import SqliteLog

Topic = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "schemas" / "avro"
JAVA = Path(__file__).resolve().parent / "java"
JAVA_SPACE = "acme/größe-😀"
SPACE = "acme/support"


# -- the Java one


@pytest.fixture(scope="session")
def java() -> Callable[..., list[str]]:
    """Runs a class of `java/` and gives the lines it prints: `java(broker, topic, "events")`."""
    script = ROOT / "ops" / "bench" / "peers" / "jvm.py"
    built = subprocess.run([sys.executable, str(script), str(JAVA)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-Dfile.encoding=UTF-8", "-cp", built.stdout.strip()]

    def run(broker: Broker, topic: str, *what: str, main: str = "ForeignProducer", given: str = "") -> list[str]:
        call = [*command, main, broker.bootstrap, topic, str(SCHEMAS), *what]
        done = subprocess.run(call, input=given, capture_output=True, encoding="utf-8", timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def positions(lines: Sequence[str]) -> list[Position]:
    return [Position(*map(int, line.split(":"))) for line in lines]


def records(broker: Broker, topic: str) -> list[Record]:
    """Every committed record of the topic, partition after partition."""
    log = KafkaLog(broker.bootstrap, topic)
    try:
        return [record for number in range(log.partitions) for batch in log.read(number, 0) for record in batch.records]
    finally:
        log.close()


@contextmanager
def memory_of(broker: Broker, topic: str, state: Path) -> Iterator[Memory]:
    with Memory.open(f"kafka://{broker.bootstrap}/{topic}?state={state}") as memory:
        yield memory


def java_id(number: int) -> bytes:
    return bytes.fromhex("018f2f6e8c0070008000") + number.to_bytes(6, "big")


def java_events() -> list[ev.Event]:
    """What `ForeignProducer events` writes, made with slotlog."""
    made: list[ev.Event] = []

    def add(cls: type[ev.Event], **fields: Any) -> None:
        number = len(made) + 1
        own: dict[str, Any] = {"event_id": java_id(number), "recorded_at": T0 + 1 + number, **fields}
        made.append(cls(space=JAVA_SPACE, session="run-7", actor="agent:java", **own))

    def fact(slot: str, value: ev.Value, **fields: Any) -> None:
        add(ev.FactAsserted, entity="user:alice", slot=slot, value=value, **fields)

    add(ev.SlotDeclared, slot="tag", entity_kind="user", cardinality="many", value_type="string")
    add(ev.SessionStarted, agent="planner", attributes={"größe": "𝄞"})
    add(ev.Observed, role="user", text="Ich heiße 𝔘𝔫𝔦 😀\x00\tأهلا")
    code = ev.Code(repo="acme/app", sha="0f" * 20)
    derived: dict[str, Any] = {"origin": "extracted", "engine": "rules@1", "cause": java_id(3), "code": code}
    derived |= {"source": "https://example.org/?id=7", "confidence": 0.1}
    fact("employer", "Acme 😀𝔘", valid_from=T0 + 1, valid_to=T0 + 6, **derived)
    fact("age", 41)
    fact("least", -(2**63))
    fact("greatest", 2**63 - 1)
    fact("share", 0.1)
    fact("tiny", 5e-324)
    fact("minus", -0.0)
    fact("active", True)
    fact("note", "")
    fact("tag", "ä")
    fact("tag", "a\u0308")
    fact("wrong", "a secret")
    add(ev.FactRetracted, target=java_id(15), reason="misheard")
    add(ev.FactEnded, entity="user:alice", slot="tag", value="ä")
    add(ev.FactEnded, entity="user:alice", slot="age")
    add(ev.FactReviewed, target=java_id(8), verdict="verified")
    add(ev.SessionEnded)
    return made


def test_java_writes_what_our_own_producer_would(
    broker: Broker, topic: Topic, java: Callable[..., list[str]], tmp_path: Path
) -> None:
    name = topic(partitions=3)
    sent = positions(java(broker, name, "events"))
    codec = Codec()
    wanted = java_events()
    found = records(broker, name)
    assert [(one.key, one.value, one.headers) for one in found] == [message(event, codec) for event in wanted]
    assert [Position(one.partition, one.offset) for one in found] == sent
    assert {one.partition for one in found} == {partition_of(JAVA_SPACE.encode(), 3)}

    times = iter([one.append_time for one in found])
    own = SqliteLog(tmp_path / "own", clock=lambda: next(times))
    for event in wanted:
        own.append([message(event, codec)])
    own.close()
    with memory_of(broker, name, tmp_path / "tables") as theirs, Memory.open(tmp_path / "own") as ours:
        assert theirs.quarantined() == []
        assert [one.event for one in theirs.timeline(JAVA_SPACE)] == wanted
        assert theirs.digest() == ours.digest()
        assert theirs.schema(JAVA_SPACE) == ours.schema(JAVA_SPACE)
        values = {belief.slot: belief.value for belief in one_each(theirs, JAVA_SPACE)}
    assert values == {
        "active": True,
        "greatest": 2**63 - 1,
        "least": -(2**63),
        "minus": -0.0,
        "note": "",
        "share": 0.1,
        "tag": "a\u0308",
        "tiny": 5e-324,
    }
    assert {slot: type(value) for slot, value in values.items() if slot in ("least", "minus", "active")} == {
        "least": int,
        "minus": float,
        "active": bool,
    }


def one_each(memory: Memory, space: str) -> Iterator[Any]:
    """Every belief about user:alice, those of slots with many values one by one."""
    for answer in memory.entity(space, "user:alice").values():
        yield from answer if isinstance(answer, list) else [answer]


def test_java_writes_every_type_with_the_same_bytes(
    broker: Broker, topic: Topic, java: Callable[..., list[str]]
) -> None:
    """The bare and the full event of each type, told to Java in Avro's JSON; -0.0, null, bytes and enums among them."""
    name = topic()
    events = all_samples()
    java(broker, name, "relay", given="".join(f"{type(event).__name__} {avro_json(event)}\n" for event in events))
    codec = Codec()
    for event, record in zip(events, records(broker, name), strict=True):
        assert record.value == codec.encode(event), type(event).__name__
        assert codec.decode(record.value) == event
        assert record.headers == message(event, codec).headers


def avro_json(event: ev.Event) -> str:
    """The event in Avro's own JSON, from the body of its bytes."""
    fields = fastavro.schemaless_reader(io.BytesIO(Codec().encode(event)[10:]), schema_of(type(event).__name__), None)
    out = io.StringIO()
    fastavro.json_writer(out, schema_of(type(event).__name__), [fields])
    return out.getvalue()


def test_a_java_int_or_float_is_refused_by_avro_itself(
    broker: Broker, topic: Topic, java: Callable[..., list[str]]
) -> None:
    name = topic()
    lines = java(broker, name, "int")
    assert [line.split()[0] for line in lines] == ["refused", "refused"]
    assert "41" in lines[0]
    assert records(broker, name) == []


def test_a_schema_with_one_more_field_is_nobodys(
    broker: Broker, topic: Topic, java: Callable[..., list[str]], tmp_path: Path
) -> None:
    name = topic()
    java(broker, name, "newer")
    java(broker, name, "events")
    with memory_of(broker, name, tmp_path) as memory:
        (wrong,) = memory.quarantined()
        assert (wrong.position, wrong.code) == (Position(0, 0), "undecodable")
        assert re.match("no released schema has the fingerprint [0-9a-f]{16}$", wrong.reason)
        assert [one.event for one in memory.timeline(JAVA_SPACE)] == java_events()


def test_a_program_that_is_run_twice_adds_nothing(
    broker: Broker, topic: Topic, java: Callable[..., list[str]], tmp_path: Path
) -> None:
    name = topic()
    java(broker, name, "events")
    with memory_of(broker, name, tmp_path) as memory:
        before = memory.digest()
        java(broker, name, "events")
        assert memory.digest() == before
        (partition,) = memory.info().partitions
        assert (partition.next, partition.applied, partition.duplicates) == (40, 20, 20)
        assert memory.quarantined() == []


def test_every_codec_of_java_is_read(
    broker: Broker, topic: Topic, java: Callable[..., list[str]], tmp_path: Path
) -> None:
    name = topic()
    java(broker, name, "compressed")
    with memory_of(broker, name, tmp_path) as memory:
        found = {slot: answer.value for slot, answer in memory.entity(JAVA_SPACE, "user:java").items()}  # type: ignore[union-attr]
    assert found == dict.fromkeys(["gzip", "lz4", "none", "snappy", "zstd"], "x" * 2_000)


def test_what_java_aborts_is_never_seen(
    broker: Broker, topic: Topic, java: Callable[..., list[str]], tmp_path: Path
) -> None:
    name = topic()
    aborted, committed = positions(java(broker, name, "transaction"))
    assert (aborted.offset, committed.offset) == (0, 2)  # a marker lies between them
    with memory_of(broker, name, tmp_path) as memory:
        answer = memory.get(JAVA_SPACE, "user:alice", "committed")
        assert [one.position for one in memory.timeline(JAVA_SPACE)] == [committed]
        assert memory.quarantined() == []
    assert getattr(answer, "value", None) is True


# -- the raw one


@cache
def schema_of(event_type: str) -> Any:
    schema = json.loads((SCHEMAS / f"{event_type}.avsc").read_text(encoding="utf-8"))
    return fastavro.parse_schema(schema)


def framed(event_type: str, **fields: Any) -> bytes:
    """An event in single-object encoding, by fastavro alone; what is left out has the schema's default."""
    canonical = fastavro.schema.to_parsing_canonical_form(schema_of(event_type))
    fingerprint = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    common = {"event_id": uuid.uuid4().bytes, "space": SPACE, "actor": "agent:raw", "recorded_at": T0}
    out = io.BytesIO(b"\xc3\x01" + fingerprint)
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, schema_of(event_type), {**common, **fields}, strict_allow_default=True)
    return out.getvalue()


def fact(slot: str = "employer", value: Any = "Acme", **fields: Any) -> bytes:
    return framed("FactAsserted", entity="user:alice", slot=slot, value=value, **fields)


GOOD = b"\x07" * 16
FACT = fact()


class Wrong(NamedTuple):
    """A record that must not count: what is sent, and what it is quarantined with."""

    code: str
    reason: str
    value: bytes | None
    key: bytes | None = SPACE.encode()
    headers: tuple[tuple[str, bytes], ...] = ()


WRONG = {
    "no value": Wrong("empty", "the record has no value", None),
    "an empty value": Wrong("empty", "the record has no value", b""),
    "no key": Wrong("no_key", "the record has no key, and the key is the space", FACT, None),
    "an empty key": Wrong("no_key", "the record has no key, and the key is the space", FACT, b""),
    "the key of another space": Wrong("wrong_key", f"the key is not the event's space '{SPACE}'", FACT, b"acme/crm"),
    "a key in JSON": Wrong("wrong_key", f"the key is not the event's space '{SPACE}'", FACT, b'"acme/support"'),
    "another magic": Wrong("undecodable", "begins with c3 02 and not with c3 01, as events do", b"\xc3\x02" + FACT[2:]),
    "JSON": Wrong("undecodable", "begins with 7b 22 and not with c3 01, as events do", b'{"space": "acme/support"}'),
    "an Avro body alone": Wrong("undecodable", "begins with 07 07 and not", fact(event_id=GOOD)[10:]),
    "Confluent framing": Wrong(
        "undecodable", "framed for a schema registry, and none is configured", b"\0\0\0\0\7" + FACT[10:]
    ),
    "a fingerprint in the other byte order": Wrong(
        "undecodable", "no released schema has the fingerprint", FACT[:2] + FACT[9:1:-1] + FACT[10:]
    ),
    "a fingerprint cut short": Wrong("undecodable", "only 7 bytes, too few for a fingerprint", FACT[:7]),
    "a body cut short": Wrong("undecodable", "the body is no FactAsserted", FACT[:-3]),
    "no body": Wrong("undecodable", "the body is no FactAsserted", FACT[:10]),
    "bytes left over": Wrong("undecodable", "2 bytes are left over after a FactAsserted", FACT + b"\0\0"),
    "text that is no UTF-8": Wrong("undecodable", "the body is no FactAsserted", FACT.replace(b"Acme", b"Ac\xffe")),
    "not a number": Wrong("invalid", "value: nan is no finite number", fact(value=float("nan"))),
    "a name with a line break": Wrong("invalid", "slot: 'a\\nb' has the control character U+000A", fact("a\nb")),
    "an end before the beginning": Wrong("invalid", "is not after", fact(valid_from=T0 + 1, valid_to=T0)),
    "nanoseconds since 1970": Wrong("invalid", "outside the years", fact(valid_from=T0 * 1_000)),
    "too large": Wrong("oversized", f"and an event has at most {MAX_EVENT_BYTES:,}", fact(value="x" * 960_000)),
    "a branch that nobody made": Wrong("unknown_branch", "the space has no branch 'trunk'", fact(branch="trunk")),
    "a target that nobody wrote": Wrong(
        "unknown_target", "no event 00000000-0000-0000", framed("FactRetracted", target=bytes(16))
    ),
    "an id that has other content": Wrong(
        "conflict", "is at offset 0 with other content", fact(value="Globex", event_id=GOOD)
    ),
    "the mark of a copy": Wrong(
        "wrong_key", "was so elsewhere", FACT, headers=(("slotlog_quarantined", b"wrong_key: was so elsewhere"),)
    ),
    "an append time that is none": Wrong(
        "invalid", "header slotlog_append_time is no time", FACT, headers=(("slotlog_append_time", b"now"),)
    ),
}


class Raw:
    """librdkafka, told to partition as Java does."""

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        self._topic = topic
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self._producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", **given})

    def send(self, value: bytes | None, key: bytes | None = SPACE.encode(), **more: Any) -> Position:
        """Where it was put."""
        put: list[Position] = []

        def delivered(error: KafkaError | None, sent: confluent_kafka.Message) -> None:
            assert error is None, error
            partition, offset = sent.partition(), sent.offset()
            assert partition is not None
            assert offset is not None
            put.append(Position(partition, offset))

        self._producer.produce(self._topic, value, key, on_delivery=delivered, **more)
        assert self._producer.flush(30) == 0
        return put[0]


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_record_is_quarantined_and_the_partition_goes_on(
    broker: Broker, topic: Topic, tmp_path: Path, what: str
) -> None:
    wrong = WRONG[what]
    name = topic()
    raw = Raw(broker.bootstrap, name, message_max_bytes=1_100_000)
    raw.send(fact("first", event_id=GOOD))
    raw.send(wrong.value, wrong.key, headers=list(wrong.headers))
    raw.send(fact("last", value="Initech"))
    with memory_of(broker, name, tmp_path) as memory:
        (found,) = memory.quarantined()
        assert (found.position, found.code) == (Position(0, 1), wrong.code)
        assert wrong.reason in found.reason
        assert {belief.slot: belief.value for belief in one_each(memory, SPACE)} == {"first": "Acme", "last": "Initech"}
        (partition,) = memory.info().partitions
        assert (partition.next, partition.applied, partition.quarantined) == (3, 2, 1)


def test_the_default_partitioner_of_librdkafka_is_the_wrong_one(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    """consistent_random is a CRC-32 of the key: here it puts one space right by chance, and another wrong."""
    name = topic(partitions=3)
    spaces = [f"acme/{number}" for number in range(30)]
    by_crc = {space: zlib.crc32(space.encode()) % 3 for space in spaces}
    right = next(space for space in spaces if by_crc[space] == partition_of(space.encode(), 3))
    wrong = next(space for space in spaces if by_crc[space] != partition_of(space.encode(), 3))
    default = Raw(broker.bootstrap, name, partitioner="consistent_random")
    assert default.send(fact(space=right), right.encode()).partition == by_crc[right]
    lost = default.send(fact(space=wrong), wrong.encode())
    assert lost.partition == by_crc[wrong]
    own = Raw(broker.bootstrap, name).send(fact(space=wrong, value="Initech"), wrong.encode())
    with memory_of(broker, name, tmp_path) as memory:
        (found,) = memory.quarantined()
        assert (found.position, found.code) == (lost, "wrong_partition")
        assert found.reason == (f"space '{wrong}' belongs in partition {own.partition}; the producer must use murmur2")
        assert [belief.value for belief in one_each(memory, right)] == ["Acme"]
        assert [belief.value for belief in one_each(memory, wrong)] == ["Initech"]


def test_a_retry_with_the_same_id_is_one_event(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    """Also by another process at a later moment: the producer's clock is no part of what an event says."""
    name = topic()
    Raw(broker.bootstrap, name).send(fact(event_id=GOOD))
    Raw(broker.bootstrap, name).send(fact(event_id=GOOD))
    Raw(broker.bootstrap, name).send(fact(event_id=GOOD, recorded_at=T0 + 60_000_000))
    with memory_of(broker, name, tmp_path) as memory:
        assert [one.position for one in memory.timeline(SPACE)] == [Position(0, 0)]
        (partition,) = memory.info().partitions
        assert (partition.applied, partition.duplicates, partition.quarantined) == (1, 2, 0)


def test_what_is_not_needed_may_be_left_out_or_be_anything(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    """No headers, headers of others, an id that is no UUIDv7, the producer's own timestamp, every compression."""
    name = topic()
    raw = Raw(broker.bootstrap, name)
    raw.send(fact("bare"))
    raw.send(fact("foreign"), headers=[("größe", b"\xff\x00"), ("null", None), ("ce_id", b"another")])
    raw.send(fact("id", event_id=bytes(16)))
    raw.send(fact("old"), timestamp=1)
    raw.send(fact("long", value="x" * 300_000))  # the door's max_value_bytes is a setting, which the fold has none of
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        Raw(broker.bootstrap, name, compression_type=codec).send(fact(codec, value="x" * 2_000))
    with_header(broker.bootstrap, name, fact("header"), SPACE.encode(), b"no\xffUTF-8")
    with memory_of(broker, name, tmp_path) as memory:
        assert memory.quarantined() == []
        assert set(memory.entity(SPACE, "user:alice")) == {"bare", "foreign", "id", "old", "long", "header", *codecs}
        times = [one.append_time for one in memory.timeline(SPACE)]
    assert times == sorted(times)
    assert times[0].year > 2020


def test_what_the_broker_does_not_take_never_gets_there(broker: Broker, topic: Topic) -> None:
    name = topic()
    huge = fact(value="x" * 1_100_000)
    with pytest.raises(KafkaException) as caught:
        Raw(broker.bootstrap, name).send(huge)
    assert caught.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    refused: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 2_000_000})
    producer.produce(name, huge, SPACE, on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(30) == 0
    assert [error.code() for error in refused if error is not None] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert records(broker, name) == []


# -- the README's page


def shown(source: Path) -> str:
    """The lines between the two lines of dashes, without their indentation."""
    lines = source.read_text(encoding="utf-8").splitlines()
    begin, end = (number for number, line in enumerate(lines) if line.strip() in ("// ----", "# ----"))
    indent = min(len(line) - len(line.lstrip()) for line in lines[begin + 1 : end] if line)
    return "\n".join(line[indent:] for line in lines[begin + 1 : end])


SNIPPETS = {"java": JAVA / "Snippet.java", "python": Path(__file__).with_name("raw_snippet.py")}


@pytest.mark.parametrize("language", SNIPPETS)
def test_the_readme_shows_the_snippets(language: str) -> None:
    assert shown(SNIPPETS[language]) in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", SNIPPETS)
def test_the_snippets_write_a_fact(
    broker: Broker, topic: Topic, java: Callable[..., list[str]], tmp_path: Path, language: str
) -> None:
    name = topic(partitions=3)
    if language == "java":
        java(broker, name, main="Snippet")
    else:
        call = [sys.executable, str(SNIPPETS[language]), broker.bootstrap, name, str(SCHEMAS)]
        done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    with memory_of(broker, name, tmp_path) as memory:
        assert memory.quarantined() == []
        assert [belief.value for belief in one_each(memory, "acme/support")] == [7]
