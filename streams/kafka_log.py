"""The log on a Kafka topic, and what is to be known of that topic. The only file that imports confluent_kafka.

Every reader here reads committed records only: a producer that aborts leaves gaps in the offsets and nothing else.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from operator import methodcaller
from typing import Any, NamedTuple, TypeVar, cast

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, TopicDescription

from schemas.errors import (
    InvalidInput,
    LogChanged,
    LogRecreated,
    LogTruncated,
    LogUnreachable,
    NotFound,
    SlotlogError,
    StoreClosed,
    StoreFull,
)
from streams.limits import check_limits
from streams.partitioner import partition_of
from streams.ports import Batch, Message, Position, Record

DEFAULT_TOPIC = "slotlog.memory"
BATCH_RECORDS = 5_000
IDLE_CONSUMERS = 4
SHORT_READ_OFFSETS = 2_000
TOPIC_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": "1048588",
}
"""What the topic must be set to; `max.message.bytes` may be more."""

_WHY = {
    "cleanup.policy": "compaction removes events, and with them the past",
    "retention.ms": "events are deleted when they reach that age",
    "retention.bytes": "events are deleted when the partition reaches that size",
    "message.timestamp.type": "append times must come from the log, not from producers' clocks",
    "max.message.bytes": "events that slotlog takes would be refused",
}
_CLIENT = {
    "client.id": "slotlog",
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
}
_PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "compression.type": "zstd",
    "linger.ms": 1,
    "message.max.bytes": 1_200_000,
    "queue.buffering.max.messages": 200_000,
}
_CONSUMER = {
    "group.id": "slotlog-groupless",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    # A read is of records that are there. Waiting for more would only hold up the reader that has the consumer next.
    "fetch.wait.max.ms": 5,
    "max.partition.fetch.bytes": 524_288,
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 20_000,
}
# A short read pays for all that is fetched ahead of it: 5 ms instead of 30 ms for 200 records.
_SHORT_CONSUMER = {**_CONSUMER, "max.partition.fetch.bytes": 65_536}
_TRANSIENT = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
}
_UNKNOWN_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
}
_NO_LEADER = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
# What an AdminClient gets that keeps to a leader that was: it never asks again who leads now, a new one does.
_OLD_LEADER = {*_NO_LEADER, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH}
_REFUSED = {
    KafkaError._INVALID_ARG,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_EXCEPTION,
}

_Client = TypeVar("_Client")
_Answer = TypeVar("_Answer")
_UNREACHABLE_HINT = "check that a broker runs there and that its advertised listeners can be reached from here"

# Not called as `message.headers()`: the interpreter's fast path for that overlooks the error of a bad header, which
# then comes up somewhere else.
_headers_of: Callable[[KafkaMessage], Any] = methodcaller("headers")

_logger = logging.getLogger("slotlog.kafka")
_logger.addHandler(logging.NullHandler())


class Finding(NamedTuple):
    """One thing that was checked about a topic. `advice` says what to do when it is not `ok`."""

    setting: str
    expected: str
    found: str
    ok: bool
    advice: str


class _Clients:
    """The librdkafka handles of one process. They do not survive a fork."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.producer: Producer | None = None
        # Two pools: a fetch that is still under way would hold up a question on the same connection.
        self.readers: list[Consumer] = []
        self.short_readers: list[Consumer] = []
        self.watermarks: list[Consumer] = []
        self.admin: AdminClient | None = None


