"""What producers, the disk and the clock may do to a fleet. Scenarios as in `fleet_scenarios.py`."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import fleet_records
from fleet import Fleet, Worker, fact_path, fleet, suspended, until
from fleet_load import SPACES, Story, fact, ids, load
from fleet_scenarios import Counts, told
from fleet_verdict import judge
from kafka_broker import Broker

from streams.kafka_log import KafkaLog
from streams.partitioner import partition_of
from streams.ports import Message

SPACE = SPACES[0]
PACES = (3, 7, 20, 50)
CLOCK = Path(__file__).with_name("clock.c")
"""A library that moves the wall clock of one process."""


class NotPossibleHere(Exception):
    """The machine does not let this be tried; the text says why."""


@contextmanager
def two_live(folder: Path, broker: Broker, partitions: int = 2) -> Iterator[Fleet]:
    """Two workers that are caught up."""
    with fleet(folder, broker, partitions=partitions) as workers:
        workers.start("w1", "w2")
        workers.settle()
        yield workers


def story_of(seed: int, events: int) -> list[Message]:
    """Messages in which nothing names what was not sent before it by the same producer."""
    story, messages = Story(seed), []
    for _ in range(0, events, 10):
        messages += story.tell(10)
        story.acknowledged()
    return messages


def repeated_events(folder: Path, broker: Broker, chance: random.Random, *, events: int) -> Counts:
    """Several producers at once each send all of the events, in their own pace: every event is on the log several times
    and counts once."""
    messages = story_of(chance.randrange(2**32), events)

    def send(workers: Fleet, step: int) -> None:
        with closing(KafkaLog(workers.bootstrap, workers.topic)) as log:
            for start in range(0, len(messages), step):
                log.append(messages[start : start + step])

    with two_live(folder, broker) as workers:
        senders = [threading.Thread(target=send, args=(workers, step)) for step in PACES]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        workers.settle()
        return {**judge(workers, ids(messages))._asdict(), "acknowledged": len(messages), "producers": len(PACES)}


def _ended(workers: Fleet, before: Sequence[int]) -> None:
    """Wait for the transaction's marker in every partition: the broker writes it after it has answered."""
    until(lambda: all(now > then for now, then in zip(workers.log.ends(), before, strict=True)), "no marker came")


def _aborted(workers: Fleet, messages: Sequence[Message]) -> None:
    with fleet_records.transaction(workers.bootstrap, workers.topic, messages, "aborts") as producer:
        before = workers.log.ends()
        producer.abort_transaction(30)
    _ended(workers, before)
    workers.settle()


def aborted_transactions(folder: Path, broker: Broker, chance: random.Random, *, rounds: int) -> Counts:
    """The log ends with the marker of an aborted transaction in every partition: the tables come to its end all the
    same, and nobody ends over it. What waits behind an open transaction is there when that is committed."""
    written: list[Message] = []
    path = fact_path(SPACE, "user:x", "n")
    with two_live(folder, broker) as workers:
        for number in range(rounds):
            both = [fact(space, "user:x", "n", number) for space in SPACES]
            with fleet_records.transaction(workers.bootstrap, workers.topic, both, "commits") as producer:
                workers.log.append(behind := story_of(chance.randrange(2**32), 400))
                before = workers.log.ends()
                producer.commit_transaction(30)
            _ended(workers, before)
            workers.settle()
            never = [fact(space, "user:x", "n", "never") for space in SPACES]
            _aborted(workers, never)
            assert "never" not in workers.owner_of(SPACE).ask(path, here=True).text
            workers.log.append(after := [fact(SPACE, "user:x", "n", f"after all {number}")])
            _aborted(workers, never)
            assert f"after all {number}" in workers.owner_of(SPACE).ask(path, here=True).text
            written += both + behind + after
        assert [worker.process.poll() for worker in workers.workers.values() if worker.process] == [None, None]
        return {**judge(workers, ids(written))._asdict(), "acknowledged": len(written), "aborted": 2 * rounds}


def poisoned(folder: Path, broker: Broker, chance: random.Random, *, rounds: int) -> Counts:
    """Records that are no events, of every kind, between such that are, though in ways that are not ours: written while
    workers live, and read again in bulk by one that starts later."""
    poison, written = 0, []
    with two_live(folder, broker) as workers:
        for number in range(rounds):
            good = [fact(SPACE, "user:x", f"slot-{slot}", chance.random()) for slot in range(8)]
            workers.log.append(good[:1])
            poison += fleet_records.poison(workers.bootstrap, workers.topic, good[0], 2)
            fleet_records.harmless(workers.bootstrap, workers.topic, good[1:])
            workers.settle()
            workers.log.append(last := [fact(SPACE, "user:x", "slot-0", f"went on {number}")])
            written += good + last
            path = fact_path(SPACE, "user:x", "slot-0")
            until(
                lambda path=path, number=number: (
                    f"went on {number}" in workers.owner_of(SPACE).ask(path, here=True).text
                ),
                workers.told,
            )
        statuses = [worker.status() for worker in workers.living()]
        assert len(statuses) == 2, workers.told()
        assert any("quarantined" in reason for status in statuses for reason in status["reasons"])
        workers.start("late")
        workers.settle()
        verdict = judge(workers, ids(written))
        assert verdict.quarantined == poison
        return {**verdict._asdict(), "acknowledged": len(written), "poison": poison}


