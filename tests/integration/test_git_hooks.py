"""git's hooks with ours in them, run by real git: what they tell, what they leave alone, and that git never waits."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from click.testing import CliRunner, Result
from git_repos import ACTOR, ENVIRONMENT, SPACE, FakeLog, Repo

from projectors.surfaces import cli
from projectors.surfaces.git_commands import git
from projectors.surfaces.params import Settings
from schemas.errors import InvalidInput, StoreBusy
from streams.git_hooks import KINDS, TROUBLE
from streams.repository import Repository

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {**ENVIRONMENT, "XDG_CACHE_HOME": str(tmp_path / "cache"), "SLOTLOG_HOOKS": "wait"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.init(tmp_path / 'it\'s a "repo" $HOME')


class Recorder:
    """A program that writes down how it was run: its arguments, and its stdin where that has anything."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.told = folder / "told"
        self.program = folder / "pro'gram"
        self.command = [str(self.program), 'a "quoted"\nword', "--space=acme/shop"]
        self.write('given=$(cat)\nprintf "%s\\n" "$*${given:+ < $given}" >>' + f"{quote(str(self.told))}\n")

    def write(self, script: str) -> None:
        self.program.write_text(f"#!/bin/sh\n{script}")
        self.program.chmod(0o755)

    def take(self) -> list[str]:
        """What was written since the last time, without the fixed words."""
        fixed = " ".join(self.command[1:]) + " "
        text = self.told.read_text() if self.told.exists() else ""
        self.told.unlink(missing_ok=True)
        return [one.removesuffix("\n") for one in text.split(fixed) if one]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "recorder $1")


def found(repo: Repo) -> Repository:
    repository = Repository.find(repo.folder)
    assert repository is not None
    return repository


def installed(repo: Repo, recorder: Recorder) -> Repo:
    hooks = found(repo).install_hooks(recorder.command)
    assert [(one.kind, one.state, one.command) for one in hooks] == [
        (kind, "installed", tuple(recorder.command)) for kind in KINDS
    ]
    return repo


def existing(repo: Repo, kind: str, script: str, mode: int = 0o755) -> Path:
    path = repo.folder / ".git" / "hooks" / kind
    path.parent.mkdir(exist_ok=True)
    path.write_text(script)
    path.chmod(mode)
    return path


# -- what they tell


def test_commits_amends_merges_and_checkouts(repo: Repo, recorder: Recorder) -> None:
    installed(repo, recorder)
    first = repo.commit(a="1")
    assert recorder.take() == ["post-commit"]
    repo.git("commit", "--quiet", "--amend", "-m", "better")
    assert recorder.take() == ["post-commit", f"post-rewrite amend < {first} {repo.head}"]
    main = repo.head
    repo.git("checkout", "--quiet", "-b", "side")
    side = repo.commit(b="1")
    repo.git("checkout", "--quiet", "main")
    assert recorder.take() == [f"post-checkout {main} {main} 1", "post-commit", f"post-checkout {side} {main} 1"]
    repo.git("merge", "--quiet", "--no-ff", "--no-edit", "side")
    assert recorder.take() == ["post-merge 0"]
    repo.git("checkout", "--quiet", "HEAD^", "--", "a")
    assert recorder.take() == []


def test_a_rebase_is_told_once_with_all_its_pairs(repo: Repo, recorder: Recorder) -> None:
    repo.commit(a="1")
    repo.git("checkout", "--quiet", "-b", "side")
    old = [repo.commit(**{name: "1"}) for name in "bcd"]
    repo.git("checkout", "--quiet", "main")
    repo.commit(e="1")
    repo.git("checkout", "--quiet", "side")
    installed(repo, recorder)
    repo.git("rebase", "--quiet", "main")
    new = repo.git("rev-list", "--reverse", "main..side").split()
    told = recorder.take()
    assert [one for one in told if not one.startswith("post-checkout")] == [
        "post-rewrite rebase < " + "\n".join(f"{a} {b}" for a, b in zip(old, new, strict=True))
    ]


def test_worktrees_share_them(repo: Repo, recorder: Recorder, tmp_path: Path) -> None:
    repo.commit(a="1")
    other = repo.worktree(tmp_path / "other", "-b", "feature")
    installed(other, recorder)
    other.commit(b="1")
    repo.commit(c="1")
    assert recorder.take() == ["post-commit"] * 2
    assert found(repo).hooks_status() == found(other).hooks_status()


