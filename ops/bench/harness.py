"""What the benchmarks share: facts of the machine, a broker, paired runs, sizes on disk and the result's file.

The scripts run as `python ops/bench/NAME.py`. They measure the checkout they lie in, wherever slotlog is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
RESULTS = Path(__file__).resolve().parent / "results"
BROKER = ROOT / "ops" / "kafka" / "broker"
CACHE = Path(os.environ.get("SLOTLOG_CACHE") or Path.home() / ".cache" / "slotlog")
_PACKAGES = ("confluent-kafka", "fastavro", "msgspec", "rocksdict", "uuid-utils")

Result = dict[str, Any]


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="the reduced form that the tests run")
    parser.add_argument("--seed", type=int, default=20260, help="of everything random (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result (default: %(default)s)")
    parser.add_argument(
        "--work", type=Path, help="folder for logs and tables, removed after (default: a temporary one)"
    )
    parser.add_argument("--broker", type=Path, help="folder of a broker to use; one that runs is left running")
    return parser


# -- facts


def facts() -> Result:
    """What a figure depends on: command, code, machine, versions."""
    return {
        "command": shlex.join(["python", os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]]),
        "code": _code(),
        "machine": _machine(),
        "versions": _versions(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _code() -> Result:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if head.returncode:
        return {"commit": None, "changed": None}
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", "streams", "schemas", "ops/bench", ":!ops/bench/results"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {"commit": head.stdout.strip(), "changed": changed.stdout.split("\n")[:-1]}


def _machine() -> Result:
    model = platform.processor() or platform.machine()
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = lines[0] if lines else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "system": platform.platform(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def _versions() -> Result:
    import confluent_kafka

    found: Result = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for package in _PACKAGES:
        found[package] = importlib.metadata.version(package)
    found["librdkafka"] = confluent_kafka.libversion()[0]
    pom = (BROKER.parent / "pom.xml").read_text()
    found["kafka"] = pom.partition("<kafka.version>")[2].partition("<")[0]
    return found


def write_result(name: str, given: argparse.Namespace, result: Result) -> Path:
    """Write `NAME.json` into the folder that `--out` names and say so."""
    given.out.mkdir(parents=True, exist_ok=True)
    path: Path = given.out / f"{name}.json"
    result["load_after"] = [round(load, 2) for load in os.getloadavg()]
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    say(f"wrote {path}")
    return path


def say(text: str) -> None:
    print(text, flush=True)


# -- places


@contextmanager
def work_folder(given: argparse.Namespace) -> Iterator[Path]:
    """A fresh folder, removed afterwards."""
    if given.work is not None:
        given.work.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="slotlog-bench-", dir=given.work))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def made_whole(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, made when it is not there. It appears whole or not at all, however many processes make it at once."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        make(part)
        try:
            part.rename(folder)
        except OSError:  # another process was first
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


class Broker:
    """A running broker: where it listens and where its data is."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder

    def new_topic(self, name: str, partitions: int = 1) -> str:
        """Make a topic with slotlog's settings, named `name` and a number that makes it new; its name."""
        from streams.kafka_log import create_topic

        topic = f"bench-{name}-{time.time_ns()}"
        create_topic(self.bootstrap, topic, partitions=partitions)
        return topic

    def store(self, topic: str, tables: Path) -> str:
        """The store's name for `Memory.open`, with its tables in `tables`."""
        return f"kafka://{self.bootstrap}/{topic}?state={tables}"

    def log_bytes(self, topic: str) -> Result:
        """Sizes of the topic's partition folders: the records themselves, and all files."""
        folders = list((self.folder / "data").glob(f"{topic}-*"))
        records = sum(path.stat().st_size for folder in folders for path in folder.glob("*.log"))
        return {"records": records, "allocated": sum(allocated_bytes(folder) for folder in folders)}


@contextmanager
def broker(given: argparse.Namespace, work: Path) -> Iterator[Broker]:
    """A real broker through `ops/kafka/broker`: one in `work`, or the one that `--broker` names."""
    folder = (given.broker or work / "broker").resolve()
    was_running = _broker("status", folder).returncode == 0
    started = _broker("start", folder)
    if started.returncode:
        raise SystemExit(started.stderr.strip())
    try:
        yield Broker(json.loads(started.stdout)["bootstrap"], folder)
    finally:
        if not was_running:
            _broker("stop", folder)


def _broker(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, str(BROKER), command, "--dir", str(folder)]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def file_bytes(folder: Path) -> int:
    """Bytes in the files of `folder`, at any depth."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def allocated_bytes(folder: Path) -> int:
    """Bytes that the files of `folder` take on the disk: what is preallocated and unwritten does not count."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


# -- measuring


@contextmanager
def timed() -> Iterator[Callable[[], float]]:
    """Within and after the block, the function says the seconds since its start, up to its end."""
    started = time.perf_counter()
    ended: list[float] = []
    yield lambda: (ended[0] if ended else time.perf_counter()) - started
    ended.append(time.perf_counter())


class Run(NamedTuple):
    """One measured run: over how many events, in how many seconds on the wall and of processor time, of all threads."""

    events: int
    wall_s: float
    cpu_s: float


def run_of(events: int, work: Callable[[], object]) -> Run:
    """Measure `work`, which goes over `events` events."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Run(events, time.perf_counter() - wall, time.process_time() - cpu)


def paired(first: tuple[str, Callable[[], Run]], second: tuple[str, Callable[[], Run]], pairs: int) -> Result:
    """Run the two in turn, `pairs` times. Ratios are those of second to first in events/s within a pair, so that what
    slows the machine for a while slows both; and the same of processor time, which other processes take none of."""
    names = first[0], second[0]
    rates: dict[str, list[float]] = {name: [] for name in names}
    cpu_us: dict[str, list[float]] = {name: [] for name in names}
    ratios, cpu_ratios = [], []
    for number in range(pairs):
        for name, run in (first, second):
            done = run()
            rates[name].append(round(done.events / done.wall_s, 1))
            cpu_us[name].append(round(done.cpu_s * 1e6 / done.events, 3))
        a, b = rates[names[0]][-1], rates[names[1]][-1]
        ratios.append(round(b / a, 4))
        cpu_ratios.append(round(cpu_us[names[0]][-1] / cpu_us[names[1]][-1], 4))
        both = f"{names[0]} {a:,.0f}, {names[1]} {b:,.0f} events/s"
        say(f"  pair {number + 1}: {both}, {b / a:.3f} (by processor time {cpu_ratios[-1]:.3f})")
    ratio, cpu_ratio = round(median(ratios), 4), round(median(cpu_ratios), 4)
    a, b = (median(rates[name]) for name in names)
    both = f"{names[0]} {a:,.0f}, {names[1]} {b:,.0f} events/s"
    say(f"  median: {both}, {ratio:.3f} (by processor time {cpu_ratio:.3f})")
    return {
        "events_per_s": rates,
        "ratios": ratios,
        "cpu_us_per_event": cpu_us,
        "cpu_ratios": cpu_ratios,
        "median": {names[0]: a, names[1]: b, "ratio": ratio, "cpu_ratio": cpu_ratio},
    }


def spread(values: Iterable[float]) -> Result:
    """Median, least and greatest, and the values themselves."""
    kept = [float(f"{value:.6g}") for value in values]
    return {"median": median(kept), "min": min(kept), "max": max(kept), "values": kept}


def result_hash(lines: Iterable[str]) -> str:
    """SHA-256 over the lines of an answer set."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
