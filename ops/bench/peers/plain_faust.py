#!/usr/bin/env python3
"""A plain Faust agent with its own RocksDB table as a contestant: the newest fact of every entity and slot.

    python ops/bench/peers/plain_faust.py BOOTSTRAP TOPIC EVENTS [--linger SECONDS]

It is what one writes with Faust alone: an agent over the topic, a table that Faust keeps in RocksDB (through rocksdict)
and in a changelog topic, every event decoded by fastavro. Retractions and observations are decoded and counted only.
Faust by itself sends a changelog record at once; with a `--linger` of 0.05 it is half as fast again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
from contestant import Contest, Result, Spoken, run_alone

from schemas import registry

HEADER_BYTES = 10
TELL_EVERY_S = 0.02
CACHE_BYTES = 64 * 1024 * 1024  # Faust's default is 2 GiB a partition


class PlainFaust(NamedTuple):
    """A Faust agent in a process of its own. `linger_s` is how long its producer waits for more."""

    linger_s: float = 0.0

    @property
    def name(self) -> str:
        return "plain-faust-linger" if self.linger_s else "plain-faust"

    def start(self, contest: Contest) -> Spoken:
        fixed = [contest.bootstrap, contest.topic, str(contest.events), "--linger", str(self.linger_s)]
        return Spoken([sys.executable, str(Path(__file__).resolve()), *fixed, "--agent", str(contest.work)])


def run(bootstrap: str, topic: str, events: int, *, linger: float = 0.0) -> Result:
    """Put the `events` events that the topic holds into a fresh table; events, seconds and processor seconds."""
    return run_alone(PlainFaust(linger), bootstrap, topic, events)


# -- the agent's process


class Course:
    """How far the agent is, and what it took from the first event to the last."""

    def __init__(self, events: int) -> None:
        self.events = events
        self.done = self.puts = 0
        self.latencies_ms: list[float] = []
        self.ended = asyncio.Event()
        self._first = self._last = (0.0, 0.0)

    def begin(self) -> None:
        if not self.done:
            self._first = time.perf_counter(), time.process_time()

    def count(self, append_time_s: float) -> None:
        self.done += 1
        self.latencies_ms.append((time.time() - append_time_s) * 1000)
        if self.done == self.events:
            self._last = time.perf_counter(), time.process_time()
            self.ended.set()

    def result(self) -> Result:
        latencies = sorted(self.latencies_ms)
        return {
            "events": self.done,
            "puts": self.puts,
            "seconds": self._last[0] - self._first[0],
            "cpu_s": self._last[1] - self._first[1],
            "p50_ms": round(latencies[len(latencies) // 2], 1),
            "p99_ms": round(latencies[int(len(latencies) * 0.99)], 1),
        }


def decoder() -> Callable[[bytes], tuple[str, dict[str, Any]]]:
    """From the bytes of an event to its type and fields, times as ints."""
    schemas = {bytes.fromhex(one.fingerprint): (one.type, registry.parsed(one)) for one in registry.RELEASED}

    def decode(data: bytes) -> tuple[str, dict[str, Any]]:
        name, schema = schemas[data[2:HEADER_BYTES]]
        stream = BytesIO(data)
        stream.seek(HEADER_BYTES)
        return name, fastavro.schemaless_reader(stream, schema, None)  # type: ignore[return-value]

    return decode


def make_app(given: argparse.Namespace, partitions: int, course: Course) -> Any:
    import faust

    app = faust.App(
        f"faust-peer-{time.time_ns()}",
        broker=f"kafka://{given.bootstrap}",
        store="rocksdb://",
        datadir=str(given.agent),
        topic_partitions=partitions,
        topic_replication_factor=1,
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
        producer_linger=given.linger,
        web_enabled=False,
    )
    source = app.topic(given.topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    newest = app.Table("newest", partitions=partitions, options={"block_cache_size": CACHE_BYTES})
    decode = decoder()

    @app.agent(source, concurrency=1)
    async def keep(stream: Any) -> None:
        async for event in stream.events():
            course.begin()
            name, fields = decode(event.value)
            append_time_s = event.message.timestamp
            if name in ("FactAsserted", "FactEnded"):
                at = fields["valid_from" if name == "FactAsserted" else "at"]
                if at is None:
                    at = int(append_time_s * 1e6)
                key = f"{fields['space']}\0{fields['entity']}\0{fields['slot']}"
                known = newest.get(key)
                if known is None or known[0] <= at:
                    newest[key] = [at, fields["value"] if name == "FactAsserted" else None, fields["event_id"].hex()]
                course.puts += 1
            course.count(append_time_s)

    return app


async def agent(given: argparse.Namespace) -> None:
    from confluent_kafka.admin import AdminClient

    found = AdminClient({"bootstrap.servers": given.bootstrap}).list_topics(given.topic, 30)
    course = Course(given.events)
    app = make_app(given, len(found.topics[given.topic].partitions), course)
    await app.start()
    print(json.dumps({"ready": True}), flush=True)
    told = 0
    while not course.ended.is_set():
        try:
            await asyncio.wait_for(course.ended.wait(), TELL_EVERY_S)
        except TimeoutError:
            if app.should_stop:
                raise SystemExit("the Faust app stopped") from None
        if course.done != told:
            told = course.done
            print(json.dumps({"done": told}), flush=True)
    await app.stop()
    print(json.dumps(course.result()), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("events", type=int)
    parser.add_argument("--agent", type=Path, metavar="DIR", help="be the agent itself, with its table in DIR")
    parser.add_argument("--linger", type=float, default=0.0, metavar="SECONDS")
    given = parser.parse_args()
    if given.agent:
        asyncio.run(agent(given))
    else:
        print(json.dumps(run(given.bootstrap, given.topic, given.events, linger=given.linger)))
