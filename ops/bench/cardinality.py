"""How often the suggested cardinality of a slot is wrong, though it governs nothing, against what was declared.

Each generator makes events about one slot in one way that people and agents do, and knows whether the slot holds one
value or many; each of its trials is a space of its own, of another size. `schema` is asked before the slot is declared
for what it suggests, and the slot is then declared as it truly is, which must leave the suggestion as it was. The rate
over all depends on which generators there are, so the rate of each is what counts.

Then the tz database, release after release: utc_offset and abbreviation of a zone, its country and its coordinates hold
one value, and the zones of a country are many.

    python ops/bench/cardinality.py             100 trials of each generator, 14 releases
    python ops/bench/cardinality.py --small     4 trials, two releases
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import harness
from tz import ACTOR, RELEASES, SMALL_RELEASES, SMALL_ZONES, SPACE, Recorder
from tzreleases import Release, fetch
from workload import BEGIN_US

from schemas import events as ev
from streams import Memory, clock

SLOT = "property"
DAY_US = 86_400_000_000
BATCH = 2_000
_POOL = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu")


class Space:
    """Makes events about one slot in one space; sessions and days pass as told."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.chance = chance
        self.day = 0
        self._session = 0

    def entities(self) -> Iterator[str]:
        """From 3 to 60 of them."""
        for number in range(self.chance.randrange(3, 60)):
            yield f"thing:{number:03}"

    def later(self, days: int = 1) -> None:
        """Another session, another day."""
        self._session += 1
        self.day += days

    def values(self, count: int) -> list[str]:
        """Distinct ones."""
        return self.chance.sample(_POOL, count)

    def common(self, actor: str) -> dict[str, Any]:
        identity, session = clock.new_event_id(), f"run-{self._session}"
        now = clock.now_micros()
        return {"event_id": identity, "space": self.name, "session": session, "actor": actor, "recorded_at": now}

    def fact(self, entity: str, value: ev.Value, actor: str = "agent:a", *, at_day: int | None = None) -> ev.Event:
        at = None if at_day is None else BEGIN_US + at_day * DAY_US
        return ev.FactAsserted(**self.common(actor), entity=entity, slot=SLOT, value=value, valid_from=at)

    def end(self, entity: str, value: ev.Value | None = None, actor: str = "agent:a") -> ev.Event:
        return ev.FactEnded(**self.common(actor), entity=entity, slot=SLOT, value=value)

    def retract(self, fact: ev.Event, actor: str = "agent:a") -> ev.Event:
        return ev.FactRetracted(**self.common(actor), target=fact.event_id, reason="was misheard")


Events = Iterator[ev.Event]

# -- slots that hold one value


def stated_once(space: Space) -> Events:
    for entity in space.entities():
        space.later()
        yield space.fact(entity, space.values(1)[0])


def stated_again(space: Space) -> Events:
    """The same value again and again, by several actors."""
    for entity in space.entities():
        (value,) = space.values(1)
        for number in range(space.chance.randrange(1, 6)):
            space.later()
            yield space.fact(entity, value, f"agent:{'abc'[number % 3]}")


def corrected(space: Space) -> Events:
    """Said anew in a later session, up to three times, never as before."""
    for entity in space.entities():
        for value in space.values(space.chance.randrange(1, 5)):
            space.later()
            yield space.fact(entity, value)


def corrected_by_retraction(space: Space) -> Events:
    for entity in space.entities():
        wrong, right = space.values(2)
        space.later()
        fact = space.fact(entity, wrong)
        yield fact
        if space.chance.random() < 0.5:
            yield space.retract(fact)
            yield space.fact(entity, right)


def corrected_in_its_session(space: Space) -> Events:
    """One entity in three is corrected a moment later by who said it, without a retraction."""
    for entity in space.entities():
        wrong, right = space.values(2)
        space.later()
        yield space.fact(entity, wrong)
        if space.chance.random() < 0.33:
            yield space.fact(entity, right)


