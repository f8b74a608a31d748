"""What was known at a commit of the code: through a clone of the repository, or by the commits that the log has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from git_repos import Repo
from quick_folder import quick_folder

from schemas import events as ev
from schemas.errors import InvalidInput, InvalidView
from streams import Belief, Memory
from streams.git_sync import sync
from streams.repository import Repository
from streams.view import View

SPACE, APP = "acme/shop", "app"
ACTOR = "agent:planner"


class Story:
    """A main line of three commits with a side branch from the first that is merged, and a fact at each."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repo.init(folder / "code")
        self.base = self.repo.commit("base")
        self.repo.git("switch", "--quiet", "--create", "side")
        self.side = self.repo.commit("side", side="1")
        self.repo.git("switch", "--quiet", "main")
        self.tip = self.repo.commit("tip", tip="1")
        self.repo.git("merge", "--quiet", "--no-edit", "side")
        self.merged = self.repo.head

    def at(self, sha: str) -> ev.Code:
        return ev.Code(repo="code", sha=sha)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


@pytest.fixture(params=["clone", "log"])
def memory(request: pytest.FixtureRequest, story: Story) -> Iterator[Memory]:
    repository = story.repo.folder if request.param == "clone" else None
    with quick_folder() as folder, Memory.open(folder, actor=ACTOR, repository=repository) as opened:
        if repository is None:
            clone = Repository.find(story.repo.folder)
            assert clone is not None
            sync(opened, SPACE, clone, actor="hook:git")
        opened.remember(SPACE, APP, "port", 80, code=story.at(story.base))
        opened.remember(SPACE, APP, "port", 81, code=story.at(story.side))
        opened.remember(SPACE, APP, "port", 82, code=story.at(story.tip))
        opened.remember(SPACE, APP, "owner", "ana")
        yield opened


def value(memory: Memory, slot: str = "port", **view: Any) -> Any:
    answer = memory.get(SPACE, APP, slot, View(**view))
    assert not isinstance(answer, list)
    return None if answer is None else answer.value


def test_what_is_pinned_to_the_commit_or_an_ancestor_counts(memory: Memory, story: Story) -> None:
    at = [story.base, story.side, story.tip, story.merged]
    assert [value(memory, at_sha=sha) for sha in at] == [80, 81, 82, 82]
    assert {value(memory, "owner", at_sha=sha) for sha in at} == {"ana"}
    assert value(memory) == 82


def test_a_siblings_newer_fact_never_hides_ours(memory: Memory, story: Story) -> None:
    memory.remember(SPACE, APP, "port", 99, code=story.at(story.side))
    assert value(memory, at_sha=story.tip) == 82
    assert value(memory, at_sha=story.tip, also_at=(story.side,)) == 99


def test_an_unknown_commit_hides_and_is_counted(memory: Memory, story: Story) -> None:
    stranger = "ab" * 20
    memory.remember(SPACE, APP, "port", 7, code=story.at(stranger))
    memory.end(SPACE, APP, "owner", code=story.at(stranger))
    view = memory.resolve(SPACE, View(at_sha=story.merged))
    assert view.hidden == 2
    answer = memory.get(SPACE, APP, "port", view.view())
    assert isinstance(answer, Belief)
    assert (answer.value, answer.view) == (82, view)
    outcomes = [one.outcome for one in memory.explain(SPACE, APP, "port", view.view()).claims]
    assert outcomes == ["unknown commit", "believed", "outranked", "outranked"]
    assert memory.resolve(SPACE, View(at_sha=story.tip)).hidden == 2
    assert memory.explain(SPACE, APP, "port", View(at_sha=story.base)).claims[1].outcome == "other commit"


def test_a_commit_that_nobody_knows_shows_what_is_pinned_to_it_and_what_is_to_none(
    memory: Memory, story: Story
) -> None:
    stranger = "ab" * 20
    memory.remember(SPACE, APP, "port", 7, code=story.at(stranger))
    assert value(memory, at_sha=stranger) == 7
    assert value(memory, "owner", at_sha=stranger) == "ana"
    assert memory.resolve(SPACE, View(at_sha=stranger)).hidden == 3


