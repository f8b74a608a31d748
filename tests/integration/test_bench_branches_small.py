"""The reduced forms of the benchmarks of branches and commits: they run and their answers are right.

Nothing is asserted about speed. Each script checks what it reads against what it wrote, or against git.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_run import BENCH, run


def test_at_every_commit_memory_says_what_git_shows(tmp_path: Path) -> None:
    result = run("git_truth", tmp_path, timeout_s=120)
    assert (result["repository"], result["commits"], result["questions"]) == ("generated", 60, 300)
    assert min(result["merges"], result["ends"], result["events_at_merges"], result["asked_at_merges"]) > 0
    for source in ("clone", "log"):
        found = result[source]
        assert (found["wrong"], found["first_wrong"]) == (0, [])
        assert (found["first_random"]["count"], found["again"]["count"]) == (300, 300)
    assert result["wrong"] == 0


def test_views_of_branches_and_commits_answer_what_they_must(tmp_path: Path) -> None:
    result = run("branches", tmp_path, "--only", "views", timeout_s=120)
    views = result["views"]
    assert views["facts_on"]["old"] == 10
    assert views["facts_on"]["busy"] > 100
    ways = {"with_a_clone": 7, "by_the_log": 3}
    for place, count in ways.items():
        assert list(views[place]) == ["get", "entity", "history", "get, many versions"]
        assert {len(found) for found in views[place].values()} == {count}
        assert {one["wall"]["count"] for one in views[place]["get"].values()} == {40}
    diffs = views["diff"]
    for kind in ("offsets", "commits", "branches"):
        assert [diffs[kind][size]["told"] for size in ("2", "20")] == [2, 20]
    assert len(diffs["aged"]) == 2


def test_ancestors_are_those_that_git_counts(tmp_path: Path) -> None:
    result = run("branches", tmp_path, "--only", "reachable", timeout_s=120)
    found = result["reachable"]["500"]
    assert found["merges"] > 0
    for way in ("git rev-list --count", "first", "again", "by another process", "of the commit after it"):
        assert len(found[way]["ms"]["values"]) == 2
    assert set(found["by_the_log"]) == {"sync_s", "first_ms", "again_ms"}


@pytest.mark.parametrize("name", ["git_truth", "branches"])
def test_the_readme_names_every_command(name: str) -> None:
    assert f"python ops/bench/{name}.py" in (BENCH / "README.md").read_text()