def corrected_late(space: Space) -> Events:
    """With stated beginnings that come in any order."""
    for entity in space.entities():
        days = space.chance.sample(range(1000), space.chance.randrange(1, 6))
        for day, value in zip(days, space.values(len(days)), strict=True):
            space.later()
            yield space.fact(entity, value, at_day=day)


def jobs_dated(space: Space) -> Events:
    """A → B → A, each with its beginning."""
    for entity in space.entities():
        first, second = space.values(2)
        for number, value in enumerate((first, second, first)[: space.chance.randrange(1, 4)]):
            space.later()
            yield space.fact(entity, value, at_day=number * 100 + space.chance.randrange(100))


def jobs_ended(space: Space) -> Events:
    """A → B → A as they happen, without beginnings; each ended before the next is said."""
    for entity in space.entities():
        first, second = space.values(2)
        for number, value in enumerate((first, second, first)[: space.chance.randrange(1, 4)]):
            space.later()
            if number:
                yield space.end(entity)
            yield space.fact(entity, value)


def jobs_as_they_happen(space: Space) -> Events:
    """A → B → A as they happen; half of the entities return."""
    for entity in space.entities():
        first, second = space.values(2)
        for value in (first, second, first)[: 3 if space.chance.random() < 0.5 else 2]:
            space.later()
            yield space.fact(entity, value)


def toggled(space: Space) -> Events:
    """A status that goes back and forth between two or three values, as they happen."""
    for entity in space.entities():
        values = space.values(space.chance.randrange(2, 4))
        for number in range(space.chance.randrange(2, 9)):
            space.later()
            yield space.fact(entity, values[number % len(values)])


def disagreed(space: Space) -> Events:
    """Three actors, each with its own opinion that it repeats."""
    for entity in space.entities():
        opinions = dict(zip(("agent:a", "agent:b", "agent:c"), space.values(3), strict=True))
        for _ in range(space.chance.randrange(1, 4)):
            space.later()
            for actor, value in opinions.items():
                if space.chance.random() < 0.7:
                    yield space.fact(entity, value, actor)


def noisy(space: Space) -> Events:
    """A stable truth, and an extractor that hears something else one time in five."""
    for entity in space.entities():
        (truth,) = space.values(1)
        for _ in range(space.chance.randrange(2, 8)):
            space.later()
            wrong = space.chance.random() < 0.2
            yield space.fact(entity, space.chance.choice(_POOL) if wrong else truth, "extractor:x")


# -- slots that hold many


def _sets(space: Space, least: int = 1) -> Iterator[tuple[str, list[str]]]:
    for entity in space.entities():
        yield entity, space.values(space.chance.randrange(least, 6))


def said_together(space: Space) -> Events:
    """Tags named in one breath."""
    for entity, values in _sets(space):
        space.later()
        yield from (space.fact(entity, value) for value in values)


def added_one_by_one(space: Space) -> Events:
    """One each session, by one actor, none said again."""
    for entity, values in _sets(space):
        for value in values:
            space.later()
            yield space.fact(entity, value)


def added_and_said_again(space: Space) -> Events:
    """One each session, and now and then one that was said before."""
    for entity, values in _sets(space):
        for _ in range(2 * len(values)):
            space.later()
            yield space.fact(entity, space.chance.choice(values))


def added_and_ended(space: Space) -> Events:
    """Skills that come and go: some said together, each ended by its value."""
    for entity, values in _sets(space):
        held: list[str] = []
        for value in values:
            if space.chance.random() < 0.5:
                space.later()
            yield space.fact(entity, value)
            held.append(value)
            if space.chance.random() < 0.3:
                space.later()
                yield space.end(entity, held.pop(space.chance.randrange(len(held))))


def added_by_several(space: Space) -> Events:
    """Each value by another actor, in its own session."""
    for entity, values in _sets(space):
        for number, value in enumerate(values):
            space.later()
            yield space.fact(entity, value, f"agent:{number}")


def dated_one_by_one(space: Space) -> Events:
    """Imported in one session, each value with its own beginning."""
    space.later()
    for entity, values in _sets(space):
        for value in values:
            yield space.fact(entity, value, "importer:crm", at_day=space.chance.randrange(1000))


