"""Another process at a store: `python store_worker.py FOLDER NAME write COUNT`, `… rebuild` or `… follow COUNT`.

`write` appends facts in batches of one to seven, COUNT in all (0: until it is killed), reads now and then, and prints
`offset event-id` once an event is acknowledged. `rebuild` folds the log again and again, printing `rebuilt` each time.
`follow` reads until it has seen COUNT events, and prints the digest. Flushes come often, so that a kill meets them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from pathlib import Path

from schemas import events as ev
from streams import catchup
from streams.clock import new_event_id, now_micros
from streams.memory import Memory

SPACE = "acme/support"
SLOTS = ("employer", "city", "tag")


def spawn(*arguments: object) -> subprocess.Popen[str]:
    """Start this file as a process of its own."""
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def acknowledged(lines: list[str]) -> list[tuple[int, str]]:
    """(offset, event id) of every whole line that a writer printed."""
    found = [line.split() for line in lines if line.endswith("\n")]
    return [(int(offset), identity) for offset, identity in found]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _fact(name: str, number: int) -> ev.Event:
    return ev.FactAsserted(
        event_id=new_event_id(),
        space=SPACE,
        session=f"run-{name}-{number // 50}",
        actor=f"agent:{name}",
        recorded_at=now_micros(),
        entity=f"user:{number % 5}",
        slot=SLOTS[number % len(SLOTS)],
        value=f"{name}:{number}",
    )


def write(memory: Memory, name: str, total: int) -> None:
    number = 0
    for turn in count():
        batch = [_fact(name, number + place) for place in range(1 + turn % 7)]
        if total:
            batch = batch[: total - number]
        if not batch:
            return
        for receipt in memory.append(batch):
            _say(f"{receipt.position.offset} {receipt.event_id}")
        number += len(batch)
        if turn % 3 == 0:
            memory.entity(SPACE, f"user:{turn % 5}")


def rebuild(memory: Memory) -> None:
    while True:
        memory.rebuild()
        _say("rebuilt")


def follow(memory: Memory, total: int) -> None:
    newest = -1
    while True:
        offset = memory.resolve(SPACE).as_of.offset
        assert offset >= newest, "a later read knows less"
        newest = offset
        memory.entity(SPACE, "user:1")
        if sum(space.events for space in memory.info().spaces) >= total:
            _say(memory.digest()[0])
            return


def main(arguments: list[str]) -> None:
    folder, name, verb, *rest = arguments
    catchup.FLUSH_INTERVAL_S = 0.005
    catchup.TAIL_MAX_EVENTS = 40
    with Memory.open(Path(folder), actor=f"agent:{name}", hold=verb != "follow") as memory:
        if verb == "write":
            write(memory, name, int(rest[0]))
        elif verb == "rebuild":
            rebuild(memory)
        else:
            follow(memory, int(rest[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
