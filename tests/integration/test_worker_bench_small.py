"""The reduced forms of the benchmarks that run a fleet. Nothing is asserted about speed. `chaos.py` runs what
tests/simulation/test_fleet_*.py run, so here it only has to name it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench_run import BENCH, run
from kafka_broker import Broker


def test_soak_ends_with_a_verdict_and_keeps_its_series(broker: Broker, tmp_path: Path) -> None:
    result = run("soak", tmp_path, "--broker", str(broker.folder), "--minutes", "0.1", "--every", "2")
    assert len(result["series"]) >= 3
    assert (result["verdict"]["lost"], result["verdict"]["doubled"], result["verdict"]["quarantined"]) == (0, 0, 0)
    assert result["verdict"]["events"] >= result["series"][-1]["written"] > 0
    assert set(result["series"][-1]["answers"]) == {"200"}


def test_takeover_ends_with_a_verdict(broker: Broker, tmp_path: Path) -> None:
    result = run("takeover", tmp_path, "--broker", str(broker.folder), "--only", "left", "--events", "500")
    (found,) = result["ways"]["left"]["rounds"]
    assert len(found["by_space"]) == 12
    assert result["ways"]["left"]["verdict"]["lost"] == 0


def test_chaos_names_every_scenario() -> None:
    call = [sys.executable, str(BENCH / "chaos.py"), "--only", "nothing"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    wanted = (
        "workers-killed, workers-join-and-leave, worker-suspended, catch-up-interrupted, broker-killed, "
        "broker-unreachable, events-repeated, transactions-aborted, poison, uneven-partitions, disk-full, clock-jumps"
    )
    assert wanted in " ".join(done.stderr.split())


@pytest.mark.parametrize("name", ["chaos", "takeover", "soak"])
def test_the_readme_names_every_command(name: str) -> None:
    assert f"python ops/bench/{name}.py" in (BENCH / "README.md").read_text()
