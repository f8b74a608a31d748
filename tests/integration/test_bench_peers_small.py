"""The reduced form of the race beside Kafka Streams and plain Faust: both read every event. Nothing about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kafka_broker import Broker

RACE = Path(__file__).resolve().parents[2] / "ops" / "bench" / "peers" / "race.py"


def test_both_peers_read_all_that_there_is_and_all_that_comes(broker: Broker, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    call = [sys.executable, str(RACE), "--small", "--out", str(tmp_path), "--work", str(work)]
    call += ["--broker", str(broker.folder), "--only", "kafka-streams-2", "plain-faust", "--phases", "backlog", "burst"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(work.iterdir()) == [], "something was left behind"
    result = json.loads((tmp_path / "peers.json").read_text())
    mix = result["mix"]
    assert sum(mix.values()) == result["events"] == 3_000
    assert set(mix) == {"FactAsserted", "FactEnded", "FactRetracted", "Observed"}
    names = ["kafka-streams-2", "plain-faust"]
    for phase in ("backlog", "burst"):
        (once,) = result[phase]["rounds"]
        assert list(once) == names
        assert {one["events"] for one in once.values()} == {3_000}
        assert list(result[phase]["ratios"]) == ["kafka-streams-2 / plain-faust"]
    (once,) = result["backlog"]["rounds"]
    assert {one["puts"] for one in once.values()} == {mix["FactAsserted"] + mix["FactEnded"]}
