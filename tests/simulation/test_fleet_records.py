"""What producers and other programs may do to a running fleet: repeat, abort, write nonsense, write far more to one
partition than to another. And what the machine may: a full disk, a clock that jumps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import fleet_records
import pytest
from fleet import Fleet, Worker, fact_path, fleet, suspended, until
from fleet_load import SPACES, Story, fact, ids, load
from fleet_verdict import judge
from kafka_broker import Broker

from streams.kafka_log import KafkaLog
from streams.partitioner import partition_of
from streams.ports import Message

SPACE = SPACES[0]


@contextmanager
def two_live(folder: Path, broker: Broker, partitions: int = 2) -> Iterator[Fleet]:
    """Two workers that are caught up."""
    with fleet(folder, broker, partitions=partitions) as workers:
        workers.start("w1", "w2")
        workers.settle()
        yield workers


def told(workers: int) -> list[Message]:
    """A few hundred messages in which nothing names what was not sent before it by the same producer."""
    story, messages = Story(workers), []
    for _ in range(40):
        messages += story.tell(10)
        story.acknowledged()
    return messages


def test_the_same_events_by_several_producers_at_once(tmp_path: Path, broker: Broker) -> None:
    """Each sends all of them, in its own pace: every event is on the log four times and counts once."""
    messages = told(1)

    def send(workers: Fleet, step: int) -> None:
        with closing(KafkaLog(workers.bootstrap, workers.topic)) as log:
            for start in range(0, len(messages), step):
                log.append(messages[start : start + step])

    with two_live(tmp_path, broker) as workers:
        senders = [threading.Thread(target=send, args=(workers, step)) for step in (3, 7, 20, 50)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        workers.settle()
        verdict = judge(workers, ids(messages))
        assert (verdict.events, verdict.duplicates, verdict.quarantined) == (400, 1200, 0)


def ended(workers: Fleet, before: Sequence[int]) -> None:
    """Wait for the transaction's marker in every partition: the broker writes it after it has answered."""
    until(lambda: all(now > then for now, then in zip(workers.log.ends(), before, strict=True)), "no marker came")


def test_what_is_aborted_is_never_seen_and_what_is_committed_is(tmp_path: Path, broker: Broker) -> None:
    """The log ends with the marker of an aborted transaction in every partition: the tables come to its end all the
    same, and nobody ends over it. What waits behind an open transaction is there when that is committed."""
    with two_live(tmp_path, broker) as workers:
        both = [fact(space, "user:x", "n", number) for number, space in enumerate(SPACES)]
        with fleet_records.transaction(workers.bootstrap, workers.topic, both, "commits") as producer:
            workers.log.append(behind := told(2))
            before = workers.log.ends()
            producer.commit_transaction(30)
        ended(workers, before)
        workers.settle()
        never = [fact(space, "user:x", "n", "never") for space in SPACES]
        with fleet_records.transaction(workers.bootstrap, workers.topic, never, "aborts") as producer:
            before = workers.log.ends()
            producer.abort_transaction(30)
        ended(workers, before)
        workers.settle()
        path = fact_path(SPACE, "user:x", "n")
        assert "never" not in workers.owner_of(SPACE).ask(path, here=True).text
        workers.log.append(after := [fact(SPACE, "user:x", "n", "after all")])
        with fleet_records.transaction(workers.bootstrap, workers.topic, never, "aborts") as producer:
            before = workers.log.ends()
            producer.abort_transaction(30)
        ended(workers, before)
        workers.settle()
        assert "after all" in workers.owner_of(SPACE).ask(path, here=True).text
        assert [worker.process.poll() for worker in workers.workers.values() if worker.process] == [None, None]
        assert judge(workers, ids(both + behind + after)).duplicates == 0


def test_records_that_are_no_events_are_set_aside_and_all_goes_on(tmp_path: Path, broker: Broker) -> None:
    """Written while workers live, and read again in bulk by one that starts later."""
    with two_live(tmp_path, broker) as workers:
        good = [fact(SPACE, "user:x", f"slot-{number}", number) for number in range(8)]
        workers.log.append(good[:1])
        count = fleet_records.poison(workers.bootstrap, workers.topic, good[0], 2)
        fleet_records.harmless(workers.bootstrap, workers.topic, good[1:])
        workers.settle()
        workers.log.append(last := [fact(SPACE, "user:x", "slot-0", "went on")])
        path = fact_path(SPACE, "user:x", "slot-0")
        until(lambda: "went on" in workers.owner_of(SPACE).ask(path, here=True).text, workers.told)
        statuses = [worker.status() for worker in workers.living()]
        assert len(statuses) == 2, workers.told()
        assert any("quarantined" in reason for status in statuses for reason in status["reasons"])
        workers.start("late")
        workers.settle()
        verdict = judge(workers, ids(good + last))
        assert (verdict.events, verdict.quarantined) == (9, count)


