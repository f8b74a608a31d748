"""Records that no producer of ours would write, as raw as a topic takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Producer
from raw_producer import with_header

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
    with_header(bootstrap, topic, b"garbage with a header", good.key, b"no\xffUTF-8")
    return 10


def harmless(bootstrap: str, topic: str, good: Sequence[Message]) -> None:
    """Events that count, in ways that are not ours: headers of others, a header's name that is not UTF-8, each kind of
    compression, a producer's own timestamp. Five messages at least."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    foreign = [("größe", b"\xff\x00"), ("null", None), ("ce_id", b"another")]
    producer.produce(topic, good[0].value, good[0].key, headers=foreign, timestamp=1)
    assert producer.flush(30) == 0
    with_header(bootstrap, topic, good[1].value, good[1].key, b"no\xffUTF-8")
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
