#!/usr/bin/env python3
"""How much one worker process takes in, beside Kafka Streams and a plain Faust agent that read the same events.

Each contestant runs alone, in turn, round after round, with fresh state:

    backlog   N events are on the log; the process starts with nothing and reads them all
    burst     a warm process that has caught up and waits gets N events at once
    live      as many events as it takes, never more than SLICE ahead of it: below slotlog's bulk threshold
    paced     500 events/s; the time from the log's append time to when the tables have it (the peers' own measure)

    python ops/bench/peers/race.py                            300,000 events, 2 partitions, 3 rounds
    python ops/bench/peers/race.py --only kafka-streams-1 plain-faust --phases backlog
    python ops/bench/peers/race.py --small                    3,000 events, 1 round

Ratios are those of the first contestant to each other one, within a round. The peers do less than slotlog does: they
keep the values of facts and ends, and nothing of ids, duplicates, sessions, retractions, trust or proofs.
Faust gets a fifth of the events, as it takes so much longer.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

from contestant import Contest, Contestant, Result, Running, cpu_s, run_alone, scratch, wait_for
from kafka_streams import KafkaStreams
from plain_faust import PlainFaust
from slotlog_worker import SlotlogWorker

# isort: split
import harness
from workload import Fleet

from schemas.codec import Codec
from streams.envelope import message
from streams.kafka_log import KafkaLog
from streams.ports import Headers, Message

BATCH = 5_000
POLL_S = 0.02
IDLE_S = 1.0
PACED_PER_S = 500
LIVE_SHARE = 5

# Who takes part. The first is compared with the others. SlotlogWorker runs `slotlog worker` by its command line; what
# follows its name is added to it, for instance SlotlogWorker("slotlog-live", "--behind", "1000000000").
CONTESTANTS: dict[str, Contestant] = {
    one.name: one
    for one in (
        SlotlogWorker(),
        KafkaStreams(threads=1),
        KafkaStreams(threads=2),
        KafkaStreams(threads=1, changelog=True),
        PlainFaust(),
        PlainFaust(linger_s=0.05),
    )
}
NOT_PACED = {"slotlog"}  # its latency is measured by its own benchmark, through its API


class Race:
    """The events, ready to be appended as often as wanted, and where."""

    def __init__(self, broker: harness.Broker, work: Path, given: argparse.Namespace) -> None:
        self.broker, self.work, self.given = broker, work, given
        self.counts: Counter[str] = Counter()
        self.messages = self._make(given.warm + given.events)
        self.backlog = broker.new_topic("race", given.partitions)
        self.append(self.backlog, self.messages[given.warm :])

    def _make(self, count: int) -> list[Message]:
        codec, shared = Codec(), dict[tuple[str, bytes], tuple[str, bytes]]()
        made = []
        for number, event in enumerate(Fleet(self.given.seed).events(count)):
            if number >= self.given.warm:
                self.counts[type(event).__name__] += 1
            key, value, headers = message(event, codec)
            made.append(Message(key, value, _shared(headers, shared)))
        return made

    def events_for(self, contestant: Contestant) -> int:
        """How many of the events this contestant gets."""
        events: int = self.given.events
        return events // self.given.faust_share if contestant.name.startswith("plain-faust") else events

    def append(self, topic: str, messages: Sequence[Message]) -> None:
        log = KafkaLog(self.broker.bootstrap, topic)
        for start in range(0, len(messages), BATCH):
            log.append(messages[start : start + BATCH])
        log.close()


def _shared(headers: Headers, known: dict[tuple[str, bytes], tuple[str, bytes]]) -> Headers:
    """The same headers; those that many messages have are one object, or the messages would not fit the memory."""
    own = ("ce_id", "ce_time")
    return tuple(one if one[0] in own else known.setdefault(one, one) for one in headers)


def figures(events: int, seconds: float, cpu: float, **more: object) -> Result:
    rates = {"events_per_s": round(events / seconds), "events_per_cpu_s": round(events / max(cpu, 0.01))}
    return {"events": events, "seconds": round(seconds, 3), "cpu_s": round(cpu, 3), **rates, **more}


def backlog(race: Race, contestant: Contestant) -> Result:
    done = run_alone(contestant, race.broker.bootstrap, race.backlog, race.events_for(contestant), race.work)
    return figures(done["events"], done["seconds"], done["cpu_s"], puts=done.get("puts"))


def burst(race: Race, contestant: Contestant) -> Result:
    warm, events = race.given.warm, race.events_for(contestant)

    def run(topic: str, running: Running) -> Result:
        started, cpu = time.perf_counter(), cpu_s(running.pid)
        race.append(topic, race.messages[warm : warm + events])
        appended = time.perf_counter() - started
        wait_for("the end of the burst", lambda: running.done() >= warm + events, POLL_S)
        taken = time.perf_counter() - started
        return figures(events, taken, cpu_s(running.pid) - cpu, appended_after_s=round(appended, 3))

    return _warm(race, contestant, events, run)


def live(race: Race, contestant: Contestant) -> Result:
    warm, ahead = race.given.warm, race.given.slice
    events = race.given.live_events

    def run(topic: str, running: Running) -> Result:
        log = KafkaLog(race.broker.bootstrap, topic)
        started, cpu = time.perf_counter(), cpu_s(running.pid)
        sent = 0
        while sent < events:
            room = min(ahead - (warm + sent - running.done()), events - sent)
            if room >= ahead // 4 or room == events - sent:
                log.append(race.messages[warm + sent : warm + sent + room])
                sent += room
            else:
                time.sleep(POLL_S)
        wait_for("the last live event", lambda: running.done() >= warm + events, POLL_S)
        taken = figures(events, time.perf_counter() - started, cpu_s(running.pid) - cpu)
        log.close()
        return taken

    return _warm(race, contestant, events, run)


def _warm(race: Race, contestant: Contestant, events: int, run: Callable[[str, Running], Result]) -> Result:
    """`run` a process that has taken in the first events and has nothing to do. One event more than there is keeps it
    from ending by itself."""
    warm = race.given.warm
    topic = race.broker.new_topic("race", race.given.partitions)
    with scratch(race.work) as work:
        running = contestant.start(Contest(race.broker.bootstrap, topic, warm + events + 1, work))
        try:
            running.wait_until_ready()
            race.append(topic, race.messages[:warm])
            wait_for("the end of the warming up", lambda: running.done() >= warm, POLL_S)
            time.sleep(IDLE_S)
            return run(topic, running)
        finally:
            running.stop()


def paced(race: Race, contestant: Contestant) -> Result:
    events = race.given.paced_events
    topic = race.broker.new_topic("race", race.given.partitions)
    log = KafkaLog(race.broker.bootstrap, topic)
    with scratch(race.work) as work:
        running = contestant.start(Contest(race.broker.bootstrap, topic, events, work))
        try:
            running.wait_until_ready()
            begun = time.perf_counter()
            sent = 0
            while sent < events:
                due = min(events, 1 + int((time.perf_counter() - begun) * PACED_PER_S))
                log.append(race.messages[sent:due])
                sent = due
                time.sleep(max(0.0, begun + sent / PACED_PER_S - time.perf_counter()))
            done = running.result()
        finally:
            running.stop()
            log.close()
    return figures(done["events"], done["seconds"], done["cpu_s"], p50_ms=done["p50_ms"], p99_ms=done["p99_ms"])


PHASES: dict[str, Callable[[Race, Contestant], Result]] = {
    "backlog": backlog,
    "burst": burst,
    "live": live,
    "paced": paced,
}


def measure(race: Race, phase: str, contestants: Sequence[Contestant]) -> Result:
    """Every contestant in turn, round after round; medians, and the ratios of the first to each other one."""
    taking = [one for one in contestants if phase != "paced" or one.name not in NOT_PACED]
    rounds: list[dict[str, Result]] = []
    for number in range(race.given.rounds):
        rounds.append({})
        for one in taking:
            done = rounds[-1][one.name] = PHASES[phase](race, one)
            rate, per_cpu = done["events_per_s"], done["events_per_cpu_s"]
            latency = f", p50 {done['p50_ms']} ms, p99 {done['p99_ms']} ms" if phase == "paced" else ""
            harness.say(f"  {phase} {number + 1}: {one.name} {rate:,} events/s, {per_cpu:,} per CPU second{latency}")
    kinds = ("events_per_s", "events_per_cpu_s")
    medians = {one.name: {kind: median(r[one.name][kind] for r in rounds) for kind in kinds} for one in taking}
    ratios = {}
    for a, b in [(a, b) for a, b in combinations(medians, 2) if a == taking[0].name]:
        found = {kind: harness.spread(r[a][kind] / r[b][kind] for r in rounds) for kind in kinds}
        ratios[f"{a} / {b}"] = found
        wall, cpu = (found[kind]["median"] for kind in kinds)
        harness.say(f"  {phase}: {a} / {b} {wall:.2f}, by processor time {cpu:.2f}")
    return {"rounds": rounds, "medians": medians, "ratios": ratios}


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--events", type=int, help="default: 300,000, or 3,000 when small")
    parser.add_argument("--rounds", type=int, help="default: 3, or 1 when small")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--slice", type=int, default=1_500, help="events ahead of a live contestant, at most")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), metavar="CONTESTANT")
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=list(PHASES), metavar="PHASE")
    given = parser.parse_args()
    given.events = given.events or (3_000 if given.small else 300_000)
    given.rounds = given.rounds or (1 if given.small else 3)
    given.warm = 500 if given.small else 20_000
    given.live_events = given.events // LIVE_SHARE
    given.faust_share = 1 if given.small else 5
    given.paced_events = 500 if given.small else 10_000
    return given


def main() -> int:
    given = options()
    contestants = [CONTESTANTS[name] for name in given.only]
    result: Result = {"facts": harness.facts(), "seed": given.seed, "events": given.events}
    result |= {"partitions": given.partitions, "warm": given.warm, "slice": given.slice}
    with harness.work_folder(given) as work, harness.broker(given, work) as broker:
        harness.say(f"seed {given.seed}; making {given.events:,} events")
        race = Race(broker, work, given)
        result["mix"] = dict(race.counts)
        for phase in given.phases:
            harness.say(phase)
            result[phase] = measure(race, phase, contestants)
    harness.write_result("peers", given, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
