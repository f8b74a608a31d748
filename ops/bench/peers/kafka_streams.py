#!/usr/bin/env python3
"""Kafka Streams with a persistent versioned store as a contestant: the program is in `java/StreamsPeer.java`.

    python ops/bench/peers/kafka_streams.py BOOTSTRAP TOPIC EVENTS [--threads N] [--changelog]

Without `--changelog` nothing of its state is written to Kafka: its cheapest form, and the fair one here, since the
tables of slotlog too are folded again from the log when they are lost. Kafka Streams by itself writes a changelog.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import jvm
from contestant import Contest, Result, Spoken, run_alone

HERE = Path(__file__).resolve().parent
SCHEMAS = HERE.parents[2] / "schemas" / "avro"


class KafkaStreams(NamedTuple):
    """Kafka Streams 4.1 with so many threads."""

    threads: int = 1
    changelog: bool = False

    @property
    def name(self) -> str:
        return f"kafka-streams-{self.threads}{'-changelog' if self.changelog else ''}"

    def start(self, contest: Contest) -> Spoken:
        application = f"streams-peer-{time.time_ns()}"
        fixed = [contest.bootstrap, contest.topic, application, str(contest.work), str(SCHEMAS), str(contest.events)]
        own = [str(self.threads), "changelog" if self.changelog else "no-changelog"]
        return Spoken(jvm.java(HERE / "java", "StreamsPeer", *fixed, *own, heap_mb=1_024))


def run(bootstrap: str, topic: str, events: int, *, threads: int = 1, changelog: bool = False) -> Result:
    """Put the `events` events that the topic holds into a fresh store; events, seconds and processor seconds."""
    return run_alone(KafkaStreams(threads, changelog), bootstrap, topic, events)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("events", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--changelog", action="store_true")
    print(json.dumps(run(**vars(parser.parse_args()))))
