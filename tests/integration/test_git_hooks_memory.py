"""git's hooks as they are installed: git runs them, they run slotlog, and memory follows the code wherever it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from command_line import SPACE, Run, document, documents, runner
from git_repos import ENVIRONMENT, Repo

from streams.git_hooks import KINDS

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60
GET = ("get", SPACE, "svc:api", "version", "--isolate", "--value-only")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    settings = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "SLOTLOG_HOOKS": "wait", "PYTHONPATH": str(ROOT)}
    for name, value in {**ENVIRONMENT, **settings}.items():
        monkeypatch.setenv(name, value)
    return Repo.init(tmp_path / "shop")


@pytest.fixture
def run(repo: Repo) -> Run:
    """Runs slotlog in the work tree, on a store beside it; the hooks are installed."""
    invoke = runner(repo.folder)
    store = str(repo.folder.parent / "memory")

    def with_store(*words: str, code: int = 0) -> Result:
        return invoke(*words, code=code, SLOTLOG_STORE=store)

    told = document(with_store("git", "install-hooks", SPACE, "--actor", "hook:git", "--json"))
    assert [(one["kind"], one["state"]) for one in told] == [(kind, "installed") for kind in KINDS]
    return with_store


def seen(run: Run) -> list[tuple[str, str | None]]:
    """(commit, the one that became it) in the order in which they were recorded, all by the hooks."""
    events = [one["event"] for one in documents(run("replay", SPACE, "--json")) if one["event"]["type"] == "CommitSeen"]
    assert {event["actor"] for event in events} <= {"hook:git"}
    return [(event["sha"], event.get("rewritten_from")) for event in events]


def test_commits_amends_rebases_merges_and_checkouts_are_followed(repo: Repo, run: Run) -> None:
    first = repo.commit("first", a="1")
    run("remember", SPACE, "svc:api", "version", "1")
    repo.git("checkout", "--quiet", "-b", "feature")
    typo = repo.commit("faeture", b="1")
    run("remember", SPACE, "svc:api", "version", "2")
    repo.git("commit", "--quiet", "--amend", "-m", "feature")
    amended = repo.head
    assert seen(run) == [(first, None), (typo, None), (amended, None), (amended, typo)]
    assert run(*GET).stdout == "2\n"

    repo.git("checkout", "--quiet", "main")
    assert run(*GET).stdout == "1\n"
    second = repo.commit("second", c="1")
    repo.git("checkout", "--quiet", "feature")
    repo.git("rebase", "--quiet", "main")
    rebased = repo.head
    told = seen(run)[4:]
    assert told[:2] == [(second, None), (rebased, None)]
    assert (rebased, amended) in told
    assert set(told[2:]) <= {(rebased, amended), (rebased, typo)}  # git tells of the one, the change itself of both
    assert run(*GET).stdout == "2\n"

    repo.git("checkout", "--quiet", "main")
    before = len(seen(run))
    repo.git("merge", "--quiet", "--no-ff", "--no-edit", "feature")
    assert seen(run)[before:] == [(repo.head, None)]
    assert run(*GET).stdout == "2\n"
    repo.git("checkout", "--quiet", "--detach", first)
    assert run(*GET).stdout == "1\n"
    assert len(seen(run)) == before + 1

    status = document(run("git", "status", SPACE, "--json"))
    assert (status["head"], status["recorded"], status["trouble"]) == (first, True, None)
    assert document(run("git", "sync", SPACE, "--json"))["appended"] == 0


def test_the_log_alone_answers_where_there_is_no_clone(repo: Repo, run: Run, tmp_path: Path) -> None:
    repo.commit("first", a="1")
    run("remember", SPACE, "svc:api", "version", "1")
    repo.git("checkout", "--quiet", "-b", "feature")
    repo.commit("faeture", b="1")
    run("remember", SPACE, "svc:api", "version", "2")
    repo.git("commit", "--quiet", "--amend", "-m", "feature")
    elsewhere = runner(tmp_path)
    for rev, value in (("feature", "2"), ("main", "1")):
        words = ("get", SPACE, "svc:api", "version", "--value-only", "--at-sha", repo.git("rev-parse", rev))
        result = elsewhere(*words, SLOTLOG_STORE=str(tmp_path / "memory"))
        assert (result.stdout, result.stderr) == (f"{value}\n", "")


def test_a_worktree_is_followed_too(repo: Repo, run: Run, tmp_path: Path) -> None:
    first = repo.commit("first", a="1")
    tree = repo.worktree(tmp_path / "tree", "-b", "feature")
    second = tree.commit("second", b="1")
    assert seen(run) == [(first, None), (second, None)]


def test_in_the_background_they_do_the_same(repo: Repo, run: Run) -> None:
    sha = repo.commit("first", a="1")
    repo.git("commit", "--quiet", "--amend", "-m", "better", SLOTLOG_HOOKS="")
    wait_for(lambda: {one for one, _ in seen(run)} == {sha, repo.head})


def test_a_store_that_can_not_be_opened_holds_up_nothing(repo: Repo, run: Run, tmp_path: Path) -> None:
    repo.commit("first", a="1")
    store = tmp_path / "memory"
    store.rename(tmp_path / "away")
    store.write_text("this is no folder")
    done = repo.run("commit", "--quiet", "--allow-empty", "-m", "second")
    assert done.returncode == 0
    (told,) = done.stderr.decode().splitlines()
    assert told.startswith("slotlog: post-commit: ")
    repo.run("commit", "--quiet", "--allow-empty", "-m", "third", SLOTLOG_HOOKS="")
    trouble = repo.folder / ".git" / "slotlog-hook.err"
    wait_for(lambda: trouble.exists() and bool(trouble.read_text()))
    store.unlink()
    (tmp_path / "away").rename(store)
    assert "error: the last hook did not work: slotlog: post-commit: " in run("git", "status", SPACE, code=1).stderr
    repo.run("commit", "--quiet", "--allow-empty", "-m", "fourth", SLOTLOG_HOOKS="")
    wait_for(lambda: len(seen(run)) == 4)


def wait_for(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)
