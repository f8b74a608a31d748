"""Fixtures that several test folders share."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from kafka_broker import Broker

from streams.kafka_log import create_topic


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One real broker for the whole run. A test that stops or kills a broker starts its own."""
    started = Broker(tmp_path_factory.mktemp("broker") / "kafka").start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def topic(broker: Broker) -> Callable[..., str]:
    """Makes a fresh topic with the right settings and returns its name: `topic(partitions=3)`."""
    numbers = count(1)

    def make(partitions: int = 1) -> str:
        name = f"test-{next(numbers)}"
        create_topic(broker.bootstrap, name, partitions=partitions)
        return name

    return make


@pytest.fixture
def chance() -> random.Random:
    """Chance from a fresh seed, or the one in SLOTLOG_SEED; pytest shows it when the test fails."""
    seed = int(os.environ.get("SLOTLOG_SEED") or time.time_ns())
    sys.stdout.write(f"SLOTLOG_SEED={seed}\n")
    return random.Random(seed)
