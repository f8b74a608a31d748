"""Two workers at a modest load for a long while: what they take of the machine and how far they are behind, each ten
seconds, raw; at the end nothing is lost or doubled, and the digest is that of a fresh fold and of an embedded copy.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from harness import ROOT, Result, arguments, broker, facts, say, timed, work_folder, write_result

sys.path.insert(0, str(ROOT / "tests"))

from fleet import Fleet, Worker, fact_path
from fleet_load import SPACES, Story, load
from fleet_verdict import judge

PAGE_BYTES = 4096
READS_PER_SECOND = 5
MEASURES = ("rss_mib", "open_files", "threads")


def sample(worker: Worker) -> Result:
    """Memory, open files and threads of a process, and where its tables are."""
    process = Path("/proc") / str(worker.pid)
    resident = int((process / "statm").read_text().split()[1]) * PAGE_BYTES
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    told = worker.status()
    return {
        "rss_mib": round(resident / 2**20, 2),
        "open_files": len(list((process / "fd").iterdir())),
        "threads": int(fields[17]),
        "cpu_s": (int(fields[11]) + int(fields[12])) / 100,
        "ready": told.get("ready"),
        "partitions": {
            one["partition"]: {"role": one["role"], "next": one["next"], "lag": max(0, one["end"] - one["next"])}
            for one in told.get("partitions", ())
        },
    }


def read_for(workers: Fleet, seconds: float, chance: random.Random) -> Result:
    """Questions to both workers, which pass them on or answer, for so long; how many there were of each code."""
    codes: dict[str, int] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        worker = chance.choice(workers.living())
        path = fact_path(chance.choice(SPACES), f"user:{chance.randrange(30)}", f"slot-{chance.randrange(6)}")
        code = str(worker.ask(path).code)
        codes[code] = codes.get(code, 0) + 1
        time.sleep(1 / READS_PER_SECOND)
    return codes


def trend(values: list[float]) -> Result:
    """How a series goes on after its first quarter: least, greatest, median, and its slope per sample."""
    kept = values[len(values) // 4 :]
    middle = (len(kept) - 1) / 2
    weight = sum((number - middle) ** 2 for number in range(len(kept))) or 1.0
    mean = sum(kept) / len(kept)
    slope = sum((number - middle) * (value - mean) for number, value in enumerate(kept)) / weight
    return {
        "first": values[0],
        "min": min(kept),
        "median": sorted(kept)[len(kept) // 2],
        "max": max(kept),
        "last": kept[-1],
        "per_sample": round(slope, 5),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, help="how long (default: 60, small 0.5)")
    parser.add_argument("--per-second", type=float, default=100, help="events written (default: %(default)s)")
    parser.add_argument("--every", type=float, help="seconds between samples (default: 10, small 3)")
    given = parser.parse_args()
    minutes = given.minutes or (0.5 if given.small else 60)
    every = given.every or (3 if given.small else 10)
    chance = random.Random(given.seed)
    result: Result = {"facts": facts(), "minutes": minutes, "per_second": given.per_second, "every_s": every}
    series: list[Result] = []
    with work_folder(given) as work, broker(given, work) as running:
        workers = Fleet(work / "fleet", running.bootstrap, running.new_topic("soak", partitions=4))
        try:
            workers.start("w1", "w2")
            workers.serve()
            with load(workers, Story(given.seed), per_second=given.per_second) as writing, timed() as seconds:
                while seconds() < minutes * 60:
                    codes = read_for(workers, every, chance)
                    now = {name: sample(worker) for name, worker in workers.workers.items()}
                    written = len(writing.acknowledged)
                    series.append({"at_s": round(seconds(), 1), "written": written, "answers": codes, "workers": now})
                    if len(series) % 30 == 1:
                        taken = ", ".join(f"{name} {one['rss_mib']:.0f} MiB" for name, one in now.items())
                        say(f"  {seconds() / 60:5.1f} min: {len(writing.acknowledged):,} written, {taken}")
                acknowledged = writing.finish()
            workers.settle()
            outputs = {name: len(worker.output) for name, worker in workers.workers.items()}
            verdict = judge(workers, acknowledged)
        finally:
            workers.close()
    result["verdict"] = verdict._asdict()
    result["stderr_bytes"] = outputs
    result["trends"] = {
        name: {what: trend([one["workers"][name][what] for one in series]) for what in MEASURES}
        for name in workers.workers
    }
    every_worker = [one for now in series for one in now["workers"].values()]
    lags = [float(sum(part["lag"] for part in one["partitions"].values())) for one in every_worker]
    result["lag"] = trend(lags)
    result["series"] = series
    write_result("soak", given, result)


if __name__ == "__main__":
    main()