def folded(worker: Worker, partition: int, path: str) -> int:
    """How many records the worker folded of a partition, `live` or in `bulk`."""
    exposition = worker.ask("/metrics").text
    found = re.search(
        rf'^slotlog_records_folded_total{{partition="{partition}",path="{path}"}} (\S+)$', exposition, re.M
    )
    return 0 if found is None else int(float(found[1]))


def test_a_burst_in_one_partition_does_not_hold_up_another(tmp_path: Path, broker: Broker) -> None:
    """One worker has both. While it is far behind in one, what is written to the other can be read all along."""
    by_partition = {partition_of(space.encode(), 2): space for space in reversed(SPACES)}
    busy, quiet = (by_partition[partition] for partition in (0, 1))
    with fleet(tmp_path, broker, partitions=2) as workers:
        worker = workers.start("w1")
        workers.settle()
        story, burst = Story(5, [busy]), []
        for _ in range(4):
            burst += story.tell(5_000)
            story.acknowledged()
        with suspended(worker.pid):
            workers.log.append(burst)
        path, between = fact_path(quiet, "user:x", "n"), []
        while not between or not workers.settled():
            between.append(fact(quiet, "user:x", "n", f"live {len(between)}."))
            workers.log.append(between[-1:])
            until(lambda: f"live {len(between) - 1}." in worker.ask(path, here=True).text, workers.told, pause_s=0.002)
            if len(between) == 1:
                [first] = [one for one in worker.status()["partitions"] if one["partition"] == 0]
                left = workers.log.end(0) - first["next"]
        assert left > 0, "the burst is too small for this machine: it was folded at once"
        assert folded(worker, 0, "bulk") > 15_000
        assert folded(worker, 1, "live") >= len(between) // 2, "the quiet partition was read live"
        verdict = judge(workers, ids(burst + between))
        assert verdict.events == 20_000 + len(between)


def test_a_full_disk_ends_the_worker_and_room_is_all_it_needs(tmp_path: Path, broker: Broker) -> None:
    with fleet(tmp_path, broker, partitions=2) as workers:
        place = tmp_path / "w1" / "state"
        place.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "slotlog-test", str(place)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"a small disk can't be mounted here: {done.stderr.strip()}")
        try:
            worker = workers.start("w1")
            workers.settle()
            with load(workers, Story(9), per_second=3_000, batch=300) as running:
                code = worker.ended()
                written = running.finish()
            assert code == 4, worker.output
            last = worker.output.strip().splitlines()[-2:]
            assert last[0].startswith("error: no room for the tables in "), worker.output
            assert last[1].startswith("hint: "), worker.output
            assert "Traceback" not in worker.output
            subprocess.run([*mount[:4], "remount,size=300m", *mount[5:]], check=True)
            workers.start("w1")
            workers.settle()
            assert judge(workers, written).events == len(written)
        finally:
            workers.close()
            subprocess.run(["umount", "-l", str(place)], check=True)


CLOCK = Path(__file__).with_name("clock.c")
"""A library that moves the wall clock of one process."""


def test_a_worker_whose_clock_jumps(tmp_path: Path, broker: Broker) -> None:
    """An hour back, a day back, two days forth, under load: it stays a member, folds on, and has what others have."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the wall clock of one process can't be set otherwise")
    shim, setting = tmp_path / "clock.so", tmp_path / "seconds"
    build = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(shim), str(CLOCK), "-ldl"]
    subprocess.run(build, check=True)
    setting.write_bytes(bytes(8))
    with fleet(tmp_path, broker) as workers, load(workers, Story(11)) as running:
        workers.start("w1", environment={"LD_PRELOAD": str(shim), "SLOTLOG_CLOCK": str(setting)})
        workers.start("w2")
        workers.serve()
        jumping = workers.workers["w1"]
        pid = jumping.pid
        for hours in (-1, -24, 48):
            with setting.open("r+b") as file:
                file.write((hours * 3600).to_bytes(8, "little", signed=True))
            running.go_on(300)
            workers.serve()
        assert jumping.running
        assert jumping.pid == pid
        owned = [one["partition"] for one in jumping.status()["partitions"] if one["role"] == "active"]
        assert owned, f"it has lost its place: {json.dumps(jumping.status())}"
        written = running.finish()
        workers.settle()
        assert judge(workers, written).quarantined == 0
