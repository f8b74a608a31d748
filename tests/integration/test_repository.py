"""What a repository answers, against real git: finding it, names, revisions, ancestry, and commits left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from git_repos import ENVIRONMENT, START, Repo, graph

from schemas.errors import InvalidInput, SlotlogError
from streams import reachable as reachable_module
from streams import repository as repository_module
from streams.repository import Commit, Repository, name_of_url, rewritten


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.init(tmp_path / 'it\'s a "repo"')


def found(path: Path) -> Repository:
    repository = Repository.find(path)
    assert repository is not None
    return repository


def cached(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "slotlog" / "ancestry").glob("*"))


# -- where it is


def test_none_where_there_is_no_repository_or_no_git(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Repository.find(tmp_path) is None
    assert Repository.find(tmp_path / "nowhere") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Repository.find(repo.folder) is None


def test_none_in_a_folder_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert Repository.find() is None


def test_heads_of_subfolders_worktrees_submodules_and_bare_repositories(tmp_path: Path, repo: Repo) -> None:
    assert found(repo.folder).head() is None
    first = repo.commit(a="1")
    below = repo.folder / "x" / "y"
    below.mkdir(parents=True)
    assert found(below).head() == first
    other = repo.worktree(tmp_path / "other", "-b", "feature")
    second = other.commit(a="2")
    assert (found(repo.folder).head(), found(other.folder).head()) == (first, second)
    other.git("checkout", "--quiet", "--detach", first)
    assert found(other.folder).head() == first
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    assert found(bare.folder).head() == first
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", bare.folder.as_uri(), "sub")
    assert found(repo.folder / "sub").head() == first


def test_variables_of_another_repository_do_not_mislead(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repo.init(tmp_path / "other")
    other.commit(a="other")
    mine = repo.commit(a="mine")
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert found(repo.folder).head() == mine


def test_a_repository_of_somebody_else_is_refused_with_a_hint(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit(a="1")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    kept = repository_module.Git.ask

    def owned_by_another(self: object, *words: str, **given: object) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("streams.git_client._KEPT", ("GIT_TEST_ASSUME_DIFFERENT_OWNER",))
            return kept(self, *words, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(repository_module.Git, "ask", owned_by_another)
    with pytest.raises(InvalidInput, match="dubious ownership") as raised:
        Repository.find(repo.folder)
    assert "safe.directory" in (raised.value.hint or "")


def test_a_repository_that_git_cannot_read_is_told(repo: Repo) -> None:
    (repo.folder / ".git" / "config").write_text("[core\n")
    with pytest.raises(SlotlogError, match="bad config line"):
        Repository.find(repo.folder)


# -- what it is called


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/acme/shop.git", "github.com/acme/shop"),
        ("https://user:secret@GitHub.com:443/acme/shop.git/", "github.com/acme/shop"),
        ("https://token@github.com/acme/shop", "github.com/acme/shop"),
        ("https://us@er:secret@github.com/acme/shop", "github.com/acme/shop"),
        ("https://user:se/cret@github.com/acme/shop", "github.com/acme/shop"),
        ("https://github.com/acme/shop?token=secret#secret", "github.com/acme/shop"),
        ("git@github.com:acme/shop.git", "github.com/acme/shop"),
        ("github.com:acme/shop.git", "github.com/acme/shop"),
        ("ssh://git@github.com:22/acme/shop.git", "github.com/acme/shop"),
        ("ssh://git@[::1]:22/acme/shop.git", "[::1]/acme/shop"),
        ("git@[::1]:acme/shop.git", "[::1]/acme/shop"),
        ("git://host/deep/er/group/shop", "host/deep/er/group/shop"),
        ("file:///srv/git/shop.git", "shop"),
        ("/srv/git/shop.git", "shop"),
        ("../shop", "shop"),
        ("https://host/a%20b/shop%0A", "host/a b/shop�"),
        ("ext::ssh -o password=secret %S foo", ""),
        ("", ""),
        ("https://user:secret@", ""),
    ],
)
def test_the_name_of_a_url_has_no_credentials(url: str, name: str) -> None:
    assert name_of_url(url) == name
    assert "secret" not in name_of_url(url)


def test_names_with_and_without_a_remote(tmp_path: Path, repo: Repo) -> None:
    repo.commit(a="1")
    assert found(repo.folder).name == repo.folder.name
    assert found(repo.worktree(tmp_path / "other").folder).name == repo.folder.name
    assert found(repo.clone(tmp_path / "bare.git", "--bare").folder).name == repo.folder.name  # by its origin
    assert found(Repo.init(tmp_path / "shop.git", "--bare").folder).name == "shop"
    repo.git("remote", "add", "origin", "https://u:p@example.org/acme/shop.git")
    assert found(repo.folder).name == "example.org/acme/shop"


def test_a_folder_whose_name_is_no_text_has_a_name_all_the_same(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\n"))
    repo = Repo.init(folder)
    sha = repo.commit(a="1")
    assert found(folder).name == "caf��"
    assert found(folder).head() == sha
    assert sha in (found(folder).reachable(sha) or ())


# -- revisions


def test_what_names_a_commit(repo: Repo) -> None:
    first, second = repo.commit("one", a="1"), repo.commit("fix it", a="2")
    repo.git("tag", "-a", "-m", "x", "v1", first)
    tag = repo.git("rev-parse", "v1")
    repository = found(repo.folder)
    for rev in ("HEAD", "main", "@", second[:9], ":/fix it", "HEAD^0", second.upper(), "refs/heads/main"):
        assert repository.resolve(rev) == second
    for rev in ("HEAD~1", "v1", tag):
        assert repository.resolve(rev) == first


@pytest.mark.parametrize("sha", ["AB" * 20, "cd" * 32])
def test_a_full_id_is_taken_at_its_word(repo: Repo, sha: str) -> None:
    assert found(repo.folder).resolve(sha) == sha.lower()


@pytest.mark.parametrize("rev", ["", "-n1", "--all", "nope", "HEAD:a", "HEAD..main", "^HEAD", "HEAD^{tree}", "a\0b"])
def test_what_names_no_commit(repo: Repo, rev: str) -> None:
    repo.commit(a="1")
    with pytest.raises(InvalidInput) as raised:
        found(repo.folder).resolve(rev)
    assert raised.value.hint


def test_a_tree_by_its_full_id_is_no_commit(repo: Repo) -> None:
    repo.commit(a="1")
    with pytest.raises(InvalidInput, match="is a tree"):
        found(repo.folder).resolve(repo.git("rev-parse", "HEAD^{tree}"))


def test_what_may_mean_several_things_is_refused(repo: Repo) -> None:
    repo.commit(a="1")
    repo.git("branch", "v1")
    repo.commit(a="2")
    repo.git("tag", "v1")
    repository = found(repo.folder)
    with pytest.raises(InvalidInput, match="several things"):
        repository.resolve("v1")
    assert repository.resolve("refs/heads/v1") != repository.resolve("refs/tags/v1")


def test_the_beginning_of_several_commits_is_refused(repo: Repo) -> None:
    shas = graph(repo, [[] for _ in range(1000)])
    beginnings = [sha[:4] for sha in shas]
    twice = next(one for one in beginnings if beginnings.count(one) > 1)  # the ids are always the same
    with pytest.raises(InvalidInput, match="several things"):
        found(repo.folder).resolve(twice)


# -- what leads to what


def test_has_tells_commits_from_all_else(repo: Repo) -> None:
    sha = repo.commit(a="1")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    asked = [sha, tree, "ab" * 20, "cd" * 32, "HEAD", "", sha.upper(), f"{sha}\n{sha}"]
    assert found(repo.folder).has(asked) == {sha}
    assert found(repo.folder).has([]) == set()


def test_reachable_in_a_process_and_from_its_file(tmp_path: Path, repo: Repo) -> None:
    shas = [repo.commit(a=str(number)) for number in range(5)]
    repository = found(repo.folder)
    reached = repository.reachable(shas[3])
    assert reached is not None
    assert [sha in reached for sha in shas] == [True] * 4 + [False]
    assert (len(reached), reached.complete, reached.boundary) == (4, True, ())
    for no_commit in ("", "zz" * 20, shas[0].upper()[:-1], shas[0] + "ab" * 12, " " * 40, 7):
        assert no_commit not in reached
    assert repository.reachable(shas[3]) is reached
    assert len(cached(tmp_path)) == 1
    again = found(repo.folder).reachable(shas[3])
    assert again is not None
    assert len(again) == 4


def test_a_commit_the_clone_lacks_is_not_reachable_until_it_comes(tmp_path: Path, repo: Repo) -> None:
    repo.commit(a="1")
    clone = repo.clone(tmp_path / "clone")
    later = repo.commit(a="2")
    repository = found(clone.folder)
    assert repository.reachable(later) is None
    assert repository.reachable("HEAD") is None
    clone.git("fetch", "--quiet")
    assert later in (repository.reachable(later) or ())


@pytest.mark.parametrize("damage", [b"", b"slotanc\x01", b"x" * 56, None])
def test_a_damaged_file_is_made_anew(tmp_path: Path, repo: Repo, damage: bytes | None) -> None:
    shas = [repo.commit(a=str(number)) for number in range(2)]
    assert found(repo.folder).reachable(shas[1]) is not None
    (path,) = cached(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage is None else damage)
    reached = found(repo.folder).reachable(shas[1])
    assert reached is not None
    assert all(sha in reached for sha in shas)
    assert path.read_bytes() == whole


def test_without_a_place_for_files_all_is_as_before(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = repo.commit(a="1")
    (tmp_path / "cache").write_text("in the way")
    assert sha in (found(repo.folder).reachable(sha) or ())
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert sha in (found(repo.folder).reachable(sha) or ())


def test_a_later_commit_needs_no_file_of_its_own(tmp_path: Path, repo: Repo) -> None:
    shas = graph(repo, [[], *([number] for number in range(299))])
    assert found(repo.folder).reachable(shas[199]) is not None
    for last in (200, 250):
        reached = found(repo.folder).reachable(shas[last])
        assert reached is not None
        assert [sha in reached for sha in shas] == [number <= last for number in range(300)]
        assert len(reached) == last + 1
    assert len(cached(tmp_path)) == 1
    assert len(found(repo.folder).reachable(shas[299]) or ()) == 300
    assert len(cached(tmp_path)) == 2
    assert len(found(repo.folder).reachable(shas[100]) or ()) == 101  # none of the files is of an ancestor


def test_files_are_bounded(tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable_module, "MAX_FILES", 3)
    shas = graph(repo, [[] for _ in range(6)])
    for number, sha in enumerate(shas):
        assert found(repo.folder).reachable(sha) is not None
        for place, path in enumerate(cached(tmp_path)):
            os.utime(path, (number * 10 + place, number * 10 + place))
    assert len(cached(tmp_path)) == 3


def test_shallow_clones_know_where_they_end(tmp_path: Path, repo: Repo) -> None:
    shas = [repo.commit(a=str(number)) for number in range(6)]
    clone = repo.clone(tmp_path / "clone", "--depth", "2")
    repository = found(clone.folder)
    reached = repository.reachable(shas[5])
    assert reached is not None
    assert (len(reached), reached.complete, reached.boundary) == (2, False, (shas[3],))
    assert repository.has(shas) == set(shas[4:])
    assert [one.parents for one in repository.commits([shas[5]])] == [(shas[3],), (shas[4],)]
    clone.git("fetch", "--quiet", "--unshallow")
    whole = repository.reachable(shas[5])
    assert whole is not None
    assert (len(whole), whole.complete) == (6, True)


def test_replacements_hold_for_ancestry_and_not_for_what_commits_are(repo: Repo) -> None:
    first, second = repo.commit(a="1"), repo.commit(a="2")
    repository = found(repo.folder)
    assert first in (repository.reachable(second) or ())
    repo.git("replace", "--graft", second)
    assert first not in (repository.reachable(second) or ())
    assert [one.sha for one in repository.commits([second])] == [first, second]
    repo.git("pack-refs", "--all")
    repo.git("replace", "--delete", second)
    assert first in (repository.reachable(second) or ())


def test_commits_lost_from_the_middle_are_an_error(repo: Repo) -> None:
    shas = [repo.commit(a=str(number)) for number in range(3)]
    (repo.folder / ".git" / "objects" / shas[1][:2] / shas[1][2:]).unlink()
    with pytest.raises(SlotlogError, match="rev-list"):
        found(repo.folder).reachable(shas[2])


# -- commits


def test_commits_parents_first_and_only_the_unknown(repo: Repo) -> None:
    shas = graph(repo, [[], [0], [0], [1, 2], [3], []])
    repository = found(repo.folder)
    listed = list(repository.commits([shas[4], shas[5]]))
    assert {one.sha for one in listed} == set(shas)
    places = {one.sha: place for place, one in enumerate(listed)}
    assert all(places[parent] < places[one.sha] for one in listed for parent in one.parents)
    merge = next(one for one in listed if one.sha == shas[3])
    assert merge == Commit(shas[3], (shas[1], shas[2]), (START + 3) * 1_000_000)
    left = [one.sha for one in repository.commits([shas[4], "ab" * 20], [shas[1], "cd" * 20])]
    assert left == [shas[2], shas[3], shas[4]]
    assert list(repository.commits([shas[1]], [shas[4]])) == []
    assert list(repository.commits(["ab" * 20])) == []
    assert [one.sha for one in repository.commits([shas[4]], limit=2)] == [shas[3], shas[4]]
    assert repository.describe([shas[3], shas[0], "ab" * 20]).keys() == {shas[3], shas[0]}


def test_times_out_of_range_are_the_nearest_in_range(repo: Repo) -> None:
    shas = graph(repo, [[], []], [0, 10**12])
    told = found(repo.folder).describe(shas)
    assert [told[sha].committed_at for sha in shas] == [0, 253_402_300_799_999_999]


def test_leaving_early_leaves_nothing_behind(repo: Repo) -> None:
    shas = graph(repo, [[], *([number] for number in range(5000))])
    walk = found(repo.folder).commits([shas[-1]])
    assert next(walk).sha == shas[0]
    walk.close()


def test_a_repository_with_long_ids(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "sha256", "--object-format=sha256")
    first, second = repo.commit(a="1"), repo.commit(a="2")
    repository = found(repo.folder)
    reached = repository.reachable(second)
    assert len(second) == 64
    assert reached is not None
    assert first in reached
    assert first[:40] not in reached
    assert repository.resolve(second[:10]) == second
    assert [one.sha for one in repository.commits([second])] == [first, second]


# -- what carries the change of another


def lines(*numbers: int, **changed: str) -> str:
    return "".join(changed.get(f"l{number}", str(number)) + "\n" for number in range(*numbers))


def test_a_cherry_pick_has_its_counterpart(repo: Repo) -> None:
    repo.commit(a=lines(40))
    repo.git("checkout", "--quiet", "-b", "side")
    picked, left = repo.commit(a=lines(40, l30="x")), repo.commit(b="new")
    repo.git("checkout", "--quiet", "main")
    repo.commit(a=lines(40, l2="y"))
    repo.git("cherry-pick", picked)
    head = repo.head
    found_there = found(repo.folder).counterparts([picked, left, "ab" * 20], head)
    assert found_there == {picked: head}
    assert found(repo.folder).counterparts([picked], "ab" * 20) == {}
    assert found(repo.folder).counterparts([], head) == {}


def test_every_commit_of_a_rebased_line(repo: Repo) -> None:
    repo.commit(a="1")
    repo.git("checkout", "--quiet", "-b", "side")
    old = [repo.commit(**{f"f{number}": str(number)}) for number in range(4)]
    repo.git("checkout", "--quiet", "main")
    repo.commit(z="z")
    repo.git("checkout", "--quiet", "side")
    repo.git("rebase", "--quiet", "main")
    new = repo.git("rev-list", "--reverse", "main..side").split()
    assert found(repo.folder).counterparts(old, repo.head) == dict(zip(old, new, strict=True))


def squashed(repo: Repo) -> tuple[list[str], str]:
    repo.commit(a=lines(9))
    repo.git("checkout", "--quiet", "-b", "side")
    side = [repo.commit(a=lines(9, l1="x")), repo.commit(b="1"), repo.commit(b="2", a=lines(9, l1="z"))]
    repo.git("checkout", "--quiet", "main")
    repo.commit(c="other")
    repo.git("merge", "--quiet", "--squash", "side")
    return side, repo.commit("squashed")


def test_a_squash_merge_carries_all_of_its_branch(repo: Repo) -> None:
    side, squash = squashed(repo)
    repository = found(repo.folder)
    assert repository.counterparts(side[2:], squash) == {side[2]: squash}
    assert repository.counterparts(side, squash) == dict.fromkeys(side, squash)
    assert repository.counterparts(side[:1], squash) == {side[0]: squash}  # by the branch
    repo.git("branch", "-D", "side")
    assert repository.counterparts(side[:1], squash) == {}
    assert repository.counterparts(side[2:], squash, among=[]) == {}
    assert repository.counterparts(side[2:], squash, among=[squash]) == {side[2]: squash}


def test_a_squash_of_a_branch_that_main_was_merged_into(repo: Repo) -> None:
    repo.commit(a=lines(9))
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit(b="1")
    repo.git("checkout", "--quiet", "main")
    repo.commit(c="2")
    repo.git("checkout", "--quiet", "side")
    repo.git("merge", "--quiet", "--no-edit", "main")
    merge = repo.head
    repo.git("checkout", "--quiet", "main")
    repo.git("merge", "--quiet", "--squash", "side")
    squash = repo.commit("squashed")
    assert found(repo.folder).counterparts([merge], squash) == {merge: squash}


def test_what_is_alike_by_patch_id_alone_is_no_counterpart(repo: Repo) -> None:
    repo.commit(a="1")
    repo.git("checkout", "--quiet", "-b", "side")
    (repo.folder / "bin").write_bytes(b"\0one")
    binary = repo.commit()
    empty = repo.commit()
    repo.git("checkout", "--quiet", "main")
    (repo.folder / "bin").write_bytes(b"\0two")
    repo.commit()
    head = repo.commit()
    assert found(repo.folder).counterparts([binary, empty], head) == {}


def test_the_same_binary_change_is_a_counterpart(repo: Repo) -> None:
    repo.commit(a="1")
    repo.git("checkout", "--quiet", "-b", "side")
    (repo.folder / "bin").write_bytes(b"\0one")
    picked = repo.commit()
    repo.git("checkout", "--quiet", "main")
    repo.commit(c="1")
    repo.git("cherry-pick", picked)
    assert found(repo.folder).counterparts([picked], repo.head) == {picked: repo.head}


def test_a_change_that_was_undone_before_is_no_counterpart(repo: Repo) -> None:
    repo.commit(a="1")
    repo.commit(a="2")
    repo.commit(a="1")
    repo.git("checkout", "--quiet", "-b", "side")
    again = repo.commit(a="2")
    repo.git("checkout", "--quiet", "main")
    head = repo.commit(b="1")
    assert found(repo.folder).counterparts([again], head) == {}


def test_unrelated_histories_have_no_counterparts(repo: Repo) -> None:
    shas = graph(repo, [[], []])
    assert found(repo.folder).counterparts([shas[0]], shas[1]) == {}


def test_pairs_of_rewritten_commits() -> None:
    old, new, third = "ab" * 20, "cd" * 20, "ef" * 20
    assert rewritten([f"{old} {new}\n", "\n", f"{new} {third} note\n", f"{old} {old}\n"]) == [(old, new), (new, third)]
    for line in ("x y", old, f"{old} HEAD"):
        with pytest.raises(InvalidInput, match="rewritten"):
            rewritten([line])


def test_a_partial_clone_answers_with_what_it_has_and_fetches_nothing(tmp_path: Path, repo: Repo) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.commit(a=lines(40))
    repo.git("checkout", "--quiet", "-b", "side")
    picked = repo.commit(a=lines(40, l30="x"))
    repo.git("checkout", "--quiet", "main")
    repo.commit(a=lines(40, l2="y"))
    repo.git("cherry-pick", picked)
    head = repo.head
    clone = repo.clone(tmp_path / "clone", "--filter=blob:none", "--no-checkout")
    objects = sorted((clone.folder / ".git" / "objects").rglob("*"))
    repository = found(clone.folder)
    assert repository.has([picked, head, "ab" * 20]) == {picked, head}
    assert picked not in (repository.reachable(head) or ())
    assert repository.reachable("ab" * 20) is None
    assert repository.resolve("ab" * 20) == "ab" * 20
    assert len(list(repository.commits([head, picked]))) == 4
    assert repository.counterparts([picked], head) == {}
    assert sorted((clone.folder / ".git" / "objects").rglob("*")) == objects
