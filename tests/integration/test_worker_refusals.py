"""What a worker does not start with, and what it ends over: its code is not 0, and it says one error and one hint."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from fleet import Fleet, Worker, fleet, until
from fleet_load import SPACES, fact
from kafka_broker import Broker

from schemas.errors import NotFound
from streams import keys
from streams.file_lock import FileLock
from streams.kafka_log import TOPIC_SETTINGS, create_topic
from streams.tables import Tables

WRONG, LATER, TROUBLE = 2, 3, 4
Topic = Callable[..., str]


def refused(worker: Worker, code: int, error: str, hint: str = "") -> None:
    """The worker has ended or ends, and says so as every command of slotlog does."""
    found = worker.ended(60)
    lines = [line for line in worker.output.splitlines() if " slotlog.worker: " not in line]
    assert found == code, worker.output
    assert "Traceback" not in worker.output, worker.output
    told = [line for line in lines if line.startswith(("error: ", "hint: "))]
    assert [line.split(":")[0] for line in told] == ["error", "hint"], worker.output
    assert told == lines[-2:], worker.output
    assert error in told[0]
    assert hint in told[1]


@pytest.fixture
def workers(tmp_path: Path, broker: Broker) -> Iterator[Fleet]:
    """A fleet of nobody, on a topic of two partitions."""
    with fleet(tmp_path, broker, partitions=2) as made:
        yield made


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def write(workers: Fleet, count: int = 20) -> None:
    workers.log.append([fact(SPACES[number % 12], "user:x", "n", number) for number in range(count)])


def has_folded(workers: Fleet) -> Worker:
    """A worker that has folded twenty events, and was stopped."""
    write(workers)
    worker = workers.start("w1")
    workers.settle()
    worker.stop()
    return worker


def delete_all_records(admin: AdminClient, workers: Fleet) -> None:
    ends = enumerate(workers.log.ends())
    asked = admin.delete_records([TopicPartition(workers.topic, partition, end) for partition, end in ends])
    for answer in asked.values():
        answer.result()


def recreate(admin: AdminClient, bootstrap: str, topic: str) -> None:
    """Delete the topic, and make another one of its name."""
    admin.delete_topics([topic], operation_timeout=30)[topic].result()
    deadline = time.monotonic() + 60
    while True:
        try:
            create_topic(bootstrap, topic, partitions=2)
            return
        except Exception:  # noqa: BLE001  it is on its way out
            assert time.monotonic() < deadline
            time.sleep(0.1)


# -- the log is not the one that it was


def test_events_deleted_before_they_were_folded(workers: Fleet, admin: AdminClient) -> None:
    has_folded(workers)
    write(workers)
    delete_all_records(admin, workers)
    refused(workers.start("w1"), TROUBLE, "have read up to offset", "restore them from an archive")


def has_all(worker: Worker) -> bool:
    """Whether it has folded whatever the log ever had."""
    partitions = worker.status().get("partitions", [])
    return bool(partitions) and all(one["next"] == one["end"] > 12 for one in partitions)


def test_events_deleted_under_a_worker_that_slept(workers: Fleet, admin: AdminClient) -> None:
    write(workers)
    worker = workers.start("w1")
    workers.settle()
    worker.suspend()
    write(workers)
    delete_all_records(admin, workers)
    worker.resume()
    # What the broker had sent before it deleted them is not lost: the worker folds it and goes on, rightly.
    until(lambda: not worker.running or has_all(worker), f"neither ended nor folded:\n{worker.output[-2000:]}")
    if not worker.running:
        refused(worker, TROUBLE, "was asked for; the broker has")


def test_a_topic_that_was_created_again(workers: Fleet, admin: AdminClient) -> None:
    has_folded(workers)
    recreate(admin, workers.bootstrap, workers.topic)
    write(workers)
    refused(workers.start("w1"), TROUBLE, "were made from log", "it was deleted and created again")


@pytest.mark.parametrize("count", [0, 10, 60], ids=["empty", "shorter", "longer"])
def test_a_topic_that_is_created_again_under_a_worker(workers: Fleet, admin: AdminClient, count: int) -> None:
    """However much the new one has: nothing of it may get into tables that were made from the old one."""
    write(workers)
    worker = workers.start("w1")
    workers.settle()
    recreate(admin, workers.bootstrap, workers.topic)
    workers.log.close()
    with closing(Fleet(workers.folder, workers.bootstrap, workers.topic)) as again:
        until(lambda: _appended(again, count), "the new topic takes nothing")
        refused(worker, TROUBLE, "", "")


def _appended(workers: Fleet, count: int) -> bool:
    try:
        write(workers, count)
    except NotFound:  # not every broker thread knows it yet
        return False
    return True


def test_more_partitions_than_there_were(workers: Fleet, admin: AdminClient) -> None:
    has_folded(workers)
    admin.create_partitions([NewPartitions(workers.topic, 3)])[workers.topic].result()
    until(lambda: len(admin.list_topics(workers.topic).topics[workers.topic].partitions) == 3, "no third partition")
    refused(workers.start("w1"), TROUBLE, "the log had 2 partitions, and it has 3", "copy it to a new one")


def test_more_partitions_under_a_worker(workers: Fleet, admin: AdminClient) -> None:
    """It learns of them at the next rebalance at the latest."""
    worker = workers.start("w1")
    workers.settle()
    admin.create_partitions([NewPartitions(workers.topic, 3)])[workers.topic].result()
    until(lambda: len(admin.list_topics(workers.topic).topics[workers.topic].partitions) == 3, "no third partition")
    workers.start("w2")
    refused(worker, TROUBLE, "had 2 partitions, and has 3", "partition count is fixed")


# -- the state folder is not its own


def test_the_state_of_another_topic(workers: Fleet, topic: Topic) -> None:
    worker = has_folded(workers)
    worker.store = worker.store.replace(workers.topic, topic(partitions=2))
    refused(worker.start(), TROUBLE, "were made from log", "this is another store's folder")


def test_tables_of_a_newer_version(workers: Fleet) -> None:
    worker = has_folded(workers)
    with closing(Tables.open_to_write(worker.state / "p0")) as tables:
        head = tables.get(keys.HEAD)
        assert head is not None
        tables.write({keys.HEAD: bytes([99]) + head[1:]})
    refused(worker.start(), TROUBLE, "99")


def test_a_second_worker_on_one_state_folder(workers: Fleet) -> None:
    first = workers.start("w1")
    workers.settle()
    second = Worker(first.state.parent, "second", workers.bootstrap, workers.topic)
    second._output = first.state.parent / "output of the second"
    refused(second.start(), LATER, f"is held by process {first.pid}", "a state folder of its own")
    assert first.status()["ready"], "the first does not mind"


def test_a_file_where_the_state_is_to_be(workers: Fleet, tmp_path: Path) -> None:
    (tmp_path / "w1").mkdir()
    (tmp_path / "w1" / "state").touch()
    worker = workers.start("w1")
    assert worker.ended(60) == WRONG
    assert "is a file, and the state of a" in worker.output
    assert "Traceback" not in worker.output


def test_tables_that_somebody_else_holds_end_in_the_watchdog(workers: Fleet) -> None:
    """It waits for them, says so, and ends once the log has grown for long enough while its tables did not."""
    write(workers)
    (workers.folder / "w1" / "state").mkdir(parents=True)
    with closing(FileLock(workers.folder / "w1" / "state" / "p0.lock")) as lock:
        lock.acquire(0.0)
        worker = workers.start("w1", options=["--watchdog", "3"])
        refused(worker, TROUBLE, "partition 0 has not moved from offset 0 for 3 s", "start the worker again")
    assert "p0.lock is held by process" in worker.output
    worker.start()
    workers.settle()


# -- where it is to listen, and what it is to read


def test_a_port_that_is_taken(workers: Fleet) -> None:
    worker = workers.start("w1")
    workers.settle()
    other = Worker(workers.folder / "other", "other", workers.bootstrap, workers.topic)
    other.port = worker.port
    refused(other.start(), WRONG, str(worker.port))
    assert worker.status()["ready"]


def test_a_topic_that_is_compacted(tmp_path: Path, broker: Broker, admin: AdminClient) -> None:
    settings = {**TOPIC_SETTINGS, "cleanup.policy": "compact"}
    admin.create_topics([NewTopic("compacted", 1, 1, config=settings)])["compacted"].result()
    worker = Worker(tmp_path, "w1", broker.bootstrap, "compacted").start()
    refused(worker, WRONG, "cleanup.policy is compact, and must be delete", "slotlog topic check")


def test_no_such_topic(tmp_path: Path, broker: Broker) -> None:
    refused(Worker(tmp_path, "w1", broker.bootstrap, "nowhere").start(), WRONG, "nowhere", "slotlog topic create")


def test_no_broker(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
    worker = Worker(tmp_path, "w1", nobody, "any", "--timeout", "2").start()
    refused(worker, LATER, nobody, "check that a broker runs there")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--port", "0"], "port is 0, and may be 1 to"),
        (["--port", "70000"], "port is 70"),
        (["--session-timeout", "1"], "session_timeout_s is 1, and may be 3 to"),
        (["--behind", "5"], "behind is 5, and may be 100 to 1,000,000"),
        (["--watchdog", "0"], "watchdog_s is 0"),
        (["--advertise", "10.0.0.7:8080"], "advertise is '10.0.0.7:8080', and must be a URL"),
        (["--host", "0.0.0.0"], "the other workers can't reach 0.0.0.0"),
        (["--worker-id", "two words"], "'two words' is no worker's id"),
        (["--port", "many"], "'many' is not a valid integer"),
    ],
    ids=lambda value: "=".join(value) if isinstance(value, list) else "",
)
def test_settings_that_are_out_of_range(workers: Fleet, options: list[str], error: str) -> None:
    worker = workers.start("w1", options=options)
    assert worker.ended(60) == WRONG
    assert worker.output.startswith("error: "), worker.output
    assert error in worker.output
    assert len(worker.output.splitlines()) <= 2, worker.output


def test_a_folder_has_no_workers(tmp_path: Path) -> None:
    worker = Worker(tmp_path, "w1", "127.0.0.1:9", "any")
    worker.store = str(tmp_path)
    refused(worker.start(), WRONG, "a worker needs a topic", "slotlog serve answers for a folder")


def test_a_session_timeout_that_the_broker_does_not_grant(workers: Fleet) -> None:
    worker = workers.start("w1", options=["--session-timeout", "4"])
    assert worker.ended(60) != 0
    assert "error: " in worker.output
    assert "session" in worker.output.lower()
    assert "Traceback" not in worker.output
