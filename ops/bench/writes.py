"""What a durable write costs beside a bare insert into SQLite, in small stores and large ones; alone and with others.

`remember`: into stores of three sizes, one write of `Memory.remember` and one bare insert in turn. The bare one puts
the same bytes into a copy of the same file with the same durability (WAL, synchronous=FULL), and nothing else. Twice:
by a Memory that only appends, as a hook or a command does, and by one that holds the tables and folds each write.
`processes`: eight processes write at once; every acknowledged write must be there once, in one order for all.
`lines`: JSON lines through `slotlog append` and through `Memory.append`, and a check that every line is there in order.

    python ops/bench/writes.py                  1,000, 100,000 and 1,000,000 facts; 200,000 lines
    python ops/bench/writes.py --only remember  or processes, or lines
    python ops/bench/writes.py --work /dev/shm  where a disk's flush costs nothing: what the rest costs
    python ops/bench/writes.py --small          100 and 1,000 facts, 3 processes, 2,000 lines
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import harness
import msgspec
from workload import Fleet

from schemas import events as ev
from schemas.codec import Codec
from schemas.jsonform import to_json
from streams import Belief, Memory, clock
from streams.envelope import message
from streams.sqlite_log import FILE_NAME, SqliteLog

PARTS = ("remember", "processes", "lines")
BATCH = 5_000
LINES_BATCH = 1_000
SPACE = "acme/written"
ACTOR = "agent:planner"
SENTENCE = "the owner of the deploy wants to be told before staging is locked, number "


def facts_of(seed: int) -> Iterator[ev.FactAsserted]:
    """The facts of a fleet, without end."""
    fleet = Fleet(seed)
    while True:
        for event in fleet.events(BATCH):
            if isinstance(event, ev.FactAsserted):
                yield event


def fill(folder: Path, facts: Iterator[ev.FactAsserted], count: int) -> None:
    codec = Codec()
    log = SqliteLog(folder, clock=clock.now_micros)
    facts = islice(facts, count)
    while batch := list(islice(facts, BATCH)):
        log.append([message(event, codec) for event in batch])
    log.close()


# -- one write beside a bare insert


class Bare:
    """A copy of a log's file, and inserts into it with nothing around them."""

    def __init__(self, filled: Path, folder: Path) -> None:
        folder.mkdir()
        shutil.copy(filled / FILE_NAME, folder / FILE_NAME)
        self._connection = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = FULL")
        assert self._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        self._codec = Codec()

    def row(self, number: int) -> tuple[int, bytes, bytes, bytes]:
        """The columns of a fact like the one that `remembered` writes."""
        common = {"event_id": clock.new_event_id(), "actor": ACTOR, "recorded_at": clock.now_micros()}
        event = ev.FactAsserted(**common, space=SPACE, entity=f"user:{number}", slot="preference", value=value(number))
        key, body, headers = message(event, self._codec)
        return clock.now_micros(), key, body, msgspec.msgpack.encode(headers)

    def insert(self, row: tuple[int, bytes, bytes, bytes]) -> None:
        self._connection.execute("INSERT INTO log (append_time, key, value, headers) VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        self._connection.close()


def value(number: int) -> str:
    return f"{SENTENCE}{number}"


def beside_bare(memory: Memory, bare: Bare, start: int, count: int) -> harness.Result:
    """`count` writes of each kind in turn, and which is first in turn too."""
    found: dict[str, list[tuple[float, float]]] = {"remember": [], "bare": []}
    for number in range(start, start + count):
        row = bare.row(number)
        calls = {
            "remember": lambda number=number: memory.remember(SPACE, f"user:{number}", "preference", value(number)),
            "bare": lambda row=row: bare.insert(row),
        }
        for name in ("remember", "bare") if number % 2 else ("bare", "remember"):
            cpu, wall = time.thread_time(), time.perf_counter()
            calls[name]()
            found[name].append((time.perf_counter() - wall, time.thread_time() - cpu))
    result = {name: latencies([wall for wall, _ in times]) for name, times in found.items()}
    for name, times in found.items():
        result[name]["cpu_us"] = round(median(cpu for _, cpu in times) * 1e6, 1)
    result["ratio"] = {
        quantile: round(result["remember"][quantile] / result["bare"][quantile], 3)
        for quantile in ("p50_ms", "p99_ms", "mean_ms", "cpu_us")
    }
    return result


def latencies(seconds: Sequence[float]) -> harness.Result:
    kept = sorted(seconds)
    return {
        "count": len(kept),
        "p50_ms": round(quantile(kept, 0.5) * 1e3, 4),
        "p99_ms": round(quantile(kept, 0.99) * 1e3, 4),
        "max_ms": round(kept[-1] * 1e3, 4),
        "mean_ms": round(sum(kept) / len(kept) * 1e3, 4),
    }


def quantile(ascending: Sequence[float], part: float) -> float:
    return ascending[min(len(ascending) - 1, int(len(ascending) * part))]


def remember(work: Path, given: argparse.Namespace) -> harness.Result:
    """Every size, with and without the tables held."""
    sizes: harness.Result = {}
    for size in given.sizes:
        folder = work / f"remember-{size}"
        with harness.timed() as filling:
            fill(folder, facts_of(given.seed), size)
        bare = Bare(folder, work / f"bare-{size}")
        sizes[str(size)] = one = {"fill_s": round(filling(), 1)}
        harness.say(f"remember: {size:,} facts in the store, filled in {filling():.1f} s")
        for number, name in enumerate(("appending", "holding")):
            with Memory.open(folder, actor=ACTOR, hold=name == "holding") as memory:
                if name == "holding":
                    with harness.timed() as folding:
                        memory.info()
                    one["fold_s"] = round(folding(), 1)
                one[name] = found = beside_bare(memory, bare, number * given.writes, given.writes)
            ratio, own = found["ratio"], found["remember"]
            harness.say(f"  {name}: p50 {own['p50_ms']:.3f} ms, p99 {own['p99_ms']:.3f} ms; ratios {ratio}")
        bare.close()
        check_all_there(folder, size, 2 * given.writes)
        for place in (folder, work / f"bare-{size}"):
            shutil.rmtree(place)
    least, most = (sizes[str(size)] for size in (min(given.sizes), max(given.sizes)))
    flat = {
        name: {
            key: round(most[name]["remember"][key] / least[name]["remember"][key], 3) for key in ("p50_ms", "p99_ms")
        }
        for name in ("appending", "holding")
    }
    harness.say(f"  largest / smallest store: {flat}")
    return {"writes_of_each": given.writes, "sizes": sizes, "largest_over_smallest": flat}


def check_all_there(folder: Path, size: int, writes: int) -> None:
    with Memory.open(folder) as memory:
        (partition,) = memory.info().partitions
        assert (partition.next, partition.applied) == (size + writes, size + writes), partition
        for number in range(writes):
            belief = memory.get(SPACE, f"user:{number}", "preference")
            assert isinstance(belief, Belief), number
            assert (belief.value, belief.position.offset) == (value(number), size + number), belief


# -- many processes

_barrier: Any = None


def _meet(barrier: Any) -> None:
    global _barrier  # noqa: PLW0603  # a worker's only way to what it was started with
    _barrier = barrier


def _write(given: tuple[str, int, int]) -> list[tuple[int, float]]:
    """One process: (offset, seconds) of each write, all of them begun when every process is ready."""
    store, writer, count = given
    with Memory.open(store, actor=f"agent:{writer}", hold=False) as memory:
        _barrier.wait()
        found = []
        for number in range(count):
            started = time.perf_counter()
            receipt = memory.remember(SPACE, f"writer:{writer}", "counter", number, session=f"run-{writer}")
            found.append((receipt.position.offset, time.perf_counter() - started))
        return found


def processes(work: Path, given: argparse.Namespace) -> harness.Result:
    """All write at once; then the log and the tables must hold each write once, in the order told."""
    store, count = str(work / "processes"), given.writes_each
    Memory.open(store).close()
    context = multiprocessing.get_context("spawn")
    asked = [(store, writer, count) for writer in range(given.processes)]
    barrier = context.Barrier(given.processes)
    with harness.timed() as seconds, context.Pool(given.processes, _meet, (barrier,)) as pool:
        found = pool.map(_write, asked, chunksize=1)
    written = {offset: (writer, number) for writer, told in enumerate(found) for number, (offset, _) in enumerate(told)}
    total = given.processes * count
    assert sorted(written) == list(range(total)), "an acknowledged write is lost, or two have one offset"
    with Memory.open(store) as memory:
        order = []
        for recorded in memory.replay(SPACE):
            assert isinstance(recorded.event, ev.FactAsserted)
            order.append((int(recorded.event.entity.partition(":")[2]), recorded.event.value))
        assert order == [written[offset] for offset in range(total)], "the log has another order than was acknowledged"
        for writer in range(given.processes):
            belief = memory.get(SPACE, f"writer:{writer}", "counter")
            assert isinstance(belief, Belief)
            assert belief.value == count - 1, belief
        digest = memory.digest()[0]
        memory.rebuild()
        assert memory.digest()[0] == digest
    times = latencies([seconds for told in found for _, seconds in told])
    each = [latencies([seconds for _, seconds in told]) for told in found]
    rate = round(total / sum(sum(s for _, s in told) / given.processes for told in found))
    harness.say(f"processes: {given.processes} × {count:,}: none lost, one order; {times}; {rate:,} writes/s together")
    return {
        "processes": given.processes,
        "writes_each": count,
        "lost": 0,
        "one_order": True,
        "latency": times,
        "p99_ms_by_process": [one["p99_ms"] for one in each],
        "writes_per_s": rate,
        "seconds_with_start": round(seconds(), 2),
        "sha256_of_order": harness.result_hash(f"{writer} {number}" for writer, number in order),
    }


# -- lines


def lines(work: Path, given: argparse.Namespace) -> harness.Result:
    """One file of JSON lines, through the command, and parsed and appended in batches in this process; in turn."""
    path = work / "lines.jsonl"
    wanted = []
    left_out = ("event_id", "recorded_at", "actor")
    with path.open("wb") as file:
        for event in islice(facts_of(given.seed), given.lines):
            wanted.append(event.value)
            form = {name: part for name, part in to_json(event).items() if name not in left_out}
            file.write(msgspec.json.encode(form) + b"\n")
    result: harness.Result = {"lines": given.lines, "bytes": path.stat().st_size}
    ways = {"command": _by_command, "memory": _by_memory}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(given.rounds):
        for name, way in ways.items():
            store = work / f"lines-{name}-{number}"
            with harness.timed() as seconds:
                way(store, path)
            times[name].append(seconds())
            _check_lines(store, wanted)
            shutil.rmtree(store)
            harness.say(f"lines: {name}: {given.lines:,} in {seconds():.2f} s, {given.lines / seconds():,.0f} lines/s")
    for name, seconds_of in times.items():
        result[name] = {
            "seconds": harness.spread(seconds_of),
            "lines_per_s": harness.spread(given.lines / one for one in seconds_of),
        }
    return result


def _by_command(store: Path, path: Path) -> None:
    """`slotlog append`, from the start of its process to its end."""
    program = f"import sys; sys.path.insert(0, {str(harness.ROOT)!r}); from projectors.surfaces.cli import main; main()"
    call = [sys.executable, "-c", program, "--store", str(store), "append", str(path)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr


def _by_memory(store: Path, path: Path) -> None:
    decoder = msgspec.json.Decoder(dict[str, Any])
    with Memory.open(store, hold=False) as memory, path.open("rb") as file:
        while batch := [decoder.decode(line) for line in islice(file, LINES_BATCH)]:
            memory.append(batch)


def _check_lines(store: Path, wanted: Sequence[ev.Value]) -> None:
    """Every line is on the log, once, in the file's order, with the type of its value."""
    log, codec = SqliteLog(store, clock=clock.now_micros, create=False), Codec()
    events = [codec.decode(record.value or b"") for batch in log.read(0, 0) for record in batch.records]
    log.close()
    found = [event.value for event in events if isinstance(event, ev.FactAsserted)]
    assert [(type(one), one) for one in found] == [(type(one), one) for one in wanted]
    assert len(events) == len(wanted)
    assert Counter(len(event.event_id) for event in events) == {16: len(wanted)}


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--sizes", type=int, nargs="+", help="facts in the store")
    parser.add_argument("--writes", type=int, help="of each kind, at each size; default: 2,000, or 20 when small")
    parser.add_argument("--processes", type=int, help="default: 8, or 3 when small")
    parser.add_argument("--writes-each", type=int, help="of each process; default: 1,000, or 20 when small")
    parser.add_argument("--lines", type=int, help="default: 200,000, or 2,000 when small")
    parser.add_argument("--name", default="writes", help="of the result's file (default: %(default)s)")
    given = parser.parse_args()
    given.sizes = given.sizes or ([100, 1_000] if given.small else [1_000, 100_000, 1_000_000])
    given.writes = given.writes or (20 if given.small else 2_000)
    given.processes = given.processes or (3 if given.small else 8)
    given.writes_each = given.writes_each or (20 if given.small else 1_000)
    given.lines = given.lines or (2_000 if given.small else 200_000)
    given.rounds = 1 if given.small else 3
    return given


def main() -> int:
    given = options()
    result = {"facts": harness.facts(), "seed": given.seed}
    parts = {"remember": remember, "processes": processes, "lines": lines}
    with harness.work_folder(given) as work:
        for name in given.only:
            result[name] = parts[name](work, given)
    harness.write_result(given.name, given, result)
    harness.say(json.dumps(result.get("remember", {}).get("largest_over_smallest", {})))
    return 0


if __name__ == "__main__":
    sys.exit(main())
