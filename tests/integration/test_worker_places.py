"""A worker's place in its group: kept over a restart, moved with it, never shared; and given up well when it is told
to end."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from fleet import Fleet, Worker, fact_path, fleet, free_port, suspended, until
from fleet_load import SPACES, fact
from kafka_broker import Broker

_FAILING = """
from aiokafka.consumer.group_coordinator import GroupCoordinator


async def failing(*_):
    raise RuntimeError("no such thing")


GroupCoordinator.{step} = failing
"""


@pytest.fixture
def workers(tmp_path: Path, broker: Broker) -> Iterator[Fleet]:
    """Two workers that have folded a few events, on a topic of two partitions."""
    with fleet(tmp_path, broker, partitions=2) as made:
        made.log.append([fact(space, "user:x", "n", "before") for space in SPACES])
        made.start("w1", "w2")
        made.settle()
        yield made


def answers_for_all(workers: Fleet, value: str) -> Callable[[], bool]:
    """Whether every worker answers for every space, with this value."""
    paths = [fact_path(space, "user:x", "n") for space in SPACES]
    return lambda: all(value in worker.ask(path).text for worker in workers.living() for path in paths)


def test_a_worker_that_is_back_under_another_url_is_found_there(workers: Fleet) -> None:
    """Within its session the group would give it its old place, with the old URL in it."""
    back = workers.workers["w1"]
    back.kill()
    back.port = free_port()
    workers.start("w1")
    workers.serve()
    workers.log.append([fact(space, "user:x", "n", "after") for space in SPACES])
    until(answers_for_all(workers, "after"), workers.told)
    assert back.status()["url"].endswith(f":{back.port}")


def test_of_two_workers_of_one_id_one_is_refused(workers: Fleet, tmp_path: Path, broker: Broker) -> None:
    """Whichever the group keeps: the other one ends and says where its namesake is, and all is answered for."""
    first = workers.workers["w1"]
    twin = Worker(tmp_path / "twin", "w1", broker.bootstrap, workers.topic)
    try:
        twin.start()
        until(lambda: not (first.running and twin.running), lambda: f"{first.output}\n{twin.output}")
        refused, kept = (first, twin) if twin.running else (twin, first)
        assert refused.ended() == 3, refused.output
        *_, error, hint = refused.output.strip().splitlines()
        assert error == f"error: a worker at http://127.0.0.1:{kept.port} has the id of this one, w1"
        assert hint.startswith("hint: give each worker an id")
        assert "Traceback" not in refused.output
        workers.workers["w1"] = kept
        workers.log.append([fact(space, "user:x", "n", "after") for space in SPACES])
        until(answers_for_all(workers, "after"), workers.told)
        assert kept.running
    finally:
        twin.kill()


@pytest.mark.parametrize("step", ["_on_join_prepare", "_on_join_complete"])
def test_a_worker_whose_talk_with_the_group_fails_ends(tmp_path: Path, broker: Broker, step: str) -> None:
    """Its process would go on as nobody's member otherwise. The first step is none of those that are watched."""
    place = tmp_path / "patched"
    place.mkdir()
    (place / "sitecustomize.py").write_text(_FAILING.format(step=step))
    path = os.pathsep.join(filter(None, (str(place), *sys.path)))
    with fleet(tmp_path, broker, partitions=1) as workers:
        worker = workers.start("w1", environment={"PYTHONPATH": path})
        assert worker.ended() == 4, worker.output
    *_, error, hint = worker.output.strip().splitlines()
    assert error == "error: what keeps this worker a member of its group has failed: RuntimeError('no such thing')"
    assert hint.startswith("hint: the log above says more")


def test_a_worker_is_not_ready_while_a_rebalance_goes_on(tmp_path: Path, broker: Broker) -> None:
    """It waits for a member that sleeps, and whose session is long enough for the test to see it."""
    with fleet(tmp_path, broker, "--session-timeout", "60", partitions=2) as workers:
        workers.start("w1", "w2")
        workers.settle()
        one, sleeper = workers.workers["w1"], workers.workers["w2"]
        assert one.ask("/readyz").code == 200
        with suspended(sleeper.pid):
            workers.start("w3")
            told = until(lambda: (told := one.ask("/readyz")).code == 503 and told, workers.told)
            assert "a rebalance is going on: which partitions this worker has is not known yet" in told.text
            assert one.running
        workers.settle()
        assert {worker.ask("/readyz").code for worker in workers.living()} == {200}


def test_a_worker_ends_well_though_streams_are_open(workers: Fleet) -> None:
    """Its own, and one that it passes on."""
    worker = workers.workers["w1"]
    streams = []
    for space in SPACES:
        connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=60)
        connection.request("GET", f"/v1/spaces/{quote(space, safe='')}/changes")
        streams.append((connection, connection.getresponse()))
    assert {response.status for _, response in streams} == {200}
    worker.stop()
    for connection, response in streams:
        with suppress(http.client.IncompleteRead, ConnectionError):
            response.read()
        connection.close()
    workers.serve()
