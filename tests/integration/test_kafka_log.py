"""What is particular to the log on Kafka, on a real broker."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import confluent_kafka
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_broker import Broker
from raw_producer import with_header

from schemas.errors import InvalidInput, LogTruncated, LogUnreachable, NotFound, StoreClosed, UndecodableEvent
from streams.kafka_log import KafkaLog, check_topic, create_topic
from streams.partitioner import murmur2, partition_of
from streams.ports import Batch, Message, Position
from streams.schema_registry import confluent_schema_resolver

Topic = Callable[..., str]


def numbered(*numbers: int) -> list[Message]:
    return [Message(b"acme/crm", str(number).encode()) for number in numbers]


def read(log: KafkaLog, start: int = 0, end: int | None = None) -> tuple[list[int], list[Batch]]:
    batches = list(log.read(0, start, end))
    return [record.offset for batch in batches for record in batch.records], batches


@contextmanager
def transaction(broker: Broker, topic: str, count: int) -> Iterator[Producer]:
    """A foreign producer's transaction of `count` records that has reached the broker and is still open."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-{time.monotonic_ns()}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, f"foreign {number}".encode(), b"acme/crm")
    assert producer.flush(30) == 0
    yield producer


def wait_for_end(log: KafkaLog, end: int) -> None:
    """The marker that ends a transaction is written a moment after the producer's call returns."""
    deadline = time.monotonic() + 30
    while log.end(0) != end:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def abort(broker: Broker, log: KafkaLog, topic: str, count: int) -> None:
    """An aborted transaction: `count` records and a marker."""
    end = log.end(0) + count + 1
    with transaction(broker, topic, count) as producer:
        producer.abort_transaction(30)
    wait_for_end(log, end)


@pytest.fixture
def log(broker: Broker, topic: Topic) -> Iterator[KafkaLog]:
    with closing(KafkaLog(broker.bootstrap, topic())) as opened:
        yield opened


@pytest.fixture
def name(log: KafkaLog) -> str:
    return log._topic


def test_aborted_records_are_passed_over_wherever_they_are(broker: Broker, log: KafkaLog, name: str) -> None:
    abort(broker, log, name, 2)  # 0 1, marker 2
    log.append(numbered(3, 4))
    abort(broker, log, name, 3)  # 5 6 7, marker 8
    log.append(numbered(9))
    abort(broker, log, name, 4)  # 10 … 13, marker 14
    assert log.end(0) == 15
    offsets, batches = read(log)
    assert offsets == [3, 4, 9]
    assert batches[-1].next_offset == 15
    for start, end, expected in [
        (0, 3, []),
        (0, 4, [3]),
        (5, 9, []),
        (6, 8, []),
        (4, 7, [4]),
        (10, None, []),
        (14, 15, []),
    ]:
        offsets, batches = read(log, start, end)
        assert (offsets, len(batches)) == (expected, 1)
        assert batches[0].next_offset == (15 if end is None else end)


def test_an_open_transaction_is_beyond_the_end(broker: Broker, log: KafkaLog, name: str) -> None:
    log.append(numbered(0, 1))
    with transaction(broker, name, 2) as producer:
        (position,) = log.append(numbered(4))
        assert position == Position(0, 4)
        assert log.end(0) == 2
        offsets, batches = read(log)
        assert (offsets, batches[-1].next_offset) == ([0, 1], 2)
        assert read(log, 0, 5)[0] == [0, 1]
        assert list(log.read(0, 2)) == []
        producer.commit_transaction(30)
    wait_for_end(log, 6)
    assert read(log, 2)[0] == [2, 3, 4]


def test_records_deleted_under_a_reader_are_an_error(broker: Broker, log: KafkaLog, name: str) -> None:
    log.append(numbered(*range(10)))
    reading = log.read(0, 2)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(name, 0, 6)]).values():
        future.result()
    with pytest.raises(LogTruncated, match=r"offset 2 .* has 6 up to 10"):
        next(reading)
    assert read(log, 6)[0] == [6, 7, 8, 9]


def test_a_recreated_topic_has_another_identity(broker: Broker, log: KafkaLog, name: str) -> None:
    log.append(numbered(0, 1, 2))
    before = log.identity
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([name], operation_timeout=30)[name].result()
    deadline = time.monotonic() + 30
    while True:
        try:
            create_topic(broker.bootstrap, name, partitions=1)
            break
        except InvalidInput:  # deletion has not reached everyone yet
            assert time.monotonic() < deadline
            time.sleep(0.1)
    with closing(KafkaLog(broker.bootstrap, name)) as again:
        assert again.identity != before
        assert again.end(0) == 0
        with pytest.raises(LogTruncated):
            list(again._batches(0, 2, 3))


