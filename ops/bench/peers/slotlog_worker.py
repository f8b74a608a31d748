#!/usr/bin/env python3
"""`slotlog worker` as a contestant, run by its command line and asked over HTTP how far it is.

    python ops/bench/peers/slotlog_worker.py BOOTSTRAP TOPIC EVENTS

What a backlog takes is measured from here: from when it is first seen to have begun until every event is in its tables,
asked every 50 ms, with the processor time of the whole process meanwhile. When half of it is done by then, the time
counts from the start of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contestant import WAIT_S, Contest, Result, cpu_s, end, run_alone, wait_for

ROOT = Path(__file__).resolve().parents[3]
POLL_S = 0.05


class SlotlogWorker:
    """One worker that has all partitions. `options` are added to its command line."""

    def __init__(self, name: str = "slotlog", *options: str) -> None:
        self.name = name
        self._options = options

    def start(self, contest: Contest) -> Worker:
        return Worker(contest, self._options)


class Worker:
    """A started worker. Implements contestant.Running."""

    def __init__(self, contest: Contest, options: tuple[str, ...]) -> None:
        self._contest = contest
        self._started = time.perf_counter()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = int(free.getsockname()[1])
        store = f"kafka://{contest.bootstrap}/{contest.topic}?state={contest.work / 'state'}"
        group = f"peer-{contest.topic}-{time.time_ns()}"
        own = ["--port", str(self._port), "--worker-id", "w1", "--group", group, *options]
        self._log = (contest.work / "worker.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "projectors.surfaces.cli", "--store", store, "worker", *own],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def done(self) -> int:
        """Offsets folded, over all partitions: events, as long as nothing but events is on the log."""
        return sum(one["next"] for one in self._partitions())

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            found = self._partitions()
            return bool(found) and all(one["ready"] for one in found)

        wait_for("a worker that is ready", ready, POLL_S)

    def result(self) -> Result:
        begun = done = 0
        first, first_cpu = self._started, 0.0
        deadline = time.monotonic() + WAIT_S
        while done < self._contest.events:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self._contest.events - done:,} events are not folded after {WAIT_S:g} s")
            done = self.done()
            if not begun and 0 < done < self._contest.events // 2:
                first, first_cpu, begun = time.perf_counter(), cpu_s(self.pid), done
            time.sleep(POLL_S)
        seconds, cpu = time.perf_counter() - first, cpu_s(self.pid) - first_cpu
        return {"events": done - begun, "seconds": seconds, "cpu_s": cpu}

    def stop(self) -> None:
        end(self._process)
        self._log.close()

    def _partitions(self) -> list[dict[str, Any]]:
        """What it says of the partitions that are its own; empty while its web server is not up."""
        if self._process.poll() is not None:
            self._log.seek(0)
            raise SystemExit(f"the worker ended with {self._process.returncode}:\n{self._log.read()[-3000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/v1/workers", timeout=10) as answer:
                return [one for one in partitions_in(json.load(answer)) if one["role"] == "active"]
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return []


def partitions_in(answer: Any) -> Iterator[dict[str, Any]]:
    """Every partition's status, however deep the answer has it."""
    if isinstance(answer, dict):
        if "partition" in answer and "next" in answer:
            yield answer
        else:
            for inner in answer.values():
                yield from partitions_in(inner)
    elif isinstance(answer, list):
        for inner in answer:
            yield from partitions_in(inner)


def run(bootstrap: str, topic: str, events: int) -> Result:
    """Fold the `events` events that the topic holds into fresh tables, in bulk; events, seconds, processor seconds."""
    return run_alone(SlotlogWorker(), bootstrap, topic, events)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("events", type=int)
    print(json.dumps(run(**vars(parser.parse_args()))))
