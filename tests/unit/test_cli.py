"""The command line, command by command, in this process: answers, JSON, errors and exit codes."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner, Result

from projectors.surfaces import output
from projectors.surfaces.appending import BATCH_EVENTS, _Interrupts
from projectors.surfaces.cli import main
from projectors.surfaces.render import lanes
from schemas import errors
from streams import Memory

SPACE = "acme/support"
ALICE = "user:alice"
ID = "0195d0a4-7c00-7000-8000-000000000007"
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command on a store in an otherwise empty folder."""

    def invoke(*words: str, stdin: bytes | None = None, code: int = 0, **env: str) -> Result:
        settings = {"SLOTLOG_STORE": str(tmp_path / "store"), "SLOTLOG_ACTOR": "agent:test", "COLUMNS": "100", **env}
        result = CliRunner().invoke(main, words, input=stdin, env=settings, prog_name="slotlog", catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return invoke


def document(result: Result) -> Any:
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def documents(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def fact(value: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "employer", "value": value, **fields}


def lines(*events: Any) -> bytes:
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in events)


# -- the program


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("command", commands(main), ids=" ".join)
def test_every_command_has_help_with_an_example_and_takes_json(run: Run, command: tuple[str, ...]) -> None:
    text = run(*command, "--help").stdout
    assert "Example" in text
    assert f"slotlog {' '.join(command)}" in text or "topic" in command
    assert "--json" in text


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


# -- reads


@pytest.mark.parametrize(
    "words",
    [
        ("get", SPACE, ALICE, "employer"),
        ("entity", SPACE, ALICE),
        ("history", SPACE, ALICE, "employer"),
        ("timeline", SPACE),
        ("sessions", SPACE),
        ("replay", SPACE),
        ("rebuild",),
        ("digest",),
        ("info",),
        ("quarantine",),
    ],
    ids=lambda words: words[0],
)
def test_a_read_of_no_store_says_so_and_makes_none(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    result = run(*words, code=2)
    assert "there is no log in" in result.stderr
    assert "hint: name another with --store" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_reads_that_find_nothing(run: Run) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme")
    assert document(run("get", SPACE, ALICE, "x", "--json", code=1)) is None
    assert document(run("entity", SPACE, "user:bob", "--json", code=1)) == {}
    assert document(run("history", SPACE, ALICE, "x", "--json", code=1)) == []
    assert document(run("history", SPACE, ALICE, "x", "--along", "offsets", "--json", code=1)) == []
    assert document(run("sessions", SPACE, "--json", code=1)) == []
    for words in (("timeline", "other"), ("replay", SPACE, "--start", "1"), ("history", SPACE, ALICE, "x")):
        result = run(*words, code=1)
        assert result.stdout == ""
        assert result.stderr
    assert run("timeline", "other", "--json", code=1).output == ""


def test_a_belief_in_json_has_the_fields_of_the_dataclass(run: Run) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme", "--valid-from", "2025-01-01T00:00:00Z", "--event-id", ID)
    belief = document(run("get", SPACE, ALICE, "employer", "--valid-at", "2025-02-01T00:00:00+00:00", "--json"))
    assert belief == {
        "entity": ALICE,
        "slot": "employer",
        "value": "Acme",
        "valid_from": "2025-01-01T00:00:00Z",
        "valid_to": None,
        "position": {"partition": 0, "offset": 0},
        "event_id": ID,
        "actor": "agent:test",
        "trust": "candidate",
        "corroborations": 1,
        "contested": None,
        "superseded_by": None,
        "view": {
            "as_of": {"partition": 0, "offset": 0},
            "valid_at": "2025-02-01T00:00:00Z",
            "branch": "main",
            "trust": "candidate",
            "without_actors": [],
        },
    }


def test_views(run: Run) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme")
    before = documents(run("replay", SPACE, "--json"))[0]["append_time"]
    run("remember", SPACE, ALICE, "employer", "Globex", "--actor", "agent:intern")
    get = ("get", SPACE, ALICE, "employer", "--value-only")
    assert run(*get).stdout == "Globex\n"
    for view in (("--as-of", "0"), ("--as-of", "0:0"), ("--as-of", before), ("--without-actor", "agent:intern")):
        assert run(*get, *view).stdout == "Acme\n"
    run(*get, "--trust", "verified", code=1)
    run(*get, "--as-of", "-1", code=1)
    run(*get, "--without-actor", "agent:intern", "--without-actor", "agent:test", code=1)
    assert len(documents(run("timeline", SPACE, "--as-of", "0", "--json"))) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--as-of", "7"), "past the end"),
        (("--as-of", "1:0"), "another partition"),
        (("--as-of", "x"), "no point of the log"),
        (("--as-of", "2026-03-01"), "write it with a time of day"),
        (("--valid-at", "2026-03-01"), "write it with a time of day"),
        (("--valid-at", "2026-03-01T00:00:00"), "has no zone"),
        (("--valid-at", "yesterday"), "write it with a time of day"),
        (("--trust", "rejected"), "not one of"),
    ],
)
def test_views_that_can_not_be_asked(run: Run, words: tuple[str, ...], told: str) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme")
    assert told in run("get", SPACE, ALICE, "employer", *words, code=2).stderr


