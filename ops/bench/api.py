"""What the HTTP API costs: a `get` beside a bare aiohttp handler, and how soon a written fact can be asked for.

requests  `GET …/facts/{entity}/{slot}` at 16 connections, of `slotlog serve` on a folder and of a worker on Kafka, in
          turn with a handler that answers the same bytes and does nothing else. The client is the same; server and
          client share the machine.
queryable 500 events/s are written to Kafka by a producer; of one in ten, the time from its acknowledgement to the
          answer of a `get` with its `min_offset`, asked of the worker that has the space, and of another, which passes
          it on. What is asked in the first 5 s is told apart: the partitions were handed over to the live path just
          before, and Faust needs up to two seconds to deliver what it was given.

    python ops/bench/api.py             200,000 facts; 5 pairs of 10 s; 60 s of events
    python ops/bench/api.py --small     2,000 facts; 1 pair of 1 s; 3 s of events
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import quote

import harness
from harness import Result, say

CONNECTIONS = 16
EVENTS_PER_S = 500
SLICE = 5
HANDED_OVER_S = 5.0
SPACES = tuple(f"acme/{name}" for name in ("support", "sales", "research", "legal", "ops", "design"))
WAIT_S = 120.0


def path_of(space: str, entity: str, slot: str) -> str:
    return f"/v1/spaces/{quote(space, safe='')}/facts/{quote(entity, safe='')}/{slot}"


# -- servers


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def serving(arguments: Sequence[str], port: int, ready: str) -> Iterator[int]:
    """A slotlog command that listens on `port`; entered once GET `ready` is answered with 200."""
    call = [sys.executable, "-m", "projectors.surfaces.cli", *arguments]
    process = subprocess.Popen(call, cwd=harness.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + WAIT_S
        while asyncio.run(status_of(port, ready)) != 200:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{' '.join(arguments)} did not come up")
            time.sleep(0.1)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def bare_server(port: int, body: bytes) -> None:
    """The floor: a handler that has its answer."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    application = web.Application()
    application.router.add_get("/v1/spaces/{space}/facts/{entity}/{slot}", answer)
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None)


@contextmanager
def bare(body: bytes) -> Iterator[int]:
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=bare_server, args=(port, body))
    process.start()
    try:
        deadline = time.monotonic() + WAIT_S
        while asyncio.run(status_of(port, path_of("a", "b", "c"))) != 200:
            if time.monotonic() > deadline:
                raise SystemExit("the bare server did not come up")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.join()


# -- client