def dated_alike(space: Space) -> Events:
    """Imported in one session, all of an entity's values with one beginning."""
    space.later()
    for entity, values in _sets(space):
        day = space.chance.randrange(1000)
        yield from (space.fact(entity, value, "importer:crm", at_day=day) for value in values)


def seldom_several(space: Space) -> Events:
    """One entity in eight has two values, said together."""
    for entity in space.entities():
        space.later()
        several = space.chance.random() < 0.125
        yield from (space.fact(entity, value) for value in space.values(2 if several else 1))


def noisy_sets(space: Space) -> Events:
    """Three actors who each see some of the values, in any order, again and again."""
    for entity, values in _sets(space, least=2):
        for _ in range(space.chance.randrange(1, 4)):
            for actor in ("agent:a", "agent:b", "agent:c"):
                space.later()
                seen = space.chance.sample(values, space.chance.randrange(1, len(values) + 1))
                yield from (space.fact(entity, value, actor) for value in seen)


Generator = Callable[[Space], Events]
ONE: tuple[Generator, ...] = (
    stated_once, stated_again, corrected, corrected_by_retraction, corrected_in_its_session, corrected_late, jobs_dated,
    jobs_ended, jobs_as_they_happen, toggled, disagreed, noisy,
)  # fmt: skip
MANY: tuple[Generator, ...] = (
    said_together, added_one_by_one, added_and_said_again, added_and_ended, added_by_several, dated_one_by_one,
    dated_alike, seldom_several, noisy_sets,
)  # fmt: skip


class Verdict(NamedTuple):
    """One slot of one space: the truth, the suggestion, and the share of its entities that the suggestion rests on."""

    truth: str
    suggested: str
    share: float


def suggested(memory: Memory, space: str, slot: str, truth: str) -> Verdict:
    (found,) = [one for one in memory.schema(space) if one.slot == slot]
    evidence = found.suggested
    return Verdict(truth, evidence.cardinality, evidence.with_values_side_by_side / evidence.entities)


def trial(memory: Memory, make: Generator, number: int, seed: int, truth: ev.Cardinality) -> Verdict:
    name = f"{make.__name__}/{number}"
    memory.append(make(Space(name, random.Random(f"{seed} {name}"))))
    before = suggested(memory, name, SLOT, truth)
    memory.declare(name, SLOT, cardinality=truth)
    after = suggested(memory, name, SLOT, truth)
    assert after == before, f"a declaration changed what is suggested for {name}"
    (slot,) = memory.schema(name)
    assert slot.declared is not None
    assert slot.declared.cardinality == truth
    return before


def generated(work: Path, given: argparse.Namespace) -> harness.Result:
    found: harness.Result = {"trials": given.trials, "generators": {}}
    totals: Counter[str] = Counter()
    with Memory.open(work / "generated", actor="user:ana") as memory:
        memory.info()
        for truth, makers in (("one", ONE), ("many", MANY)):
            for make in makers:
                verdicts = [trial(memory, make, number, given.seed, truth) for number in range(given.trials)]
                wrong = sum(one.suggested != truth for one in verdicts)
                totals.update(f"{truth}, suggested {one.suggested}" for one in verdicts)
                shares = sum(one.share for one in verdicts) / len(verdicts)
                found["generators"][make.__name__] = {
                    "truth": truth,
                    "wrong": wrong,
                    "error_rate": round(wrong / len(verdicts), 4),
                    "mean_share_side_by_side": round(shares, 3),
                }
                harness.say(f"  {truth:4} {make.__name__:26} wrong {wrong:4} of {len(verdicts)}, share {shares:.2f}")
    return {**found, **rates(totals)}


def rates(counts: Counter[str]) -> harness.Result:
    """The confusion matrix and the error rates of each truth and of both."""
    wrong = {"one": counts["one, suggested many"], "many": counts["many, suggested one"]}
    held = {truth: wrong[truth] + counts[f"{truth}, suggested {truth}"] for truth in wrong}
    result: harness.Result = {
        "confusion": {name: counts[name] for name in (f"{truth}, suggested {said}" for truth in held for said in held)},
        "error_rate": {truth: round(wrong[truth] / held[truth], 4) if held[truth] else None for truth in held},
        "error_rate_of_all": round(sum(wrong.values()) / sum(held.values()), 4),
    }
    harness.say(f"  {result['confusion']}; error rates {result['error_rate']}, of all {result['error_rate_of_all']}")
    return result


