"""The program itself and the commands that write one event: receipts, values, errors and exit codes."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest
from command_line import ALICE, ID, SPACE, Run, document, documents, runner

from projectors.surfaces.cli import main
from schemas import errors
from streams import Memory


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


# -- the program


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("command", commands(main), ids=" ".join)
def test_every_command_has_help_with_an_example_and_takes_json(run: Run, command: tuple[str, ...]) -> None:
    text = run(*command, "--help").stdout
    assert "Example" in text
    assert f"slotlog {' '.join(command)}" in text or "topic" in command
    assert "--json" in text or command == ("completion",)  # which no program reads


def test_help_documents_the_exit_codes(run: Run) -> None:
    text = run("--help").stdout
    assert text == run().stdout
    for code in (
        "0    done",
        "1    answered",
        "2    what",
        "3    try",
        "4    the store",
        "130  interr",
        "141  whoever",
    ):
        assert code in text


def test_version(run: Run) -> None:
    assert run("--version").stdout.startswith("slotlog ")


def test_wrong_usage_is_told_with_where_to_look(run: Run) -> None:
    result = run("get", SPACE, code=2)
    assert result.stdout == ""
    assert result.stderr == "error: Missing argument 'ENTITY'.\nhint: slotlog get --help shows how it is written\n"
    assert run("gett", code=2).stderr.startswith("error: No such command 'gett'. Did you mean 'get'?\nhint: ")
    assert run("zzz", code=2).stderr.startswith("error: No such command 'zzz'.\nhint: ")


def test_store_and_json_may_stand_before_or_after_the_command(run: Run, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    run("--store", other, "remember", SPACE, ALICE, "employer", "Acme")
    for words in (
        ("--store", other, "--json", "get", SPACE, ALICE, "employer"),
        ("get", "--store", other, "--json", SPACE, ALICE, "employer"),
        ("get", SPACE, ALICE, "employer", "--json", "--store", other),
    ):
        assert document(run(*words))["value"] == "Acme"
    assert document(run("get", SPACE, ALICE, "employer", "--json", SLOTLOG_STORE=other))["value"] == "Acme"
    run("get", SPACE, ALICE, "employer", code=2)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidInput("x"), 2),
        (errors.InvalidView("x"), 2),
        (errors.NotFound("x", hint="y"), 2),
        (errors.StoreBusy("x"), 3),
        (errors.LogUnreachable("x"), 3),
        (errors.StoreFull("x"), 4),
        (errors.StoreDamaged("x"), 4),
        (errors.LogTruncated("x"), 4),
        (errors.LogRecreated("x"), 4),
        (errors.FormatTooNew("x"), 4),
        (errors.UndecodableEvent("x"), 4),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 2),
        (OSError(errno.ENOSPC, "No space left on device"), 4),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141),
    ],
    ids=lambda given: type(given).__name__,
)
def test_each_error_has_its_code_and_no_traceback(run: Run, error: BaseException, code: int) -> None:
    with patch.object(Memory, "open", side_effect=error), patch("projectors.surfaces.cli._let_go_of_stdout"):
        result = run("info", code=code)
    assert "Traceback" not in result.output
    if code < 128:
        assert result.stderr.startswith("error: ")


def test_a_bug_is_not_taken_for_an_error_of_the_user(run: Run) -> None:
    with patch.object(Memory, "open", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
        run("info")


# -- writes


def test_a_write_answers_its_receipt(run: Run) -> None:
    status, position, event_id = run("remember", SPACE, ALICE, "employer", "Acme").stdout.split()
    assert (status, position) == ("accepted", "0:0")
    receipt = document(run("remember", SPACE, ALICE, "employer", "Globex", "--json"))
    assert receipt == {
        "space": SPACE,
        "event_id": receipt["event_id"],
        "position": {"partition": 0, "offset": 1},
        "status": "accepted",
        "reason": None,
    }
    assert receipt["event_id"] > event_id


def test_wait_tells_what_became_of_it(run: Run) -> None:
    words = ("remember", SPACE, ALICE, "employer")
    assert run(*words, "Acme", "--wait", "--event-id", ID).stdout.startswith("applied  0:0")
    assert run(*words, "Acme", "--wait", "--event-id", ID).stdout.startswith("duplicate  0:1")
    conflict = run(*words, "Globex", "--wait", "--event-id", ID, code=1).stdout
    assert conflict.startswith("conflict  0:2")
    assert "0:0" in conflict or "offset 0" in conflict
    assert [one["code"] for one in document(run("quarantine", "--json"))] == ["conflict"]
    assert "conflict" in run("quarantine").stdout


@pytest.mark.parametrize(
    ("words", "value", "shown"),
    [
        (("Acme",), "Acme", "Acme"),
        (("Acme Corp",), "Acme Corp", '"Acme Corp"'),
        (("",), "", '""'),
        (("42",), "42", '"42"'),
        (("true",), "true", '"true"'),
        (("42", "--json-value"), 42, "42"),
        (("42.0", "--json-value"), 42.0, "42.0"),
        (("true", "--json-value"), True, "true"),
        (('"42"', "--json-value"), "42", '"42"'),
        (("--json-value", "--", "-5"), -5, "-5"),
        (("a\u202eb\x1b[2J\u0085",), "a\u202eb\x1b[2J\u0085", '"a\\u202eb\\u001b[2J\\u0085"'),
        (("日本",), "日本", "日本"),
    ],
)
def test_a_value_is_text_unless_json_value_is_given(run: Run, words: tuple[str, ...], value: Any, shown: str) -> None:
    run("remember", SPACE, ALICE, "x", *words)
    found = document(run("get", SPACE, ALICE, "x", "--json"))["value"]
    assert (type(found), found) == (type(value), value)
    assert run("get", SPACE, ALICE, "x").stdout.splitlines()[0] == shown
    bare = value if isinstance(value, str) else shown
    assert run("get", SPACE, ALICE, "x", "--value-only").stdout == f"{bare}\n"


@pytest.mark.parametrize("text", ["nul", "null", "[1]", "{}", "1e999", "99999999999999999999"])
def test_what_is_no_json_scalar_is_refused(run: Run, text: str) -> None:
    assert "hint: " in run("remember", SPACE, ALICE, "x", "--json-value", text, code=2).stderr or text == "1e999"


def test_a_value_that_looks_like_an_option(run: Run) -> None:
    assert "hint: put --" in run("remember", SPACE, ALICE, "x", "-5", code=2).stderr


def test_everything_that_remember_takes_is_on_the_event(run: Run) -> None:
    cause = document(run("observe", SPACE, "user", "hi", "--json"))["event_id"]
    given = {
        "valid_from": "2026-03-01T09:00:00Z",
        "valid_to": "2026-04-01T09:00:00Z",
        "session": "run-7",
        "confidence": 0.5,
        "origin": "extracted",
        "engine": "rules@1",
        "source": "mail",
        "subject": "p-1",
        "cause": cause,
        "event_id": ID,
        "actor": "agent:other",
    }
    options = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    run("remember", SPACE, ALICE, "employer", "Acme", *options)
    event = documents(run("replay", SPACE, "--json"))[-1]["event"]
    assert given.items() <= event.items()


def test_observe_reads_stdin_and_attributes(run: Run) -> None:
    words = ("observe", SPACE, "tool", "-", "--attribute", "command=make test", "--content-type", "text/x-log")
    run(*words, stdin="naïve\n\nok\n".encode())
    event = documents(run("replay", SPACE, "--json"))[0]["event"]
    assert event["text"] == "naïve\n\nok"
    assert event["attributes"] == {"command": "make test"}
    assert event["content_type"] == "text/x-log"
    assert "stdin is not UTF-8" in run("observe", SPACE, "tool", "-", stdin=b"\xff", code=2).stderr
    assert "KEY=TEXT" in run("observe", SPACE, "tool", "x", "--attribute", "command", code=2).stderr


def test_end_is_a_change_and_forget_a_correction(run: Run) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme", "--valid-from", "2025-01-01T00:00:00Z")
    run("end", SPACE, ALICE, "employer", "--at", "2025-06-01T00:00:00+02:00", "--reason", "left")
    get = ("get", SPACE, ALICE, "employer")
    assert "nothing is believed" in run(*get, code=1).stderr
    belief = document(run(*get, "--valid-at", "2025-03-01T00:00:00Z", "--json"))
    assert (belief["value"], belief["valid_to"]) == ("Acme", "2025-05-31T22:00:00Z")
    assert belief["superseded_by"]["ended"] is True
    run("forget", SPACE, ALICE, "employer", "Acme", "--reason", "another Alice")
    run(*get, "--valid-at", "2025-03-01T00:00:00Z", code=1)
    assert document(run(*get, "--as-of", "0", "--valid-at", "2025-03-01T00:00:00Z", "--json"))["value"] == "Acme"


def test_end_and_forget_of_one_value(run: Run) -> None:
    run("remember", SPACE, ALICE, "seats", "--json-value", "3", "--valid-from", "2025-01-01T00:00:00Z")
    run("end", SPACE, ALICE, "seats", "--value", "3")  # the text, which nobody asserted
    run("get", SPACE, ALICE, "seats")
    run("end", SPACE, ALICE, "seats", "--value", "3", "--json-value")
    run("get", SPACE, ALICE, "seats", code=1)
    assert "no fact or end" in run("forget", SPACE, ALICE, "seats", "4", "--json-value", code=2).stderr


def test_forget_by_event_id(run: Run) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme", "--event-id", ID)
    run("forget", SPACE, "--target", ID)
    run("get", SPACE, ALICE, "employer", code=1)
    assert f"retracts {ID}" in run("replay", SPACE).stdout
    assert "is no event id" in run("forget", SPACE, "--target", "x", code=2).stderr
    assert "nothing is named" in run("forget", SPACE, code=2).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("remember", "acme//x", ALICE, "employer", "Acme"),
        ("remember", SPACE, "", "employer", "Acme"),
        ("remember", SPACE, "a\x00", "employer", "Acme"),
        ("get", SPACE, "\udcff", "employer"),
        ("forget", SPACE, ALICE, "employer"),
    ],
)
def test_a_name_that_is_wrong_leaves_no_store_behind(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert run(*words, code=2).stderr.startswith("error: ")
    assert list(tmp_path.iterdir()) == []
