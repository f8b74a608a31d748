"""Records that no producer of ours would write, as raw as a topic takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
from confluent_kafka import Producer

from streams.partitioner import partition_of
from streams.ports import Message


def poison(bootstrap: str, topic: str, good: Message, partitions: int) -> int:
    """One of everything that can't count, each beside what does; how many there are."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    own = partition_of(good.key, partitions)
    producer.produce(topic, b"\x00garbage", good.key, partition=own)
    producer.produce(topic, b"\xc3\x01" + bytes(8) + good.value, good.key, partition=own)  # a schema of nobody's
    producer.produce(topic, good.value[:-3], good.key, partition=own)
    producer.produce(topic, None, good.key, partition=own)
    producer.produce(topic, b"", good.key, partition=own)
    producer.produce(topic, good.value, None, partition=own)
    producer.produce(topic, good.value, b"another/space", partition=own)
    producer.produce(topic, good.value, b"\xff\xfe", partition=own)
    producer.produce(topic, good.value, good.key, partition=(own + 1) % partitions)
    assert producer.flush(30) == 0
    _with_header(bootstrap, topic, b"garbage with a header", good.key, b"no\xffUTF-8")
    return 10


def harmless(bootstrap: str, topic: str, good: Sequence[Message]) -> None:
    """Events that count, in ways that are not ours: headers of others, a header's name that is not UTF-8, each kind of
    compression, a producer's own timestamp. Five messages at least."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    foreign = [("größe", b"\xff\x00"), ("null", None), ("ce_id", b"another")]
    producer.produce(topic, good[0].value, good[0].key, headers=foreign, timestamp=1)
    assert producer.flush(30) == 0
    _with_header(bootstrap, topic, good[1].value, good[1].key, b"no\xffUTF-8")
    for number, message in enumerate(good[2:]):
        codec = ("gzip", "snappy", "lz4", "zstd")[number % 4]
        settings = {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "compression.type": codec}
        producer = Producer(settings)
        producer.produce(topic, message.value, message.key, headers={"filling": b"x" * 2_000})
        assert producer.flush(30) == 0


@contextmanager
def transaction(bootstrap: str, topic: str, messages: Sequence[Message], name: str) -> Iterator[Producer]:
    """A transaction whose messages have reached the broker, and that is still open."""
    settings = {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "transactional.id": name}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for one in messages:
        producer.produce(topic, one.value, one.key, headers=list(one.headers))
    assert producer.flush(30) == 0
    yield producer


def _with_header(bootstrap: str, topic: str, value: bytes, key: bytes, header: bytes) -> None:
    """Produce with a header whose name no client of Java's or Python's would send."""
    (path,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*")
    rdkafka = ctypes.CDLL(str(path))
    rdkafka.rd_kafka_conf_new.restype = rdkafka.rd_kafka_new.restype = ctypes.c_void_p
    text = ctypes.create_string_buffer(512)
    conf = ctypes.c_void_p(rdkafka.rd_kafka_conf_new())
    for setting, content in ((b"bootstrap.servers", bootstrap.encode()), (b"partitioner", b"murmur2_random")):
        assert rdkafka.rd_kafka_conf_set(conf, setting, content, text, 512) == 0
    handle = ctypes.c_void_p(rdkafka.rd_kafka_new(0, conf, text, 512))

    def sized(content: bytes) -> tuple[ctypes.c_char_p, ctypes.c_size_t]:
        return ctypes.c_char_p(content), ctypes.c_size_t(len(content))

    # Tags of rd_kafka_vtype_t: 1 topic, 4 value, 5 key, 7 flags (2: copy), 9 header, 0 end.
    own = (4, *sized(value), 5, *sized(key), 9, ctypes.c_char_p(header), *sized(b"x"), 7, 2, 0)
    assert rdkafka.rd_kafka_producev(handle, 1, ctypes.c_char_p(topic.encode()), *own) == 0
    assert rdkafka.rd_kafka_flush(handle, 30_000) == 0
    rdkafka.rd_kafka_destroy(handle)
