"""What waits for a broker, reads everything, or tells of the process does not hold up the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from api_client import ALICE, AT, SPACE, Reply, api, ask

from projectors.surfaces.api import Limits
from streams import Memory
from streams.local import LocalMemory

EVENTS, FACT = f"{AT}/events", f"{AT}/facts/{ALICE}/employer"
THREADS = 3


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m", actor="agent:server") as opened:
        opened.remember(SPACE, ALICE, "employer", "Acme")
        yield opened


@pytest.fixture
def url(memory: Memory) -> Iterator[str]:
    with api(memory, limits=Limits(threads=THREADS, appends=5)) as url:
        yield url


class Held:
    """Verbs of a memory that wait until they are let go on; how many have begun."""

    def __init__(self, patch: pytest.MonkeyPatch, *names: str) -> None:
        self.begun = threading.Semaphore(0)
        self.count = 0
        self.go_on = threading.Event()
        for name in names:
            patch.setattr(LocalMemory, name, self._held(getattr(LocalMemory, name)))

    def _held(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def verb(*given: Any, **named: Any) -> Any:
            self.count += 1
            self.begun.release()
            assert self.go_on.wait(60)
            return real(*given, **named)

        return verb

    def wait(self, times: int) -> None:
        for _ in range(times):
            assert self.begun.acquire(timeout=60)


def at_once(stack: ExitStack, times: int, do: Callable[[], Reply]) -> list[Any]:
    pool = stack.enter_context(ThreadPoolExecutor(times))
    return [pool.submit(do) for _ in range(times)]


def fact() -> dict[str, Any]:
    return {"type": "FactAsserted", "entity": ALICE, "slot": "employer", "value": "Globex"}


def test_appends_that_wait_leave_reads_alone_and_are_no_more_than_so_many(
    url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch, "append")
    with ExitStack() as stack:
        stack.callback(held.go_on.set)
        appending = at_once(stack, 6, lambda: ask(url, EVENTS, "POST", fact()))
        held.wait(THREADS)
        (first,) = wait(appending, 60, FIRST_COMPLETED).done  # the sixth: five wait, three of them in a thread
        assert first.result().status == 503
        refused = ask(url, EVENTS, "POST", fact())
        assert refused.headers["retry-after"] == "1"
        assert "appends wait" in refused.json["detail"]
        for path in (FACT, f"{AT}/timeline", f"{AT}/digest", "/readyz", "/v1/info"):
            assert ask(url, path).status == 200, path
        held.go_on.set()
        statuses = [one.result().status for one in appending]
        assert (len(statuses), statuses.count(503)) == (6, 1)
        assert set(statuses) <= {200, 202, 503}
    assert len(list(memory.replay(SPACE))) == 6
    assert ask(url, EVENTS, "POST", fact()).status in (200, 202)


def test_reads_that_wait_leave_what_the_process_says_of_itself_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, "replay")
    with ExitStack() as stack:
        stack.callback(held.go_on.set)
        reading = at_once(stack, 2 * THREADS, lambda: ask(url, f"{AT}/replay"))
        held.wait(THREADS)
        for path in ("/healthz", "/readyz", "/metrics", "/v1/workers", "/v1/digest"):
            assert ask(url, path).status == 200, path
        assert ask(url, EVENTS, "POST", fact()).status in (200, 202)
        held.go_on.set()
        assert {one.result().status for one in reading} == {200}


def test_a_read_that_holds_the_tables_leaves_what_the_process_says_of_itself_alone(url: str, memory: Memory) -> None:
    before = ask(url, "/metrics").body
    with memory._locked(SPACE):
        for path in ("/healthz", "/readyz", "/metrics", "/v1/workers"):
            assert ask(url, path).status == 200, path
        wanted = [line for line in before.splitlines() if line.startswith(b"slotlog_next_offset")]
        assert wanted[0] in ask(url, "/metrics").body
    memory.remember(SPACE, ALICE, "employer", "Globex")
    assert b'slotlog_next_offset{partition="0"} 2.0' in ask(url, "/metrics").body


def test_what_reads_everything_goes_on_one_at_a_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, "digest")
    with ExitStack() as stack:
        stack.callback(held.go_on.set)
        whole = at_once(stack, 2, lambda: ask(url, "/v1/digest"))
        whole += at_once(stack, 2, lambda: ask(url, f"{AT}/digest"))
        held.wait(1)
        for path in (FACT, "/readyz", "/metrics", f"{AT}/timeline"):
            assert ask(url, path).status == 200, path
        assert held.count == 1
        held.go_on.set()
        assert {one.result().status for one in whole} == {200}
