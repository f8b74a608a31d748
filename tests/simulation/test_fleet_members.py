"""Workers killed, suspended, joining and leaving under load. The faults and the verdict are in `fleet_scenarios.py`;
`ops/bench/chaos.py` runs the same with the counts of a long run. Seeds are printed."""

from __future__ import annotations

import random
from pathlib import Path

import fleet_scenarios as scenarios
from kafka_broker import Broker


def test_workers_killed_at_random_moments(tmp_path: Path, broker: Broker, chance: random.Random) -> None:
    found = scenarios.killed_workers(tmp_path, broker, chance, kills=3)
    assert found["duplicates"] > 0, "every twentieth batch was sent twice"
    assert found["quarantined"] == 0


def test_a_worker_joins_and_leaves_again_and_again(tmp_path: Path, broker: Broker, chance: random.Random) -> None:
    assert scenarios.comers_and_goers(tmp_path, broker, chance, rounds=3)["quarantined"] == 0


def test_a_worker_that_slept_past_its_session_timeout(tmp_path: Path, broker: Broker, chance: random.Random) -> None:
    assert scenarios.suspended_worker(tmp_path, broker, chance)["quarantined"] == 0


def test_a_catch_up_that_a_rebalance_interrupts(tmp_path: Path, broker: Broker, chance: random.Random) -> None:
    found = scenarios.interrupted_catch_up(tmp_path, broker, chance, backlog=20_000)
    assert found["in_the_middle"], "the backlog is too small for this machine: it was read before the second one joined"
