"""Other processes at one embedded store, each a fork of a clean server that has everything imported, so that twenty of
them start in a second. What a worker has to say goes over its pipe: an acknowledgement is (offset, event id)."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from schemas.errors import NotFound
from streams.file_lock import FileLock
from streams.memory import Memory

SPACE, ALICE = "acme/support", "user:alice"
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


class Worker:
    """A process that runs `body(pipe, folder, *arguments)`."""

    def __init__(self, body: Callable[..., None], folder: Path, *arguments: Any) -> None:
        self.pipe, theirs = _context.Pipe()
        self.process: BaseProcess = _context.Process(target=body, args=(theirs, folder, *arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.pid = self.process.pid

    def hear(self, timeout_s: float = 60.0) -> Any:
        """What it says next. EOFError when it ended instead."""
        assert self.pipe.poll(timeout_s), "the worker says nothing"
        return self.pipe.recv()

    def ask(self, question: Any = None) -> Any:
        """Its answer to `question`."""
        self.pipe.send(question)
        return self.hear()

    def stop(self) -> None:
        """Close its pipe, which it ends at, and wait for it."""
        self.pipe.close()
        self.process.join(60)
        assert self.process.exitcode == 0

    def kill(self) -> list[Any]:
        """SIGKILL. What it had said and nobody had heard."""
        self.process.kill()
        self.process.join(60)
        left = []
        try:
            while self.pipe.poll(0):
                left.append(self.pipe.recv())
        except EOFError:
            pass
        self.pipe.close()
        return left


def hook(pipe: Connection, folder: Path, name: str) -> None:
    """As a hook does: open, write one thing, say that it is acknowledged, end."""
    with Memory.open(folder, actor=f"hook:{name}", hold=False) as memory:
        receipt = memory.remember(SPACE, ALICE, "n", name, session=f"run-{name}")
        pipe.send((receipt.position.offset, str(receipt.event_id), receipt.status))


def server(pipe: Connection, folder: Path) -> None:
    """Hold the tables, write and read all the time and say what was acknowledged, until it is asked anything."""
    with Memory.open(folder, actor="agent:server") as memory:
        number = 0
        while not pipe.poll(0.002):
            receipt = memory.remember(SPACE, "user:server", "n", number)
            pipe.send((receipt.position.offset, str(receipt.event_id), receipt.status))
            answer = memory.get(SPACE, "user:server", "n")
            assert answer is not None
            assert not isinstance(answer, list)
            assert answer.value == number, "it reads its own writes"
            number += 1
        pipe.send("done")


def reader(pipe: Connection, folder: Path, hold: bool) -> None:
    """Answer each (offset, event id) with whether it is seen, and with the newest offset known."""
    with Memory.open(folder, hold=hold, create=False) as memory:
        while (asked := _next(pipe)) is not None:
            try:
                memory.known_at(SPACE, asked[1])
                seen = True
            except NotFound:
                seen = False
            pipe.send((seen, memory.resolve(SPACE).as_of.offset))


def burst(pipe: Connection, folder: Path, name: str, count: int) -> None:
    """Append `count` events, five hundred at a time, and read nothing."""
    fact = {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "n", "actor": f"agent:{name}"}
    with Memory.open(folder, hold=False) as memory:
        for first in range(0, count, 500):
            receipts = memory.append([fact | {"value": f"{name}:{first + number}"} for number in range(500)])
            pipe.send([(one.position.offset, str(one.event_id), one.status) for one in receipts])


def holder(pipe: Connection, folder: Path) -> None:
    """Take the tables, say so, and keep them; answer each question with (offsets known, whether it still holds)."""
    with Memory.open(folder, create=False) as memory:
        memory.info()
        pipe.send("held")
        while (_next(pipe)) is not None:
            [partition] = memory.info().partitions
            pipe.send((partition.next, partition.holding))


def lock(pipe: Connection, path: Path) -> None:
    """Hold one lock file."""
    held = FileLock(path)
    held.acquire(5.0)
    pipe.send(os.getpid())
    _next(pipe)
    held.close()


def _next(pipe: Connection) -> Any:
    """The next question, None when there will be none."""
    try:
        return pipe.recv()
    except EOFError:
        return None
