"""How fast a Kafka log becomes tables, beside what reading and decoding the same messages costs without slotlog.

A real broker holds the log of a fleet (`workload.py`). In turn, as pairs: a bare librdkafka consumer with
`consume(5000)` and fastavro's `schemaless_reader` on every message; and `Memory` folding the whole log into fresh
tables, flushed and closed. Both read committed records and start with nothing open. Then: where the time goes, a
rebuild, the same events embedded, and bytes on disk.

    python ops/bench/fold.py                    1,000,000 events, one partition, 5 pairs
    python ops/bench/fold.py --partitions 4
    python ops/bench/fold.py --small            5,000 events, 2 pairs
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from collections import Counter
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import harness
from confluent_kafka import Consumer, TopicPartition
from workload import Fleet

from schemas import registry
from schemas.codec import Codec
from streams import Memory, clock
from streams.envelope import message
from streams.fold import fold
from streams.kafka_log import KafkaLog
from streams.overlay import Overlay
from streams.ports import Log, Message
from streams.rows import Head
from streams.sqlite_log import SqliteLog
from streams.tables import Tables

BATCH = 5_000
HEADER_BYTES = 10
PROFILED_EVENTS = 100_000
PROFILE_ROWS = 25


class Filled:
    """The topic with its events, and where the tables made from it go."""

    def __init__(self, broker: harness.Broker, work: Path, given: argparse.Namespace) -> None:
        self.broker, self.work, self.partitions = broker, work, given.partitions
        self.topic = broker.new_topic("fold", given.partitions)
        self.events = given.events
        self.counts: Counter[str] = Counter()
        self._runs = 0
        embedded = SqliteLog(work / "embedded", clock=clock.now_micros)
        kafka = KafkaLog(broker.bootstrap, self.topic)
        logs: dict[str, Log] = {"append_sqlite": embedded, "append_kafka": kafka}
        codec, fleet = Codec(), Fleet(given.seed)
        events = fleet.events(given.events)
        self.value_bytes = 0
        self.seconds = {"make": 0.0, "append_sqlite": 0.0, "append_kafka": 0.0}
        while True:
            with harness.timed() as seconds:
                batch = list(islice(events, BATCH))
                messages: list[Message] = [message(event, codec) for event in batch]
            self.seconds["make"] += seconds()
            if not batch:
                break
            self.counts.update(type(event).__name__ for event in batch)
            self.value_bytes += sum(len(one.value) for one in messages)
            for name, log in logs.items():
                with harness.timed() as seconds:
                    log.append(messages)
                self.seconds[name] += seconds()
        embedded.close()
        kafka.close()

    def fresh_tables(self) -> Path:
        self._runs += 1
        return self.work / f"tables-{self._runs}"

    def store(self, tables: Path) -> str:
        return self.broker.store(self.topic, tables)

    def log(self) -> KafkaLog:
        return KafkaLog(self.broker.bootstrap, self.topic)


def bare(filled: Filled) -> harness.Run:
    """librdkafka and fastavro alone, with their own defaults, committed records only."""
    readers = {bytes.fromhex(one.fingerprint): registry.parsed(one) for one in registry.RELEASED}
    consumer = Consumer(
        {
            "bootstrap.servers": filled.broker.bootstrap,
            "group.id": "bench-bare",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
        }
    )

    def read_all() -> None:
        consumer.assign([TopicPartition(filled.topic, number, 0) for number in range(filled.partitions)])
        read = 0
        while read < filled.events:
            for one in consumer.consume(BATCH, 1.0):
                assert one.error() is None, one.error()
                value = one.value() or b""
                stream = BytesIO(value)
                stream.seek(HEADER_BYTES)
                fastavro.schemaless_reader(stream, readers[value[2:HEADER_BYTES]], None)
                read += 1

    run = harness.run_of(filled.events, read_all)
    consumer.close()
    return run


def folded(store: str, events: int) -> harness.Run:
    """The whole log into fresh tables, flushed and closed."""
    memory = Memory.open(store)
    partitions: list[Any] = []

    def fold_all() -> None:
        partitions.extend(memory.info().partitions)
        memory.close()

    run = harness.run_of(events, fold_all)
    assert sum(partition.applied for partition in partitions) == events, partitions
    assert all(partition.quarantined == 0 and partition.holding for partition in partitions), partitions
    return run


def split(log: Log, partition: int, folder: Path) -> harness.Result:
    """What each stage takes over one partition, batch after batch; `decode` is a part of `fold`, done once more."""
    codec = Codec()
    tables = Tables.open_to_write(folder)
    head = Head(log.identity, partition, log.partitions)
    spent = {"read": 0.0, "fold": 0.0, "write": 0.0, "flush": 0.0, "decode": 0.0}
    batches = log.read(partition, 0)
    events = 0
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        read = time.perf_counter()
        if batch is None:
            break
        rows = Overlay(tables)
        head = fold(batch, rows, head, codec)
        done = time.perf_counter()
        tables.write(rows.writes)
        written = time.perf_counter()
        for record in batch.records:
            codec.decode(record.value or b"")
        decoded = time.perf_counter()
        events += len(batch.records)
        for name, since, until in (
            ("read", started, read), ("fold", read, done), ("write", done, written), ("decode", written, decoded)
        ):  # fmt: skip
            spent[name] += until - since
    with harness.timed() as seconds:
        tables.close()
    spent["flush"] = seconds()
    return {"events": events, "us_per_event": {name: round(s * 1e6 / events, 2) for name, s in spent.items()}}


def profile(log: Log, partition: int, folder: Path, events: int) -> list[harness.Result]:
    """The functions that take most time of their own, by cProfile, which slows Python's calls and nothing else."""
    codec = Codec()
    tables = Tables.open_to_write(folder)
    head = Head(log.identity, partition, log.partitions)
    profiler = cProfile.Profile()
    with profiler:
        for batch in log.read(partition, 0, events):
            rows = Overlay(tables)
            head = fold(batch, rows, head, codec)
            tables.write(rows.writes)
        tables.flush()
    tables.close()
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    total = sum(row[2] for row in stats.values())
    top = sorted(stats.items(), key=lambda item: item[1][2], reverse=True)[:PROFILE_ROWS]
    found = []
    for (file, _, name), (_, calls, own_s, _, _) in top:
        place = name if file == "~" else f"{Path(file).name}: {name}"
        found.append({"function": place, "calls": calls, "own_s": round(own_s, 3), "share": round(own_s / total, 3)})
    return found


