"""How long a session's replay takes to its first event, and how fast it goes on, wherever in the log the session lies.

Logs of 1,000,000, 100,000 and 10,000 events stand side by side, embedded and on Kafka, all of one fleet (`workload.py`)
with sessions of 50 and of 5,000 events put among the others' events, one in every four and one in every two; in the
shortest there is room for one of 5,000. All are asked in turn. `warm`: a Memory that is open and has folded the log.
`cold`: from `Memory.open` on, as a command does, with tables that were flushed.

    python ops/bench/replay.py                  both stores, 9 rounds
    python ops/bench/replay.py --small          12,000, 4,000 and 1,000 events, sessions of 50 and 500, 2 rounds
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import harness
from workload import Fleet

from schemas import events as ev
from schemas.codec import Codec
from streams import Memory, clock
from streams.envelope import message
from streams.kafka_log import KafkaLog
from streams.ports import Log
from streams.sqlite_log import SqliteLog

SPACE = "acme/replayed"
BATCH = 5_000
LOGS = (1_000_000, 100_000, 10_000)
SMALL_LOGS = (12_000, 4_000, 1_000)
SMALL_SIZE = 50


class Planted(NamedTuple):
    """A session of `size` events in SPACE: one in every `stride` of the log from offset `start` on."""

    place: str
    size: int
    start: int
    stride: int

    @property
    def name(self) -> str:
        return f"{self.place}-{self.size}"


class Shelf(NamedTuple):
    """One log: how many events it has, the sessions in it, and the store's name."""

    events: int
    sessions: tuple[Planted, ...]
    store: str


Values = dict[str, list[float]]
Kept = dict[tuple[int, Planted], Values]
"""What was measured, by the log's number of events and the session."""


