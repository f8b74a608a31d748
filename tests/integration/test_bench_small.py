"""Every benchmark's reduced form runs and its answers are right. Nothing is asserted about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench_run import BENCH, run
from kafka_broker import Broker

from schemas.events import EVENT_TYPES


def test_tz_answers_equal_zoneinfo_on_both_logs_before_and_after_a_rebuild(broker: Broker, tmp_path: Path) -> None:
    result = run("tz", tmp_path, "--broker", str(broker.folder))
    truth = result["truth"]
    assert list(truth["releases"]) == ["2020.1", "2024.2"]
    assert truth["questions_with_zone"] == 300
    assert truth["questions_without_zone"] > 0
    assert set(result["stores"]) == {"embedded", "kafka"}
    for store in result["stores"].values():
        assert store["digest_equal_after_rebuild"]
        assert [session["release"] for session in store["sessions"]] == list(truth["releases"])
        assert store["sessions"][1]["events"]["FactRetracted"] > 0
        for when in ("before_rebuild", "after_rebuild"):
            assert store[when]["first_wrong"] == []
            assert store[when]["wrong"] == 0
            assert store[when]["answers"] == 2 * (300 + truth["questions_without_zone"])
            assert store[when]["sha256"] == truth["sha256"]


def test_fold_applies_every_event_and_a_rebuild_gives_the_same_digest(broker: Broker, tmp_path: Path) -> None:
    result = run("fold", tmp_path, "--broker", str(broker.folder))
    assert sum(result["mix"].values()) == result["events"] == 5_000
    assert set(result["mix"]) == {"FactAsserted", "FactEnded", "FactRetracted", "Observed"}
    assert len(result["pairs"]["ratios"]) == 2
    assert sum(part["events"] for part in result["stages"]) == 5_000
    for store in ("kafka", "embedded"):
        assert result[store]["rebuild"]["digest_equal"]
    assert result["bytes_per_event"]["kafka_log"]["records"] > 0


def test_fold_over_several_partitions(broker: Broker, tmp_path: Path) -> None:
    out = tmp_path / "out"
    call = [sys.executable, str(BENCH / "fold.py"), "--small", "--events", "1000", "--pairs", "1", "--partitions", "3"]
    call += ["--out", str(out), "--broker", str(broker.folder)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((out / "fold-3-partitions.json").read_text())
    assert sum(part["events"] for part in result["stages"]) == 1_000
    assert result["kafka"]["rebuild"]["digest_equal"]


def test_replay_tells_every_planted_session_whole_and_in_order(broker: Broker, tmp_path: Path) -> None:
    result = run("replay", tmp_path, "--broker", str(broker.folder))
    places = [f"{place}-{size}" for size in (50, 500) for place in ("start", "middle", "end")]
    for store in ("embedded", "kafka"):
        logs = result[store]["logs"]
        assert list(logs["12000"]) == list(logs["4000"]) == places
        assert list(logs["1000"]) == [*places[:3], "whole-500"]
        assert [list(found) for found in result[store]["ratios"].values()] == [places, places]


def test_decode_gives_back_every_type_as_it_was(tmp_path: Path) -> None:
    result = run("decode", tmp_path)
    assert set(result["types"]) == {"mix", *EVENT_TYPES}


@pytest.mark.parametrize("name", ["tz", "fold", "replay", "decode"])
def test_the_readme_names_every_command(name: str) -> None:
    assert f"python ops/bench/{name}.py" in (BENCH / "README.md").read_text()
