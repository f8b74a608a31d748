"""The commands that move events, prove that they are what they were, and let a shell complete commands."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from command_line import ALICE, ID, SPACE, Run, document, documents, fact, lines, runner

from schemas.errors import LogUnreachable, StoreDamaged
from streams import Memory, Position
from streams.doctor import Check
from streams.integrity import Problem
from streams.local import LocalMemory
from streams.transfer import Transferred

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


@pytest.fixture
def store(run: Run, tmp_path: Path) -> str:
    """A store with two events that count, one twice and one in conflict; its name."""
    again = fact("Acme", event_id=ID, recorded_at=0)
    run("append", stdin=lines(again, again, fact("Globex"), fact("Other", event_id=ID, recorded_at=0)))
    return str(tmp_path / "store")


def digest(run: Run, store: str) -> str:
    found: str = document(run("--store", store, "digest", "--json"))["digest"]
    return found


# -- copy


def test_a_copy_has_the_same_digest_and_a_second_one_changes_nothing(run: Run, store: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    assert run("copy", store, other).stdout == "3 copied, 0 there already\n"
    assert digest(run, other) == digest(run, store)
    assert [one["code"] for one in document(run("--store", other, "quarantine", "--json"))] == ["conflict"]
    assert document(run("copy", store, other, "--json")) == {"appended": 0, "known": 3, "left_out": 0}


def test_a_copy_that_is_refused(run: Run, store: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert "onto itself" in run("copy", store, store, code=2).stderr
    assert "there is no log in" in run("copy", str(tmp_path / "none"), str(other), code=2).stderr
    assert "Missing argument 'DST'" in run("copy", store, code=2).stderr
    assert not other.exists()


def test_what_a_copy_leaves_out_is_told(run: Run, store: str, tmp_path: Path) -> None:
    with patch.object(LocalMemory, "copy", lambda *_: Transferred(appended=1_000, known=1, left_out=2)):
        text = run("copy", store, str(tmp_path / "other")).stdout
    assert text == "1,000 copied, 1 there already, 2 left out that never counted and are too large\n"


def test_a_copy_that_ends_early_says_how_far_it_came_and_that_it_may_be_repeated(
    run: Run, store: str, tmp_path: Path
) -> None:
    def fails(_: Memory, __: Memory, update: object) -> None:
        assert callable(update)
        update(2)
        raise LogUnreachable("no answer")

    with patch.object(LocalMemory, "copy", fails):
        result = run("copy", store, str(tmp_path / "other"), code=3)
    assert result.stderr.splitlines() == [
        "2 records had been read by then; the same command goes on with the rest",
        "error: no answer",
    ]


# -- export and import


def test_an_archive_brings_everything_back(run: Run, store: str, tmp_path: Path) -> None:
    file, other = str(tmp_path / "memory.avro"), str(tmp_path / "other")
    assert run("export", file).stdout == f"3 exported to {file}\n"
    assert run("--store", other, "import", file).stdout == "3 imported, 0 there already\n"
    assert digest(run, other) == digest(run, store)
    assert document(run("--store", other, "import", file, "--json")) == {"appended": 0, "known": 3, "left_out": 0}


def test_export_replaces_a_file_only_by_force(run: Run, store: str, tmp_path: Path) -> None:
    file = tmp_path / "memory.avro"
    file.write_text("precious")
    result = run("export", str(file), code=2)
    assert result.stderr.splitlines() == [
        f"error: there is a file {file} already",
        "hint: name another, or replace it with --force",
    ]
    assert file.read_text() == "precious"
    assert document(run("export", "--force", str(file), "--json")) == {"file": str(file), "exported": 3}
    assert file.read_bytes().startswith(b"Obj\x01")


def test_an_export_that_can_not_be_written(run: Run, store: str, tmp_path: Path) -> None:
    assert "can't be written" in run("export", str(tmp_path / "none" / "memory.avro"), code=2).stderr
    assert "is a directory" in run("export", str(tmp_path), code=2).stderr
    assert "no pipe" in run("export", "-", code=2).stderr


def test_an_import_that_is_refused_makes_no_store(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "memory.avro"
    assert "No such file" in run("import", str(file), code=2).stderr
    file.write_bytes(b"no archive")
    assert "is no archive" in run("import", str(file), code=2).stderr
    assert "no pipe" in run("import", "-", code=2).stderr
    assert list(tmp_path.iterdir()) == [file]


def test_of_a_damaged_archive_nothing_is_imported(run: Run, store: str, tmp_path: Path) -> None:
    file, other = tmp_path / "memory.avro", str(tmp_path / "other")
    run("export", str(file))
    file.write_bytes(file.read_bytes()[:-20])
    assert run("--store", other, "import", str(file), code=4).stderr.startswith("error: ")
    assert not Path(other).exists() or document(run("--store", other, "info", "--json"))["spaces"] == []


# -- verify and doctor


def test_verify_finds_no_difference(run: Run, store: str) -> None:
    assert run("verify").stdout == "no difference: 4 records in 1 partition\n"
    assert document(run("verify", "--json")) == []


def test_verify_tells_each_difference(run: Run, store: str) -> None:
    in_log = Problem(Position(0, 2), "the record is not the one that was folded here")
    in_tables = Problem(None, "the tables of space 'a\x1b' are not what the log says", in_tables=True)
    with patch.object(LocalMemory, "verify", lambda _: [in_log, in_tables]):
        result = run("verify", code=4)
        found = document(run("verify", "--json", code=4))
    assert result.stdout.splitlines() == [
        "log     0:2  the record is not the one that was folded here",
        "tables  the tables of space 'a\\u001b' are not what the log says",
    ]
    assert result.stderr.startswith("hint: the log is history")
    assert found[0] == {
        "position": {"partition": 0, "offset": 2},
        "what": "the record is not the one that was folded here",
        "in_tables": False,
    }
    with patch.object(LocalMemory, "verify", lambda _: [in_tables]):
        assert run("verify", code=4).stderr == "hint: slotlog rebuild mends tables\n"


def test_doctor_of_a_store_that_is_well(run: Run, store: str) -> None:
    shown = [line.split(maxsplit=1) for line in run("doctor").stdout.splitlines()]
    assert [outcome for outcome, _ in shown] == ["well"] * 6 + ["noticed"]
    assert shown[0][1] == f"store opens: {store}"
    found = document(run("doctor", "--json"))
    assert found[-1]["name"] == "quarantine"
    assert found[-1]["outcome"] == "noticed"


def test_doctor_mends_leftovers_unless_told_not_to(run: Run, store: str, tmp_path: Path) -> None:
    with Memory.open(store) as memory:
        leftover = memory.tables_folder / "p0.fresh"
    leftover.mkdir(parents=True)
    assert "\nnoticed  leftovers: p0.fresh" in run("doctor", "--no-repair").stdout
    assert leftover.exists()
    assert "\nmended   leftovers: p0.fresh removed\n" in run("doctor").stdout
    assert not leftover.exists()


def test_doctor_tells_what_is_wrong(run: Run, store: str) -> None:
    def checks(name: str, *, repair: bool, busy_timeout_s: float) -> Iterator[Check]:
        assert (name, repair, busy_timeout_s) == (store, True, 5)
        yield Check("store opens", "well", store)
        yield Check("tables open", "wrong", "a\x1bb")

    with patch("streams.doctor.doctor", checks):
        result = run("doctor", "--timeout", "5", code=4)
    assert result.stdout.splitlines()[-1] == "wrong    tables open: a\\u001bb"


def test_doctor_of_a_store_that_does_not_open(run: Run, store: str) -> None:
    with patch.object(Memory, "open", side_effect=StoreDamaged("the log can't be read")):
        assert run("doctor", code=4).stdout == "wrong    store opens: the log can't be read\n"
        assert [one["outcome"] for one in document(run("doctor", "--json", code=4))] == ["wrong"]


# -- completion


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_a_script(run: Run, shell: str) -> None:
    assert "_SLOTLOG_COMPLETE" in run("completion", shell).stdout


def test_completion_of_a_shell_that_is_not_known(run: Run) -> None:
    assert "'tcsh' is not one of" in run("completion", "tcsh", code=2).stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("slotlog ge", ["plain,get"]),
        ("slotlog history --al", ["plain,--along"]),
        ("slotlog review a/b x v", ["plain,verified"]),
        ("slotlog nope --al", []),
        ("slotlog impo", ["plain,import"]),
    ],
)
def test_what_a_shell_is_offered(run: Run, typed: str, offered: list[str]) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    result = run(_SLOTLOG_COMPLETE="bash_complete", **words)
    assert result.stdout.split() == offered
    assert result.stderr == ""


def test_bash_takes_the_script(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(run("completion", "bash").stdout)
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=30)


def test_replay_of_a_store_with_a_conflict_shows_what_counts(run: Run, store: str) -> None:
    assert [one["event"]["value"] for one in documents(run("replay", SPACE, "--json"))] == ["Acme", "Globex"]
    assert run("get", SPACE, ALICE, "employer", "--value-only").stdout == "Globex\n"