# -- the tz database


class Places:
    """What `zone.tab` says: a zone's country and coordinates, and a country's zones; release by release."""

    def __init__(self) -> None:
        self._standing: dict[tuple[str, str, str], bytes] = {}

    def session(self, release: Release) -> Events:
        """Asserts what is new and retracts what is gone."""
        common = {"space": SPACE, "session": f"places-{release.version}", "actor": ACTOR}
        said = set(self._facts(release))
        for gone in sorted(set(self._standing) - said):
            target = self._standing.pop(gone)
            fresh = {"event_id": clock.new_event_id(), "recorded_at": clock.now_micros()}
            yield ev.FactRetracted(**common, **fresh, target=target, reason=f"not in tzdata {release.version}")
        for new in sorted(said - set(self._standing)):
            entity, slot, value = new
            fresh = {"event_id": clock.new_event_id(), "recorded_at": clock.now_micros()}
            fact = ev.FactAsserted(**common, **fresh, entity=entity, slot=slot, value=value, origin="imported")
            self._standing[new] = fact.event_id
            yield fact

    @staticmethod
    def _facts(release: Release) -> Iterator[tuple[str, str, str]]:
        for line in (release.folder / "tzdata" / "zoneinfo" / "zone.tab").read_text().splitlines():
            if line and not line.startswith("#"):
                country, coordinates, zone = line.split("\t")[:3]
                yield f"country:{country}", "zones", zone
                yield zone, "country", country
                yield zone, "coordinates", coordinates


TZ_TRUTH = {"utc_offset": "one", "abbreviation": "one", "country": "one", "coordinates": "one", "zones": "many"}


def tz_database(work: Path, given: argparse.Namespace) -> harness.Result:
    zones = frozenset(SMALL_ZONES) if given.small else None
    with Memory.open(work / "tz", actor=ACTOR) as memory:
        memory.info()
        recorder, places = Recorder(memory, zones), Places()
        for version in given.releases:
            release = fetch(version)
            recorder.record(release)
            session = places.session(release)
            while batch := list(islice(session, BATCH)):
                memory.append(batch)
        with harness.timed() as seconds:
            schema = {slot.slot: slot for slot in memory.schema(SPACE)}
        events = memory.info().partitions[0].applied
    assert set(schema) == set(TZ_TRUTH)
    counts = Counter(f"{truth}, suggested {schema[slot].suggested.cardinality}" for slot, truth in TZ_TRUTH.items())
    slots = {
        slot: {
            "truth": truth,
            "suggested": schema[slot].suggested.cardinality,
            "facts": schema[slot].facts,
            "values": schema[slot].values,
            "entities": schema[slot].suggested.entities,
            "with_several_values": schema[slot].suggested.with_several_values,
            "with_values_side_by_side": schema[slot].suggested.with_values_side_by_side,
        }
        for slot, truth in TZ_TRUTH.items()
    }
    for slot, one in slots.items():
        harness.say(f"  {slot:12} {one}")
    return {
        "releases": given.releases,
        "events": events,
        "schema_s": round(seconds(), 2),
        "slots": slots,
        **rates(counts),
    }


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--trials", type=int, help="of each generator; default: 100, or 4 when small")
    given = parser.parse_args()
    given.trials = given.trials or (4 if given.small else 100)
    given.releases = list(SMALL_RELEASES if given.small else RELEASES)
    return given


def main() -> int:
    given = options()
    result = {"facts": harness.facts(), "seed": given.seed}
    names = [make.__name__ for make in chain(ONE, MANY)]
    assert len(names) == len(set(names))
    with harness.work_folder(given) as work:
        harness.say("generated")
        result["generated"] = generated(work, given)
        harness.say("tz database")
        result["tz"] = tz_database(work, given)
    harness.write_result("cardinality", given, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
