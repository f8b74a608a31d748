"""What an event costs on disk, in the log and in the tables, when few facts are corrected and when most are.

A fleet's facts, embedded. One event in a hundred, one in two or nine in ten belongs to a correction of a slot that has
a fact: half of the corrections are a later assertion, half a retraction of the newest fact and an assertion. All other
events are facts of slots that had none. The tables are measured as the fold left them, and after `Tables.compact`; what
they hold must stay the same.

    python ops/bench/growth.py                  1,000,000 events at 1 %, 50 % and 90 %
    python ops/bench/growth.py --small          3,000 events
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import harness
import msgspec
from reads import append
from writes import facts_of

from schemas import events as ev
from streams import Memory, clock
from streams.sqlite_log import SqliteLog
from streams.tables import Tables

SHARES = (0.01, 0.5, 0.9)
SLOTS_PER_ENTITY = 10


class Corrected:
    """Events of which a given share belongs to corrections, and how many of which kind there were."""

    def __init__(self, share: float, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._share = share
        self._chance = random.Random(seed)
        self._facts = facts_of(seed)
        self._newest: list[ev.FactAsserted] = []

    def events(self, count: int) -> Iterator[ev.Event]:
        """The first `count`."""
        corrections = made = 0
        while made < count:
            if not self._newest or corrections >= self._share * (made + 1):
                fact = self._new()
                self._newest.append(fact)
                self.counts["new slots"] += 1
                yield fact
                made += 1
                continue
            for event in self._correction():
                if made < count:
                    yield event
                    made += 1
                    corrections += 1

    def _new(self) -> ev.FactAsserted:
        number = len(self._newest)
        entity, slot = f"user:{number // SLOTS_PER_ENTITY:07}", f"property-{number % SLOTS_PER_ENTITY}"
        space = f"acme/team-{number // SLOTS_PER_ENTITY % 50:02}"
        return msgspec.structs.replace(next(self._facts), space=space, entity=entity, slot=slot)

    def _correction(self) -> Iterator[ev.Event]:
        place = self._chance.randrange(len(self._newest))
        wrong = self._newest[place]
        if self._chance.random() < 0.5:
            self.counts["retractions"] += 1
            yield ev.FactRetracted(
                event_id=clock.new_event_id(), space=wrong.space, session=wrong.session, actor=wrong.actor,
                recorded_at=wrong.recorded_at, target=wrong.event_id, reason="was misheard",
            )  # fmt: skip
        named = {"space": wrong.space, "entity": wrong.entity, "slot": wrong.slot}
        fact = self._newest[place] = msgspec.structs.replace(next(self._facts), **named)
        self.counts["assertions of a slot that had one"] += 1
        yield fact


def grown(work: Path, share: float, given: argparse.Namespace) -> harness.Result:
    folder = work / f"growth-{share}"
    tables = folder / "tables"
    corrected = Corrected(share, given.seed)
    log = SqliteLog(folder, clock=clock.now_micros)
    append(log, corrected.events(given.events))
    log.close()
    with harness.timed() as folding, Memory.open(folder) as memory:
        (partition,) = memory.info().partitions
        assert (partition.next, partition.applied, partition.quarantined) == (given.events, given.events, 0), partition
    log_bytes = harness.file_bytes(folder) - harness.file_bytes(tables)
    before = harness.file_bytes(tables)
    with Memory.open(folder) as memory:
        digest = memory.digest()[0]
    rows = Tables.open_to_write(tables / "p0")
    with harness.timed() as compacting:
        rows.compact()
    rows.close()
    after = harness.file_bytes(tables)
    with Memory.open(folder) as memory:
        assert memory.digest()[0] == digest, "compaction changed what the tables hold"
    result = {
        "corrections": share,
        "events": given.events,
        "mix": dict(corrected.counts),
        "fold_s": round(folding(), 2),
        "compact_s": round(compacting(), 2),
        "bytes": {"log": log_bytes, "tables": before, "tables_compacted": after},
        "bytes_per_event": {
            "log": round(log_bytes / given.events, 1),
            "tables": round(before / given.events, 1),
            "tables_compacted": round(after / given.events, 1),
        },
    }
    harness.say(f"  {share:4.0%} corrections: bytes per event {result['bytes_per_event']}; {result['mix']}")
    return result


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--events", type=int, help="default: 1,000,000, or 3,000 when small")
    given = parser.parse_args()
    given.events = given.events or (3_000 if given.small else 1_000_000)
    return given


def main() -> int:
    given = options()
    result: harness.Result = {"facts": harness.facts(), "seed": given.seed, "shares": []}
    for share in SHARES:
        with harness.work_folder(given) as work:
            result["shares"].append(grown(work, share, given))
    harness.write_result("growth", given, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
