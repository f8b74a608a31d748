"""Ancestry over random graphs with merges, criss-crosses and clocks that are wrong, against `git merge-base`."""

from __future__ import annotations

import os
import random
from pathlib import Path
from unittest.mock import patch

import pytest
from git_repos import ENVIRONMENT, START, Repo, graph
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_folder import quick_folder

from streams import repository as repository_module
from streams.repository import Repository


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """Parents of each commit, as places of earlier ones, and its time, which says nothing about its place."""
    size = draw(st.integers(1, 24))
    parents = [
        draw(st.lists(st.integers(max(0, place - 6), place - 1), max_size=3, unique=True)) if place else []
        for place in range(size)
    ]
    times = [START + draw(st.integers(-50, 50)) * 1000 + place for place in range(size)]
    return parents, times


def ancestors(parents: list[list[int]]) -> list[set[int]]:
    found: list[set[int]] = []
    for place, listed in enumerate(parents):
        found.append({place}.union(*(found[parent] for parent in listed)))
    return found


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_reachable_is_what_leads_there(drawn: tuple[list[list[int]], list[int]], data: st.DataObject) -> None:
    """The first question walks, later ones build on the files of earlier ones, in whatever order they come."""
    parents, times = drawn
    expected = ancestors(parents)
    order = data.draw(st.permutations(range(len(parents))))
    least, quick = data.draw(st.sampled_from([1, 3, 64])), data.draw(st.sampled_from([0, 0, 50_000]))
    with quick_folder() as folder, patch.dict(os.environ, {**ENVIRONMENT, "XDG_CACHE_HOME": str(folder / "cache")}):
        shas = graph(Repo.init(folder / "repo"), parents, times)
        with patch.multiple(repository_module, _EXTRA_MIN=least, _QUICK_WALK=quick):
            for place in order[:8]:
                repository = Repository.find(folder / "repo")
                assert repository is not None
                reached = repository.reachable(shas[place])
                assert reached is not None
                assert {other for other, sha in enumerate(shas) if sha in reached} == expected[place]
                assert (len(reached), reached.complete) == (len(expected[place]), True)


@settings(max_examples=20, deadline=None)
@given(graphs(), st.data())
def test_commits_are_what_leads_there_and_not_to_the_known(
    drawn: tuple[list[list[int]], list[int]], data: st.DataObject
) -> None:
    parents, times = drawn
    places = st.lists(st.integers(0, len(parents) - 1), max_size=3)
    tips, known = data.draw(places), data.draw(places)
    expected = ancestors(parents)
    with quick_folder() as folder, patch.dict(os.environ, ENVIRONMENT):
        shas = graph(Repo.init(folder / "repo"), parents, times)
        repository = Repository.find(folder / "repo")
        assert repository is not None
        listed = list(repository.commits([shas[tip] for tip in tips], [shas[one] for one in known]))
    wanted = set[int]().union(*(expected[tip] for tip in tips)) - set[int]().union(*(expected[one] for one in known))
    assert {one.sha for one in listed} == {shas[place] for place in wanted}
    for number, one in enumerate(listed):
        earlier = {other.sha for other in listed[:number]}
        place = shas.index(one.sha)
        assert one.parents == tuple(shas[parent] for parent in parents[place])
        assert one.committed_at == times[place] * 1_000_000
        assert {shas[parent] for parent in parents[place] if parent in wanted} <= earlier


@pytest.mark.parametrize("size", [400])
def test_against_git_itself(tmp_path: Path, chance: random.Random, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for name, value in {**ENVIRONMENT, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    parents = [
        sorted({chance.randrange(max(0, place - 20), place) for _ in range(chance.choice((1, 1, 1, 2, 3)))})
        if place and chance.random() > 0.01
        else []
        for place in range(size)
    ]
    times = [START + place * 60 + chance.randrange(-5000, 5000) for place in range(size)]
    repo = Repo.init(tmp_path / "repo")
    shas = graph(repo, parents, times)
    for _ in range(10):
        head = chance.randrange(size)
        repository = Repository.find(repo.folder)
        assert repository is not None
        reached = repository.reachable(shas[head])
        assert reached is not None
        for sha in chance.sample(shas, 15):
            leads = repo.run("merge-base", "--is-ancestor", sha, shas[head]).returncode == 0
            assert (sha in reached) == leads