def rebuilt(store: str, events: int) -> harness.Result:
    """Seconds of `Memory.rebuild`, and whether the digest stayed the same."""
    with Memory.open(store) as memory:
        before = memory.digest()[0]
        with harness.timed() as seconds:
            memory.rebuild()
        rebuild_s = seconds()
        with harness.timed() as seconds:
            after = memory.digest()[0]
    harness.say(f"  rebuild {rebuild_s:.1f} s ({events / rebuild_s:,.0f} events/s), digest equal: {before == after}")
    return {
        "seconds": round(rebuild_s, 2),
        "events_per_s": round(events / rebuild_s),
        "digest_s": round(seconds(), 2),
        "digest": after,
        "digest_equal": before == after,
    }


def table_bytes(folder: Path, partitions: int) -> harness.Result:
    """Bytes of the tables as they are, and after `Tables.compact`."""
    closed = harness.file_bytes(folder)
    with harness.timed() as seconds:
        for partition in range(partitions):
            tables = Tables.open_to_write(folder / f"p{partition}")
            tables.compact()
            tables.close()
    return {"closed": closed, "compacted": harness.file_bytes(folder), "compact_s": round(seconds(), 2)}


def embedded(filled: Filled) -> harness.Result:
    """The same events in an embedded store: fold, rebuild and bytes."""
    store = filled.work / "embedded"
    log_bytes = harness.file_bytes(store)
    run = folded(str(store), filled.events)
    rate = run.events / run.wall_s
    harness.say(f"embedded: fold {rate:,.0f} events/s")
    rebuild = rebuilt(str(store), filled.events)
    sizes = {"log": log_bytes, "tables": table_bytes(store / "tables", 1)}
    return {"events_per_s": round(rate), "rebuild": rebuild, "bytes": sizes}


def per_event(result: harness.Result, events: int) -> harness.Result:
    return {name: round(size / events, 1) for name, size in result.items() if not name.endswith("_s")}


def measure(filled: Filled, given: argparse.Namespace) -> harness.Result:
    harness.say("bare librdkafka + fastavro, and fold")
    tables: list[Path] = []

    def fold_fresh() -> harness.Run:
        tables.append(filled.fresh_tables())
        return folded(filled.store(tables[-1]), filled.events)

    pairs = harness.paired(("bare", lambda: bare(filled)), ("fold", fold_fresh), given.pairs)
    log = filled.log()
    parts = [split(log, number, filled.fresh_tables()) for number in range(filled.partitions)]
    harness.say(f"stages: {parts[0]['us_per_event']} µs per event")
    profiled = profile(log, 0, filled.fresh_tables(), PROFILED_EVENTS)
    log.close()
    rebuild = rebuilt(filled.store(tables[0]), filled.events)
    kafka_bytes = {"log": filled.broker.log_bytes(filled.topic), "tables": table_bytes(tables[0], filled.partitions)}
    beside = embedded(filled)
    sizes = {
        "value": round(filled.value_bytes / filled.events, 1),
        "sqlite_log": round(beside["bytes"]["log"] / filled.events, 1),
        "kafka_log": per_event(kafka_bytes["log"], filled.events),
        "tables_from_kafka": per_event(kafka_bytes["tables"], filled.events),
        "tables_embedded": per_event(beside["bytes"]["tables"], filled.events),
    }
    harness.say(f"bytes per event: {sizes}")
    return {
        "pairs": pairs,
        "stages": parts,
        "profile_of_first_events": {"events": min(PROFILED_EVENTS, filled.events), "rows": profiled},
        "kafka": {"rebuild": rebuild, "bytes": kafka_bytes},
        "embedded": beside,
        "bytes_per_event": sizes,
    }


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--events", type=int, help="default: 1,000,000, or 5,000 when small")
    parser.add_argument("--pairs", type=int, help="default: 5, or 2 when small")
    parser.add_argument("--partitions", type=int, default=1)
    given = parser.parse_args()
    given.events = given.events or (5_000 if given.small else 1_000_000)
    given.pairs = given.pairs or (2 if given.small else 5)
    return given


def main() -> int:
    given = options()
    result = {"facts": harness.facts(), "seed": given.seed, "events": given.events, "partitions": given.partitions}
    with harness.work_folder(given) as work, harness.broker(given, work) as broker:
        harness.say(f"seed {given.seed}; appending {given.events:,} events")
        filled = Filled(broker, work, given)
        result["mix"] = dict(filled.counts)
        result["filling_s"] = {name: round(seconds, 1) for name, seconds in filled.seconds.items()}
        harness.say(f"  {result['mix']}, {result['filling_s']}")
        result.update(measure(filled, given))
    name = "fold" if given.partitions == 1 else f"fold-{given.partitions}-partitions"
    harness.write_result(name, given, result)
    equal = result["kafka"]["rebuild"]["digest_equal"] and result["embedded"]["rebuild"]["digest_equal"]
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