def test_a_slot_of_many_answers_a_list(run: Run) -> None:
    declared = {"type": "SlotDeclared", "space": SPACE, "slot": "reads", "cardinality": "many"}
    run("append", stdin=lines(declared, fact("Emma", slot="reads"), fact("Dune", slot="reads")))
    assert [one["value"] for one in document(run("get", SPACE, ALICE, "reads", "--json"))] == ["Emma", "Dune"]
    assert run("get", SPACE, ALICE, "reads", "--value-only").stdout == "Emma\nDune\n"
    assert [one["value"] for one in document(run("entity", SPACE, ALICE, "--json"))["reads"]] == ["Emma", "Dune"]
    assert document(run("get", SPACE, ALICE, "reads", "--as-of", "0", "--json", code=1)) == []
    table = run("entity", SPACE, ALICE).stdout.splitlines()
    assert table[0].split() == ["SLOT", "VALUE", "FROM", "TO", "ACTOR"]
    assert [row.split()[:2] for row in table[1:]] == [["reads", "Emma"], ["reads", "Dune"]]


def test_history_draws_intervals_to_scale(run: Run) -> None:
    for value, day in (("Acme", "2025-01-01"), ("Globex", "2025-01-11")):
        run("remember", SPACE, ALICE, "employer", value, "--valid-from", f"{day}T00:00:00Z")
    run("end", SPACE, ALICE, "employer", "--at", "2025-01-21T00:00:00Z")
    words = ("history", SPACE, ALICE, "employer")
    beliefs = document(run(*words, "--json"))
    assert [one["value"] for one in beliefs] == ["Acme", "Globex"]
    text = run(*words).stdout.splitlines()
    assert text[0].split()[0] == "2025-01-01T00:00:00Z"
    assert text[1].startswith("  1  ├") or text[1].startswith("  1  │")
    assert text[1].endswith("  Acme")
    ids = [one["event_id"] for one in beliefs]
    assert f"by agent:test, candidate, event {ids[0]} at 0:0" in text[5]
    assert f"superseded by Globex, by agent:test, event {ids[1]} at 0:1" in text[6]
    assert "superseded by an end" in text[9]


