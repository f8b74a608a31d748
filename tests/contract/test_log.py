"""What every log must do. Run on the embedded log and on a real Kafka broker."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka_broker import Broker
from log_worker import clock, seen, spawn

from schemas.errors import InvalidInput, LogTruncated, StoreClosed
from streams.kafka_log import KafkaLog
from streams.limits import MAX_ENVELOPE_BYTES
from streams.ports import MAX_MESSAGE_BYTES, Log, Message, Position, Record
from streams.sqlite_log import SqliteLog

HEADERS = (("ce_type", b"FactAsserted"), ("ce_id", bytes(range(16))), ("ce_id", b""), ("größe", b"\xff\x00"))


class Place:
    """Somewhere that a log can be opened, as often as wanted."""

    worker: tuple[object, ...]

    def open(self) -> Log:
        raise NotImplementedError

    def put_foreign(self, key: bytes | None, value: bytes | None) -> None:
        """Append as a producer would that is none of ours."""
        raise NotImplementedError


class SqlitePlace(Place):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.worker = ("sqlite", folder)

    def open(self) -> Log:
        return SqliteLog(self.folder, clock=clock)

    def put_foreign(self, key: bytes | None, value: bytes | None) -> None:
        with closing(sqlite3.connect(self.folder / "log.sqlite")) as database, database:
            database.execute('INSERT INTO log SELECT max("offset") + 1, 1, ?, ?, NULL FROM log', (key, value))


class KafkaPlace(Place):
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.worker = ("kafka", bootstrap, topic)

    def open(self) -> Log:
        return KafkaLog(self.bootstrap, self.topic)

    def put_foreign(self, key: bytes | None, value: bytes | None) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(self.topic, value, key, partition=0)
        assert producer.flush(30) == 0


@pytest.fixture(params=["sqlite", "kafka"])
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    """Makes places without a log in common."""
    if request.param == "sqlite":
        folders = iter(tmp_path / str(number) for number in range(99))
        return lambda: SqlitePlace(next(folders))
    broker: Broker = request.getfixturevalue("broker")
    topic: Callable[[], str] = request.getfixturevalue("topic")
    return lambda: KafkaPlace(broker.bootstrap, topic())


@pytest.fixture
def place(make_place: Callable[[], Place]) -> Place:
    return make_place()


@pytest.fixture
def log(place: Place) -> Iterator[Log]:
    opened = place.open()
    yield opened
    opened.close()


def records(log: Log, start: int = 0, end: int | None = None) -> list[Record]:
    return [record for batch in log.read(0, start, end) for record in batch.records]


def numbered(count: int) -> list[Message]:
    return [Message(b"acme/crm", str(number).encode()) for number in range(count)]


def test_what_is_appended_is_read_back(log: Log) -> None:
    before = clock()
    messages = [Message(b"acme/crm", b"\x00\xff", HEADERS), Message(b"acme/ops", b""), Message(b"", b"3")]
    assert log.append(messages) == [Position(0, 0), Position(0, 1), Position(0, 2)]
    found = records(log)
    assert [(r.partition, r.offset, r.key, r.value, r.headers) for r in found] == [
        (0, 0, b"acme/crm", b"\x00\xff", HEADERS),
        (0, 1, b"acme/ops", b"", ()),
        (0, 2, b"", b"3", ()),
    ]
    assert all(type(r) is Record and type(r.headers) is tuple for r in found)
    assert all(before - 1_000 <= r.append_time <= clock() for r in found)  # Kafka's clock has whole milliseconds


def test_a_foreign_record_may_lack_key_or_value(place: Place, log: Log) -> None:
    log.append(numbered(1))
    place.put_foreign(None, b"value")
    place.put_foreign(b"key", None)
    place.put_foreign(None, None)
    assert [(r.key, r.value) for r in records(log, 1)] == [(None, b"value"), (b"key", None), (None, None)]


def test_many_batches_come_in_order(log: Log) -> None:
    messages = numbered(12_000)
    positions = log.append(messages[:7_000]) + log.append(messages[7_000:])
    assert positions == [Position(0, offset) for offset in range(12_000)]
    batches = list(log.read(0, 0))
    assert len(batches) > 1
    assert [r.value for batch in batches for r in batch.records] == [m.value for m in messages]
    for batch in batches:
        assert batch.next_offset == batch.records[-1].offset + 1
    times = [r.append_time for batch in batches for r in batch.records]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [
        (0, None, range(10)),
        (3, None, range(3, 10)),
        (3, 7, range(3, 7)),
        (9, 10, range(9, 10)),
        (4, 4, range(0)),
        (7, 3, range(0)),
        (10, None, range(0)),
        (10, 20, range(0)),
        (25, 30, range(0)),
        (8, 1_000, range(8, 10)),
    ],
)
def test_a_range_holds_its_start_and_not_its_end(log: Log, start: int, end: int | None, offsets: range) -> None:
    log.append(numbered(10))
    batches = list(log.read(0, start, end))
    assert [r.offset for batch in batches for r in batch.records] == list(offsets)
    assert [batch.next_offset for batch in batches] == ([offsets.stop] if offsets else [])


def test_the_default_end_is_that_of_the_call(log: Log) -> None:
    log.append(numbered(3))
    reading = log.read(0, 0)
    log.append(numbered(3))
    assert [r.offset for batch in reading for r in batch.records] == [0, 1, 2]


def test_a_read_may_be_left_unfinished_and_others_go_on_beside_it(log: Log) -> None:
    log.append(numbered(6_000))
    reading = log.read(0, 0)
    first = next(reading)
    for _ in range(6):
        next(log.read(0, 1))
    other = records(log, 5_990)
    assert [r.offset for r in other] == list(range(5_990, 6_000))
    rest = [r.offset for batch in reading for r in batch.records]
    assert rest == list(range(first.next_offset, 6_000))


def test_start_and_end(log: Log) -> None:
    assert (log.start(0), log.end(0)) == (0, 0)
    assert list(log.read(0, 0)) == []
    for number in range(1, 4):
        log.append(numbered(1))
        assert log.end(0) == number
        assert len(records(log)) == number
    assert log.start(0) == 0


def test_what_another_one_appended_is_there_once_acknowledged(place: Place, log: Log) -> None:
    with closing(place.open()) as other:
        for number in range(5):
            other.append([Message(b"k", str(number).encode())])
            assert log.end(0) == number + 1
            assert records(log, number)[0].value == str(number).encode()


def test_an_empty_append_is_nothing(log: Log) -> None:
    assert log.append([]) == []
    assert log.end(0) == 0


@pytest.mark.parametrize(
    "bad",
    [
        Message(b"k", bytes(MAX_MESSAGE_BYTES + 1)),
        Message(bytes(MAX_ENVELOPE_BYTES + 1), b"v"),
        Message(b"k", b"v", (("h", bytes(MAX_ENVELOPE_BYTES)),)),
    ],
    ids=["value", "key", "headers"],
)
def test_a_message_over_the_limit_is_refused_and_nothing_is_written(log: Log, bad: Message) -> None:
    with pytest.raises(InvalidInput, match="message 1 of 3"):
        log.append([*numbered(1), bad, *numbered(1)])
    assert log.end(0) == 0


def test_messages_at_the_limit_fit(log: Log) -> None:
    headers = tuple((f"{number:06d}", b"") for number in range((MAX_ENVELOPE_BYTES - 1) // 16))
    big = Message(b"k", bytes(range(250)) * (MAX_MESSAGE_BYTES // 250), headers)
    log.append([big, big, big])
    assert [(r.key, r.value, r.headers) for r in records(log)] == [tuple(big)] * 3


def test_the_identity_stays_and_is_its_own(make_place: Callable[[], Place]) -> None:
    here, there = make_place(), make_place()
    with closing(here.open()) as first, closing(here.open()) as again, closing(there.open()) as other:
        assert first.identity == again.identity != other.identity
        identity = first.identity
    with closing(here.open()) as reopened:
        assert reopened.identity == identity


def test_partitions(log: Log) -> None:
    assert log.partitions == 1
    assert log.partition_of(b"acme/crm") == 0
    for partition in (-1, 1):
        for ask in (log.start, log.end, lambda p: log.read(p, 0)):
            with pytest.raises(InvalidInput, match=f"no partition {partition}"):
                ask(partition)


def test_a_closed_log_says_so(place: Place) -> None:
    log = place.open()
    log.append(numbered(6_000))
    reading = log.read(0, 0)
    next(reading)
    log.close()
    log.close()
    for use in (
        lambda: log.append(numbered(1)),
        lambda: log.append([]),
        lambda: log.start(0),
        lambda: log.end(0),
        lambda: log.read(0, 0),
        lambda: next(reading),
    ):
        with pytest.raises(StoreClosed):
            use()


def test_what_was_appended_is_there_after_reopening(place: Place) -> None:
    with closing(place.open()) as log:
        log.append(numbered(3))
    with closing(place.open()) as log:
        assert [r.value for r in records(log)] == [b"0", b"1", b"2"]
        assert log.append(numbered(1)) == [Position(0, 3)]


def test_many_processes_append_and_read_at_once(place: Place, log: Log) -> None:
    writers = {f"w{number}": spawn(*place.worker, "append", f"w{number}", 120, 1 + 4 * number) for number in range(4)}
    readers = [spawn(*place.worker, "read", 480) for _ in range(2)]
    written: list[tuple[int, int, str]] = []
    for name, process in writers.items():
        lines = seen(process.communicate(timeout=60)[0])
        assert process.returncode == 0
        assert [value for _, _, value in lines] == [f"{name}:{number}" for number in range(120)]
        assert [offset for _, offset, _ in lines] == sorted(offset for _, offset, _ in lines)
        written += lines
    on_log = [(r.partition, r.offset, (r.value or b"").decode()) for r in records(log)]
    assert sorted(written) == on_log
    assert [offset for _, offset, _ in on_log] == list(range(480))
    for process in readers:
        assert seen(process.communicate(timeout=60)[0]) == on_log
        assert process.returncode == 0


def test_threads_share_one_log(log: Log) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(name: int) -> list[tuple[int, bytes]]:
        found = []
        for number in range(20):
            value = f"{name}:{number}".encode()
            (position,) = log.append([Message(str(name).encode(), value)])
            assert records(log, position.offset, position.offset + 1)[0].value == value
            found.append((position.offset, value))
        return found

    with ThreadPoolExecutor(4) as pool:
        written = [item for items in pool.map(work, range(4)) for item in items]
    assert sorted(written) == [(r.offset, r.value) for r in records(log)]


def test_before_the_first_retained_record_is_an_error(place: Place, log: Log) -> None:
    log.append(numbered(10))
    if isinstance(place, SqlitePlace):
        with closing(sqlite3.connect(place.folder / "log.sqlite")) as database, database:
            database.execute('DELETE FROM log WHERE "offset" < 4')
    else:
        assert isinstance(place, KafkaPlace)
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": place.bootstrap})
        for future in admin.delete_records([TopicPartition(place.topic, 0, 4)]).values():
            future.result()
    assert (log.start(0), log.end(0)) == (4, 10)
    assert [r.offset for r in records(log, 4)] == list(range(4, 10))
    with pytest.raises(LogTruncated, match=r"offset 3 .* 4"):
        log.read(0, 3)
