"""How long an answer takes: in a store of a million facts, of a slot with 100,000 versions, and of slots that are hard.

`store`: a fleet's facts and one hot slot, side by side. Asked in turn: a random cold slot and the hot one, each for
now, as of a random offset, and (hot) at an instant in the middle of its versions. Through `Memory.get`, which first
asks the log for what is new, and through `Reads.get` with a view resolved before.
`shapes`: slots where very many rows lie between the question and its answer: rows of later, expired, hidden, retracted,
ended, rejected. Each is a space of its own with one fact that is to be found, and many that are not.

Every answer is checked against what it must be.

    python ops/bench/reads.py                   1,000,000 facts, 100,000 versions, shapes of 100,000 rows
    python ops/bench/reads.py --only shapes     or store
    python ops/bench/reads.py --small           5,000 facts, 500 versions, shapes of 500 rows
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import harness
from workload import BEGIN_US
from writes import facts_of, latencies

from schemas import events as ev
from schemas.codec import Codec
from schemas.times import instant
from streams import Belief, Memory, Position, ResolvedView, View, clock
from streams.envelope import message
from streams.reads import Reads
from streams.sqlite_log import SqliteLog
from streams.tables import Tables

BATCH = 5_000
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
APPENDED_US = BEGIN_US + 100 * DAY_US
ASKED = instant(BEGIN_US + 90 * DAY_US)
HOT = ("acme/hot", "service:counter", "version")
SAMPLE = 50
GOAL_SHAPES = ("old as-of", "expired", "left out", "distrusted", "distrusted since an event", "retracted by name")

Slot = tuple[str, str, str]
"""(space, entity, slot)."""


class Version(NamedTuple):
    """One fact of a slot: its instant and offset are its rank."""

    at: int
    offset: int
    value: ev.Value


class Kept:
    """What must be answered, of the hot slot and of one cold slot in SAMPLE."""

    def __init__(self) -> None:
        self.versions: dict[Slot, list[Version]] = {}
        self.offset = 0

    def take(self, event: ev.FactAsserted) -> None:
        slot = (event.space, event.entity, event.slot)
        if slot == HOT or zlib.crc32("\0".join(slot).encode()) % SAMPLE == 0:
            at = APPENDED_US if event.valid_from is None else event.valid_from
            self.versions.setdefault(slot, []).append(Version(at, self.offset, event.value))
        self.offset += 1

    def answer(self, slot: Slot, as_of: int, at: int) -> Version | None:
        known = (one for one in self.versions[slot] if one.offset <= as_of and one.at <= at)
        return max(known, default=None, key=lambda one: one[:2])


class Hot:
    """What must be answered of the hot slot: version N is at instant N of a grid, and offsets ascend with it."""

    def __init__(self, versions: Sequence[Version]) -> None:
        self.versions = versions

    def answer(self, as_of: int, at: int) -> Version | None:
        low, high = 0, len(self.versions)
        while low < high:  # the first version that is too late or not known yet
            middle = (low + high) // 2
            if self.versions[middle].offset <= as_of and self.versions[middle].at <= at:
                low = middle + 1
            else:
                high = middle
        return self.versions[low - 1] if low else None


def hot_versions(count: int) -> Iterator[ev.FactAsserted]:
    space, entity, slot = HOT
    for number in range(count):
        common = {"event_id": clock.new_event_id(), "recorded_at": BEGIN_US, "actor": f"agent:{number % 7}"}
        at = BEGIN_US + number * SECOND_US
        yield ev.FactAsserted(**common, space=space, entity=entity, slot=slot, value=number, valid_from=at)


def mixed(facts: int, versions: int, seed: int) -> Iterator[ev.FactAsserted]:
    """`facts` in all, with the hot slot's versions spread evenly among them."""
    hot, cold = hot_versions(versions), facts_of(seed)
    for number in range(facts):
        mine = (number + 1) * versions // facts > number * versions // facts
        yield next(hot) if mine else next(cold)


def append(log: SqliteLog, events: Iterable[ev.Event]) -> None:
    codec, events = Codec(), iter(events)
    while batch := list(islice(events, BATCH)):
        log.append([message(event, codec) for event in batch])


# -- a large store


Ask = Callable[[Slot, View, ResolvedView], Any]


