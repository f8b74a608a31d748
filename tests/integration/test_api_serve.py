"""`slotlog serve` and `slotlog workers`, as processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from api_client import ALICE, AT, SPACE, api, ask, opened
from command_line import runner
from http_server import serving

from streams import Memory
from streams.status import Alone, PartitionStatus, WorkerStatus

DEADLINE_S = 60


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "SLOTLOG_STORE": str(folder / "store"), "SLOTLOG_ACTOR": "agent:server"}


@contextmanager
def serve(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and the line that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "projectors.surfaces.cli", "serve", "--port", "0", *words],
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_until_it_is_told_to_end(tmp_path: Path, how: signal.Signals) -> None:
    with serve(tmp_path) as (process, url):
        fact = {"type": "FactAsserted", "entity": ALICE, "slot": "employer", "value": "Acme"}
        assert ask(url, f"{AT}/events", "POST", fact).json["status"] == "applied"
        with opened(url, f"{AT}/changes") as followed:
            followed.readline()
            process.send_signal(how)
            assert process.wait(DEADLINE_S) == 0
            followed.read()
        assert process.stderr
        assert process.stderr.read() == ""
    with Memory.open(tmp_path / "store") as memory:
        (recorded,) = memory.replay(SPACE)
        assert recorded.event.actor == "agent:server"


def test_its_limits_are_settings(tmp_path: Path) -> None:
    with serve(tmp_path, "--max-body", "100", "--max-batch", "2", "--json") as (_, line):
        url = json.loads(line)["url"]
        assert ask(url, f"{AT}/events", "POST", b" " * 101).status == 413
        assert ask(url, f"{AT}/events", "POST", b"[1,2,3]").status == 413


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    run = runner(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", str(port), code=2)
    assert f"port {port} of 127.0.0.1 is in use" in result.stderr
    assert "--port" in result.stderr
    assert "error: can't listen at 192.0.2.1" in run("serve", "--host", "192.0.2.1", code=2).stderr
    assert "error: can't listen at no host" in run("serve", "--host", "no host", code=2).stderr
    assert "is served already" in run("--store", "http://127.0.0.1:1", "serve", code=2).stderr


def test_workers_as_a_table(tmp_path: Path) -> None:
    class Fleet(Alone):
        def status(self) -> WorkerStatus:
            return WorkerStatus(
                "w1",
                "http://127.0.0.1:1",
                True,
                True,
                (
                    PartitionStatus(0, "active", "live", 1_000, 1_001, 0, ready=True),
                    PartitionStatus(1, "standby", "catching up", 430, 1_000, 0, ready=False),
                    PartitionStatus(2, "active", "opening", 0, 0, 2, ready=False),
                ),
                ("partition 2: 2 quarantined",),
            )

    run = runner(tmp_path)
    with Memory.open(tmp_path / "m") as memory, api(memory, Fleet(memory)) as url:
        lines = run("--store", url, "workers").stdout.splitlines()
        table = [line.split("  ") for line in lines]
        words = [[word.strip() for word in row if word] for row in table]
        assert words == [
            ["WORKER", "URL", "PARTITION", "ROLE", "STATE", "NEXT", "END", "LAG", "READY"],
            ["w1", "http://127.0.0.1:1", "0", "active", "live", "1,000", "1,001", "1", "yes"],
            ["w1", "http://127.0.0.1:1", "1", "standby", "catching up 43%", "430", "1,000", "570", "no"],
            ["w1", "http://127.0.0.1:1", "2", "active", "opening", "0", "0", "0", "no"],
            ["w1: partition 2: 2 quarantined"],
        ]
        found = json.loads(run("--store", url, "workers", "--json").stdout)
        assert found == ask(url, "/v1/workers").json


def test_workers_are_asked_over_http(tmp_path: Path) -> None:
    run = runner(tmp_path)
    assert "over HTTP" in run("workers", code=2).stderr
    assert "does not answer" in run("--store", "http://127.0.0.1:1", "workers", code=3).stderr
    with serving(lambda app: None) as url:  # a server of something else
        assert "404" in run("--store", url, "workers", code=3).stderr
