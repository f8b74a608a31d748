"""The tz database as ground truth: its releases, recorded in order, must be answered exactly as zoneinfo answers.

Each release of PyPI's `tzdata` becomes one session: an assertion of `utc_offset` and of `abbreviation` from each
instant on at which the release says they change, 1970 to 2037, and a retraction, by event id, of what an earlier
release had said and this one does not. Then random (zone, instant, release) questions are asked as of that release's
last offset, valid at that instant, before and after a rebuild. One answer that differs makes the exit code 1.

    python ops/bench/tz.py                      all zones of 14 releases, embedded and on Kafka
    python ops/bench/tz.py --store embedded     on one of them
    python ops/bench/tz.py --small              two releases, about 25 zones, 300 questions
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import harness
from tzreleases import BEGIN, END, Answer, Release, fetch, instant

from schemas import events as ev
from streams import Belief, Memory, Position, View, clock

RELEASES = (
    "2020.1", "2020.4", "2021.1", "2021.5", "2022.1", "2022.4", "2022.7", "2023.3", "2024.1", "2024.2", "2025.2",
    "2025.3", "2026.1", "2026.6",
)  # fmt: skip
SMALL_RELEASES = ("2020.1", "2024.2")
SMALL_ZONES = (
    "Africa/Casablanca", "Africa/Monrovia", "America/Caracas", "America/Chihuahua", "America/Ciudad_Juarez",
    "America/New_York", "America/Ojinaga", "Antarctica/Troll", "Asia/Amman", "Asia/Gaza", "Asia/Kathmandu",
    "Asia/Pyongyang", "Asia/Tehran", "Australia/Lord_Howe", "EST5EDT", "Etc/GMT+12", "Europe/Amsterdam",
    "Europe/Dublin", "Europe/Kiev", "Europe/Kyiv", "Pacific/Apia", "Pacific/Fiji", "US/Eastern", "US/Pacific-New",
    "UTC", "Zulu",
)  # fmt: skip
"""Zones that changed, that came, that went, that are links, and that have odd offsets."""

SPACE = "tz/database"
ACTOR = "importer:tzdata"
SLOTS = ("utc_offset", "abbreviation")
BATCH = 5_000

Key = tuple[str, str, int]
"""(zone, slot, instant): at most one recorded fact stands for each."""


class Question(NamedTuple):
    """Which answer `release` gives for `zone` at `at`. `expected` None: the release has no such zone."""

    zone: str
    at: int
    release: int
    expected: Answer | None


class Recorder:
    """Records releases one after another and knows which facts stand."""

    def __init__(self, memory: Memory, zones: frozenset[str] | None) -> None:
        self._memory = memory
        self._zones = zones
        self._standing: dict[Key, tuple[ev.Value, bytes]] = {}

    def record(self, release: Release) -> tuple[Position, Counter[str]]:
        """Append the release's session; its last position, and how many events of which type it took."""
        session = f"tzdata-{release.version}"
        counts: Counter[str] = Counter()
        last = Position(0, -1)
        events = self._session(release, session)
        while batch := list(islice(events, BATCH)):
            receipts = self._memory.append(batch)
            counts.update(type(event).__name__ for event in batch)
            last = receipts[-1].position
        return last, counts

    def _session(self, release: Release, session: str) -> Iterator[ev.Event]:
        yield ev.SessionStarted(**_common(session), agent=ACTOR, attributes={"wheel_sha256": release.wheel_sha256})
        said = {key: value for zone in _zones_of(release, self._zones) for key, value in _facts(release, zone)}
        gone = [key for key, (value, _) in self._standing.items() if said.get(key) != value]
        for key in gone:
            _, target = self._standing.pop(key)
            reason = f"not in tzdata {release.version}"
            yield ev.FactRetracted(**_common(session), target=target, reason=reason)
        for key, value in said.items():
            if key in self._standing:
                continue
            zone, slot, at = key
            event = ev.FactAsserted(
                **_common(session), entity=zone, slot=slot, value=value, valid_from=at * 1_000_000, origin="imported",
                source=f"tzdata {release.version}",
            )  # fmt: skip
            self._standing[key] = value, event.event_id
            yield event
        yield ev.SessionEnded(**_common(session), outcome=f"{len(self._standing)} facts stand")