def store(work: Path, given: argparse.Namespace) -> harness.Result:
    folder, kept = work / "store", Kept()

    def noted() -> Iterator[ev.Event]:
        for event in mixed(given.facts, given.versions, given.seed):
            kept.take(event)
            yield event

    with harness.timed() as filling:
        log = SqliteLog(folder, clock=lambda: APPENDED_US)
        append(log, noted())
        log.close()
    with harness.timed() as folding, Memory.open(folder) as memory:
        (partition,) = memory.info().partitions
        assert partition.applied == given.facts, partition
    harness.say(f"store: {given.facts:,} facts, filled in {filling():.1f} s, folded in {folding():.1f} s")
    result: harness.Result = {
        "facts": given.facts,
        "versions_of_the_hot_slot": given.versions,
        "cold_slots_asked": len(kept.versions) - 1,
        "versions_of_a_cold_slot": harness.spread(
            [len(found) for slot, found in sorted(kept.versions.items()) if slot != HOT][:200]
        ),
    }
    with Memory.open(folder) as memory:
        result["memory"] = ask_all(lambda slot, view, _: memory.get(*slot, view), kept, given)
    tables = Tables.open_to_read(folder / "tables" / "p0")
    assert tables is not None
    reads = Reads(tables, 0, Codec())
    result["reads"] = ask_all(lambda slot, _, resolved: reads.get(*slot, resolved), kept, given)
    tables.close()
    for name in ("memory", "reads"):
        show(name, result[name])
    return result


def show(name: str, found: harness.Result) -> None:
    for kind, times in found["kinds"].items():
        harness.say(f"  {name:6} {kind:22} p50 {times['p50_ms'] * 1e3:8.1f} µs, p99 {times['p99_ms'] * 1e3:9.1f} µs")
    harness.say(f"  {name:6} hot / cold by p50: {found['hot_over_cold']}")


