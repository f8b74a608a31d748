"""Commits of real repositories onto a log: all of them, once, and what became of those that facts are pinned to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from git_repos import ACTOR, ENVIRONMENT, SPACE, START, FakeLog, Repo, graph

from streams import Memory, git_sync
from streams.git_sync import Synced, sync
from streams.repository import Repository


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {**ENVIRONMENT, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.init(tmp_path / "shop")


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


def run(log: FakeLog, repo: Repo, **given: Any) -> Synced:
    repository = Repository.find(repo.folder)
    assert repository is not None
    return sync(log, SPACE, repository, **{"actor": ACTOR, **given})


def test_a_commit_as_an_event(log: FakeLog, repo: Repo) -> None:
    first, second = repo.commit(a="1"), repo.commit(a="2")
    assert run(log, repo) == Synced(2, 0, 0)
    one, two = log.events.values()
    assert (one.sha, one.parents, two.sha, two.parents) == (first, (), second, (first,))
    assert two.committed_at % 60_000_000 == START % 60 * 1_000_000
    assert (two.repo, two.actor, two.branch, two.session, two.seen) == ("shop", ACTOR, "main", None, None)
    assert two.event_id[6] >> 4 == 7
    assert two.event_id[8] >> 6 == 2
    assert two.recorded_at == int.from_bytes(two.event_id[:6], "big") * 1000 == two.committed_at


@pytest.mark.parametrize("quick", [False, True])
def test_again_nothing_is_new(log: FakeLog, repo: Repo, quick: bool) -> None:
    assert run(log, repo, quick=quick).appended == 0
    repo.commit(a="1")
    repo.commit(a="2")
    assert run(log, repo, quick=quick).appended == 2
    assert run(log, repo, quick=quick).appended == 0
    repo.commit(a="3")
    assert run(log, repo, quick=quick).appended == 1
    assert log.duplicates == 0


@pytest.mark.parametrize("quick", [False, True])
def test_merges_worktrees_and_a_detached_head(log: FakeLog, repo: Repo, tmp_path: Path, quick: bool) -> None:
    repo.commit(a="1")
    run(log, repo, quick=quick)
    other = repo.worktree(tmp_path / "other", "-b", "feature")
    for number in range(3):
        other.commit(b=str(number))
    repo.commit(a="2")
    assert run(log, other, quick=quick).appended == 3
    assert run(log, repo, quick=quick).appended == 1
    repo.git("merge", "--quiet", "--no-edit", "feature")
    repo.git("checkout", "--quiet", "--detach")
    repo.commit(a="3")
    assert run(log, repo, quick=quick).appended == 2
    assert sorted(log.plain) == sorted(repo.git("rev-list", "--all", "HEAD").split())


def test_hooks_ask_only_about_what_is_near(log: FakeLog, repo: Repo) -> None:
    shas = graph(repo, [[], *([number] for number in range(1200))])
    repo.git("checkout", "--quiet", "-B", "main", shas[100])
    run(log, repo)
    asked = log.asked_for_all
    for place, new in ((100, 0), (101, 1), (300, 199), (300, 0)):
        repo.git("checkout", "--quiet", "-B", "main", shas[place])
        assert run(log, repo, quick=True).appended == new
    assert log.asked_for_all == asked
    repo.git("checkout", "--quiet", "-B", "main", shas[1200])
    assert run(log, repo, quick=True).appended == 900
    assert sorted(log.plain) == sorted(shas)


def test_large_histories_come_in_batches(log: FakeLog, repo: Repo) -> None:
    shas = graph(repo, [[], *([number] for number in range(2400))])
    assert run(log, repo, tips=[shas[-1]]).appended == 2401
    assert log.largest == git_sync.BATCH_EVENTS
    assert log.plain == shas


def test_tips_of_ones_own_and_tips_that_the_clone_lacks(log: FakeLog, repo: Repo) -> None:
    shas = graph(repo, [[], [0], [0], [1, 2]])
    assert run(log, repo, tips=[shas[1], "ab" * 20]).appended == 2
    assert run(log, repo, tips=[shas[3]]).appended == 2
    assert run(log, repo, tips=[]) == Synced(0, 0, 0)


def test_two_at_once_append_the_same_events(log: FakeLog, repo: Repo, tmp_path: Path) -> None:
    shas = [repo.commit(a=str(number)) for number in range(3)]
    run(log, repo)
    told = dict(log.events)
    log.commits = lambda space, shas=None: []  # type: ignore[method-assign]  # what each saw before the other wrote
    run(log, repo)
    run(log, repo.worktree(tmp_path / "other", "--detach"))
    assert log.events == told
    assert log.duplicates == 6
    other = FakeLog()
    run(other, repo, actor="user:ana")
    assert other.plain == shas
    assert other.events.keys().isdisjoint(told)


def test_a_shallow_clone_first_and_a_whole_one_later(log: FakeLog, repo: Repo, tmp_path: Path) -> None:
    shas = [repo.commit(a=str(number)) for number in range(5)]
    shallow = repo.clone(tmp_path / "shallow", "--depth", "2")
    for one in (repo, shallow):
        one.git("remote", "remove", "origin", code=0 if one is shallow else 2)
        one.git("remote", "add", "origin", "https://example.org/acme/shop.git")
    assert run(log, shallow).appended == 2
    assert run(log, shallow).appended == 0
    shallow_said = {one.sha: one.parents for one in log.events.values()}
    assert shallow_said == {shas[3]: (shas[2],), shas[4]: (shas[3],)}
    assert run(log, repo).appended == 3
    assert sorted(log.plain) == sorted(shas)
    log.commits = lambda space, shas=None: []  # type: ignore[method-assign]
    run(log, repo)  # what the whole clone says of the same commits is the same
    assert len(log.events) == 5


# -- what became of commits


def test_amended_commits_that_facts_are_pinned_to(log: FakeLog, repo: Repo) -> None:
    repo.commit(a="1")
    old = repo.commit(a="2")
    log.pin(old)
    run(log, repo)
    repo.git("commit", "--quiet", "--amend", "-m", "better")
    new = repo.head
    assert run(log, repo, rewritten=[(old, new), (old, new)], quick=True) == Synced(1, 1, None)
    assert log.pairs == [(old, new)]
    assert run(log, repo, rewritten=[(old, new)]) == Synced(0, 0, 0)
    repo.git("commit", "--quiet", "--amend", "-m", "better still")
    assert run(log, repo, rewritten=[(new, repo.head)]).mapped == 1  # what a pinned commit became matters too
    assert log.pairs == [(old, new), (new, repo.head)]


def test_rewritten_commits_that_nobody_pinned_to_are_not_recorded(log: FakeLog, repo: Repo) -> None:
    old = repo.commit(a="1")
    repo.git("commit", "--quiet", "--amend", "-m", "better")
    assert run(log, repo, rewritten=[(old, repo.head)]) == Synced(1, 0, 0)


def test_a_chain_of_rewrites_told_at_once(log: FakeLog, repo: Repo) -> None:
    shas = []
    for text in ("one", "two", "three"):
        repo.git("commit", "--quiet", "--allow-empty", *(["--amend"] if shas else []), "-m", text)
        shas.append(repo.head)
    log.pin(shas[0])
    assert run(log, repo, rewritten=[(shas[0], shas[1]), (shas[1], shas[2])]).mapped == 2


@pytest.mark.parametrize("quick", [False, True])
def test_cherry_picks_and_squash_merges_of_pinned_commits(log: FakeLog, repo: Repo, quick: bool) -> None:
    repo.commit(a="1")
    repo.git("checkout", "--quiet", "-b", "side")
    side = [repo.commit(b="1"), repo.commit(b="2"), repo.commit(c="1")]
    log.pin(*side)
    run(log, repo)
    repo.git("checkout", "--quiet", "main")
    repo.commit(d="1")
    assert run(log, repo) == Synced(1, 0, 3)
    repo.git("cherry-pick", side[2])
    picked = repo.head
    assert run(log, repo, quick=quick) == Synced(1, 1, None if quick else 2)
    assert log.pairs == [(side[2], picked)]
    repo.git("reset", "--quiet", "--hard", "HEAD^")
    repo.git("merge", "--quiet", "--squash", "side")
    squash = repo.commit("squash")
    assert run(log, repo, quick=quick).mapped == 3
    assert set(log.pairs) == {(side[2], picked), *((sha, squash) for sha in side)}
    assert run(log, repo) == Synced(0, 0, 0)


def test_what_was_rewritten_and_then_squashed(log: FakeLog, repo: Repo) -> None:
    repo.commit(a="1")
    repo.git("checkout", "--quiet", "-b", "side")
    old = repo.commit(b="1")
    log.pin(old)
    repo.commit(b="2")
    repo.git("commit", "--quiet", "--amend", "-m", "better")
    run(log, repo)
    repo.git("checkout", "--quiet", "-B", "side", "main")
    new = repo.commit(b="3")
    assert run(log, repo, rewritten=[(old, new)]).mapped == 1
    repo.git("checkout", "--quiet", "main")
    repo.commit(c="1")
    assert run(log, repo).pending == 1
    repo.git("merge", "--quiet", "--squash", "side")
    squash = repo.commit("squash")
    assert run(log, repo) == Synced(1, 1, 0)
    assert log.pairs == [(old, new), (new, squash)]
    assert run(log, repo) == Synced(0, 0, 0)


def test_pinned_commits_that_the_clone_lacks_are_left_alone(log: FakeLog, repo: Repo) -> None:
    repo.commit(a="1")
    log.pin("ab" * 20, "no sha")
    assert run(log, repo) == Synced(1, 0, 0)


def test_on_a_real_memory(repo: Repo, tmp_path: Path) -> None:
    shas = [repo.commit(a=str(number)) for number in range(3)]
    repository = Repository.find(repo.folder)
    assert repository is not None
    with Memory.open(tmp_path / "store", actor="agent:other") as memory:
        assert sync(memory, SPACE, repository, actor=ACTOR).appended == 3
        assert sync(memory, SPACE, repository, actor=ACTOR).appended == 0
        assert {one.sha for one in memory.commits(SPACE)} == set(shas)
        assert memory.quarantined() == []
