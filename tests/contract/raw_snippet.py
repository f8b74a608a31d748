"""What the README shows of Python without slotlog, between the two lines of dashes. Arguments: as Snippet.java's."""

import io
import sys
import time
import uuid

import fastavro
from confluent_kafka import Producer

bootstrap, topic, schemas = sys.argv[1:]
# ----
schema = fastavro.schema.load_schema(f"{schemas}/FactAsserted.avsc")
fingerprint = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")
fact = {
    "event_id": uuid.uuid4().bytes,  # uuid7 where there is one; keep it for a retry
    "space": "acme/support",
    "actor": "agent:planner",
    "recorded_at": time.time_ns() // 1000,
    "entity": "user:alice",
    "slot": "seats",
    "value": 7,
}
body = io.BytesIO()
fastavro.schemaless_writer(body, schema, fact)
producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "enable.idempotence": True})
producer.produce(topic, b"\xc3\x01" + bytes.fromhex(fingerprint) + body.getvalue(), "acme/support")
producer.flush()
# ----
