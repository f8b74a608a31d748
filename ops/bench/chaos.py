"""What a fleet must survive, with the counts of a long run, on a broker and processes of its own.

Every scenario ends with the same verdict: each acknowledged event counts exactly once; the tables in every state folder
are those of a fresh fold of the topic, row for row; an embedded copy has the same digest. The scenarios are those of
tests/fleet_scenarios.py and tests/fleet_surroundings.py, which the test suite runs with small counts.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import ROOT, Result, arguments, facts, say, timed, work_folder, write_result

sys.path.insert(0, str(ROOT / "tests"))

import fleet_scenarios as scenarios
import fleet_surroundings as surroundings
from kafka_broker import Broker

Scenario = Callable[[Path, Broker, random.Random], Result]


def all_of(small: bool) -> dict[str, Scenario]:
    """The scenarios by name, in the order in which they run."""

    def sized(scenario: Callable[..., Result], **counts: tuple[Any, Any]) -> Scenario:
        chosen = {name: few if small else many for name, (few, many) in counts.items()}
        return lambda folder, broker, chance: scenario(folder, broker, chance, **chosen)

    return {
        "workers-killed": sized(scenarios.killed_workers, kills=(1, 30)),
        "workers-join-and-leave": sized(scenarios.comers_and_goers, rounds=(1, 15)),
        "worker-suspended": sized(scenarios.suspended_worker),
        "catch-up-interrupted": sized(scenarios.interrupted_catch_up, backlog=(20_000, 300_000)),
        "broker-killed": sized(scenarios.killed_broker, kills=(1, 5)),
        "broker-unreachable": sized(scenarios.unreachable_broker, seconds=(9, 30)),
        "events-repeated": sized(surroundings.repeated_events, events=(400, 20_000)),
        "transactions-aborted": sized(surroundings.aborted_transactions, rounds=(1, 10)),
        "poison": sized(surroundings.poisoned, rounds=(1, 20)),
        "uneven-partitions": sized(surroundings.uneven_partitions, burst=(20_000, 200_000)),
        "disk-full": sized(surroundings.full_disk, times=(1, 3)),
        "clock-jumps": sized(surroundings.jumping_clock, jumps=((-1,), (-1, -24, 48, -720, 24, -48) * 2)),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="run this scenario (may be repeated)")
    given = parser.parse_args()
    chosen = {name: one for name, one in all_of(given.small).items() if not given.only or name in given.only}
    if not chosen:
        parser.error(f"--only names one of {', '.join(all_of(given.small))}")
    result: Result = {"facts": facts(), "seed": given.seed, "scenarios": {}}
    with work_folder(given) as work:
        broker = Broker(work / "kafka").start()
        try:
            for number, (name, scenario) in enumerate(chosen.items()):
                say(f"{name} …")
                with timed() as seconds:
                    try:
                        found = scenario(work / name, broker, random.Random(given.seed + number))
                    except surroundings.NotPossibleHere as error:
                        found = {"not_possible_here": str(error)}
                result["scenarios"][name] = {**found, "seconds": round(seconds(), 1)}
                say(f"  {result['scenarios'][name]}")
        finally:
            broker.stop()
    write_result("chaos", given, result)


if __name__ == "__main__":
    main()