def sessions_of(events: int, large: int) -> tuple[Planted, ...]:
    """Both sizes at the start, in the middle and at the end of the log; one large one alone where three don't fit."""
    found = []
    for size, stride in ((SMALL_SIZE, 4), (large, 2)):
        span = size * stride
        places = {"start": 0, "middle": (events - span) // 2, "end": events - span}
        if span * len(places) > events:
            places = {"whole": 0}
        # Large ones have even offsets and small ones odd: an offset belongs to one session.
        found += [Planted(place, size, begin // 2 * 2 + (stride == 4), stride) for place, begin in places.items()]
    return tuple(found)


def events_of(count: int, sessions: Sequence[Planted], seed: int) -> Iterator[ev.Event]:
    """The fleet's events, with the sessions' own at their offsets."""
    owners = {one.start + number * one.stride: (one, number) for one in sessions for number in range(one.size)}
    assert len(owners) == sum(one.size for one in sessions), "two sessions share an offset"
    assert max(owners) < count, "a session does not fit"
    fleet = Fleet(seed).events(count)
    for offset in range(count):
        owner = owners.get(offset)
        yield next(fleet) if owner is None else _turn(*owner)


def _turn(session: Planted, number: int) -> ev.Event:
    return ev.Observed(
        event_id=clock.new_event_id(),
        space=SPACE,
        session=session.name,
        actor="agent:planner",
        recorded_at=clock.now_micros(),
        role="assistant",
        text=f"turn {number} of {session.name}: the checks ran again and the owner was told what changed since",
    )


def fill(log: Log, events: Iterator[ev.Event]) -> None:
    codec = Codec()
    while batch := list(islice(events, BATCH)):
        log.append([message(event, codec) for event in batch])
    log.close()


def replayed(memory: Memory, session: Planted) -> tuple[float, float]:
    """(seconds to the first event, seconds to the last), after a check that each event came once, in order."""
    turns = []
    started = time.perf_counter()
    events = memory.replay(SPACE, session.name)
    turns.append(next(events))
    first = time.perf_counter()
    turns += events
    ended = time.perf_counter()
    found = [one.event.text.partition(":")[0] for one in turns if isinstance(one.event, ev.Observed)]
    assert found == [f"turn {number} of {session.name}" for number in range(session.size)], session
    assert turns[0].position.offset == session.start, session
    return first - started, ended - started


def cold(store: str, session: Planted) -> float:
    """Seconds from nothing open to the first event."""
    with harness.timed() as seconds:
        memory = Memory.open(store, hold=False)
        next(memory.replay(SPACE, session.name))
    memory.close()
    return seconds()


def measure(shelves: Sequence[Shelf], rounds: int) -> harness.Result:
    """Every session of every log, round after round, so that what slows the machine slows all of them."""
    fold_s = {}
    for shelf in shelves:
        with harness.timed() as seconds, Memory.open(shelf.store) as memory:  # its tables, flushed
            memory.info()
        fold_s[str(shelf.events)] = round(seconds(), 2)
    kept: Kept = {
        (shelf.events, session): {"warm_ms": [], "events_per_s": [], "cold_ms": []}
        for shelf in shelves
        for session in shelf.sessions
    }
    stores = {shelf.events: shelf.store for shelf in shelves}
    with ExitStack() as stack:
        memories = {events: stack.enter_context(Memory.open(store)) for events, store in stores.items()}
        for events, session in kept:
            replayed(memories[events], session)
        for _ in range(rounds):
            for (events, session), values in kept.items():
                first, whole = replayed(memories[events], session)
                values["warm_ms"].append(first * 1000)
                values["events_per_s"].append(session.size / whole)
    for _ in range(rounds):
        for (events, session), values in kept.items():
            values["cold_ms"].append(cold(stores[events], session) * 1000)
    logs: dict[str, harness.Result] = {str(shelf.events): {} for shelf in shelves}
    for (events, session), values in kept.items():
        logs[str(events)][session.name] = {key: harness.spread(found) for key, found in values.items()}
    return {"fold_s": fold_s, "logs": logs, "ratios": ratios(kept, [shelf.events for shelf in shelves])}


def ratios(kept: Kept, logs: Sequence[int]) -> harness.Result:
    """Medians of the longest log / those of each other, per session."""
    longest, *others = logs
    found: harness.Result = {}
    for other in others:
        beside = {(session.place, session.size): values for (log, session), values in kept.items() if log == other}
        found[f"{longest}/{other}"] = {
            session.name: {
                key: round(median(values[key]) / median((beside.get((session.place, session.size)) or whole)[key]), 3)
                for key in values
            }
            for (log, session), values in kept.items()
            if log == longest
            for whole in [beside.get(("whole", session.size), {})]
        }
    return found


def show(result: harness.Result) -> None:
    for log, sessions in result["logs"].items():
        for session, values in sessions.items():
            warm, cold_ms, rate = (values[key]["median"] for key in ("warm_ms", "cold_ms", "events_per_s"))
            first = f"first event warm {warm:7.2f} ms, cold {cold_ms:7.1f} ms"
            harness.say(f"  {log:>8} {session:12} {first}, {rate:9,.0f} events/s")
    for pair, sessions in result["ratios"].items():
        for session, found in sessions.items():
            harness.say(f"  {pair:>15} {session:12} {found}")


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--events", help="of each log, the longest first, parted by commas")
    parser.add_argument("--rounds", type=int, help="default: 9, or 2 when small")
    parser.add_argument("--store", choices=("embedded", "kafka", "both"), default="both")
    given = parser.parse_args()
    logs = SMALL_LOGS if given.small else LOGS
    given.events = [int(count) for count in given.events.split(",")] if given.events else list(logs)
    given.rounds = given.rounds or (2 if given.small else 9)
    return given


def main() -> int:
    given = options()
    large = 500 if given.small else 5_000
    plans = {events: sessions_of(events, large) for events in given.events}
    result = {"facts": harness.facts(), "seed": given.seed, "logs": given.events, "rounds": given.rounds}
    with harness.work_folder(given) as work:
        for name, make in (("embedded", on_embedded), ("kafka", on_kafka)):
            if given.store in (name, "both"):
                harness.say(name)
                result[name] = make(work, plans, given)
                show(result[name])
    harness.write_result("replay", given, result)
    return 0


Plans = dict[int, tuple[Planted, ...]]


def on_embedded(work: Path, plans: Plans, given: argparse.Namespace) -> harness.Result:
    shelves = []
    for events, sessions in plans.items():
        folder = work / f"embedded-{events}"
        fill(SqliteLog(folder, clock=clock.now_micros), events_of(events, sessions, given.seed))
        shelves.append(Shelf(events, sessions, str(folder)))
    return measure(shelves, given.rounds)


def on_kafka(work: Path, plans: Plans, given: argparse.Namespace) -> harness.Result:
    shelves = []
    with harness.broker(given, work) as broker:
        for events, sessions in plans.items():
            topic = broker.new_topic(f"replay-{events}")
            fill(KafkaLog(broker.bootstrap, topic), events_of(events, sessions, given.seed))
            shelves.append(Shelf(events, sessions, broker.store(topic, work / f"kafka-{events}")))
        return measure(shelves, given.rounds)


if __name__ == "__main__":
    sys.exit(main())
