"""Commits of the code on the command line: which one an event is pinned to, and what was known at one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from command_line import ALICE, SPACE, Run, document, documents, fact, lines, runner
from git_repos import ENVIRONMENT, Repo

NAMED = (SPACE, ALICE, "employer")
GET = ("get", *NAMED, "--value-only")
ABSENT = "f" * 40


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = Repo.init(tmp_path / "shop")
    (made.folder / ".git" / "info" / "exclude").write_text("/store/\n")
    return made


@pytest.fixture
def run(repo: Repo) -> Run:
    return runner(repo.folder)


def codes(run: Run) -> list[tuple[str, str] | None]:
    """(repo, sha) that each event is pinned to."""
    found = [one["event"].get("code") for one in documents(run("replay", SPACE, "--json"))]
    return [None if one is None else (one["repo"], one["sha"]) for one in found]


def diverged(repo: Repo, run: Run) -> dict[str, str]:
    """Acme at a first commit, Globex on the branch feature, Initech on main, which is checked out; the ids of those."""
    first = repo.commit("first")
    run("remember", *NAMED, "Acme")
    repo.git("checkout", "--quiet", "-b", "feature")
    feature = repo.commit("feature")
    run("remember", *NAMED, "Globex")
    repo.git("checkout", "--quiet", "main")
    main = repo.commit("main")
    run("remember", *NAMED, "Initech")
    return {"first": first, "feature": feature, "main": main}


# -- what an event is pinned to


def test_an_event_is_pinned_to_the_commit_that_is_checked_out(repo: Repo, run: Run, tmp_path: Path) -> None:
    run("remember", *NAMED, "Acme")  # there is no commit yet
    first = repo.commit()
    run("remember", *NAMED, "Globex")
    run("end", *NAMED)
    run("observe", SPACE, "user", "hi", "--no-code")
    second = repo.commit()
    run("observe", SPACE, "user", "hi")
    repo.git("checkout", "--quiet", "--detach", first)
    run("remember", *NAMED, "Initech")
    repo.git("remote", "add", "origin", "git@example.org:acme/shop.git")
    tree = repo.worktree(tmp_path / "tree", "main")
    below = tree.folder / "below"
    below.mkdir()
    store = str(repo.folder / "store")
    runner(below)("remember", *NAMED, "Hooli", SLOTLOG_STORE=store)
    run("remember", *NAMED, "Acme", "--sha", "main~1", "--actor", "agent:other")
    assert codes(run) == [
        None,
        ("shop", first),
        ("shop", first),
        None,
        ("shop", second),
        ("shop", first),
        ("example.org/acme/shop", second),
        ("example.org/acme/shop", first),
    ]


def test_verdicts_rules_and_lines_are_pinned_to_no_commit_unless_asked(repo: Repo, run: Run) -> None:
    sha = repo.commit()
    receipt = document(run("remember", *NAMED, "Acme", "--json"))
    run("review", SPACE, receipt["event_id"], "verified")
    run("forget", *NAMED)
    run("declare", SPACE, "employer", "--cardinality", "one")
    run("branch", "create", SPACE, "idea")
    run("append", stdin=lines(fact("Acme")))
    run("forget", *NAMED, "--sha", "HEAD")
    run("review", SPACE, receipt["event_id"], "rejected", "--sha", sha[:8])
    assert codes(run) == [("shop", sha), None, None, None, None, None, ("shop", sha), ("shop", sha)]


def test_outside_of_a_repository_nothing_is_pinned(tmp_path: Path) -> None:
    run = runner(tmp_path)
    run("remember", *NAMED, "Acme")
    (tmp_path / ".git").mkdir()  # it looks like one, and is none
    run("remember", *NAMED, "Globex")
    assert codes(run) == [None, None]
    told = run("remember", *NAMED, "Globex", "--sha", ABSENT, code=2).stderr
    assert "in no git repository" in told
    assert "hint: to say both: slotlog append" in told


def test_without_git_nothing_is_pinned(repo: Repo, run: Run, tmp_path: Path) -> None:
    repo.commit()
    run("remember", *NAMED, "Acme", PATH=str(tmp_path))
    assert codes(run) == [None]


def test_an_event_is_written_though_git_does_not_trust_the_repository(repo: Repo, run: Run) -> None:
    repo.commit()
    os.chmod(repo.folder / ".git" / "HEAD", 0o600)
    (repo.folder / ".git" / "config").write_text("[core\n")
    result = run("remember", *NAMED, "Acme")
    assert result.stderr.startswith("no commit is kept with it: ")
    assert codes(run) == [None]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--sha", "HEAD", "--no-code"), "--sha names a commit and --no-code none"),
        (("--sha", "nope"), "'nope' names no commit in "),
        (("--sha", ""), "'' names no commit"),
        (("--sha=-x",), "'-x' names no commit"),
    ],
)
def test_a_commit_that_is_refused(repo: Repo, run: Run, words: tuple[str, ...], told: str) -> None:
    repo.commit()
    result = run("remember", *NAMED, "Acme", *words, code=2)
    assert told in result.stderr
    assert "hint: " in result.stderr
    assert not (repo.folder / "store").exists()


# -- what was known at a commit


def test_a_sibling_hides_nothing_at_a_commit(repo: Repo, run: Run) -> None:
    shas = diverged(repo, run)
    assert run(*GET).stdout == "Initech\n"
    assert run(*GET, "--at-sha", "feature").stdout == "Globex\n"
    assert run(*GET, "--at-sha", shas["first"][:10].upper()).stdout == "Acme\n"
    repo.git("checkout", "--quiet", "feature")
    assert run(*GET, "--isolate").stdout == "Globex\n"
    assert run(*GET, "--isolate", "--include-branch", "main").stdout == "Initech\n"
    assert run(*GET, SLOTLOG_BRANCH_ISOLATION="true").stdout == "Globex\n"
    assert run(*GET, "--no-isolate", SLOTLOG_BRANCH_ISOLATION="true").stdout == "Initech\n"
    assert run(*GET, "--at-sha", "main", SLOTLOG_BRANCH_ISOLATION="true").stdout == "Initech\n"
    assert document(run("get", *NAMED, "--isolate", "--json"))["view"]["ancestry"] == "clone"
    assert f"at commit {shas['feature'][:12]}, as the clone knows it" in run("explain", *NAMED, "--isolate").stdout
    assert f"  [at {shas['main'][:12]}]\n" in run("replay", SPACE).stdout
    assert run("known", SPACE, documents(run("replay", SPACE, "--json"))[1]["event"]["event_id"],
               SLOTLOG_BRANCH_ISOLATION="1").stdout.splitlines()[0].endswith(" --no-isolate")  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("entity", SPACE, ALICE),
        ("history", *NAMED),
        ("timeline", SPACE),
        ("explain", *NAMED),
        ("schema", SPACE),
        ("policy", SPACE),
        ("ls", SPACE),
        ("diff", SPACE, "--before", "0"),
        ("branch", "diff", SPACE, "idea"),
        ("bisect", SPACE, "--entity", ALICE, "--slot", "employer"),
    ],
    ids=" ".join,
)
def test_what_can_not_be_told_is_counted_on_stderr(repo: Repo, run: Run, words: tuple[str, ...]) -> None:
    shas = diverged(repo, run)
    run("branch", "create", SPACE, "idea")
    run("remember", SPACE, ALICE, "city", "Bern", "--branch", "idea", "--no-code")
    run("append", stdin=lines(fact("Hooli", code={"repo": "elsewhere", "sha": ABSENT})))
    hidden = "hidden: 1 fact is pinned to a commit unknown to this clone\n"
    assert run(*words, "--isolate").stderr == hidden
    assert run(*words, "--at-sha", "HEAD", "--json").stderr == hidden
    elsewhere = runner(repo.folder.parent)
    store = str(repo.folder / "store")
    told = elsewhere(*words, "--at-sha", shas["main"], SLOTLOG_STORE=store).stderr
    assert told == "hidden: 3 facts are pinned to commits unknown to the log\n"


def test_the_count_is_in_the_answer(repo: Repo, run: Run) -> None:
    diverged(repo, run)
    run("append", stdin=lines(fact("Hooli", code={"repo": "elsewhere", "sha": ABSENT})))
    view = document(run("get", *NAMED, "--isolate", "--json"))["view"]
    assert (view["hidden"], view["ancestry"], view["at_sha"]) == (1, "clone", repo.head)


def test_commits_are_told_apart_where_there_is_no_clone(repo: Repo, run: Run, tmp_path: Path) -> None:
    shas = diverged(repo, run)
    run("git", "sync", SPACE)
    repo.git("checkout", "--quiet", "feature")
    run("git", "sync", SPACE)
    elsewhere = runner(tmp_path)
    for sha, value in ((shas["main"], "Initech"), (shas["feature"].upper(), "Globex"), (shas["first"], "Acme")):
        result = elsewhere(*GET, "--at-sha", sha, SLOTLOG_STORE=str(repo.folder / "store"))
        assert (result.stdout, result.stderr) == (f"{value}\n", "")


def test_commits_are_compared(repo: Repo, run: Run) -> None:
    diverged(repo, run)
    words = ("diff", SPACE, "--before-at-sha", "feature", "--after-at-sha", "main")
    (found,) = document(run(*words, "--json"))
    assert (found["before"]["value"], found["after"]["value"]) == ("Globex", "Initech")
    assert run(*words).stdout.startswith("user:alice employer  changed\n  - Globex")
    isolated = document(run("diff", SPACE, "--isolate", "--before-at-sha", "feature", "--json"))
    assert isolated[0]["after"]["view"]["at_sha"] == repo.head
    assert run("diff", SPACE, "--at-sha", "feature", "--after-at-sha", "HEAD").stdout == run(*words).stdout
    both = ("--at-sha", "feature", "--after-include-branch", "main")
    assert document(run("diff", SPACE, *both, "--json"))[0]["after"]["value"] == "Initech"


def test_distrust_of_a_commit(repo: Repo, run: Run) -> None:
    shas = diverged(repo, run)
    words = (SPACE, "main", "--kind", "commit")
    assert run("distrust", *words, "--dry-run").stdout.startswith(
        "changes 1 slot:\n  user:alice employer  changed, dis"
    )
    run("distrust", *words, "--yes")
    assert documents(run("replay", SPACE, "--json"))[-1]["event"]["about"] == shas["main"]
    assert run(*GET).stdout == "Globex\n"
    run("trust", *words, "--yes")
    assert run(*GET).stdout == "Initech\n"
    assert "names no commit" in run("distrust", SPACE, "nope", "--kind", "commit", "--yes", code=2).stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--at-sha", "nope"), "'nope' names no commit in "),
        (("--at-sha", ""), "'' names no commit"),
        (("--at-sha", "HEAD", "--isolate"), "--isolate means --at-sha HEAD: give one of them"),
        (("--include-branch", "feature"), "--include-branch adds to --at-sha or --isolate"),
        (("--isolate", "--include-branch", "nope"), "'nope' names no commit in "),
    ],
)
def test_a_view_at_a_commit_that_is_refused(repo: Repo, run: Run, words: tuple[str, ...], told: str) -> None:
    diverged(repo, run)
    assert told in run(*GET, *words, code=2).stderr


def test_isolation_needs_a_commit(repo: Repo, run: Run, tmp_path: Path) -> None:
    run("remember", *NAMED, "Acme")
    assert "there is no commit yet\nhint: --no-isolate" in run(*GET, "--isolate", code=2).stderr
    elsewhere: dict[str, Any] = {"SLOTLOG_STORE": str(repo.folder / "store"), "code": 2}
    outside = runner(tmp_path)
    assert "is in no git repository\nhint: --no-isolate" in outside(*GET, "--isolate", **elsewhere).stderr
    assert "in no git repository" in outside(*GET, SLOTLOG_BRANCH_ISOLATION="1", **elsewhere).stderr
    assert "--at-sha 'main' names no commit" in outside(*GET, "--at-sha", "main", **elsewhere).stderr
    told = run(*GET, SLOTLOG_BRANCH_ISOLATION="perhaps", code=2).stderr
    assert told == "error: SLOTLOG_BRANCH_ISOLATION is 'perhaps'\nhint: true or false\n"
