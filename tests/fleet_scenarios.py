"""What a fleet must survive. Each scenario ends with the verdict and returns what it counted; the test suite runs them
with small counts, `ops/bench/chaos.py` with those of the issue."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

from fleet import SESSION_TIMEOUT_S, Fleet, fact_path, fleet, suspended, until
from fleet_load import SPACES, Load, Story, fact, ids, load
from fleet_verdict import Verdict, judge
from kafka_broker import Broker

Counts = dict[str, Any]


def told(verdict: Verdict, running: Load, **more: Any) -> Counts:
    """What a scenario reports."""
    return {**verdict._asdict(), "acknowledged": len(running.acknowledged), "retries": running.retries, **more}


def killed_workers(folder: Path, broker: Broker, chance: random.Random, *, kills: int) -> Counts:
    """SIGKILL of one of three workers at a random moment under load, again and again; each is started again after a
    random while, sometimes before the others have noticed."""
    with fleet(folder, broker) as workers, load(workers, Story(chance.randrange(2**32)), again=20) as running:
        names = ["w1", "w2", "w3"]
        workers.start(*names)
        workers.serve()
        for _ in range(kills):
            time.sleep(chance.uniform(0, 3))
            victim = workers.workers[chance.choice(names)]
            victim.kill()
            time.sleep(chance.choice((0, chance.uniform(0, 2), SESSION_TIMEOUT_S + 2)))
            workers.start(victim.name)
            if chance.random() < 0.5:
                workers.serve()
        running.go_on(100)
        written = running.finish()
        workers.settle()
        return told(judge(workers, written), running, kills=kills)


def comers_and_goers(folder: Path, broker: Broker, chance: random.Random, *, rounds: int) -> Counts:
    """A worker joins and leaves every few seconds beside one that stays, caught up or not."""
    with fleet(folder, broker) as workers, load(workers, Story(chance.randrange(2**32))) as running:
        workers.start("stays")
        workers.serve()
        for _ in range(rounds):
            guest = workers.start("guest")
            until(lambda guest=guest: guest.status().get("partitions") or not guest.running, workers.told)
            time.sleep(chance.uniform(0, 3))
            guest.stop()
            time.sleep(chance.uniform(0, 2))
        running.go_on(100)
        written = running.finish()
        workers.settle()
        return told(judge(workers, written), running, rounds=rounds)


def suspended_worker(folder: Path, broker: Broker, chance: random.Random) -> Counts:
    """A worker sleeps past its session timeout and wakes. What it is asked while it sleeps, and right after, it answers
    with 503 or as the new owner does, never from what it had."""
    space = SPACES[0]
    path = fact_path(space, "user:watched", "n")
    with fleet(folder, broker) as workers, load(workers, Story(chance.randrange(2**32))) as running:
        workers.start("w1", "w2")
        workers.serve()
        mine = [fact(space, "user:watched", "n", "before")]
        workers.log.append(mine)
        sleeper = workers.owner_of(space)
        until(lambda: "before" in sleeper.ask(path, here=True).text, workers.told)
        sleeper.suspend()
        mine.append(fact(space, "user:watched", "n", "after"))
        workers.log.append(mine[-1:])
        until(lambda: "after" in workers.owner_of(space).ask(path, here=True).text, workers.told)
        waiting = [sleeper.send(path) for _ in range(5)]
        sleeper.resume()
        first = [answer() for answer in waiting]
        assert {answer.code for answer in first} == {503}, f"it answered before it was a member again: {first}"
        later = []

        def answers_well_and_is_back() -> bool:
            later.append(sleeper.ask(path, here=True))
            assert later[-1].code == 503 or "after" in later[-1].text, f"a stale answer: {later[-1]}"
            return bool(sleeper.status().get("ready"))

        until(answers_well_and_is_back, workers.told, pause_s=0.01)
        running.go_on(100)
        written = running.finish()
        workers.settle()
        return told(judge(workers, written | ids(mine)), running, refused=len(first), asked_later=len(later))


def interrupted_catch_up(folder: Path, broker: Broker, chance: random.Random, *, backlog: int) -> Counts:
    """A worker has a big backlog to read in bulk; a second one joins in the middle of it, and the first is killed."""
    story = Story(chance.randrange(2**32))
    with fleet(folder, broker) as workers:
        written = []
        for _ in range(0, backlog, 5_000):
            written += (some := story.tell(5_000))
            workers.log.append(some)
            story.acknowledged()
        first = workers.start("w1")
        until(lambda: any(one["next"] for one in first.status().get("partitions", ())), workers.told)
        in_the_middle = not workers.settled()
        second = workers.start("w2")
        until(lambda: second.status().get("partitions"), workers.told)
        first.kill()
        workers.start("w1")
        workers.settle()
        verdict = judge(workers, ids(written))
        return {**verdict._asdict(), "acknowledged": len(written), "in_the_middle": in_the_middle}


def _settle_again(workers: Fleet, running: Load) -> None:
    running.go_on(50)
    workers.serve()


def killed_broker(folder: Path, broker: Broker, chance: random.Random, *, kills: int) -> Counts:
    """The broker is killed under load and started again, with its data."""
    with fleet(folder, broker) as workers, load(workers, Story(chance.randrange(2**32))) as running:
        workers.start("w1", "w2")
        workers.serve()
        pids = {worker.pid for worker in workers.living()}
        for _ in range(kills):
            time.sleep(chance.uniform(0, 3))
            broker.kill()
            time.sleep(chance.uniform(0, 3))
            broker.start()
            _settle_again(workers, running)
        assert {worker.pid for worker in workers.living()} == pids, "a worker ended over it"
        written = running.finish()
        workers.settle()
        return told(judge(workers, written), running, kills=kills)


def unreachable_broker(folder: Path, broker: Broker, chance: random.Random, *, seconds: float) -> Counts:
    """The broker is suspended for a while: connections stay and nothing is answered. Afterwards all goes on."""
    space = SPACES[0]
    with fleet(folder, broker) as workers, load(workers, Story(chance.randrange(2**32))) as running:
        workers.start("w1", "w2")
        workers.serve()
        path = fact_path(space, "user:1", "slot-1")
        owner = workers.owner_of(space)
        with suspended(broker.pid):
            time.sleep(seconds)
            answer = owner.ask(path, here=True)
            silent = seconds > SESSION_TIMEOUT_S + 2
            assert not silent or answer.code == 503, f"it can't know whether it is a member: {answer}"
        _settle_again(workers, running)
        assert all(worker.running for worker in workers.workers.values()), workers.told()
        written = running.finish()
        workers.settle()
        return told(judge(workers, written), running, seconds=seconds, while_away=answer.code)