def test_hidden_counts_what_was_known_by_then(memory: Memory, story: Story) -> None:
    before = memory.reached(SPACE)
    for number in range(3):
        memory.remember(SPACE, APP, "port", number, code=story.at("ab" * 20))
    assert memory.resolve(SPACE, View(at_sha=story.tip)).hidden == 3
    assert memory.resolve(SPACE, View(at_sha=story.tip, as_of=before)).hidden == 0


def test_memory_survives_an_amended_and_a_rebased_commit(memory: Memory, story: Story) -> None:
    clone = Repository.find(story.repo.folder)
    assert clone is not None
    story.repo.git("switch", "--quiet", "--detach", story.base)
    old = story.repo.commit("work", work="1")
    memory.remember(SPACE, APP, "port", 90, code=story.at(old))
    sync(memory, SPACE, clone, actor="hook:git")
    story.repo.git("commit", "--quiet", "--amend", "-m", "work, better told")
    new = story.repo.head
    sync(memory, SPACE, clone, actor="hook:git", rewritten=[(old, new)])
    assert value(memory, at_sha=new) == 90
    assert value(memory, at_sha=story.tip) == 82
    story.repo.git("rebase", "--quiet", story.tip)
    rebased = story.repo.head
    assert rebased != new
    sync(memory, SPACE, clone, actor="hook:git", rewritten=[(new, rebased)])
    assert value(memory, at_sha=rebased) == 90
    assert memory.resolve(SPACE, View(at_sha=rebased)).hidden == 0


def test_a_retraction_pinned_to_a_commit_counts_there_and_after(memory: Memory, story: Story) -> None:
    memory.forget(SPACE, APP, "port", 80, code=story.at(story.tip))
    assert [value(memory, at_sha=sha) for sha in (story.base, story.side, story.tip)] == [80, 81, 82]
    memory.forget(SPACE, APP, "port", 82, code=story.at(story.merged))
    assert [value(memory, at_sha=sha) for sha in (story.tip, story.merged)] == [82, 81]


def test_a_diff_of_two_commits(memory: Memory, story: Story) -> None:
    (told,) = memory.diff(SPACE, View(at_sha=story.side), View(at_sha=story.tip))
    assert (told.slot, told.kind, told.outcome) == ("port", "changed", "other commit")
    assert memory.diff(SPACE, View(at_sha=story.tip), View(at_sha=story.merged)) == []


def test_a_commit_is_distrusted_and_trusted_again(memory: Memory, story: Story) -> None:
    memory.distrust(SPACE, story.tip, kind="commit", reason="poisoned")
    assert value(memory) == 81
    memory.trust(SPACE, story.tip, kind="commit")
    assert value(memory) == 82


@pytest.mark.parametrize("sha", ["HEAD", "abc", "AB" * 20, "", 7])
def test_what_is_no_full_id_is_refused(memory: Memory, sha: Any) -> None:
    with pytest.raises(InvalidView, match="is no full id of a commit"):
        value(memory, at_sha=sha)
    with pytest.raises(InvalidView, match="also_at adds to at_sha"):
        value(memory, also_at=("ab" * 20,))


def test_a_shallow_clone_and_the_log_together_know_what_each_does_not(story: Story, tmp_path: Path) -> None:
    shallow = story.repo.clone(tmp_path / "shallow", "--depth", "1")
    whole = Repository.find(story.repo.folder)
    assert whole is not None
    with quick_folder() as folder:
        with Memory.open(folder, actor=ACTOR, repository=shallow.folder) as memory:
            memory.remember(SPACE, APP, "port", 80, code=story.at(story.base))
            memory.remember(SPACE, APP, "port", 82, code=story.at(story.tip))
            view = memory.resolve(SPACE, View(at_sha=story.merged))
            assert (view.ancestry, view.hidden) == ("clone", 1)
            assert value(memory, at_sha=story.merged) == 82  # a parent of what the clone has
            sync(memory, SPACE, whole, actor="hook:git")
            assert memory.resolve(SPACE, View(at_sha=story.merged)).hidden == 0
        with Memory.open(folder, actor=ACTOR) as memory:
            assert memory.resolve(SPACE, View(at_sha=story.merged)).ancestry == "log"
            assert value(memory, at_sha=story.side) == 80


def test_a_folder_in_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is in no git repository"):
        Memory.open(tmp_path / "store", repository=tmp_path)
    assert not (tmp_path / "store").exists()
