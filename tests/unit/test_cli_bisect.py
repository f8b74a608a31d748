"""bisect on the command line: the event that made a belief, or at which a program began to succeed."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import ALICE, ID, SPACE, Run, document, forked, runner

EMPLOYER = ("--entity", ALICE, "--slot", "employer")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


def test_bisect_finds_the_event_that_made_a_belief(run: Run) -> None:
    forked(run)
    words = ("bisect", SPACE, *EMPLOYER)
    shown = run(*words, "--value", "Initech").stdout.splitlines()
    assert shown[0].startswith("so since 0:4, found in ")
    assert shown[1] == "  user:alice employer = Initech"
    assert shown[2].startswith("  by agent:crm, appended 20")
    found = document(run(*words, "--value", "Globex", "--branch", "idea", "--json"))
    assert found["found"]["event"]["event_id"] == ID
    assert found["undecided"] == []
    assert found["steps"] <= 3
    assert document(run(*words, "--json"))["found"]["position"]["offset"] == 0
    inherited = document(run(*words, "--value", "Acme", "--branch", "idea", "--to", "1", "--json"))
    assert inherited["found"]["event"]["type"] == "BranchForked"


def test_bisect_by_a_command(run: Run, tmp_path: Path) -> None:
    forked(run)
    script = tmp_path / "so"
    cases = "case $SLOTLOG_AS_OF in 0:[34]) exit 0;; 0:2) exit 125;; esac; exit 1"
    script.write_text(f'#!/bin/sh\necho "$SLOTLOG_AS_OF" >> asked\n{cases}\n')
    script.chmod(0o755)
    result = run("bisect", SPACE, "--json", "--", str(script))
    found = document(result)
    assert (found["found"]["position"]["offset"], found["undecided"]) == (3, [{"partition": 0, "offset": 2}])
    assert result.stderr == "it may be an earlier one, which could not be told: 0:2\n"
    asked = (tmp_path / "asked").read_text().split()
    assert (asked[:2], len(asked)) == (["0:-1", "0:4"], 2 + found["steps"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--entity and --slot, or a COMMAND behind --"),
        (("--entity", ALICE), "--entity and --slot, or a COMMAND behind --"),
        (("--entity", ALICE, "--slot", "x"), "it is not so at --to, 0:4\nhint: name a --to at which it is so"),
        (
            ("--entity", ALICE, "--slot", "employer", "--value", "Initech", "--from", "4"),
            "it is so already at --from, 0:4",
        ),
        ((*EMPLOYER, "--to", "99"), "past the end"),
        ((*EMPLOYER, "--branch", "nope"), "has no branch 'nope'"),
        ((*EMPLOYER, "--value", "x", "--json-value"), "is not JSON"),
        (("--branch", "idea", "--", "true"), "COMMAND asks by itself"),
        (("--value", "x", "--", "true"), "COMMAND asks by itself"),
        (("--", "true"), "it is so already at --from, 0:-1"),
        (("--", "false"), "it is not so at --to, 0:4"),
        (("--", "sh", "-c", "exit 125"), "it can't be told at --from"),
        (("--", "sh", "-c", "exit 3"), "sh ended with code 3 as of 0:-1"),
        (("--", "sh", "-c", "kill -9 $$"), "sh ended with signal 9"),
        (("--", "no-such-program"), "No such file or directory: no-such-program"),
    ],
)
def test_a_bisect_that_is_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    forked(run)
    assert told in run("bisect", SPACE, *words, code=2).stderr


def test_bisect_of_an_empty_space(run: Run) -> None:
    forked(run)
    told = run("bisect", "acme/none", "--entity", ALICE, "--slot", "x", code=2).stderr
    assert told.startswith("error: acme/none has no event by then")