class KafkaLog:
    """The Log port on one Kafka topic. Connects when first used; threads may share one object."""

    def __init__(
        self,
        bootstrap: str,
        topic: str = DEFAULT_TOPIC,
        *,
        timeout_s: float = 30.0,
        config: Mapping[str, str] = {},
    ) -> None:
        """`bootstrap` is host:port[,host:port…]; `config` are settings of librdkafka, for SASL or TLS.

        `timeout_s` bounds every single request, and an append as a whole.
        """
        self._bootstrap = bootstrap
        self._topic = topic
        self._timeout_s = timeout_s
        self._config = dict(config)
        self._closed = False
        self._clients = _Clients()
        self._description: tuple[str, int] | None = None

    @property
    def identity(self) -> str:
        """Kafka's id of the topic, as it was when this object first asked."""
        return self._describe()[0]

    @property
    def partitions(self) -> int:
        """How many partitions the topic had when this object first asked."""
        return self._describe()[1]

    def partition_of(self, key: bytes) -> int:
        """Where murmur2 puts `key`, as every producer of this topic must."""
        return partition_of(key, self._describe()[1])

    def append(self, messages: Sequence[Message]) -> list[Position]:
        """Append and wait for every acknowledgement. See `Log.append`."""
        check_limits(messages)
        self._use()
        if not messages:
            return []
        self._describe()  # an unknown topic is known at once; the producer would wait for it to appear
        producer = self._producer()
        # Callbacks run in whichever thread polls. Setting an item of a dict is atomic.
        reports: dict[int, KafkaError | Position] = {}

        def report_to(number: int) -> Callable[[KafkaError | None, KafkaMessage], None]:
            def delivered(error: KafkaError | None, message: KafkaMessage) -> None:
                reports[number] = error or Position(cast(int, message.partition()), cast(int, message.offset()))

            return delivered

        # The producer gives up on a message after `timeout_s`; what is added here lets it say why.
        deadline = time.monotonic() + self._timeout_s + 2
        try:
            for number, (key, value, headers) in enumerate(messages):
                while True:
                    try:
                        producer.produce(self._topic, value, key, on_delivery=report_to(number), headers=list(headers))
                        break
                    except BufferError:
                        self._poll(producer, deadline)
            while len(reports) < len(messages):
                self._poll(producer, deadline)
        except KafkaException as error:
            raise self._append_error(producer, error.args[0]) from error
        positions: list[Position] = []
        for number in range(len(messages)):
            report = reports[number]
            if isinstance(report, KafkaError):
                raise self._append_error(producer, report) from KafkaException(report)
            positions.append(report)
        return positions

    def start(self, partition: int) -> int:
        """The low watermark."""
        return self._watermarks(partition)[0]

    def end(self, partition: int) -> int:
        """The last stable offset: from there on lies a transaction still open, or nothing yet."""
        return self._watermarks(partition)[1]

    def ends(self) -> list[int]:
        """`end` of every partition, asked for in one request.

        Raises:
            LogUnreachable: no answer within `timeout_s`.
        """
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return self._ends_now()
            except KafkaException as error:
                self._use().admin = None
                if error.args[0].code() not in _OLD_LEADER or time.monotonic() > deadline:
                    action = f"ask where {self._topic} ends"
                    raise _translated(error.args[0], action, self._bootstrap) from error
                time.sleep(0.05)

    def check_unchanged(self) -> None:
        """Ask the broker for the topic again and compare it with what it was when this object first asked.

        Raises:
            NotFound: the broker has no such topic, or, just started, does not know it yet.
            LogRecreated: it is another one of the same name.
            LogChanged: it has another number of partitions.
            LogUnreachable: no answer within `timeout_s`.
        """
        identity, partitions = self._describe()
        now = _describe_topic(_admin(self._bootstrap, self._config), self._topic, self._timeout_s, self._bootstrap)
        if str(now.topic_id) != identity:
            raise LogRecreated(
                f"the topic {self._topic} was deleted and created again: it was {identity}, and is {now.topic_id}",
                hint="restore its events from an archive, and delete the tables that were made from the old one",
            )
        if len(now.partitions) != partitions:
            raise LogChanged(
                f"the topic {self._topic} had {partitions} partitions, and has {len(now.partitions)}",
                hint="a log's partition count is fixed: spaces would move; copy it to a new topic with slotlog copy",
            )

    def _ends_now(self) -> list[int]:
        clients = self._use()
        with clients.lock:
            if clients.admin is None:
                clients.admin = _admin(self._bootstrap, self._config)
            admin = clients.admin
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        request = admin.list_offsets(
            {TopicPartition(self._topic, partition): latest for partition in range(self.partitions)},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout_s,
        )
        found = {one.partition: answer.result(self._timeout_s + 5).offset for one, answer in request.items()}
        return [found[partition] for partition in range(self.partitions)]

    def read(self, partition: int, start: int, end: int | None = None) -> Iterator[Batch]:
        """Batches of up to 5,000 records. See `Log.read`; an `end` past the log's end as of this call means that.

        Raises:
            LogTruncated: `start` lies before the first retained record, now or when it is fetched.
            LogUnreachable: nothing came for `timeout_s`.
        """
        first, now = self._watermarks(partition)
        stop = now if end is None else min(end, now)
        if start >= stop:
            return iter(())
        if start < first:
            raise self._truncated(partition, start, (first, now))
        return self._batches(partition, start, stop)

    def flaws(self) -> list[str]:
        """Settings of the topic that are not as they must be."""
        findings = check_topic(self._bootstrap, self._topic, config=self._config, timeout_s=self._timeout_s)
        return [
            f"{one.setting} is {one.found}, and must be {one.expected}: {one.advice}" for one in findings if not one.ok
        ]

    def close(self) -> None:
        """Release connections. Twice is harmless. A read that is under way ends with StoreClosed."""
        if self._closed:
            return
        self._closed = True
        clients = self._clients
        if clients.pid != os.getpid():
            return
        with clients.lock:
            producer, clients.producer = clients.producer, None
            clients.admin = None
            consumers = clients.readers + clients.short_readers + clients.watermarks
            clients.readers.clear()
            clients.short_readers.clear()
            clients.watermarks.clear()
        for consumer in consumers:
            consumer.close()
        if producer is not None:
            producer.flush(0)

    def _use(self) -> _Clients:
        """The handles of this process. Raises StoreClosed after `close`, and in a forked child."""
        if self._closed:
            raise StoreClosed(f"the log {self._topic} was closed")
        if self._clients.pid != os.getpid():
            raise StoreClosed(f"the log {self._topic} was opened before a fork", hint="open it again in the child")
        return self._clients

    def _describe(self) -> tuple[str, int]:
        """Topic id and number of partitions, asked for once."""
        self._use()
        if self._description is None:
            description = _describe_topic(
                _admin(self._bootstrap, self._config), self._topic, self._timeout_s, self._bootstrap
            )
            self._description = str(description.topic_id), len(description.partitions)
        return self._description

    def _producer(self) -> Producer:
        clients = self._use()
        with clients.lock:
            if clients.producer is None:
                settings = {**_PRODUCER, "message.timeout.ms": int(self._timeout_s * 1000), **self._config}
                clients.producer = _make(Producer, self._bootstrap, settings)
            return clients.producer

    def _poll(self, producer: Producer, deadline: float) -> None:
        """Serve delivery reports. The short wait is for threads whose reports another one has just served."""
        self._use()
        if not producer.poll(0.02) and time.monotonic() > deadline:
            raise LogUnreachable(
                f"{self._bootstrap} did not acknowledge an append to {self._topic} in {self._timeout_s:g} s",
                hint=_UNREACHABLE_HINT,
            )

    def _append_error(self, producer: Producer, error: KafkaError) -> SlotlogError:
        """Our error for Kafka's. A producer that says it is done for is replaced at the next append."""
        if error.fatal():
            with self._clients.lock:
                if self._clients.producer is producer:
                    self._clients.producer = None
        return _translated(error, f"append to {self._topic}", self._bootstrap)

    def _watermarks(self, partition: int) -> tuple[int, int]:
        """First retained offset and last stable offset, asked of the broker now."""
        if not 0 <= partition < self.partitions:
            raise InvalidInput(f"there is no partition {partition}: {self._topic} has {self.partitions}")
        deadline = time.monotonic() + self._timeout_s
        with self._borrowed(self._use().watermarks) as consumer:
            while True:
                try:
                    return consumer.get_watermark_offsets(
                        TopicPartition(self._topic, partition), timeout=self._timeout_s
                    )
                except KafkaException as error:  # the leader moves, or the topic was made a moment ago
                    if error.args[0].code() not in _NO_LEADER or time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)

    @contextmanager
    def _borrowed(self, pool: list[Consumer], settings: Mapping[str, object] = _CONSUMER) -> Iterator[Consumer]:
        """A consumer with nothing assigned, put back into its pool unless something went wrong with it."""
        clients = self._use()
        with clients.lock:
            consumer = pool.pop() if pool else None
        if consumer is None:
            consumer = _make(Consumer, self._bootstrap, {**settings, **self._config})
        sound = False
        try:
            yield consumer
            sound = True
        except GeneratorExit:
            sound = True
            raise
        except KafkaException as error:
            raise _translated(error.args[0], f"read {self._topic}", self._bootstrap) from error
        finally:
            if sound:
                consumer.unassign()
            with clients.lock:
                keep = sound and not self._closed and len(pool) < IDLE_CONSUMERS
                if keep:
                    pool.append(consumer)
            if not keep:
                consumer.close()

    def _batches(self, partition: int, start: int, stop: int) -> Iterator[Batch]:
        clients = self._use()
        short = stop - start <= SHORT_READ_OFFSETS
        pool, settings = (clients.short_readers, _SHORT_CONSUMER) if short else (clients.readers, _CONSUMER)
        with self._borrowed(pool, settings) as consumer:
            consumer.assign([TopicPartition(self._topic, partition, start)])
            while start < stop:
                records: list[Record] = []
                ended = False
                while len(records) < BATCH_RECORDS and not ended:
                    messages = self._consume(consumer, BATCH_RECORDS - len(records))
                    ended = self._take(messages, partition, start, stop, records)
                start = stop if ended else records[-1].offset + 1
                if ended:
                    consumer.unassign()
                yield Batch(records, start)
                self._use()

    def _consume(self, consumer: Consumer, count: int) -> list[KafkaMessage]:
        """Everything that is there, up to `count` messages and events; waits for the first of them."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            if messages := consumer.consume(count, 0):
                return messages
            message = consumer.poll(0.1)
            if message is not None:  # a message without a value is false
                return [message]
            self._use()
            if time.monotonic() > deadline:
                raise LogUnreachable(
                    f"{self._bootstrap} sent nothing of {self._topic} in {self._timeout_s:g} s", hint=_UNREACHABLE_HINT
                )

    def _take(self, messages: list[KafkaMessage], partition: int, start: int, stop: int, records: list[Record]) -> bool:
        """Add the records of `messages` that lie before `stop`; returns whether all there are have been added."""
        new = tuple.__new__
        for message in messages:
            if (error := message.error()) is not None:
                if self._is_end(error, partition, start) and cast(int, message.offset()) >= stop:
                    return True
                continue
            offset = message.offset()
            if offset >= stop:  # type: ignore[operator]
                return True
            try:
                headers = _headers_of(message) or ()
            except SystemError:  # what confluent_kafka makes of a header's name that is not UTF-8
                headers = ()
            for header in headers:
                if header[1] is None:
                    # A foreign producer may give a header no value; here it is empty.
                    headers = [(name, value or b"") for name, value in headers]
                    break
            time_us = message.timestamp()[1] * 1000
            fields = (partition, offset, time_us, message.key(), message.value(), tuple(headers))
            records.append(new(Record, fields))
        return bool(records) and records[-1].offset == stop - 1

    def _is_end(self, error: KafkaError, partition: int, start: int) -> bool:
        """True for the end of the partition, False for what passes by itself.

        Raises:
            LogTruncated: the broker no longer has the offset that is next.
            SlotlogError: every other error.
        """
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            return True
        if code in _TRANSIENT:
            return False
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise self._truncated(partition, start, self._watermarks(partition)) from KafkaException(error)
        raise _translated(error, f"read {self._topic}", self._bootstrap) from KafkaException(error)

    def _truncated(self, partition: int, start: int, retained: tuple[int, int]) -> LogTruncated:
        return LogTruncated(
            f"offset {start} of {self._topic} partition {partition} was asked for; "
            f"the broker has {retained[0]} up to {retained[1]}",
            hint="events were deleted before they were folded; restore them from an archive",
        )


def create_topic(
    bootstrap: str,
    topic: str = DEFAULT_TOPIC,
    *,
    partitions: int,
    replication_factor: int = 1,
    config: Mapping[str, str] = {},
    timeout_s: float = 30.0,
) -> None:
    """Make the topic with `TOPIC_SETTINGS` and wait until it can be used. The number of partitions is for ever.

    Raises:
        InvalidInput: it is there already, or the broker refuses the numbers.
        LogUnreachable: no answer within `timeout_s`.
    """
    admin = _admin(bootstrap, config)
    new = NewTopic(topic, partitions, replication_factor, config=dict(TOPIC_SETTINGS))
    request = admin.create_topics([new], request_timeout=timeout_s, operation_timeout=timeout_s)
    _result(request[topic], f"create {topic}", bootstrap, timeout_s)
    # The controller has answered; the broker that clients talk to learns of it a moment later.
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            description = _describe_topic(admin, topic, timeout_s, bootstrap)
            if all(partition.leader for partition in description.partitions):
                return
        except NotFound:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise LogUnreachable(f"{topic} was created at {bootstrap}, but has no leader after {timeout_s:g} s")
        time.sleep(0.02)


def check_topic(
    bootstrap: str, topic: str = DEFAULT_TOPIC, *, config: Mapping[str, str] = {}, timeout_s: float = 30.0
) -> list[Finding]:
    """What of the topic is as it must be, and what is not. A topic that is missing is the only finding then.

    Raises:
        LogUnreachable: no answer within `timeout_s`.
        InvalidInput: the broker refuses to answer this client.
    """
    admin = _admin(bootstrap, config)
    try:
        description = _describe_topic(admin, topic, timeout_s, bootstrap)
    except NotFound as error:
        return [Finding("topic", "exists", "missing", False, error.hint or "")]
    findings = [Finding("topic", "exists", f"{len(description.partitions)} partitions", True, "")]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    request = admin.describe_configs([resource], request_timeout=timeout_s)
    entries = _result(request[resource], f"read the settings of {topic}", bootstrap, timeout_s)
    for setting, expected in TOPIC_SETTINGS.items():
        found = str(entries[setting].value)
        if setting == "max.message.bytes":
            ok, expected = int(found) >= int(expected), f"{expected} or more"
        else:
            ok = found == expected
        advice = f"set it: {_WHY[setting]}"
        findings.append(Finding(setting, expected, found, ok, "" if ok else advice))
    return findings


def _make(kind: Callable[..., _Client], bootstrap: str, settings: Mapping[str, object]) -> _Client:
    """A client that logs to `slotlog.kafka` and never to stderr."""
    try:
        return kind({"bootstrap.servers": bootstrap, **_CLIENT, **settings}, logger=_logger)
    except KafkaException as error:
        raise _translated(error.args[0], "set up a client", bootstrap) from error


def _admin(bootstrap: str, config: Mapping[str, str]) -> AdminClient:
    return _make(AdminClient, bootstrap, config)


def _result(future: Future[_Answer], action: str, bootstrap: str, timeout_s: float) -> _Answer:
    """What an AdminClient's request came to. The client gives up after `timeout_s`; this waits a little longer."""
    try:
        return future.result(timeout_s + 5)
    except KafkaException as error:
        raise _translated(error.args[0], action, bootstrap) from error
    except FutureTimeout as error:
        raise LogUnreachable(f"could not {action}: {bootstrap} does not answer", hint=_UNREACHABLE_HINT) from error


def _describe_topic(admin: AdminClient, topic: str, timeout_s: float, bootstrap: str) -> TopicDescription:
    request = admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)
    description: TopicDescription = _result(request[topic], f"find {topic}", bootstrap, timeout_s)
    return description


def _translated(error: KafkaError, action: str, bootstrap: str) -> SlotlogError:
    """What Kafka's error means for the caller."""
    code = error.code()
    text = f"could not {action} at {bootstrap}: {error.str()}"
    if code in _UNKNOWN_TOPIC:
        return NotFound(text, hint="make the topic with `slotlog topic create`")
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return InvalidInput(text, hint="see what it is set to with `slotlog topic check`")
    if code in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
        return InvalidInput(text, hint="raise `max.message.bytes` of the topic: see `slotlog topic check`")
    if code in _REFUSED:
        return InvalidInput(text, hint="check the address and the client's settings")
    if code == KafkaError.KAFKA_STORAGE_ERROR:
        return StoreFull(text, hint="look at the broker's disk and its log")
    return LogUnreachable(text, hint=_UNREACHABLE_HINT)