def _common(session: str) -> dict[str, Any]:
    return {
        "event_id": clock.new_event_id(),
        "space": SPACE,
        "session": session,
        "actor": ACTOR,
        "recorded_at": clock.now_micros(),
    }


def _zones_of(release: Release, wanted: frozenset[str] | None) -> list[str]:
    return [zone for zone in release.zones if wanted is None or zone in wanted]


def _facts(release: Release, zone: str) -> Iterator[tuple[Key, ev.Value]]:
    """The zone's first answer, and each change of a slot after it."""
    before: tuple[ev.Value | None, ...] = (None, None)
    for step in release.steps(zone):
        now: tuple[ev.Value, ...] = (step.offset, step.abbreviation)
        for slot, value, earlier in zip(SLOTS, now, before, strict=True):
            if value != earlier:
                yield (zone, slot, step.at), value
        before = now


def questions(releases: Sequence[Release], zones: frozenset[str] | None, count: int, seed: int) -> list[Question]:
    """`count` random ones with answers from zoneinfo, half of them at a change or a second before or after; and one
    about every zone that a release does not have."""
    chance = random.Random(seed)
    known = [_zones_of(release, zones) for release in releases]
    found = []
    for number in range(count):
        index = chance.randrange(len(releases))
        zone = chance.choice(known[index])
        at = chance.randrange(BEGIN, END)
        if number % 2:
            at = chance.choice(releases[index].steps(zone)).at + chance.choice((-1, 0, 1))
            at = min(max(at, BEGIN), END - 1)
        found.append(Question(zone, at, index, releases[index].answer(zone, at)))
    every = sorted({zone for names in known for zone in names})
    for index, names in enumerate(known):
        found += [Question(zone, chance.randrange(BEGIN, END), index, None) for zone in every if zone not in names]
    return found


def ask(memory: Memory, asked: Sequence[Question], lasts: Sequence[Position]) -> harness.Result:
    """Put every question to the memory; how many answers are right, which are wrong, and a hash over all."""
    wrong: list[str] = []
    lines = []
    with harness.timed() as seconds:
        for question in asked:
            view = View(as_of=lasts[question.release], valid_at=instant(question.at))
            offset, abbreviation = (_value(memory, question.zone, slot, view) for slot in SLOTS)
            got = None if offset is None and abbreviation is None else (offset, abbreviation)
            lines.append(_line(question, got))
            if got != question.expected or (got is not None and type(offset) is not int):
                wrong.append(f"{lines[-1]}, and zoneinfo {question.expected}")
    return {
        "questions": len(asked),
        "answers": len(asked) * len(SLOTS),
        "wrong": len(wrong),
        "first_wrong": wrong[:5],
        "seconds": round(seconds(), 2),
        "ms_per_get": round(seconds() * 1000 / len(asked) / len(SLOTS), 3),
        "sha256": harness.result_hash(lines),
    }


def _value(memory: Memory, zone: str, slot: str, view: View) -> ev.Value | None:
    belief = memory.get(SPACE, zone, slot, view)
    assert belief is None or isinstance(belief, Belief)
    return None if belief is None else belief.value


def _line(question: Question, got: object) -> str:
    return f"{question.release} {question.zone} {question.at}: {got}"


