"""Branches of memory on the command line: forks, merges, rollbacks, and what is asked before it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ALICE, ID, SPACE, Run, document, documents, fact, forked, lines, runner

NAMED = (SPACE, ALICE, "employer")
SLOT = {"entity": ALICE, "slot": "employer"}
GET = ("get", *NAMED, "--value-only")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


def count(run: Run) -> int:
    return len(documents(run("replay", SPACE, "--json")))


# -- which branch


def test_what_is_said_on_a_branch_is_seen_there_alone(run: Run) -> None:
    forked(run)
    assert run(*GET).stdout == "Initech\n"
    assert run(*GET, "--branch", "idea").stdout == "Globex\n"
    assert run(*GET, SLOTLOG_BRANCH="idea").stdout == "Globex\n"
    assert run(*GET, "--branch", "main", SLOTLOG_BRANCH="idea").stdout == "Initech\n"
    run("remember", *NAMED, "Hooli", SLOTLOG_BRANCH="idea")
    run("forget", *NAMED, "Hooli", SLOTLOG_BRANCH="idea")
    run("end", *NAMED, "--branch", "idea")
    run("observe", SPACE, "user", "hi", "--branch", "idea")
    run("review", SPACE, ID, "verified", "--branch", "idea")
    assert [one["event"]["branch"] for one in documents(run("replay", SPACE, "--start", "5", "--json"))] == ["idea"] * 5
    assert run(*GET).stdout == "Initech\n"


def test_lines_keep_the_branch_that_they_say(run: Run) -> None:
    forked(run)
    run("append", stdin=lines(fact("a"), fact("b", branch="idea")), SLOTLOG_BRANCH="idea")
    found = documents(run("replay", SPACE, "--start", "5", "--json"))
    assert [one["event"].get("branch", "main") for one in found] == ["main", "idea"]


def test_the_place_of_an_event_is_told_beside_it(run: Run) -> None:
    forked(run)
    shown = run("replay", SPACE).stdout.splitlines()
    assert shown[1].endswith("forks idea from main")
    assert shown[2].endswith("user:alice employer = Globex  [on idea]")
    assert ", on idea\n" in run("explain", *NAMED, "--branch", "idea").stdout
    assert ", on idea\n" in run("explain", *NAMED, "--branch", "idea").stdout.split("\n\n")[1] + "\n"


def test_a_policy_is_set_whatever_the_branch_in_use(run: Run) -> None:
    forked(run)
    run("policy", SPACE, "--rule", "user:*=verified", SLOTLOG_BRANCH="idea")
    assert "only go with a read" in run("policy", SPACE, "--clear", "--branch", "idea", code=2).stderr


# -- list, create, log, delete


def test_branches_are_listed_with_where_they_were_forked(run: Run) -> None:
    forked(run)
    assert run("branch", "list", SPACE, SLOTLOG_BRANCH="idea").stdout.splitlines() == [
        "  BRANCH  FROM  SHOWS IT UP TO  FORKED AT  DELETED AT",
        "  main",
        "* idea    main  0:1             0:1",
    ]
    listed = document(run("branch", "list", SPACE, "--json"))
    assert [one["name"] for one in listed] == ["main", "idea"]


@pytest.mark.parametrize("at", [ID, "0:3", "3"])
def test_a_fork_of_a_branch_at_a_point(run: Run, at: str) -> None:
    forked(run)
    run("branch", "create", SPACE, "deep", "--from", "idea", "--at", at)
    run("branch", "create", SPACE, "deeper", SLOTLOG_BRANCH="deep")
    assert run(*GET, "--branch", "deeper").stdout == "Globex\n"
    run("get", SPACE, ALICE, "city", "--branch", "deep", code=1 if at == ID else 0)
    assert [one["parent"] for one in document(run("branch", "list", SPACE, "--json"))] == [None, "main", "idea", "deep"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("idea",), "the name 'idea' is taken"),
        (("main",), "the name 'main' is taken"),
        (("",), "branch: is empty"),
        (("\udcff",), "half a surrogate pair"),
        (("x", "--from", "nope"), "the space has no branch 'nope'"),
        (("x", "--from", "idea", "--at", "0"), "branch 'idea' was not there yet at offset 0"),
        (("x", "--at", "99"), "--at: 99 is past the end"),
        (("x", "--at", "0:-1"), "--at: acme/support had no event by then"),
        (("x", "--at", "2020-01-01T00:00:00Z"), "--at: acme/support had no event by then"),
        (("x", "--at", "yesterday"), "--at 'yesterday' is no point of the log"),
        (("x", "--at", ID[:-1] + "0"), f"no event {ID[:-1]}0 is known"),
    ],
)
def test_a_fork_that_is_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    forked(run)
    assert told in run("branch", "create", SPACE, *words, code=2).stderr
    assert count(run) == 5


def test_a_deleted_branch_is_hidden_and_its_name_is_gone(run: Run) -> None:
    forked(run)
    refused = run("branch", "delete", SPACE, "idea", code=2)
    assert "stdin is no terminal\nhint: --yes writes without asking\n" in refused.stderr
    run("branch", "delete", SPACE, "idea", "--yes", "--reason", "done")
    assert "was deleted" in run("branch", "delete", SPACE, "idea", "--yes", code=2).stderr
    assert "main can't be deleted" in run("branch", "delete", SPACE, "main", code=2).stderr
    assert "was deleted at offset 5" in run(*GET, "--branch", "idea", code=2).stderr
    assert run(*GET, "--branch", "idea", "--as-of", "4").stdout == "Globex\n"
    assert "is taken" in run("branch", "create", SPACE, "idea", code=2).stderr
    assert len(document(run("branch", "list", SPACE, "--json"))) == 1
    assert run("branch", "list", SPACE, "--deleted").stdout.splitlines()[-1].split()[-1] == "0:5"
    assert run("branch", "log", SPACE, "idea").stdout.splitlines()[-1].endswith("deletes idea: done")


def test_a_branch_is_made_and_deleted_by_whom_nobody_trusts(run: Run) -> None:
    run("distrust", SPACE, "agent:test", "--yes")
    assert run("branch", "create", SPACE, "idea", "--wait").stdout.startswith("applied")
    run("distrust", SPACE, "idea", "--kind", "branch", "--yes")
    assert run("branch", "delete", SPACE, "idea", "--yes", "--wait").stdout.startswith("applied")
    log = run("branch", "log", SPACE, "idea").stdout.splitlines()
    assert [line.endswith("(does not count)") for line in log] == [False, False]


# -- merge


def test_conflicts_are_shown_and_nothing_is_written(run: Run) -> None:
    forked(run)
    result = run("branch", "merge", SPACE, "idea", code=1)
    shown = result.stdout.splitlines()
    assert shown[:2] == ["1 slot conflicts:", "  user:alice employer"]
    assert shown[2] == "    base          Acme  from 2026-01-01T00:00:00Z on"
    assert shown[3].startswith("                    by agent:test, candidate, event ")
    assert shown[4].startswith("    ours, main    Initech  from 20")
    assert shown[5].startswith("                    by agent:crm, candidate, event ")
    assert shown[5].endswith(" at 0:4")
    assert shown[6].startswith("    theirs, idea  Globex  from 20")
    assert shown[7] == f"                    by agent:test, candidate, event {ID} at 0:2"
    assert max(map(len, shown)) <= 100
    assert result.stderr.startswith("nothing was written: --ours or --theirs")
    found = document(run("branch", "merge", SPACE, "idea", "--json", code=1))
    (conflict,) = found["plan"]["conflicts"]
    assert [conflict[side]["value"] for side in ("base", "ours", "theirs")] == ["Acme", "Initech", "Globex"]
    assert (found["plan"]["events"], found["receipts"]) == ([], [])
    assert count(run) == 5


@pytest.mark.parametrize(("take", "value"), [("--ours", "Initech"), ("--theirs", "Globex")])
def test_a_side_settles_conflicts(run: Run, take: str, value: str) -> None:
    forked(run)
    dry = run("branch", "merge", SPACE, "idea", take, "--dry-run").stdout.splitlines()
    assert dry[-1].startswith("nothing was written; it would be ")
    assert count(run) == 5
    result = run("branch", "merge", SPACE, "idea", take)
    assert f"1 slot conflicts, settled by taking {take[2:]}:" in result.stdout
    assert "  user:alice city  added\n" in result.stdout
    assert "merged idea into main with " in result.stdout
    assert run(*GET).stdout == f"{value}\n"
    assert run("get", SPACE, ALICE, "city", "--value-only").stdout == "Bern\n"
    events = [one["event"] for one in documents(run("replay", SPACE, "--start", "5", "--json"))]
    assert events[0]["type"] == "BranchMerged"
    assert {one["cause"] for one in events[1:]} == {events[0]["event_id"]}
    again = run("branch", "merge", SPACE, "idea")
    assert again.stdout == "nothing to merge: main shows all that idea says\n"
    assert run("branch", "merge", SPACE, "idea", "--only", ALICE, "x").stdout.endswith("idea says of these slots\n")
    run(*result.stderr.removeprefix("to undo it: slotlog ").split(), "--yes")
    assert run(*GET).stdout == "Initech\n"
    run("get", SPACE, ALICE, "city", code=1)


def test_a_merge_of_some_slots(run: Run) -> None:
    forked(run)
    dry = run("branch", "merge", SPACE, "idea", "--only", ALICE, "city", "--only", ALICE, "x", "--dry-run")
    assert dry.stderr == "idea says nothing new of user:alice x\n"
    found = document(run("branch", "merge", SPACE, "idea", "--only", ALICE, "city", "--session", "run-8", "--json"))
    assert len(found["receipts"]) == 1
    assert found["plan"]["events"][0]["session"] == "run-8"
    assert [one["slot"] for one in found["plan"]["changes"]] == ["city"]
    assert run(*GET).stdout == "Initech\n"
    assert run("branch", "log", SPACE, "main").stdout.endswith("merges idea into main only user:alice city\n")


def test_a_merge_into_a_third(run: Run) -> None:
    forked(run)
    run("branch", "create", SPACE, "other")
    run("branch", "merge", SPACE, "idea", "--theirs", SLOTLOG_BRANCH="other")
    assert [run(*GET, "--branch", name).stdout for name in ("main", "other")] == ["Initech\n", "Globex\n"]
    run("branch", "merge", SPACE, "other", "--into", "main", SLOTLOG_BRANCH="other")
    assert run(*GET).stdout == "Globex\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nope",), "the space has no branch 'nope'"),
        (("idea", "--into", "nope"), "the space has no branch 'nope'"),
        (("main",), "branch 'main' can't be merged into itself"),
        (("idea", "--only", ALICE), "requires 2 arguments"),
        (("idea", "--ours", "--theirs"), "--ours and --theirs settle conflicts in opposite ways: give one of them"),
        (("idea", "--only", "", "city"), "is empty"),
    ],
)
def test_a_merge_that_is_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    forked(run)
    assert told in run("branch", "merge", SPACE, *words, code=2).stderr
    assert count(run) == 5


# -- rollback


def test_a_rollback_shows_what_it_changes_asks_and_can_be_undone(run: Run) -> None:
    forked(run)
    words = ("branch", "rollback", SPACE, "idea", "--to", "1")
    dry = run(*words, "--dry-run")
    assert dry.stdout.splitlines()[0] == "changes 2 slots on idea:"
    assert "  user:alice employer  changed, rolled back\n    - Globex" in dry.stdout
    assert [one["slot"] for one in document(run(*words, "--dry-run", "--json"))["changes"]["idea"]] == [
        "city",
        "employer",
    ]
    refused = run(*words, code=2)
    assert refused.stdout == dry.stdout
    assert "nothing was written" in refused.stderr
    assert count(run) == 5
    done = run(*words, "--yes", "--reason", "wrong track", "--wait")
    assert "\napplied  0:5" in done.stdout
    assert run(*GET, "--branch", "idea").stdout == "Acme\n"
    assert run(*GET, "--branch", "idea", "--as-of", "4").stdout == "Globex\n"
    undo = done.stderr.removeprefix("to undo it: slotlog ").split()
    assert document(run(*undo, "--yes", "--json"))["status"] == "accepted"
    assert run(*GET, "--branch", "idea").stdout == "Globex\n"
    log = run("branch", "log", SPACE, "idea").stdout.splitlines()
    assert [line.endswith("(does not count)") for line in log] == [False, True, False]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nope", "--to", "1"), "the space has no branch 'nope'"),
        (("main",), "Missing option '--to'"),
        (("main", "--to", "99"), "--to: 99 is past the end"),
        (("main", "--to", ID[:-1] + "0"), f"to: no event {ID[:-1]}0 is known"),
    ],
)
def test_a_rollback_that_is_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    forked(run)
    assert told in run("branch", "rollback", SPACE, *words, "--yes", code=2).stderr
    assert count(run) == 5


# -- diff and log


def test_branches_are_compared(run: Run) -> None:
    forked(run)
    shown = run("branch", "diff", SPACE, "main", "idea").stdout.splitlines()
    assert [line.split()[:3] for line in shown] == [
        [ALICE, "city", "added"],
        ["+", "Bern", "from"],
        [ALICE, "employer", "changed"],
        ["-", "Initech", "from"],
        ["+", "Globex", "from"],
        ["in", "session", "run-7"],
    ]
    assert run("diff", SPACE, "--after-branch", "idea").stdout.splitlines() == shown
    assert run("diff", SPACE, "--before-branch", "main", SLOTLOG_BRANCH="idea").stdout.splitlines() == shown
    back = document(run("branch", "diff", SPACE, "idea", "--json"))
    assert [(one["slot"], one["kind"], one["outcome"]) for one in back] == [
        ("city", "gone", "other branch"),
        ("employer", "changed", "other branch"),
    ]
    assert "user:alice city  not on that branch\n" in run("branch", "diff", SPACE, "idea").stdout
    assert run("branch", "diff", SPACE, "main", "idea", "--as-of", "1", code=1).stderr == "nothing differs\n"
    assert "does not differ from itself" in run("branch", "diff", SPACE, "main", code=2).stderr
    assert "has no branch 'nope'" in run("branch", "diff", SPACE, "nope", code=2).stderr


@pytest.mark.parametrize(
    ("event", "happened"),
    [
        ({"type": "FactEnded", **SLOT}, "ended"),
        ({"type": "FactRetracted", **SLOT}, "retracted"),
        ({"type": "ValueForbidden", **SLOT, "value": "acme"}, "forbidden"),
        ({"type": "ActorDistrusted", "about": "agent:crm"}, "distrusted"),
        ({"type": "FactReviewed", "target": ID, "verdict": "rejected"}, "rejected"),
        ({"type": "FactReviewed", "target": ID, "verdict": "verified"}, "trust moved"),
    ],
    ids=str,
)
def test_a_difference_tells_what_happened_who_did_it_and_why(run: Run, event: dict[str, Any], happened: str) -> None:
    given = {"space": SPACE, "actor": "user:ana", "reason": "left", **event}
    run("append", stdin=lines(fact("Acme", event_id=ID, actor="agent:crm"), given))
    shown = run("diff", SPACE, "--before", "0").stdout.splitlines()
    assert shown[0] == f"user:alice employer  {happened}"
    assert shown[1].startswith("  - Acme")
    if happened != "trust moved":
        assert shown[-1].startswith("    by user:ana at 0:1, event ")
        assert shown[-1].endswith(": left")


def test_the_log_of_a_branch(run: Run) -> None:
    forked(run)
    assert [one["recorded"]["event"]["type"] for one in document(run("branch", "log", SPACE, "idea", "--json"))] == [
        "BranchForked"
    ]
    result = run("branch", "log", SPACE, "main", code=1)
    assert result.stderr == "nothing was merged into main, and nothing rolled it back\n"
    assert "has no branch 'nope'" in run("branch", "log", SPACE, "nope", code=2).stderr
    assert run("branch").stdout == run("branch", "--help").stdout


# -- distrust of more than actors


def test_distrust_is_shown_asked_and_taken_back(run: Run) -> None:
    forked(run)
    words = ("distrust", SPACE, "agent:crm", "--reason", "injected")
    refused = run(*words, code=2)
    assert refused.stdout.splitlines()[:2] == ["changes 1 slot:", "  user:alice employer  changed, distrusted"]
    assert "distrusts" not in refused.stdout  # it is not written, so it has no place yet
    assert "--yes writes without asking" in refused.stderr
    assert run(*words, "--dry-run").stdout == refused.stdout
    assert count(run) == 5
    found = document(run(*words, "--yes", "--json"))
    assert (found["status"], [one["slot"] for one in found["changes"]["main"]]) == ("accepted", ["employer"])
    assert run(*GET).stdout == "Acme\n"
    assert "nothing was written" in run("trust", SPACE, "agent:crm", code=2).stderr
    assert run("trust", SPACE, "agent:crm", "--yes").stdout.startswith(
        "changes 1 slot:\n  user:alice employer  changed\n"
    )
    assert run(*GET).stdout == "Initech\n"
    assert run("distrust", SPACE, "agent:nobody", "--dry-run").stdout == "changes no answer\n"


def test_distrust_of_a_branch_is_shown_where_it_is_and_where_it_was_merged(run: Run) -> None:
    forked(run)
    run("branch", "merge", SPACE, "idea", "--theirs")
    words = ("distrust", SPACE, "idea", "--kind", "branch")
    shown = run(*words, "--dry-run").stdout.splitlines()
    assert [line for line in shown if line.startswith("changes")] == [
        "changes 2 slots on main:",
        "changes 2 slots on idea:",
    ]
    run(*words, "--yes")
    assert run("timeline", SPACE).stdout.splitlines()[-1].endswith("distrusts branch idea")
    run("get", SPACE, ALICE, "city", code=1)
    run("trust", SPACE, "idea", "--kind", "branch", "--yes")
    run("get", SPACE, ALICE, "city")
    run("branch", "delete", SPACE, "idea", "--yes")
    assert document(run(*words, "--dry-run", "--json"))["changes"].keys() == {"main"}
    told = run("distrust", SPACE, "nope", "--kind", "branch", "--yes", code=2).stderr
    assert told == "error: space 'acme/support' has no branch 'nope'\nhint: it has main, idea\n"


def test_known_names_the_branch_of_the_writer(run: Run) -> None:
    forked(run)
    view = run("known", SPACE, ID).stdout.splitlines()[0]
    assert view.endswith("--branch idea")
    assert run(*GET, *view.split()).stdout == "Acme\n"
    assert "--branch" not in run("known", SPACE, ID, SLOTLOG_BRANCH="idea").stdout
    assert json.loads(run("known", SPACE, ID, "--json").stdout)["view"]["branch"] == "idea"
