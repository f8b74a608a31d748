"""Workers of a fleet as real processes, what is written beside them, and the verdict on what they made of it.

Nothing here decides anything by time but how long to wait before giving up, and that is generous.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from kafka_broker import Broker

from schemas.errors import LogUnreachable
from streams.kafka_log import KafkaLog, create_topic

PATIENCE_S = 180.0
SESSION_TIMEOUT_S = 6
"""The least that a broker grants by default."""
HOP = {"Slotlog-Hop": "1"}
"""A request with it is answered by the worker that is asked, or not at all."""
_PAST_ALL_KEYS = b"\xff" * 8


def until(
    what: Callable[[], object], told: str | Callable[[], str], *, patience_s: float = PATIENCE_S, pause_s: float = 0.05
) -> Any:
    """Wait for `what` to be true, or fail with what `told` says; what it was is returned."""
    deadline = time.monotonic() + patience_s
    while not (found := what()):
        assert time.monotonic() < deadline, told if isinstance(told, str) else told()
        time.sleep(pause_s)
    return found


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Answer(NamedTuple):
    """What a worker said. Code 0: nobody answered."""

    code: int
    text: str


def http_send(port: int, path: str, timeout_s: float, *, here: bool) -> Callable[[], Answer]:
    """Send a request now; what is returned waits for the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    failure = ""
    try:
        connection.request("GET", path, headers=HOP if here else {})
    except OSError as error:
        failure = repr(error)

    def answer() -> Answer:
        try:
            if failure:
                return Answer(0, failure)
            reply = connection.getresponse()
            return Answer(reply.status, reply.read().decode(errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, repr(error))
        finally:
            connection.close()

    return answer


def fact_path(space: str, entity: str, slot: str) -> str:
    return f"/v1/spaces/{quote(space, safe='')}/facts/{quote(entity, safe='')}/{quote(slot, safe='')}"


class Worker:
    """One `slotlog worker` with a folder, a port and an id of its own, which it keeps when it is started again."""

    def __init__(self, folder: Path, name: str, bootstrap: str, topic: str, *options: str) -> None:
        """`options` of the command are added to the common ones, and win."""
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.state = folder / "state"
        self.port = free_port()
        self.store = f"kafka://{bootstrap}/{topic}?state={self.state}"
        self._output = folder / "output"
        self._options = ("--worker-id", name, "--group", topic, "--session-timeout", str(SESSION_TIMEOUT_S), *options)
        self.process: subprocess.Popen[bytes] | None = None
        self.suspended = False
        self.environment: dict[str, str] = {}

    def start(self) -> Worker:
        call = [sys.executable, "-P", "-m", "projectors.surfaces.cli", "--store", self.store, "worker"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **self.environment}
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                [*call, "--port", str(self.port), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def output(self) -> str:
        """All that it ever wrote, of every start."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def suspend(self) -> None:
        self.signal(signal.SIGSTOP)
        self.suspended = True

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
        self.suspended = False

    def ended(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for its end; the exit code."""
        assert self.process is not None
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end:\n{self.output[-4000:]}") from None

    def stop(self) -> None:
        """SIGTERM, and it must end well."""
        self.signal(signal.SIGTERM)
        code = self.ended()
        assert code == 0, f"{self.name} ended with {code}:\n{self.output[-4000:]}"

    def kill(self) -> None:
        """SIGKILL, suspended or not."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.suspended = False

    def ask(self, path: str, timeout_s: float = 10.0, *, here: bool = False) -> Answer:
        """`here`: it must not pass the question on."""
        return http_send(self.port, path, timeout_s, here=here)()

    def send(self, path: str, timeout_s: float = 120.0) -> Callable[[], Answer]:
        """Ask it, and nobody else, now; what is returned waits for the answer."""
        return http_send(self.port, path, timeout_s, here=True)

    def status(self) -> dict[str, Any]:
        """What it says of itself; empty when it says nothing."""
        answer = self.ask("/v1/workers", 5.0, here=True) if self.running and not self.suspended else Answer(0, "")
        if answer.code != 200:
            return {}
        told = json.loads(answer.text)
        every = told.get("workers", [told])
        return next((one for one in every if one["worker"] == self.name), {})


class Fleet:
    """Workers on one topic of their own. What was started is ended by `close`, whatever happens."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, *options: str) -> None:
        self.folder = folder
        self.bootstrap = bootstrap
        self.topic = topic
        self.workers: dict[str, Worker] = {}
        self._options = options
        self.log = KafkaLog(bootstrap, topic, timeout_s=30)

    def start(self, *names: str, options: Sequence[str] = (), environment: dict[str, str] | None = None) -> Worker:
        """Start workers, new ones or ones that have ended; the last of them. What they are told is kept for when they
        are started again."""
        for name in names:
            if name not in self.workers:
                place = self.folder / name
                self.workers[name] = Worker(place, name, self.bootstrap, self.topic, *self._options, *options)
                self.workers[name].environment = environment or {}
            self.workers[name].start()
        return self.workers[names[-1]]

    def living(self) -> list[Worker]:
        """Workers whose process runs and is not suspended."""
        return [worker for worker in self.workers.values() if worker.running and not worker.suspended]

    def owners(self) -> dict[int, Worker]:
        """Partition to the one worker that is ready to answer for it; nothing for one that has none, or more."""
        found: dict[int, list[Worker]] = {}
        for worker in self.living():
            told = worker.status()
            for one in told.get("partitions", ()) if told.get("member") else ():
                if one["role"] == "active" and one["ready"]:
                    found.setdefault(one["partition"], []).append(worker)
        return {partition: workers[0] for partition, workers in found.items() if len(workers) == 1}

    def owner_of(self, space: str) -> Worker:
        """Whoever answers for the space, once somebody does."""
        partition = self.log.partition_of(space.encode())
        found: Worker = until(lambda: self.owners().get(partition), lambda: f"nobody has {space}\n{self.told()}")
        return found

    def settled(self, *, behind: int | None = 0, within: Iterable[int] | None = None) -> bool:
        """Whether every living worker has its place, and every partition, or those `within`, one ready owner, whose
        tables are at most so many events `behind` the end of the log; None: however many."""
        wanted = list(range(self.log.partitions)) if within is None else sorted(within)
        try:
            ends = self.log.ends()
        except LogUnreachable:
            return False
        owned = []
        for worker in self.living():
            told = worker.status()
            if not told.get("ready"):
                return False
            for one in told["partitions"]:
                if one["role"] == "active" and one["partition"] in wanted:
                    if not one["ready"] or (behind is not None and ends[one["partition"]] - one["next"] > behind):
                        return False
                    owned.append(one["partition"])
        return sorted(owned) == wanted

    def settle(self, *, within: Iterable[int] | None = None) -> None:
        """Wait until all is folded."""
        until(lambda: self.settled(within=within), lambda: f"the fleet does not settle:\n{self.told()}")

    def serve(self) -> None:
        """Wait until every partition is answered for, load or no load."""
        until(lambda: self.settled(behind=None), lambda: f"not all is answered for:\n{self.told()}")

    def told(self) -> str:
        """What everybody said last, for a failure's message."""
        texts = []
        for worker in self.workers.values():
            state = "running" if worker.running else f"ended {worker.process and worker.process.returncode}"
            texts.append(f"-- {worker.name}: {state}, {worker.status()}\n{worker.output[-3000:]}")
        return "\n".join(texts)

    def stop(self) -> None:
        """End every living worker well, at the same time."""
        living = self.living()
        for worker in living:
            worker.signal(signal.SIGTERM)
        for worker in living:
            code = worker.ended()
            assert code == 0, f"{worker.name} ended with {code}:\n{worker.output[-4000:]}"

    def close(self) -> None:
        for worker in self.workers.values():
            with suppress(ProcessLookupError):
                worker.kill()
        self.log.close()


@contextmanager
def suspended(pid: int) -> Iterator[None]:
    """A process that sleeps inside the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def fleet(folder: Path, broker: Broker, *options: str, partitions: int = 4, topic: str = "") -> Iterator[Fleet]:
    """An empty fleet on a topic of its own."""
    topic = topic or f"fleet-{folder.name}-{time.monotonic_ns()}"
    create_topic(broker.bootstrap, topic, partitions=partitions)
    made = Fleet(folder, broker.bootstrap, topic, *options)
    try:
        yield made
    finally:
        made.close()