def test_a_folder_of_hooks_of_ones_own(repo: Repo, recorder: Recorder) -> None:
    repo.git("config", "core.hooksPath", "my hooks")
    below = repo.folder / "below"
    below.mkdir()
    (hook, *_) = found(Repo(below)).install_hooks(recorder.command)
    assert hook.path == repo.folder / "my hooks" / "post-commit"
    repo.commit(a="1")
    assert recorder.take() == ["post-commit"]


def test_hooks_of_every_repository_are_left_alone(repo: Repo, recorder: Recorder, tmp_path: Path) -> None:
    everywhere = tmp_path / "config"
    everywhere.write_text(f"[core]\n\thooksPath = {tmp_path}/all\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(everywhere))
        with pytest.raises(InvalidInput, match="every repository") as raised:
            found(repo).install_hooks(recorder.command)
    assert "core.hooksPath" in (raised.value.hint or "")
    assert not (tmp_path / "all").exists()


# -- what they leave alone


@pytest.mark.parametrize("line", ["#!/bin/sh", "#!/usr/bin/env bash", "#! /bin/sh -eu", "#!/usr/bin/env -S bash -e"])
def test_a_hook_that_is_there_runs_as_before(repo: Repo, recorder: Recorder, line: str) -> None:
    script = f'{line}\n\necho "theirs $*" >>{quote(str(recorder.told))}\nexit 0\n'
    paths = [existing(repo, kind, script) for kind in KINDS[:2]]
    paths[0].chmod(0o750)
    installed(repo, recorder)
    assert stat.S_IMODE(paths[0].stat().st_mode) == 0o750
    repo.commit(a="1")
    assert recorder.take() == ["post-commit\ntheirs "]
    found(repo).uninstall_hooks()
    assert paths[0].read_text() == script
    assert {path for path in paths[0].parent.glob("post-*") if path.suffix != ".sample"} == set(paths)
    repo.commit(a="2")
    assert recorder.take() == ["theirs "]


def test_a_hook_that_reads_the_pairs_still_gets_them(repo: Repo, recorder: Recorder, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    existing(repo, "post-rewrite", f'#!/bin/sh\nwhile read -r old new; do echo "$old-$new" >>"{theirs}"; done\n')
    installed(repo, recorder)
    old = repo.commit(a="$HOME `x`")
    for setting in ("wait", "off", ""):
        repo.git("commit", "--quiet", "--amend", "-m", f"better {setting}", SLOTLOG_HOOKS=setting)
        assert theirs.read_text() == f"{old}-{repo.head}\n"
        theirs.unlink()
        old = repo.head


def test_installing_again_changes_nothing_but_the_command(repo: Repo, recorder: Recorder) -> None:
    path = existing(repo, "post-commit", "#!/bin/sh\ntrue\n")
    installed(repo, recorder)
    text = path.read_text()
    installed(repo, recorder)
    assert path.read_text() == text
    recorder.command.append("--more")
    installed(repo, recorder)
    assert path.read_text() == text.replace("--space=acme/shop", "--space=acme/shop --more")
    repo.commit(a="1")
    assert recorder.take() == ["post-commit"]


def test_uninstalling_leaves_nothing_of_ours(repo: Repo, recorder: Recorder) -> None:
    before = sorted(path.name for path in (repo.folder / ".git").rglob("*"))
    installed(repo, recorder)
    assert {one.state for one in found(repo).uninstall_hooks()} == {"absent"}
    assert sorted(path.name for path in (repo.folder / ".git").rglob("*") if path.name != "hooks") == [
        name for name in before if name != "hooks"
    ]
    assert {one.state for one in found(repo).uninstall_hooks()} == {"absent"}


@pytest.mark.parametrize(
    ("script", "mode", "told"),
    [
        ("#!/usr/bin/env python3\nprint()\n", 0o755, "no shell script"),
        ("\x7fELF\0\0", 0o755, "no shell script"),
        ("true\n", 0o755, "no shell script"),
        ("#!/usr/bin/fish\n", 0o755, "no shell script"),
        ("#!/bin/sh\ntrue\n", 0o644, "not executable"),
    ],
)
def test_a_hook_that_cannot_be_added_to(repo: Repo, recorder: Recorder, script: str, mode: int, told: str) -> None:
    path = existing(repo, "post-checkout", script, mode)
    with pytest.raises(InvalidInput, match=told) as raised:
        found(repo).install_hooks(recorder.command)
    assert raised.value.hint
    assert path.read_text() == script
    assert [one.state for one in found(repo).hooks_status()] == ["absent", "absent", "absent", "other"]


def test_links_and_places_that_are_no_folders_are_refused(repo: Repo, recorder: Recorder, tmp_path: Path) -> None:
    script = tmp_path / "tracked"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    path = existing(repo, "post-merge", "")
    path.unlink()
    path.symlink_to(script)
    with pytest.raises(InvalidInput, match="is a link to"):
        found(repo).install_hooks(recorder.command)
    assert script.read_text() == "#!/bin/sh\n"
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidInput, match="is no file"):
        found(repo).install_hooks(recorder.command)
    repo.git("config", "core.hooksPath", os.devnull)
    with pytest.raises(InvalidInput, match="is no folder"):
        found(repo).install_hooks(recorder.command)


# -- git is neither failed nor held up


def test_trouble_fails_nothing(repo: Repo, recorder: Recorder) -> None:
    installed(repo, recorder)
    recorder.write("echo trouble >&2\nexit 3\n")
    repo.commit(a="1")
    done = repo.run("commit", "--quiet", "--allow-empty", "-m", "x")
    assert (done.returncode, done.stderr) == (0, b"trouble\n")
    assert repo.run("checkout", "--quiet", "--detach").returncode == 0
    recorder.program.unlink()
    assert repo.run("commit", "--quiet", "--amend", "--allow-empty", "-m", "y").returncode == 0


def test_in_the_background_git_waits_for_nothing_and_trouble_is_told_by_the_next(
    repo: Repo, recorder: Recorder
) -> None:
    installed(repo, recorder)
    repo.commit(a="1")
    recorder.take()
    go = recorder.program.with_name("go")
    script = f'until [ -e {quote(str(go))} ]; do sleep 0.05; done\necho one >&2\necho "it went wrong" >&2\nexit 1\n'
    recorder.write(script)
    background = {"SLOTLOG_HOOKS": ""}
    began = time.monotonic()
    done = repo.run("commit", "--quiet", "--allow-empty", "-m", "x", **background)  # until its stderr is closed
    assert time.monotonic() - began < 5
    assert (done.returncode, done.stderr) == (0, b"")
    go.touch()
    trouble = repo.folder / ".git" / TROUBLE
    wait_for(lambda: found(repo).hooks_trouble() == "it went wrong")
    recorder.write("exit 0\n")
    done = repo.run("commit", "--quiet", "--allow-empty", "-m", "x", **background)
    assert (done.returncode, done.stderr) == (0, b"it went wrong\n")
    wait_for(lambda: trouble.read_text() == "")
    done = repo.run("commit", "--quiet", "--allow-empty", "-m", "x", **background)
    assert (done.returncode, done.stderr) == (0, b"")
    assert found(repo).hooks_trouble() is None


def test_they_can_be_switched_off(repo: Repo, recorder: Recorder) -> None:
    installed(repo, recorder)
    repo.git("commit", "--quiet", "--allow-empty", "-m", "x", SLOTLOG_HOOKS="off")
    assert recorder.take() == []


def wait_for(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# -- the commands


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def run(repo: Repo, log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `slotlog git …` inside the repository on a log of its own, and asserts its exit code."""
    monkeypatch.chdir(repo.folder)
    monkeypatch.setattr(Settings, "open", lambda self, **_: log)

    def invoke(*words: str, stdin: bytes | None = None, code: int = 0) -> Result:
        result = CliRunner().invoke(git, words, input=stdin, obj=Settings(store="./sto re", actor=ACTOR))
        if isinstance(result.exception, Exception) and not isinstance(result.exception, SystemExit):
            with pytest.MonkeyPatch.context() as patch:
                lines: list[str] = []
                patch.setattr("projectors.surfaces.output.note", lines.append)
                assert cli.told(result.exception) == code
                result.stderr_bytes = "\n".join(lines).encode()
        else:
            assert result.exit_code == code, result.output
        return result

    return invoke


def document(result: Result) -> Any:
    return json.loads(result.stdout)


def test_sync_records_what_is_new(run: Run, repo: Repo, log: FakeLog) -> None:
    assert run("sync", SPACE).stdout == "0 commits recorded, 0 found again under another id\n"
    shas = [repo.commit(a="1"), repo.commit(a="2")]
    told = document(run("sync", SPACE, "--json"))
    assert told == {"repo": repo.folder.name, "head": shas[1], "appended": 2, "mapped": 0, "pending": 0}
    assert log.plain == shas
    assert {one.actor for one in log.events.values()} == {ACTOR}
    repo.git("checkout", "--quiet", "--orphan", "other")
    log.pin(shas[1])
    repo.commit("unlike", b="3")
    assert run("sync", SPACE).stderr.endswith(": 1 commit that facts are pinned to\n")


def test_the_commands_outside_a_repository(run: Run, tmp_path: Path) -> None:
    for words in (("sync", SPACE), ("install-hooks", SPACE), ("uninstall-hooks",), ("status",)):
        assert "is in no git repository" in run(*words, "--repo", str(tmp_path / "nowhere"), code=2).stderr
    run("sync", "not//a space", code=2)


def test_install_keeps_what_it_was_given(run: Run, repo: Repo) -> None:
    told = document(run("install-hooks", SPACE, "--json", "--timeout", "2.5"))
    assert [one["kind"] for one in told] == list(KINDS)
    words = told[0]["command"]
    assert words[1:4] == ["-P", "-m", "projectors.surfaces.cli"]
    assert words[4:] == [
        f"--store={repo.folder}/sto re",
        f"--actor={ACTOR}",
        "--timeout=2.5",
        "git",
        "hook",
        f"--space={SPACE}",
    ]
    assert run("uninstall-hooks").stdout.count("none") == 4


@pytest.mark.parametrize(
    ("store", "kept"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("kafka://h:9092/t?state=/var/x", "kafka://h:9092/t?state=/var/x"),
        ("kafka://h:9092/t", "kafka://h:9092/t"),
        ("~/memory", os.path.expanduser("~/memory")),
        ("kafka://h:9092/t?state=./x", None),
    ],
)
def test_stores_mean_the_same_in_any_folder(run: Run, store: str, kept: str | None) -> None:
    if kept is None:
        assert "is relative" in run("install-hooks", SPACE, "--store", store, code=2).stderr
    else:
        assert f"--store={kept}" in document(run("install-hooks", SPACE, "--store", store, "--json"))[0]["command"]


def test_status_tells_what_is_there(run: Run, repo: Repo, log: FakeLog) -> None:
    assert "at no commit yet" in run("status").stdout
    sha = repo.commit(a="1")
    run("install-hooks", SPACE)
    told = run("status", SPACE, code=1).stdout
    assert "HEAD is not recorded" in told
    assert told.count("installed") == 4
    run("sync", SPACE)
    log.pin(sha)
    told = document(run("status", SPACE, "--json"))
    assert (told["head"], told["recorded"], told["pinned_commits"], told["trouble"]) == (sha, True, 1, None)
    assert {one["state"] for one in told["hooks"]} == {"installed"}
    (repo.folder / ".git" / TROUBLE).write_text("the store is busy\n")
    assert "the store is busy" in run("status", SPACE, code=1).stderr


def test_what_the_hooks_run(run: Run, repo: Repo, log: FakeLog) -> None:
    old = repo.commit(a="1")
    log.pin(old)
    given = ("hook", f"--space={SPACE}")
    run(*given, "post-commit")
    assert log.plain == [old]
    repo.git("commit", "--quiet", "--amend", "-m", "better")
    run(*given, "post-rewrite", "amend", stdin=f"{old} {repo.head}\n".encode())
    assert log.pairs == [(old, repo.head)]
    run(*given, "post-checkout", old, repo.head, "1")
    run(*given, "post-merge", "0")
    assert len(log.events) == 3
    run(*given, "pre-commit", code=2)
    assert run(*given, "post-rewrite", stdin=b"x\n", code=1).stderr.startswith("slotlog: post-rewrite: 'x' is no")


def test_trouble_in_a_hook_is_one_line(run: Run, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit(a="1")

    def busy(*_: object, **__: object) -> None:
        raise StoreBusy("log.lock is held by\nprocess 7")

    monkeypatch.setattr(Settings, "open", busy)
    result = run("hook", f"--space={SPACE}", "post-commit", code=1)
    assert result.stderr == "slotlog: post-commit: log.lock is held by\\nprocess 7\n"