def ask_all(ask: Ask, kept: Kept, given: argparse.Namespace) -> harness.Result:
    """Every kind of question in turn, `given.questions` of each."""
    chance = random.Random(given.seed)
    slots = sorted(slot for slot in kept.versions if slot != HOT)
    hot = Hot(kept.versions[HOT])
    last, end = kept.offset - 1, BEGIN_US + given.versions * SECOND_US
    times: dict[str, list[float]] = {}

    def asked(kind: str, slot: Slot, as_of: int | None, at: int) -> None:
        view = View(as_of=as_of, valid_at=instant(at))
        until = last if as_of is None else as_of
        resolved = ResolvedView(Position(0, until), at)
        started = time.perf_counter()
        answer = ask(slot, view, resolved)
        times.setdefault(kind, []).append(time.perf_counter() - started)
        wanted = hot.answer(until, at) if slot == HOT else kept.answer(slot, until, at)
        got = None if answer is None else (answer.value, answer.position.offset)
        assert got == (None if wanted is None else (wanted.value, wanted.offset)), (kind, slot, as_of, at, got, wanted)

    now = APPENDED_US + DAY_US
    asked("hot, first question", HOT, None, now)
    for _ in range(given.questions):
        middle = BEGIN_US + chance.randrange(given.versions // 4, 3 * given.versions // 4) * SECOND_US
        offset = chance.randrange(kept.offset // 4, 3 * kept.offset // 4)
        asked("cold, now", chance.choice(slots), None, now)
        asked("hot, now", HOT, None, now)
        asked("cold, as of", chance.choice(slots), offset, now)
        asked("hot, as of", HOT, offset, now)
        asked("cold, at an instant", chance.choice(slots), None, chance.randrange(BEGIN_US, end))
        asked("hot, in its middle", HOT, None, middle)
        asked("hot, as of and middle", HOT, offset, chance.randrange(BEGIN_US, middle))
    kinds = {kind: latencies(found) for kind, found in times.items()}
    pairs = {"now": ("hot, now", "cold, now"), "as of": ("hot, as of", "cold, as of")}
    pairs["in its middle"] = ("hot, in its middle", "cold, at an instant")
    pairs["as of and middle"] = ("hot, as of and middle", "cold, as of")
    ratios = {name: round(kinds[a]["p50_ms"] / kinds[b]["p50_ms"], 3) for name, (a, b) in pairs.items()}
    return {"kinds": kinds, "hot_over_cold": ratios}


# -- hard shapes


class Shape(NamedTuple):
    """A slot of `rows` rows of which one, the value `kept`, is the answer through `view`; as of its own offset when
    `as_of_kept`."""

    name: str
    events: Callable[[Maker, int], Iterator[ev.Event]]
    view: Mapping[str, Any] = MappingProxyType({})
    as_of_kept: bool = False


class Maker:
    """Makes events about one slot of one space, at instants a second apart."""

    def __init__(self, space: str) -> None:
        self.space = space
        self.facts = 0

    def common(self, actor: str) -> dict[str, Any]:
        identity = clock.new_event_id()
        return {"event_id": identity, "space": self.space, "actor": actor, "recorded_at": BEGIN_US}

    def fact(self, value: ev.Value, actor: str = "agent:good", seconds: float | None = None) -> ev.FactAsserted:
        at = BEGIN_US + self.facts * SECOND_US
        self.facts += 1
        until = None if seconds is None else at + int(seconds * SECOND_US)
        named = {"entity": "user:ana", "slot": "plan", "value": value}
        return ev.FactAsserted(**self.common(actor), **named, valid_from=at, valid_to=until)

    def kept(self, actor: str = "agent:good") -> ev.FactAsserted:
        return self.fact("kept", actor)

    def say(self, cls: type[ev.Event], actor: str = "user:admin", **fields: Any) -> ev.Event:
        return cls(**self.common(actor), **fields)


def old_as_of(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield make.kept()
    yield from (make.fact(number) for number in range(rows))


def expired(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield make.kept()
    yield from (make.fact(number, seconds=1) for number in range(rows))


def of_bad_actor(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield make.kept()
    yield from (make.fact(number, "agent:bad") for number in range(rows))


def distrusted(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield from of_bad_actor(make, rows)
    yield make.say(ev.ActorDistrusted, about="agent:bad")


def distrusted_since_event(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield make.kept("agent:bad")
    first = make.fact(0, "agent:bad")
    yield first
    yield from (make.fact(number, "agent:bad") for number in range(1, rows))
    yield make.say(ev.ActorDistrusted, about="agent:bad", since_event=first.event_id)


def distrusted_since_time(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield from of_bad_actor(make, rows)
    yield make.say(ev.ActorDistrusted, about="agent:bad", since_time=APPENDED_US - DAY_US)


def interleaved(make: Maker, rows: int) -> Iterator[ev.Event]:
    """Expired facts of a good actor between open ones of the bad one."""
    yield make.kept()
    for number in range(rows):
        yield make.fact(number, "agent:bad") if number % 2 else make.fact(number, seconds=1)


def retracted_by_name(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield make.kept()
    yield from (make.fact("gone") for _ in range(rows))
    yield make.say(ev.FactRetracted, entity="user:ana", slot="plan", value="gone")


def retracted_by_id(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield make.kept()
    for number in range(rows):
        fact = make.fact(number)
        yield fact
        yield make.say(ev.FactRetracted, target=fact.event_id)


def ended(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield make.kept()
    for number in range(rows // 2):
        fact = make.fact(number)
        yield fact
        yield make.say(ev.FactEnded, entity="user:ana", slot="plan", value=number, at=(fact.valid_from or 0) + 1)


def with_policy(make: Maker, rows: int) -> Iterator[ev.Event]:
    rules = (ev.PolicyRule(actors="user:*", starting_trust="verified", may_verify=True),)
    yield make.say(ev.PolicySet, rules=rules)
    yield from expired(make, rows)


def rejected_by_policy(make: Maker, rows: int) -> Iterator[ev.Event]:
    rules = (ev.PolicyRule(actors="agent:bad", starting_trust="rejected", may_verify=False),)
    yield make.say(ev.PolicySet, rules=rules)
    yield from of_bad_actor(make, rows)


def one_verified(make: Maker, rows: int) -> Iterator[ev.Event]:
    """A verified fact under candidates, which it does not yield to."""
    kept = make.kept()
    yield kept
    yield make.say(ev.FactReviewed, target=kept.event_id, verdict="verified")
    yield from (make.fact(number) for number in range(rows))


def many(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield make.say(ev.SlotDeclared, slot="plan", cardinality="many")
    yield from expired(make, rows)


def forbidden(make: Maker, rows: int) -> Iterator[ev.Event]:
    yield make.kept()
    yield from (make.fact("secret") for _ in range(rows))
    yield make.say(ev.ValueForbidden, entity="user:ana", slot="plan", value="Secret")


WITHOUT_BAD = MappingProxyType({"without_actors": ("agent:bad",)})
SHAPES = (
    Shape("old as-of", old_as_of, as_of_kept=True),
    Shape("expired", expired),
    Shape("left out", of_bad_actor, WITHOUT_BAD),
    Shape("distrusted", distrusted),
    Shape("distrusted since an event", distrusted_since_event),
    Shape("retracted by name", retracted_by_name),
    Shape("retracted by id", retracted_by_id),
    Shape("distrusted since a time", distrusted_since_time),
    Shape("left out, interleaved", interleaved, WITHOUT_BAD),
    Shape("retracted, others left out", retracted_by_name, WITHOUT_BAD),
    Shape("ended", ended),
    Shape("forbidden", forbidden),
    Shape("expired, with a policy", with_policy),
    Shape("rejected by policy", rejected_by_policy),
    Shape("candidates over one verified", one_verified),
    Shape("expired, of many", many),
)


def shapes(work: Path, given: argparse.Namespace) -> harness.Result:
    """Every shape in a store of its own, so that none finds another in a cache."""
    found: harness.Result = {}
    for shape in SHAPES:
        folder = work / "shapes" / shape.name.replace(" ", "-").replace(",", "")
        offset = [-1]

        def noted(shape: Shape = shape, offset: list[int] = offset) -> Iterator[ev.Event]:
            for number, event in enumerate(shape.events(Maker("acme/hard"), given.rows)):
                if isinstance(event, ev.FactAsserted) and event.value == "kept":
                    offset[0] = number
                yield event

        log = SqliteLog(folder, clock=lambda: APPENDED_US)
        append(log, noted())
        log.close()
        with harness.timed() as folding, Memory.open(folder) as memory:
            memory.info()
        one = found[shape.name] = asked_of(folder, shape, offset[0], given)
        one["fold_s"] = round(folding(), 2)
        p50, p99 = (f"{one['memory'][key]:9.4f}" for key in ("p50_ms", "p99_ms"))
        first, pure = one["memory_first_ms"], one["reads"]["p50_ms"]
        harness.say(f"  {shape.name:30} p50 {p50} ms, p99 {p99} ms; Reads.get {pure:9.4f} ms; first {first:7.1f} ms")
    return {"rows": given.rows, "goal_ms": 1.0, "with_a_goal": list(GOAL_SHAPES), "shapes": found}


def asked_of(folder: Path, shape: Shape, offset: int, given: argparse.Namespace) -> harness.Result:
    view = View(as_of=offset if shape.as_of_kept else None, valid_at=ASKED + timedelta(days=1), **shape.view)

    def check(answer: Any) -> None:
        (belief,) = answer if isinstance(answer, list) else [answer]
        assert isinstance(belief, Belief), (shape.name, answer)
        assert (belief.value, belief.position.offset) == ("kept", offset), (shape.name, belief)

    with Memory.open(folder) as memory:
        resolved = memory.resolve("acme/hard", view)
        first, rest = repeated(lambda: memory.get("acme/hard", "user:ana", "plan", view), check, given)
    tables = Tables.open_to_read(folder / "tables" / "p0")
    assert tables is not None
    reads = Reads(tables, 0, Codec())
    first_pure, pure = repeated(lambda: reads.get("acme/hard", "user:ana", "plan", resolved), check, given)
    tables.close()
    return {
        "memory_first_ms": round(first * 1e3, 3),
        "memory": latencies(rest),
        "reads_first_ms": round(first_pure * 1e3, 3),
        "reads": latencies(pure),
    }


def repeated(
    ask: Callable[[], Any], check: Callable[[Any], None], given: argparse.Namespace
) -> tuple[float, list[float]]:
    """Seconds of the first question and of the later ones: `given.questions`, or as many as fit into a few seconds."""
    times: list[float] = []
    until = time.perf_counter() + given.seconds_per_shape
    while len(times) <= given.questions and (len(times) < 2 or time.perf_counter() < until):
        started = time.perf_counter()
        answer = ask()
        times.append(time.perf_counter() - started)
        check(answer)
    return times[0], times[1:]


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--only", choices=("store", "shapes"), nargs="+", default=["store", "shapes"])
    parser.add_argument("--facts", type=int, help="in the store; default: 1,000,000, or 5,000 when small")
    parser.add_argument("--versions", type=int, help="of the hot slot; default: 100,000, or 500 when small")
    parser.add_argument("--rows", type=int, help="of each shape; default: 100,000, or 500 when small")
    parser.add_argument("--questions", type=int, help="of each kind; default: 3,000, or 30 when small")
    given = parser.parse_args()
    given.facts = given.facts or (5_000 if given.small else 1_000_000)
    given.versions = given.versions or (500 if given.small else 100_000)
    given.rows = given.rows or (500 if given.small else 100_000)
    given.questions = given.questions or (30 if given.small else 3_000)
    given.seconds_per_shape = 5.0
    return given


def main() -> int:
    given = options()
    result = {"facts": harness.facts(), "seed": given.seed}
    parts = {"store": store, "shapes": shapes}
    with harness.work_folder(given) as work:
        for name in given.only:
            result[name] = parts[name](work, given)
    harness.write_result("reads", given, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
