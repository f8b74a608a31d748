"""How long spaces go unanswered when one of two workers under load is gone, until the other answers for all of them.

killed: SIGKILL; the other learns of it when the session timeout is over, and has warm standby tables by then.
killed-cold: the same, and the other has only just begun with an empty state folder: it has to fold all of the log.
left: SIGTERM; the worker says that it leaves.
The load goes on meanwhile, and the verdict at the end is that of tests/fleet_verdict.py.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
from pathlib import Path

from harness import ROOT, Broker, Result, arguments, broker, facts, say, spread, work_folder, write_result

sys.path.insert(0, str(ROOT / "tests"))

from fleet import PATIENCE_S, SESSION_TIMEOUT_S, Fleet, Worker, fact_path
from fleet_load import SPACES, Story, fact, ids, load
from fleet_verdict import judge

POLL_S = 0.01
WAYS = ("killed", "killed-cold", "left")


def answered_again(survivor: Worker, since: float) -> dict[str, float]:
    """Space to seconds from `since` until the survivor itself answers for it."""
    found: dict[str, float] = {}
    while len(found) < len(SPACES):
        for space in SPACES:
            if space not in found and survivor.ask(fact_path(space, "user:known", "n"), here=True).code == 200:
                found[space] = time.perf_counter() - since
        if time.perf_counter() - since > PATIENCE_S:
            raise SystemExit(f"not all spaces are answered for:\n{survivor.output[-4000:]}")
        time.sleep(POLL_S)
    return found


def once(workers: Fleet, how: str, gone: str, left: str) -> Result:
    """One worker goes; it is there again, and all is settled, when this returns."""
    going, staying = workers.workers[gone], workers.workers[left]
    if how == "killed-cold":
        staying.stop()
        shutil.rmtree(staying.state)
        workers.serve()
        workers.start(left)
        while not staying.status().get("partitions"):
            time.sleep(POLL_S)
    else:
        workers.serve()
    before = {one["partition"]: one for one in staying.status()["partitions"]}
    ends = workers.log.ends()
    began = time.perf_counter()
    if how == "left":
        going.signal(signal.SIGTERM)
    else:
        going.kill()
    found = answered_again(staying, began)
    assert how != "left" or going.ended() == 0, going.output
    behind = [ends[number] - (before[number]["next"] if number in before else 0) for number in range(len(ends))]
    workers.start(gone)
    workers.serve()
    return {"seconds": max(found.values()), "to_fold_when_it_went": sum(behind), "by_space": found}


def measured(given: Broker, folder: Path, how: str, events: int, rounds: int, seed: int) -> Result:
    """`rounds` takeovers on a log of `events`, the two workers in turn."""
    topic = given.new_topic(f"takeover-{how}", partitions=4)
    workers = Fleet(folder, given.bootstrap, topic)
    try:
        story = Story(seed)
        written = [fact(space, "user:known", "n", 1) for space in SPACES]
        workers.log.append(written)
        while len(written) < events:
            some = story.tell(min(5_000, events - len(written)))
            workers.log.append(some)
            story.acknowledged()
            written += some
        workers.start("w1", "w2")
        workers.serve()
        with load(workers, Story(seed + 1), per_second=100) as running:
            found = []
            for number in range(rounds):
                names = ("w1", "w2") if number % 2 == 0 else ("w2", "w1")
                found.append(once(workers, how, *names))
                seconds, behind = found[-1]["seconds"], found[-1]["to_fold_when_it_went"]
                say(f"  {how}: {seconds:.2f} s, {behind:,} events to fold when it went")
            loaded = running.finish()
        workers.settle()
        verdict = judge(workers, ids(written) | loaded)
    finally:
        workers.close()
    return {
        "events": events,
        "seconds": spread(one["seconds"] for one in found),
        "beyond_the_session_timeout": spread(one["seconds"] - SESSION_TIMEOUT_S for one in found),
        "rounds": found,
        "verdict": verdict._asdict(),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, help="takeovers of each kind (default: 10, small 1)")
    parser.add_argument("--events", type=int, help="on the log before (default: 300,000, small 5,000)")
    parser.add_argument("--only", action="append", choices=WAYS, help="this way of going (may be repeated)")
    given = parser.parse_args()
    rounds = given.rounds or (1 if given.small else 10)
    events = given.events or (5_000 if given.small else 300_000)
    result: Result = {"facts": facts(), "session_timeout_s": SESSION_TIMEOUT_S, "heartbeat_s": 1, "ways": {}}
    with work_folder(given) as work, broker(given, work) as running:
        for how in given.only or WAYS:
            say(f"{how} …")
            result["ways"][how] = measured(running, work / how, how, events, rounds, given.seed)
    medians = {how: found["seconds"]["median"] for how, found in result["ways"].items()}
    if {"killed", "killed-cold"} <= medians.keys():
        result["cold_to_warm"] = round(medians["killed-cold"] / medians["killed"], 3)
    write_result("takeover", given, result)


if __name__ == "__main__":
    main()