def on_store(
    store: str, releases: Sequence[Release], zones: frozenset[str] | None, asked: Sequence[Question]
) -> harness.Result:
    """Record, ask, rebuild, ask again; on one store."""
    sessions: list[dict[str, Any]] = []
    with Memory.open(store, actor=ACTOR) as memory:
        recorder = Recorder(memory, zones)
        lasts = []
        with harness.timed() as recording:
            for release in releases:
                last, counts = recorder.record(release)
                lasts.append(last)
                sessions.append({"release": release.version, "last_offset": last.offset, "events": dict(counts)})
                harness.say(f"  {release.version}: {dict(counts)}, last offset {last.offset}")
        events = sum(sum(session["events"].values()) for session in sessions)
        (partition,) = memory.info().partitions
        assert (partition.applied, partition.quarantined, partition.duplicates) == (events, 0, 0), partition
        before = ask(memory, asked, lasts)
        digest = memory.digest()[0]
        with harness.timed() as rebuilding:
            memory.rebuild()
        after = ask(memory, asked, lasts)
        same = memory.digest()[0] == digest
    harness.say(f"  before rebuild {before['wrong']} wrong, after {after['wrong']}; {before['ms_per_get']} ms a get")
    return {
        "events": events,
        "recording_s": round(recording(), 2),
        "rebuild_s": round(rebuilding(), 2),
        "digest_equal_after_rebuild": same,
        "before_rebuild": before,
        "after_rebuild": after,
        "sessions": sessions,
    }


def on_embedded(work: Path, *given: Any) -> harness.Result:
    store = work / "embedded"
    result = on_store(str(store), *given)
    tables = harness.file_bytes(store / "tables")
    return {**result, "log_bytes": harness.file_bytes(store) - tables, "tables_bytes": tables}


def on_kafka(broker: harness.Broker, work: Path, *given: Any) -> harness.Result:
    topic = broker.new_topic("tz")
    result = on_store(broker.store(topic, work / "tables"), *given)
    log = broker.log_bytes(topic)["records"]
    return {**result, "log_bytes": log, "tables_bytes": harness.file_bytes(work / "tables")}


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--store", choices=("embedded", "kafka", "both"), default="both")
    parser.add_argument("--questions", type=int, help="default: 5,000, or 300 when small")
    parser.add_argument("--releases", help="versions of tzdata, in order, parted by commas")
    given = parser.parse_args()
    given.questions = given.questions or (300 if given.small else 5_000)
    given.releases = given.releases.split(",") if given.releases else SMALL_RELEASES if given.small else RELEASES
    return given


def main() -> int:
    given = options()
    result = {"facts": harness.facts(), "seed": given.seed}
    zones = frozenset(SMALL_ZONES) if given.small else None
    with harness.timed() as seconds:
        releases = [fetch(version) for version in given.releases]
        asked = questions(releases, zones, given.questions, given.seed)
    truth = [_line(question, question.expected) for question in asked]
    result["truth"] = {
        "releases": {release.version: release.wheel_sha256 for release in releases},
        "zones": [len(_zones_of(release, zones)) for release in releases],
        "questions_with_zone": given.questions,
        "questions_without_zone": len(asked) - given.questions,
        "sha256": harness.result_hash(truth),
        "seconds": round(seconds(), 2),
    }
    harness.say(f"seed {given.seed}; {result['truth']}")
    stores = {}
    with ExitStack() as stack:
        work = stack.enter_context(harness.work_folder(given))
        if given.store != "kafka":
            harness.say("embedded")
            stores["embedded"] = on_embedded(work, releases, zones, asked)
        if given.store != "embedded":
            harness.say("kafka")
            broker = stack.enter_context(harness.broker(given, work))
            stores["kafka"] = on_kafka(broker, work, releases, zones, asked)
    result["stores"] = stores
    harness.write_result("tz", given, result)
    runs = [store[when] for store in stores.values() for when in ("before_rebuild", "after_rebuild")]
    right = all(run["wrong"] == 0 and run["sha256"] == result["truth"]["sha256"] for run in runs)
    same = all(store["digest_equal_after_rebuild"] for store in stores.values())
    harness.say(f"all answers equal zoneinfo's: {right}; digests equal after the rebuild: {same}")
    return 0 if right and same else 1


if __name__ == "__main__":
    sys.exit(main())