class Connection:
    """One HTTP/1.1 connection that is kept, with as little of a client as there can be."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def get(self, path: str) -> tuple[int, bytes]:
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(head[9:12]), await self._reader.readexactly(size)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def status_of(port: int, path: str) -> int:
    try:
        connection = await Connection.to(port)
        status, _ = await connection.get(path)
        await connection.close()
        return status
    except (OSError, asyncio.IncompleteReadError, ValueError):
        return 0


async def body_of(port: int, path: str) -> bytes:
    connection = await Connection.to(port)
    status, body = await connection.get(path)
    await connection.close()
    if status != 200:
        raise SystemExit(f"GET {path} was answered with {status}: {body.decode(errors='replace')}")
    return body


async def hammer(port: int, paths: Sequence[str], seconds: float) -> list[float]:
    """Seconds that each request took, of CONNECTIONS that ask one after another for `seconds`."""
    took: list[float] = []
    stop = time.perf_counter() + seconds

    async def ask(number: int) -> None:
        connection = await Connection.to(port)
        turn = number
        while (started := time.perf_counter()) < stop:
            status, body = await connection.get(paths[turn % len(paths)])
            took.append(time.perf_counter() - started)
            if status != 200:
                raise SystemExit(f"answered with {status}: {body.decode(errors='replace')}")
            turn += CONNECTIONS
        await connection.close()

    await asyncio.gather(*(ask(number) for number in range(CONNECTIONS)))
    return took


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 3)


def one_run(port: int, paths: Sequence[str], seconds: float) -> Result:
    took = asyncio.run(hammer(port, paths, seconds))
    return {
        "per_s": round(len(took) / seconds, 1),
        "p50_ms": quantile(took, 0.5),
        "p99_ms": quantile(took, 0.99),
    }


def against_bare(port: int, paths: Sequence[str], pairs: int, seconds: float) -> Result:
    """`get` and the bare handler in turn."""
    with bare(asyncio.run(body_of(port, paths[0]))) as floor:
        runs: dict[str, list[Result]] = {"bare": [], "get": []}
        for _ in range(pairs):
            runs["bare"].append(one_run(floor, paths, seconds))
            runs["get"].append(one_run(port, paths, seconds))
            say(f"  bare {runs['bare'][-1]}, get {runs['get'][-1]}")
    ratios = [round(get["per_s"] / floor["per_s"], 4) for floor, get in zip(runs["bare"], runs["get"], strict=True)]
    found = {name: {key: median(one[key] for one in of) for key in of[0]} for name, of in runs.items()}
    return {"runs": runs, "ratios": ratios, "median": {**found, "ratio": round(median(ratios), 4)}}


# -- what is asked for


def fill(store: str, facts: int) -> list[str]:
    """Write `facts` facts, spread over the spaces; paths of some of them."""
    from streams import Memory

    paths = []
    with Memory.open(store, actor="agent:bench", hold=False) as memory:
        for start in range(0, facts, 2_000):
            numbers = range(start, min(facts, start + 2_000))
            memory.append(
                {
                    "type": "FactAsserted", "space": SPACES[number % len(SPACES)], "entity": f"user:{number}",
                    "slot": "employer", "value": f"company {number % 977}",
                }
                for number in numbers
            )  # fmt: skip
            paths += [path_of(SPACES[number % len(SPACES)], f"user:{number}", "employer") for number in numbers[::20]]
    return paths


def queryable(store: str, ports: dict[str, int], owner_of: Callable[[str], str], seconds: float) -> Result:
    """Milliseconds from an acknowledgement to the answer, asked of the owner and of another."""
    from streams import Memory

    took: dict[str, list[float]] = {kind: [] for kind in ("handed_over", "owner", "proxied")}

    async def ask(port: int, path: str, kind: str, since: float) -> None:
        await body_of(port, path)
        took[kind].append(time.perf_counter() - since)

    async def run() -> None:
        asked: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        with Memory.open(store, actor="agent:bench", hold=False) as memory:
            started, number = time.perf_counter(), 0
            while (now := time.perf_counter() - started) < HANDED_OVER_S + seconds:
                due = int(now * EVENTS_PER_S) - number
                if due < SLICE:
                    await asyncio.sleep(0.002)
                    continue
                space = SPACES[number // SLICE % len(SPACES)]
                events = [
                    {
                        "type": "FactAsserted",
                        "space": space,
                        "entity": f"live:{number + one}",
                        "slot": "n",
                        "value": one,
                    }
                    for one in range(SLICE)
                ]
                receipts = await loop.run_in_executor(None, memory.append, events)
                acknowledged = time.perf_counter()
                if number // SLICE % 2 == 0:
                    kind = ("owner", "proxied")[number // SLICE // 2 % 2]
                    owner = owner_of(space)
                    worker = owner if kind == "owner" else next(name for name in ports if name != owner)
                    path = path_of(space, f"live:{number}", "n") + f"?min_offset={receipts[0].position.offset}"
                    counted = kind if now >= HANDED_OVER_S else "handed_over"
                    asked.append(asyncio.create_task(ask(ports[worker], path, counted, acknowledged)))
                number += SLICE
        await asyncio.gather(*asked)
        took["events_per_s"] = [round(number / (HANDED_OVER_S + seconds), 1)]

    asyncio.run(run())
    rate = took.pop("events_per_s")[0]
    found: Result = {
        kind: {
            "asked": len(values),
            **{f"p{share:g}_ms": quantile(values, share / 100) for share in (50, 90, 99, 99.9)},
        }
        for kind, values in took.items()
    }
    say(f"  {found}")
    return {"events_per_s": rate, **found}


# -- the runs


def embedded(work: Path, facts: int, pairs: int, seconds: float) -> Result:
    say(f"slotlog serve, {facts:,} facts")
    folder = work / "embedded"
    paths = fill(str(folder), facts)
    port = free_port()
    with serving(["--store", str(folder), "serve", "--port", str(port)], port, "/readyz"):
        return against_bare(port, paths, pairs, seconds)


def fleet(broker: harness.Broker, work: Path, given: argparse.Namespace) -> Result:
    say("two workers on Kafka, 4 partitions")
    topic = broker.new_topic("api", 4)
    paths = fill(broker.store(topic, work / "producer"), given.facts)
    found: Result = {}
    ports = {"w1": free_port(), "w2": free_port()}
    with ExitStack() as stack:
        for name, port in ports.items():
            arguments = [
                "--store",
                broker.store(topic, work / name),
                "worker",
                "--worker-id",
                name,
                "--port",
                str(port),
            ]
            stack.enter_context(serving(arguments, port, "/healthz"))
        owners = _owners(ports)

        def owner_of(space: str) -> str:
            from streams.partitioner import partition_of

            return owners[partition_of(space.encode(), 4)]

        here = [path for path, space in zip(paths, _spaces(paths), strict=True) if owner_of(space) == "w1"]
        found["get"] = against_bare(ports["w1"], here, given.pairs, given.seconds)
        away = [path for path, space in zip(paths, _spaces(paths), strict=True) if owner_of(space) == "w2"]
        found["get_proxied"] = one_run(ports["w1"], away, given.seconds)
        say(f"  proxied: {found['get_proxied']}")
        store = broker.store(topic, work / "producer")
        found["queryable"] = queryable(store, ports, owner_of, given.events_s)
    return found


def _spaces(paths: Sequence[str]) -> list[str]:
    from urllib.parse import unquote

    return [unquote(path.split("/")[3]) for path in paths]


def _owners(ports: dict[str, int]) -> dict[int, str]:
    """Partition to the worker that answers for it, once every partition has one and both have some."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        told = json.loads(asyncio.run(body_of(ports["w1"], "/v1/workers"))) if asyncio.run(
            status_of(ports["w1"], "/v1/workers")
        ) == 200 else {"workers": []}  # fmt: skip
        owners = {
            part["partition"]: worker["worker"]
            for worker in told["workers"]
            for part in worker["partitions"]
            if part["role"] == "active" and part["ready"]
        }
        if len(owners) == 4 and set(owners.values()) == set(ports):
            return owners
        time.sleep(0.2)
    raise SystemExit("the workers did not share the partitions")


def main() -> None:
    parser = harness.arguments(__doc__)
    given = parser.parse_args()
    given.facts, given.pairs, given.seconds, given.events_s = (
        (2_000, 1, 1.0, 3.0) if given.small else (200_000, 5, 10.0, 60.0)
    )
    result: Result = {"facts": harness.facts(), "connections": CONNECTIONS, "stored": given.facts}
    with harness.work_folder(given) as work:
        result["embedded"] = embedded(work, given.facts, given.pairs, given.seconds)
        with harness.broker(given, work) as broker:
            result["fleet"] = fleet(broker, work, given)
    harness.write_result("api", given, result)


if __name__ == "__main__":
    main()
