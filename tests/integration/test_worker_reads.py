"""What a worker's long reads leave alone: its folding, and its short reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from fleet_load import SPACES, fact
from kafka_broker import Broker

from streams.hosting import HostedMemory
from streams.metrics import Metrics

PARTITIONS = 2


@pytest.fixture
def memory(tmp_path: Path, broker: Broker, topic: Callable[..., str]) -> Iterator[HostedMemory]:
    """A worker's memory, which has all partitions and has folded a fact of every space."""
    store = f"kafka://{broker.bootstrap}/{topic(partitions=PARTITIONS)}?state={tmp_path / 'state'}"
    made = HostedMemory(
        store, Metrics(), actor="agent:a", timeout_s=60, flush_s=60, flush_events=1_000, answers=lambda: True
    )
    with closing(made):
        for one in made.hosted:
            one.open()
            one.role, one.ready = "active", True
        write(made, "before")
        yield made


def write(memory: HostedMemory, value: str) -> None:
    """A fact of every space, on the log and folded."""
    memory.log.append([fact(space, "user:x", "n", value) for space in SPACES])
    for one in memory.hosted:
        while one.next_offset < memory.log.end(one.follower.head.partition):
            one.catch_up(lambda: False)


def test_what_reads_everything_holds_no_partition_meanwhile(memory: HostedMemory) -> None:
    whole = memory.digest()

    def go_on() -> list[object]:
        write(memory, "after")
        return [memory.get(space, "user:x", "n").value for space in SPACES]  # type: ignore[union-attr]

    with ThreadPoolExecutor(1) as other, memory._all_at_once() as moments:
        ends = [moment.head.next_offset for moment in moments]
        assert other.submit(go_on).result(60) == ["after"] * len(SPACES)
        assert [moment.head.next_offset for moment in moments] == ends
        assert [one.next_offset for one in memory.hosted] > ends
        assert memory.digest() == whole  # of the moment that was entered
    assert memory.digest() != whole
