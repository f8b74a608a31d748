"""The reduced forms of the benchmarks of writes, reads, cardinality and growth: they run and their answers are right.

Nothing is asserted about speed. Each script checks what it reads against what it wrote and fails when it differs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_run import BENCH, run


def test_writes_are_all_there_once_in_one_order(tmp_path: Path) -> None:
    result = run("writes", tmp_path, timeout_s=120)
    for size in ("100", "1000"):
        for way in ("appending", "holding"):
            found = result["remember"]["sizes"][size][way]
            assert found["remember"]["count"] == found["bare"]["count"] == 20
    together = result["processes"]
    assert (together["processes"], together["writes_each"], together["lost"]) == (3, 20, 0)
    assert together["one_order"]
    assert together["latency"]["count"] == 60
    assert result["lines"]["lines"] == 2_000
    assert {"command", "memory"} < set(result["lines"])


def test_reads_answer_what_they_must(tmp_path: Path) -> None:
    result = run("reads", tmp_path, timeout_s=120)
    for way in ("memory", "reads"):
        kinds = result["store"][way]["kinds"]
        assert kinds.pop("hot, first question")["count"] == 1
        assert {times["count"] for times in kinds.values()} == {30}
        assert set(result["store"][way]["hot_over_cold"]) == {"now", "as of", "in its middle", "as of and middle"}
    shapes = result["shapes"]["shapes"]
    assert set(result["shapes"]["with_a_goal"]) < set(shapes)
    assert all(one["memory"]["count"] and one["reads"]["count"] for one in shapes.values())


def test_suggested_cardinality_is_counted_against_the_truth(tmp_path: Path) -> None:
    result = run("cardinality", tmp_path, timeout_s=120)
    generators = result["generated"]["generators"]
    assert sum(result["generated"]["confusion"].values()) == 4 * len(generators)
    # what the inference rests on: who says another value means the first no longer holds, and tags come together
    assert generators["corrected"]["wrong"] == generators["stated_again"]["wrong"] == 0
    assert generators["said_together"]["wrong"] == generators["dated_alike"]["wrong"] == 0
    slots = result["tz"]["slots"]
    assert (slots["utc_offset"]["suggested"], slots["abbreviation"]["suggested"]) == ("one", "one")
    assert slots["utc_offset"]["with_several_values"] > 0


def test_growth_is_measured_and_compaction_changes_no_row(tmp_path: Path) -> None:
    result = run("growth", tmp_path, timeout_s=120)
    assert [one["corrections"] for one in result["shares"]] == [0.01, 0.5, 0.9]
    for one in result["shares"]:
        assert sum(one["mix"].values()) == one["events"] == 3_000
        assert min(one["bytes"].values()) > 0
        wanted = one["corrections"] * 3_000
        assert abs(3_000 - one["mix"]["new slots"] - wanted) <= 2


@pytest.mark.parametrize("name", ["writes", "reads", "cardinality", "growth", "mutants"])
def test_the_readme_names_every_command(name: str) -> None:
    assert f"python ops/bench/{name}.py" in (BENCH / "README.md").read_text()