def test_keys_go_where_java_puts_them(broker: Broker, topic: Topic) -> None:
    chance = random.Random(7)
    keys = [bytes(chance.randrange(256) for _ in range(length)) for length in range(40) for _ in range(8)]
    keys += ["größe/ä".encode(), b"", b"acme/crm"]
    with closing(KafkaLog(broker.bootstrap, topic(partitions=7))) as log:
        assert log.partitions == 7
        expected = [log.partition_of(key) for key in keys]
        positions = log.append([Message(key, b"v") for key in keys])
        assert [position.partition for position in positions] == expected
        assert [confluent_kafka.murmur2(key, 7) for key in keys] == expected
        assert set(expected) == set(range(7))
        for position, key in zip(positions, keys, strict=True):
            (batch,) = log.read(position.partition, position.offset, position.offset + 1)
            assert batch.records[0].key == key


@pytest.mark.parametrize(
    ("data", "signed"),
    [  # from Kafka's own UtilsTest.java
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed % 2**32
    assert partition_of(data, 10) == (signed % 2**31) % 10


def test_order_within_a_key_over_many_partitions(broker: Broker, topic: Topic) -> None:
    messages = [Message(f"space/{number % 11}".encode(), str(number).encode()) for number in range(5_000)]
    with closing(KafkaLog(broker.bootstrap, topic(partitions=3))) as log:
        log.append(messages)
        seen: dict[bytes | None, list[int]] = {}
        for partition in range(3):
            for batch in log.read(partition, 0):
                for record in batch.records:
                    seen.setdefault(record.key, []).append(int(record.value or b""))
    assert sorted(number for numbers in seen.values() for number in numbers) == list(range(5_000))
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def test_headers_of_foreign_producers(broker: Broker, log: KafkaLog, name: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(name, b"0", headers=[("empty", None), ("full", b"x")])
    assert producer.flush(30) == 0
    with_header(broker.bootstrap, name, b"1", b"k", b"no\xffUTF-8")
    log.append([Message(b"k", b"2", (("a", b"b"),))])
    (batch,) = log.read(0, 0)
    assert [(record.value, record.headers) for record in batch.records] == [
        (b"0", (("empty", b""), ("full", b"x"))),
        (b"1", ()),
        (b"2", (("a", b"b"),)),
    ]


def test_a_missing_topic_is_not_found(broker: Broker) -> None:
    with closing(KafkaLog(broker.bootstrap, "nowhere")) as log:
        for use in (lambda: log.identity, lambda: log.append(numbered(1)), lambda: log.read(0, 0), lambda: log.end(0)):
            with pytest.raises(NotFound, match="nowhere") as caught:
                use()
            assert caught.value.hint == "make the topic with `slotlog topic create`"


def test_a_message_that_the_topic_refuses(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("small", 1, 1, config={"max.message.bytes": "1000"})])["small"].result()
    with closing(KafkaLog(broker.bootstrap, "small")) as log:
        with pytest.raises(InvalidInput, match="too large") as caught:
            log.append([Message(b"k", random.Random(1).randbytes(5_000))])
        assert caught.value.hint is not None
        assert log.end(0) == 0
        assert log.append(numbered(1)) == [Position(0, 0)]


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        silent = f"127.0.0.1:{taken.getsockname()[1]}"
        unreachable_within(silent, 10)
    unreachable_within(silent, 10)


def unreachable_within(bootstrap: str, limit_s: float) -> None:
    with closing(KafkaLog(bootstrap, timeout_s=0.5)) as log:
        began = time.monotonic()
        for use in (lambda: log.identity, lambda: log.append(numbered(1)), lambda: log.end(0)):
            with pytest.raises(LogUnreachable, match=bootstrap) as caught:
                use()
            assert caught.value.hint is not None
        assert time.monotonic() - began < limit_s


def test_a_broker_that_dies_and_comes_back(tmp_path: Path) -> None:
    own = Broker(tmp_path / "kafka").start()
    try:
        create_topic(own.bootstrap, "t", partitions=1)
        with closing(KafkaLog(own.bootstrap, "t", timeout_s=1.5)) as log:
            log.append(numbered(0))
            own.kill()
            for use in (lambda: log.append(numbered(1)), lambda: log.end(0), lambda: list(log._batches(0, 0, 1))):
                with pytest.raises(LogUnreachable, match=own.bootstrap):
                    use()
            own.start()
            deadline = time.monotonic() + 30
            while True:
                try:
                    (position,) = log.append(numbered(2))
                    break
                except LogUnreachable:
                    assert time.monotonic() < deadline
            assert [r.value for b in log.read(0, position.offset) for r in b.records] == [b"2"]
            assert [r.value for b in log.read(0, 0, 1) for r in b.records] == [b"0"]
    finally:
        own.stop()


def test_nothing_is_printed_when_the_broker_is_gone() -> None:
    code = """
import socket
from schemas.errors import LogUnreachable
from streams.kafka_log import KafkaLog
from streams.ports import Message
log = KafkaLog("127.0.0.1:1", timeout_s=0.5)
for use in (lambda: log.identity, lambda: log._producer().poll(0.3), lambda: log._watermarks(0)):
    try:
        use()
    except LogUnreachable:
        pass
log.close()
"""
    call = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_settings_that_librdkafka_does_not_know_are_refused(broker: Broker) -> None:
    log = KafkaLog(broker.bootstrap, config={"sasl.mechanismus": "PLAIN"})
    with closing(log), pytest.raises(InvalidInput, match=r"sasl\.mechanismus"):
        _ = log.identity


def test_a_forked_child_is_told_to_open_again(broker: Broker, log: KafkaLog) -> None:
    log.append(numbered(0))
    log._clients.pid -= 1  # as a child sees it
    with pytest.raises(StoreClosed, match="before a fork"):
        log.append(numbered(1))
    log._clients.pid += 1
    assert log.end(0) == 1


def test_create_and_check_a_topic(broker: Broker) -> None:
    assert [(f.setting, f.ok) for f in check_topic(broker.bootstrap, "made")] == [("topic", False)]
    create_topic(broker.bootstrap, "made", partitions=3)
    findings = check_topic(broker.bootstrap, "made")
    assert {f.setting: f.found for f in findings} == {
        "topic": "3 partitions",
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": "1048588",
    }
    assert all(f.ok and not f.advice for f in findings)
    with pytest.raises(InvalidInput, match="already exists") as caught:
        create_topic(broker.bootstrap, "made", partitions=3)
    assert "slotlog topic check" in str(caught.value.hint)
    for partitions, copies in ((0, 1), (1, 3)):
        with pytest.raises(InvalidInput):
            create_topic(broker.bootstrap, "other", partitions=partitions, replication_factor=copies)


def test_wrong_settings_are_found(broker: Broker) -> None:
    wrong = {"cleanup.policy": "compact", "retention.ms": "1000", "max.message.bytes": "2000"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("wrong", 1, 1, config=wrong)])["wrong"].result()
    bad = {f.setting: (f.expected, f.found) for f in check_topic(broker.bootstrap, "wrong") if not f.ok and f.advice}
    assert bad == {
        "cleanup.policy": ("delete", "compact"),
        "retention.ms": ("-1", "1000"),
        "message.timestamp.type": ("LogAppendTime", "CreateTime"),
        "max.message.bytes": ("1048588 or more", "2000"),
    }


class Registry(BaseHTTPRequestHandler):
    """As much of a Confluent schema registry as `GET /schemas/ids/ID`."""

    answers: ClassVar[dict[str, tuple[int, dict[str, object]]]] = {
        "1": (200, {"schema": '{"type": "string"}'}),
        "2": (200, {"schema": "{}", "schemaType": "JSON"}),
        "3": (404, {"error_code": 40403, "message": "Schema 3 not found"}),
        "4": (401, {"error_code": 401, "message": "Unauthorized"}),
    }

    def do_GET(self) -> None:
        status, answer = self.answers[self.path.partition("?")[0].rpartition("/")[2]]
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


def test_the_resolver_asks_a_schema_registry() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            resolve = confluent_schema_resolver(url, timeout_s=5)
            assert resolve(1) == '{"type": "string"}'
            with pytest.raises(UndecodableEvent, match="no Avro schema"):
                resolve(2)
            with pytest.raises(UndecodableEvent, match="no schema 3"):
                resolve(3)
            with pytest.raises(LogUnreachable, match="Unauthorized"):
                resolve(4)
        finally:
            server.shutdown()
            serving.join()
    assert resolve(1) == '{"type": "string"}'
    with pytest.raises(LogUnreachable, match="does not answer"):
        resolve(5)
    with pytest.raises(InvalidInput, match="no URL"):
        confluent_schema_resolver("registry:8081")


def test_without_the_extra_the_resolver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(InvalidInput) as caught:
        confluent_schema_resolver("http://127.0.0.1:1")
    assert caught.value.hint == "pip install 'slotlog[registry]'"


def test_the_consumer_never_waits_for_a_group(broker: Broker, log: KafkaLog) -> None:
    log.append(numbered(*range(3)))
    assert read(log)[0] == [0, 1, 2]
    groups = AdminClient({"bootstrap.servers": broker.bootstrap}).list_consumer_groups(request_timeout=30).result()
    assert groups.valid == []
