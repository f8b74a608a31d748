"""A broker that dies, comes back, or says nothing for a while, under load. One broker of this file's own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import fleet_scenarios as scenarios
import pytest
from kafka_broker import Broker


@pytest.fixture(scope="module")
def frail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker to do anything to."""
    started = Broker(tmp_path_factory.mktemp("frail") / "kafka").start()
    yield started
    started.stop()


def test_a_broker_killed_and_started_again(tmp_path: Path, frail: Broker, chance: random.Random) -> None:
    assert scenarios.killed_broker(tmp_path, frail, chance, kills=2)["quarantined"] == 0


def test_a_broker_that_says_nothing_for_a_while(tmp_path: Path, frail: Broker, chance: random.Random) -> None:
    """Longer than the session timeout: nobody may answer then."""
    found = scenarios.unreachable_broker(tmp_path, frail, chance, seconds=10)
    assert found["while_away"] == 503
