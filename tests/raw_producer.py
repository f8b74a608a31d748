"""What no client of Kafka's would send, through librdkafka itself."""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka


def with_header(bootstrap: str, topic: str, value: bytes, key: bytes, header: bytes) -> None:
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