def test_lanes_are_to_scale_at_every_width(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    days = [datetime(2025, 1, day, tzinfo=UTC) for day in (1, 11, 21)]
    with Memory.open(tmp_path) as memory:
        memory.remember(SPACE, ALICE, "employer", "Acme", valid_from=days[0], valid_to=days[1])
        memory.remember(SPACE, ALICE, "employer", "日本", valid_from=days[1], valid_to=days[2])
        memory.remember(SPACE, ALICE, "employer", "x" * 300, valid_from=days[2])
        from streams import View

        beliefs = memory.history(SPACE, ALICE, "employer", View(as_of=2, valid_at=days[2]))
    drawn = list(lanes(beliefs, 54))
    assert drawn[1:4] == [
        "  1  ├────────┤            Acme",
        "  2            ├────────┤  日本",
        "  3                     ▶  " + "x" * 26 + "…",
    ]
    for columns in (10, 40, 80, 200):
        assert max(output.cells(line) for line in list(lanes(beliefs, columns))[:4]) <= max(columns, 54)


def test_history_along_offsets(run: Run) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme", "--event-id", ID)
    run("remember", SPACE, "user:bob", "employer", "Acme")
    run("remember", SPACE, ALICE, "employer", "Globex")
    run("forget", SPACE, ALICE, "employer")
    words = ("history", SPACE, ALICE, "employer", "--along", "offsets")
    changes = document(run(*words, "--json"))
    assert [one["position"]["offset"] for one in changes] == [0, 2, 3]
    assert [[belief["value"] for belief in one["beliefs"]] for one in changes] == [["Acme"], ["Globex"], []]
    assert changes[0]["event"]["event_id"] == ID
    assert [row.split()[0:3:2] for row in run(*words).stdout.splitlines()] == [
        ["0", "Acme"],
        ["2", "Globex"],
        ["3", "nothing"],
    ]


def test_timeline_of_an_entity_and_a_slot(run: Run) -> None:
    run("append", stdin=lines(fact("Acme"), fact("Bern", slot="city"), fact("Acme", entity="user:bob")))
    assert len(run("timeline", SPACE).stdout.splitlines()) == 3
    assert len(run("timeline", SPACE, "--entity", ALICE).stdout.splitlines()) == 2
    (recorded,) = documents(run("timeline", SPACE, "--entity", ALICE, "--slot", "city", "--json"))
    assert recorded["event"]["value"] == "Bern"
    assert recorded["position"] == {"partition": 0, "offset": 1}
    assert "--slot needs --entity" in run("timeline", SPACE, "--slot", "city", code=2).stderr


def test_sessions_and_replay(run: Run) -> None:
    started = {"type": "SessionStarted", "space": SPACE, "session": "run-1", "agent": "planner@2"}
    ended = {"type": "SessionEnded", "space": SPACE, "session": "run-1", "outcome": "done"}
    said = {"type": "Observed", "space": SPACE, "session": "run-2", "role": "user", "text": "a\nb"}
    run("append", stdin=lines(started, said, fact("Acme", session="run-1"), ended))
    found = document(run("sessions", SPACE, "--json"))
    assert [(one["name"], one["agent"], one["events"], one["ended"]) for one in found] == [
        ("run-1", "planner@2", 3, True),
        ("run-2", None, 1, False),
    ]
    table = run("sessions", SPACE).stdout.splitlines()
    assert table[1].split() == ["run-1", "planner@2", "3", "0", "3", "done"]
    assert table[2].split() == ["run-2", "1", "1", "1", "open"]

    def offsets(*words: str) -> list[int]:
        return [one["position"]["offset"] for one in documents(run("replay", SPACE, "--json", *words))]

    assert offsets() == [0, 1, 2, 3]
    assert offsets("--session", "run-1") == [0, 2, 3]
    assert offsets("--session", "run-1", "--start", "1", "--end", "0:3") == [2]
    assert offsets("--start", "2000-01-01T00:00:00Z") == [0, 1, 2, 3]
    assert "1  20" in run("replay", SPACE).stdout
    assert 'user: "a\\nb"' in run("replay", SPACE).stdout
    assert "has no session" in run("replay", SPACE, "--session", "x", code=2).stderr


def test_every_event_type_takes_one_line(run: Run, tmp_path: Path) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme", "--event-id", ID)
    common = {"space": SPACE, "entity": ALICE, "slot": "employer"}
    others = [
        {"type": "FactReviewed", "space": SPACE, "target": ID, "verdict": "verified", "reason": "seen"},
        {"type": "FactPinned", "space": SPACE, "target": ID, "pinned": True},
        {"type": "FactEnded", **common, "value": "Acme"},
        {"type": "FactRetracted", **common, "value": "Acme"},
        {"type": "ValueForbidden", **common, "value": "Acme"},
        {"type": "ValueAllowed", **common, "value": "Acme"},
        {"type": "SlotDeclared", "space": SPACE, "slot": "x", "cardinality": "one", "description": "a\u2028b"},
        {"type": "ActorDistrusted", "space": SPACE, "about": "agent:x"},
        {"type": "ActorTrusted", "space": SPACE, "about": "agent:x"},
    ]
    run("append", stdin=lines(*others))
    text = run("replay", SPACE).stdout
    assert len(text.splitlines()) == 1 + len(others)
    assert "\u2028" not in text
    assert f"verified {ID}: seen" in text
    assert 'ActorTrusted {"about":"agent:x"}' in text


# -- append


def test_append_fills_in_and_sums_up(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    first.write_bytes(b"\xef\xbb\xbf" + lines(fact("Acme"), b"", fact("Globex", event_id=ID)))
    second.write_bytes(lines({"type": "FactAsserted", "entity": ALICE, "slot": "city", "value": "Bern"}).rstrip())
    assert run("append", str(first), str(second), "--space", "acme/other").stdout == "3 appended, 0 refused\n"
    assert [one["name"] for one in document(run("info", "--json"))["spaces"]] == ["acme/other", SPACE]
    events = [one["event"] for one in documents(run("replay", SPACE, "--json"))]
    assert [one["actor"] for one in events] == ["agent:test", "agent:test"]
    assert document(run("append", "-", "--json", stdin=b"")) == {"appended": 0, "refused": []}


BAD = (
    (b"nope", None, "is not JSON"),
    (b"\xff", None, "is not JSON"),
    ([1], None, "is JSON, but no object"),
    ({"type": "Fact"}, "type", "no event type"),
    (fact(None), "value", "null is no value"),
    (fact("x", valu=1), "valu", "no such field"),
    (fact("x", entity=""), "entity", "is empty"),
    (fact("x", event_id="x"), "event_id", "no event id"),
    ({"type": "FactRetracted", "space": SPACE, "target": ID}, "target", "no event"),
    (fact("x", branch="b"), "branch", "no branch"),
    (fact("x", subject="y" * 600), "subject", "characters"),
)


def test_append_tells_every_bad_line_and_appends_the_good_ones(run: Run) -> None:
    mixed = [one for number, (bad, _, _) in enumerate(BAD) for one in (fact(number), bad)]
    result = run("append", stdin=lines(*mixed), code=1)
    assert result.stdout == f"{len(BAD)} appended, {len(BAD)} refused\n"
    told = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    for number, (line, (_, field, problem)) in enumerate(zip(told, BAD, strict=True)):
        assert line.startswith(f"error: stdin:{2 * number + 2}: {'' if field is None else f'{field}: '}"), line
        assert problem in line
    assert "hint: did you mean value?" in result.stderr
    values = [one["event"]["value"] for one in documents(run("replay", SPACE, "--json"))]
    assert values == list(range(len(BAD)))


def test_append_in_json_lists_what_was_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines(fact("x", valu=1), fact("Acme")))
    found = document(run("append", str(file), "--json", code=1))
    (refused,) = found["refused"]
    assert found["appended"] == 1
    assert (refused["file"], refused["line"], refused["field"]) == (str(file), 1, "valu")
    assert refused["hint"] == "did you mean value?"


def test_append_atomic_writes_all_or_nothing(run: Run) -> None:
    events = [one for number, (bad, _, _) in enumerate(BAD) for one in (fact(number), bad)]
    run("append", "--atomic", stdin=lines(fact("first")))
    result = run("append", "--atomic", stdin=lines(*events), code=2)
    assert result.stdout == f"0 appended, {len(BAD)} refused\n"
    told = [line.split(":")[2] for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert told == [str(2 * number + 2) for number in range(len(BAD))]
    assert len(documents(run("replay", SPACE, "--json"))) == 1


def test_append_goes_on_after_a_batch_with_bad_lines(run: Run) -> None:
    events: list[Any] = [fact(number) for number in range(2 * BATCH_EVENTS + 10)]
    events[5] = fact(None)
    events[BATCH_EVENTS + 5] = {"type": "FactRetracted", "space": SPACE, "target": ID}
    result = run("append", stdin=lines(*events), code=1)
    assert result.stdout == f"{len(events) - 2:,} appended, 2 refused\n"
    values = [one["event"]["value"] for one in documents(run("replay", SPACE, "--json"))]
    assert values == [one["value"] for one in events if one.get("value") is not None]


def test_a_line_may_name_one_before_it(run: Run) -> None:
    retracted = {"type": "FactRetracted", "space": SPACE, "target": ID}
    result = run("append", stdin=lines(retracted, fact("Acme", event_id=ID), retracted), code=1)
    assert result.stdout == "2 appended, 1 refused\n"
    assert "stdin:1: target" in result.stderr


def test_an_event_that_is_too_large_in_all_is_found(run: Run) -> None:
    large = {"type": "Observed", "space": SPACE, "role": "tool", "text": ""}
    large["attributes"] = {f"part{number}": "x" * 250_000 for number in range(5)}  # type: ignore[assignment]
    result = run("append", stdin=lines(fact(1), fact(2), large, fact(3)), code=1)
    assert result.stdout == "3 appended, 1 refused\n"
    assert "error: stdin:3: " in result.stderr


def test_append_of_a_missing_file_makes_no_store(run: Run, tmp_path: Path) -> None:
    assert "does not exist" in run("append", str(tmp_path / "missing"), code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_what_had_been_appended_is_told_when_it_ends_early(run: Run) -> None:
    appended = Memory.append
    calls = []

    def fails_later(memory: Memory, events: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise errors.StoreBusy("held")
        return appended(memory, events)

    with patch.object(Memory, "append", fails_later):
        result = run("append", stdin=lines(*map(fact, range(BATCH_EVENTS + 1))), code=3)
    assert result.stderr == "1,000 events had been appended by then\nerror: held\n"


@pytest.mark.parametrize(("interrupts", "batch_ends"), [(1, True), (2, False)])
def test_an_interrupt_waits_for_the_batch_and_a_second_one_does_not(interrupts: int, batch_ends: bool) -> None:
    done = []

    def batch() -> None:
        with _Interrupts() as held, held.held():
            for _ in range(interrupts):
                os.kill(os.getpid(), signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        batch()
    assert bool(done) is batch_ends
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_between_batches_does_not_wait() -> None:
    done = []

    def between() -> None:
        with _Interrupts() as held:
            with held.held():
                pass
            os.kill(os.getpid(), signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        between()
    assert done == []


# -- the store


def test_replayed_events_appended_elsewhere_have_the_same_digest(run: Run, tmp_path: Path) -> None:
    run("demo", "--keep", str(tmp_path / "kept"))
    replayed = documents(run("replay", "acme/oncall", "--json", SLOTLOG_STORE=str(tmp_path / "kept")))
    run("append", stdin=lines(*(one["event"] for one in replayed)))
    ids = [one["event"]["event_id"] for one in documents(run("replay", "acme/oncall", "--json"))]
    assert ids == [one["event"]["event_id"] for one in replayed]


def test_digest_and_rebuild(run: Run) -> None:
    run("append", stdin=lines(fact("Acme"), fact("Acme", space="acme/other")))
    before = document(run("digest", "--json"))
    assert list(before["spaces"]) == ["acme/other", SPACE]
    assert run("digest", SPACE).stdout == f"{before['spaces'][SPACE]}  {SPACE}\n"
    assert document(run("digest", SPACE, "--json")) == {"space": SPACE, "digest": before["spaces"][SPACE]}
    assert run("digest").stdout.splitlines()[-1] == f"{before['digest']}  2 spaces in all"
    run("digest", "nowhere", code=1)
    assert document(run("digest", "nowhere", "--json", code=1)) is None
    assert run("rebuild").stdout == "2 events folded in 1 partition\n"
    assert document(run("rebuild", "--json"))["events"] == 2
    assert document(run("digest", "--json")) == before


def test_rebuild_beside_a_holder_is_to_be_tried_again(run: Run, tmp_path: Path) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme")
    with Memory.open(tmp_path / "store", actor="agent:test") as holder:
        holder.get(SPACE, ALICE, "employer")
        assert "error: " in run("rebuild", code=3).stderr
        assert run("get", SPACE, ALICE, "employer", "--value-only").stdout == "Acme\n"


def test_info_and_an_empty_quarantine(run: Run) -> None:
    run("append", stdin=lines(fact("Acme", event_id=ID, recorded_at=0)) * 2)
    found = document(run("info", "--json"))
    (partition,) = found["partitions"]
    assert (partition["applied"], partition["duplicates"], partition["quarantined"]) == (1, 1, 0)
    assert found["spaces"] == [
        {
            "name": SPACE,
            "events": 1,
            "first": {"partition": 0, "offset": 0},
            "last": {"partition": 0, "offset": 0},
        }
    ]
    text = run("info").stdout
    assert "events       1 in 1 space\n" in text
    assert "PARTITION" in text
    assert document(run("quarantine", "--json")) == []
    assert run("quarantine").stdout == "nothing is quarantined\n"


def test_topic_needs_a_kafka_store(run: Run) -> None:
    for words in (("topic", "create"), ("topic", "check")):
        result = run(*words, code=2)
        assert "has no topic" in result.stderr
        assert "kafka://HOST:PORT/TOPIC" in result.stderr
    assert "create" in run("topic").stdout
    run("topic", "create", "--partitions", "0", code=2)


def test_a_damaged_store(run: Run, tmp_path: Path) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme")
    (log,) = (path for path in (tmp_path / "store").iterdir() if path.read_bytes().startswith(b"SQLite format 3"))
    for path in (tmp_path / "store").iterdir():
        if path.is_file() and path.name.startswith(log.name):
            path.write_bytes(b"no database at all" * 100)
    assert run("get", SPACE, ALICE, "employer", code=4).stderr.startswith("error: ")


# -- demo


def test_the_demo_fits_one_screen_and_shows_what_it_says(run: Run) -> None:
    text = run("demo").stdout
    shown = text.splitlines()
    assert len(shown) <= 40
    assert max(map(output.cells, shown)) <= 100
    asked = [line for line in shown if line.startswith("$ slotlog ")]
    answers = dict(zip(asked, [shown[shown.index(line) + 1] for line in asked], strict=True))
    owner = "$ slotlog get acme/oncall svc:checkout owner"
    assert answers[f"{owner} --as-of 8 --value-only"] == "payments"
    assert answers[f"{owner} --as-of 11 --value-only"] == "platform"
    pool = "$ slotlog get acme/oncall svc:checkout pool"
    assert answers[f"{pool} --valid-at 2025-03-04T00:00:00Z --value-only"] == "40"
    assert answers[f"{pool} --value-only"] == "20"
    assert "├" in text
    assert "superseded by platform" in text
    assert "retracts 019559cd-1f50-76b4-be62-cb99d8e3a6b7: a leak" in text


def test_the_demo_may_be_kept_and_asked_as_it_says(run: Run, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    shown = run("demo", "--keep", kept).stdout.splitlines()
    for number, line in enumerate(shown):
        if line.startswith("$ slotlog get"):
            assert run(*line.split()[2:], SLOTLOG_STORE=kept).stdout == f"{shown[number + 1]}\n"
    assert "there is a log in" in run("demo", "--keep", kept, code=2).stderr


def test_the_demo_in_json(run: Run) -> None:
    answers = documents(run("demo", "--json"))
    assert [one["value"] for one in answers[1:5]] == ["payments", "platform", 40, 20]
    assert len(answers) == 5 + 8


def test_the_demo_is_the_same_every_time_apart_from_the_present(run: Run) -> None:
    def steady() -> list[str]:
        return [line for line in run("demo").stdout.splitlines() if "├" not in line and "20" not in line[:50]]

    assert steady() == steady()
