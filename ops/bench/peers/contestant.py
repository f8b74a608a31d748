"""What all contestants have in common: a process of its own that says how far it is, and what it took.

A contestant prints JSON lines on stdout: `{"ready": true}` when it runs, `{"done": N}` now and then, and one last line
with `events`, `seconds` and `cpu_s` between the first and the last of them. Then it ends by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

sys.path[:0] = [str(Path(__file__).resolve().parents[number]) for number in (1, 3)]  # ops/bench, and the checkout

WAIT_S = 900.0
STOP_S = 30.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Result = dict[str, Any]


class Contest(NamedTuple):
    """Where a contestant reads and how many events it is to read; `work` is an empty folder that is its own."""

    bootstrap: str
    topic: str
    events: int
    work: Path


class Running(Protocol):
    """One started process of a contestant."""

    @property
    def pid(self) -> int: ...

    def done(self) -> int:
        """How many events are in its tables, as far as it has told."""

    def wait_until_ready(self) -> None:
        """Return when it runs and would take an event at once."""

    def result(self) -> Result:
        """Wait until every event is in its tables; what that took, from the first to the last."""

    def stop(self) -> None:
        """End the process and wait for it. Twice is harmless."""


class Contestant(Protocol):
    """How a contestant is started."""

    @property
    def name(self) -> str: ...

    def start(self, contest: Contest) -> Running: ...


class Spoken:
    """A contestant that says on stdout how far it is. Implements Running."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] = {}) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, **environment},
        )
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._done = 0
        self._result: Result | None = None
        self._errors: list[str] = []
        reads = self._read_lines, self._read_errors
        self._readers = [threading.Thread(target=read, daemon=True) for read in reads]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def done(self) -> int:
        if self._process.poll() not in (None, 0):
            raise self._failed()
        return self._done

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + WAIT_S
        while not self._ready.wait(0.05):
            if self._ended.is_set() or time.monotonic() > deadline:
                raise self._failed()

    def result(self) -> Result:
        if not self._ended.wait(WAIT_S) or self._result is None:
            raise self._failed()
        return self._result

    def stop(self) -> None:
        end(self._process)
        for reader in self._readers:
            reader.join(STOP_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _failed(self) -> SystemExit:
        self.stop()
        return SystemExit(f"{self._process.args!r} ended with {self._process.returncode}:\n{''.join(self._errors)}")

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue
            told = json.loads(line)
            if "seconds" in told:
                self._result = told
            elif "done" in told:
                self._done = told["done"]
            else:
                self._ready.set()
        self._ended.set()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line)
            del self._errors[:-200]


def end(process: subprocess.Popen[str]) -> None:
    """SIGTERM, after a while SIGKILL; the process is reaped."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)


def wait_for(what: str, condition: Callable[[], bool], poll_s: float) -> None:
    """Return when `condition` holds; SystemExit names `what` when it does not for a quarter of an hour."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not come in {WAIT_S:g} s")
        time.sleep(poll_s)


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far, of all its threads, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def run_alone(contestant: Contestant, bootstrap: str, topic: str, events: int, parent: Path | None = None) -> Result:
    """Run the contestant over a topic that holds `events` events already, with nothing of its own."""
    with scratch(parent) as work:
        running = contestant.start(Contest(bootstrap, topic, events, work))
        try:
            return {"contestant": contestant.name, **running.result()}
        finally:
            running.stop()


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """An empty folder in `parent`, or where temporary ones go; removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="slotlog-peer-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
