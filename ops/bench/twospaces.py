"""The store that `branches.py` asks: two spaces that are told the same facts, one of them with branches and commits."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from workload import BEGIN_US

from schemas import events as ev
from schemas.codec import Codec
from streams import clock
from streams.envelope import message
from streams.sqlite_log import SqliteLog

PLAIN, CODE = "acme/plain", "acme/code"
REPO = "bench/code"
OLD, OLD_TOO, BUSY, LATE = "old", "old-too", "busy", "late"
OWN_FACTS, FACTS_A_SLOT, SLOTS_AN_ENTITY = 10, 10, 20
BUSY_SHARE, HOT_SHARE = 5, 10
BATCH = 5_000
SECOND_US = 1_000_000
APPENDED_US = BEGIN_US + 100 * 86_400 * SECOND_US
HOT_PLACE = -1

Place = int
"""Of a slot; HOT_PLACE: the one with many versions."""
Shows = Callable[[int], bool]
"""Whether a view shows the fact of that number."""


def named(place: Place) -> tuple[str, str]:
    """(entity, slot)."""
    if place == HOT_PLACE:
        return "service:counter", "version"
    return f"user:{place // SLOTS_AN_ENTITY:06}", f"slot-{place % SLOTS_AN_ENTITY:02}"


class Story:
    """Which facts a space is told, by number: fact N has the value N and holds from the N-th second on. A tenth of them
    are versions of one slot. The forks come before the facts of those numbers."""

    def __init__(self, facts: int, commits: int, seed: int) -> None:
        self.facts = facts
        self.commits = commits
        self.slots = max(SLOTS_AN_ENTITY, facts // FACTS_A_SLOT)
        chance = random.Random(seed)
        self.places = array(
            "l", (HOT_PLACE if n % HOT_SHARE == 9 else chance.randrange(self.slots) for n in range(facts))
        )
        self.old_at, self.busy_at = facts // 10, facts // 2
        self.forks = {self.old_at: (OLD, OLD_TOO), self.busy_at: (BUSY,)}
        self.of_place: dict[Place, list[int]] = {}
        for number, place in enumerate(self.places):
            self.of_place.setdefault(place, []).append(number)

    def branch(self, number: int) -> str:
        """OLD and OLD_TOO say something soon after they were forked, BUSY is told each fifth fact from its fork on."""
        after = number - self.old_at
        if 0 <= after < 2 * OWN_FACTS:
            return OLD_TOO if after % 2 else OLD
        return BUSY if number >= self.busy_at and number % BUSY_SHARE == 0 else "main"

    def commit(self, number: int) -> int:
        """The place of the commit that it is pinned to."""
        return number * self.commits // self.facts

    def shown_on(self, branch: str) -> Shows:
        forked_at = {"main": self.facts, LATE: self.facts, BUSY: self.busy_at}.get(branch, self.old_at)
        return lambda number: self.branch(number) == branch or (number < forked_at and self.branch(number) == "main")

    def events(self, shas: Sequence[str]) -> Iterator[ev.Event]:
        """Of both spaces, in turn."""
        for number in range(self.facts):
            for branch in self.forks.get(number, ()):
                yield ev.BranchForked(**common(CODE, branch), parent="main")
            code = ev.Code(repo=REPO, sha=shas[self.commit(number)])
            yield self.fact(PLAIN, number, "main")
            yield self.fact(CODE, number, self.branch(number), code)
        yield ev.BranchForked(**common(CODE, LATE), parent="main")

    def fact(self, space: str, number: int, branch: str, code: ev.Code | None = None) -> ev.Event:
        entity, slot = named(self.places[number])
        return fact(space, entity, slot, number, BEGIN_US + number * SECOND_US, branch, code)


def common(space: str, branch: str) -> dict[str, Any]:
    identity = clock.new_event_id()
    return {"event_id": identity, "space": space, "actor": "agent:planner", "branch": branch, "recorded_at": BEGIN_US}


def fact(
    space: str, entity: str, slot: str, value: int, at: int, branch: str = "main", code: ev.Code | None = None
) -> ev.Event:
    what = {"entity": entity, "slot": slot, "value": value, "valid_from": at, "code": code}
    return ev.FactAsserted(**common(space, branch), **what)


def fill(folder: Path, events: Iterator[ev.Event]) -> None:
    codec = Codec()
    log = SqliteLog(folder, clock=lambda: APPENDED_US)
    while batch := list(islice(events, BATCH)):
        log.append([message(event, codec) for event in batch])
    log.close()