def folded(worker: Worker, partition: int, path: str) -> int:
    """How many records the worker folded of a partition, `live` or in `bulk`."""
    exposition = worker.ask("/metrics").text
    found = re.search(
        rf'^slotlog_records_folded_total{{partition="{partition}",path="{path}"}} (\S+)$', exposition, re.M
    )
    return 0 if found is None else int(float(found[1]))


def uneven_partitions(folder: Path, broker: Broker, chance: random.Random, *, burst: int) -> Counts:
    """One worker has both partitions. While it is far behind in one, what is written to the other can be read all
    along."""
    by_partition = {partition_of(space.encode(), 2): space for space in reversed(SPACES)}
    busy, quiet = (by_partition[partition] for partition in (0, 1))
    with fleet(folder, broker, partitions=2) as workers:
        worker = workers.start("w1")
        workers.settle()
        story, messages = Story(chance.randrange(2**32), [busy]), []
        for _ in range(0, burst, 5_000):
            messages += story.tell(5_000)
            story.acknowledged()
        with suspended(worker.pid):
            for start in range(0, len(messages), 5_000):
                workers.log.append(messages[start : start + 5_000])
        path, between, left = fact_path(quiet, "user:x", "n"), [], 0
        while not between or not workers.settled():
            between.append(fact(quiet, "user:x", "n", f"live {len(between)}."))
            workers.log.append(between[-1:])
            until(lambda: f"live {len(between) - 1}." in worker.ask(path, here=True).text, workers.told, pause_s=0.002)
            if len(between) == 1:
                [first] = [one for one in worker.status()["partitions"] if one["partition"] == 0]
                left = workers.log.end(0) - first["next"]
        assert left > 0, "the burst is too small for this machine: it was folded at once"
        assert folded(worker, 0, "bulk") > burst * 3 // 4
        assert folded(worker, 1, "live") >= len(between) // 2, "the quiet partition was read live"
        counts = judge(workers, ids(messages + between))._asdict()
        return {**counts, "acknowledged": len(messages) + len(between), "read_meanwhile": len(between)}


def full_disk(folder: Path, broker: Broker, chance: random.Random, *, times: int) -> Counts:
    """The disk of the state folder is full, again and again: the worker ends and says why, and with some more room it
    goes on by itself.

    Raises:
        NotPossibleHere: a small disk can't be mounted.
    """
    with fleet(folder, broker, partitions=2) as workers:
        place = folder / "w1" / "state"
        place.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "slotlog-test", str(place)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotPossibleHere(f"a small disk can't be mounted: {done.stderr.strip()}")
        try:
            written: set[tuple[str, bytes]] = set()
            for time in range(times):
                worker = workers.start("w1")
                until(lambda worker=worker: workers.settled(behind=None) or not worker.running, workers.told)
                with load(workers, Story(chance.randrange(2**32)), per_second=3_000, batch=300) as running:
                    code = worker.ended()
                    written |= running.finish()
                assert code == 4, worker.output
                last = worker.output.strip().splitlines()[-2:]
                assert last[0].startswith("error: no room for the tables in "), worker.output
                assert last[1].startswith("hint: "), worker.output
                assert "Traceback" not in worker.output
                size = f"{4 + 4 * time}m" if time < times - 1 else "300m"
                subprocess.run([*mount[:4], f"remount,size={size}", *mount[5:]], check=True)
            workers.start("w1")
            workers.settle()
            return {**judge(workers, written)._asdict(), "acknowledged": len(written), "times": times}
        finally:
            workers.close()
            subprocess.run(["umount", "-l", str(place)], check=True)


def jumping_clock(folder: Path, broker: Broker, chance: random.Random, *, jumps: Sequence[int]) -> Counts:
    """The wall clock of a worker jumps by so many hours, under load: it stays a member, folds on, and has what others
    have.

    Raises:
        NotPossibleHere: there is no C compiler to make what moves the clock of one process.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotPossibleHere("no C compiler: the wall clock of one process can't be set otherwise")
    folder.mkdir(parents=True, exist_ok=True)
    shim, setting = folder / "clock.so", folder / "seconds"
    build = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(shim), str(CLOCK), "-ldl"]
    subprocess.run(build, check=True)
    setting.write_bytes(bytes(8))
    with fleet(folder, broker) as workers, load(workers, Story(chance.randrange(2**32))) as running:
        workers.start("w1", environment={"LD_PRELOAD": str(shim), "SLOTLOG_CLOCK": str(setting)})
        workers.start("w2")
        workers.serve()
        jumping = workers.workers["w1"]
        pid = jumping.pid
        for hours in jumps:
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
        return told(judge(workers, written), running, jumps_h=list(jumps))
