"""What producers and other programs may do to a running fleet: repeat, abort, write nonsense, write far more to one
partition than to another. And what the machine may: a full disk, a clock that jumps. The faults and the verdict are in
`fleet_surroundings.py`; `ops/bench/chaos.py` runs the same with the counts of a long run."""

from __future__ import annotations

import random
from pathlib import Path

import fleet_surroundings as scenarios
import pytest
from kafka_broker import Broker


def test_the_same_events_by_several_producers_at_once(tmp_path: Path, broker: Broker, chance: random.Random) -> None:
    found = scenarios.repeated_events(tmp_path, broker, chance, events=400)
    assert (found["events"], found["duplicates"], found["quarantined"]) == (400, 1200, 0)


def test_what_is_aborted_is_never_seen_and_what_is_committed_is(
    tmp_path: Path, broker: Broker, chance: random.Random
) -> None:
    assert scenarios.aborted_transactions(tmp_path, broker, chance, rounds=1)["duplicates"] == 0


def test_records_that_are_no_events_are_set_aside_and_all_goes_on(
    tmp_path: Path, broker: Broker, chance: random.Random
) -> None:
    found = scenarios.poisoned(tmp_path, broker, chance, rounds=1)
    assert (found["events"], found["poison"]) == (9, 10)


def test_a_burst_in_one_partition_does_not_hold_up_another(
    tmp_path: Path, broker: Broker, chance: random.Random
) -> None:
    found = scenarios.uneven_partitions(tmp_path, broker, chance, burst=20_000)
    assert found["events"] == 20_000 + found["read_meanwhile"]


def test_a_full_disk_ends_the_worker_and_room_is_all_it_needs(
    tmp_path: Path, broker: Broker, chance: random.Random
) -> None:
    try:
        assert scenarios.full_disk(tmp_path, broker, chance, times=1)["lost"] == 0
    except scenarios.NotPossibleHere as error:
        pytest.skip(str(error))


def test_a_worker_whose_clock_jumps(tmp_path: Path, broker: Broker, chance: random.Random) -> None:
    """An hour back, a day back, two days forth."""
    try:
        assert scenarios.jumping_clock(tmp_path, broker, chance, jumps=(-1, -24, 48))["quarantined"] == 0
    except scenarios.NotPossibleHere as error:
        pytest.skip(str(error))
