"""`slotlog.toml`: where it is found, what goes before it, and what is wrong with one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import ALICE, SPACE, document, documents, runner

from projectors.surfaces import settings_file
from schemas.errors import InvalidInput

NAMED = (SPACE, ALICE, "employer")
NONE = {"SLOTLOG_STORE": "", "SLOTLOG_ACTOR": ""}


def write(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "slotlog.toml").write_text(text)


def test_an_option_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    here = tmp_path / "top" / "a" / "b"
    here.mkdir(parents=True)
    (tmp_path / "top" / ".git").mkdir()
    write(tmp_path / "top", 'store = "memory"\nactor = "agent:file"\nbranch = "idea"\n')
    run = runner(here)
    run("branch", "create", SPACE, "idea", "--from", "main", **NONE)
    run("remember", *NAMED, "Acme", **NONE)
    run("remember", *NAMED, "Globex", **NONE | {"SLOTLOG_ACTOR": "agent:env", "SLOTLOG_BRANCH": "main"})
    run(
        "remember", *NAMED, "Hooli", "--actor", "agent:own", "--branch", "main", **NONE | {"SLOTLOG_ACTOR": "agent:env"}
    )
    assert (tmp_path / "top" / "memory" / "log.sqlite").exists()
    found = [one["event"] for one in documents(run("replay", SPACE, "--json", **NONE))]
    assert [(one["actor"], one.get("branch", "main")) for one in found] == [
        ("agent:file", "idea"),
        ("agent:file", "idea"),
        ("agent:env", "main"),
        ("agent:own", "main"),
    ]
    assert document(run("get", *NAMED, "--json", **NONE))["value"] == "Acme"
    assert run("branch", "list", SPACE, **NONE).stdout.splitlines()[-1].startswith("* idea")
    assert "there is no log in" in run("get", *NAMED, "--store", "other", **NONE, code=2).stderr
    assert run("demo", **NONE).stdout.startswith("17 events")


def test_the_nearest_file_up_to_the_top_of_the_repository_or_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    top, elsewhere = home / "src" / "top", tmp_path / "elsewhere" / "a"
    below = top / "a" / "b"
    for folder in (below, elsewhere, top / ".git"):
        folder.mkdir(parents=True)
    for folder in (tmp_path, home, elsewhere.parent):
        write(folder, "")

    def found(folder: Path) -> Path | None:
        path = settings_file.nearest(str(folder))
        return None if path is None else Path(path).parent

    assert found(below) is None
    assert found(home / "src") == home
    assert found(elsewhere) is None
    assert found(elsewhere.parent) == elsewhere.parent
    write(top, "")
    assert found(below) == top
    write(below, "")
    assert found(below) == below


@pytest.mark.parametrize(
    ("given", "store"),
    [
        ("memory", "/a/b/memory"),
        ("../memory", "/a/memory"),
        ("/memory", "/memory"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("kafka://b:1/t?acks=all&state=s", "kafka://b:1/t?acks=all&state=%2Fa%2Fb%2Fs"),
        ("kafka://b:1/t?state=/s", "kafka://b:1/t?state=/s"),
        ("kafka://b:1/t", "kafka://b:1/t"),
    ],
)
def test_a_relative_store_lies_beside_the_file(given: str, store: str) -> None:
    assert settings_file._from_there(given, "/a/b") == store


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('stor = "x"', "there is no setting 'stor'\nhint: did you mean store?"),
        ("[a]\nb = 1", "there is no setting 'a'\nhint: there are store, actor, branch, branch_isolation"),
        ("store = 1", "store must be text, not 1"),
        ('branch_isolation = "yes"', "branch_isolation must be true or false, not 'yes'"),
        ("branch = true", "branch must be text, not True"),
        ('actor = ""', "actor is empty\nhint: leave it out"),
        ("store = ", "is no TOML: Invalid value"),
        ("store = " + "[" * 5_000, "is no TOML: "),
        ("\udcff", "is no TOML: "),
    ],
    ids=lambda text: text[:20].encode("ascii", "replace").decode(),
)
def test_a_file_that_is_wrong_is_named_with_what_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "slotlog.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    run = runner(tmp_path)
    stderr = run("get", *NAMED, **NONE, code=2).stderr
    assert stderr.startswith(f"error: {tmp_path}/slotlog.toml")
    assert told in stderr
    run("get", "--help", **NONE)


def test_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        settings_file.read(str(tmp_path / "slotlog.toml"))
    write(tmp_path, "x = 1")
    with pytest.raises(InvalidInput):
        settings_file.read(str(tmp_path / "slotlog.toml"))


def test_a_working_directory_that_is_gone_has_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    shutil.rmtree(here)
    assert settings_file.found() == settings_file.FileSettings()
