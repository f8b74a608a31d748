"""The commands that rule what counts: verdicts, tombstones, declarations, the trust policy and distrust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import ALICE, ID, SPACE, Run, document, documents, fact, lines, runner

GET = ("get", SPACE, ALICE, "employer", "--value-only")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


def last_event(run: Run) -> dict[str, Any]:
    event: dict[str, Any] = documents(run("replay", SPACE, "--json"))[-1]["event"]
    return event


# -- review


def test_the_last_verdict_counts(run: Run) -> None:
    run("append", stdin=lines(fact("Acme", event_id=ID), fact("Globex")))
    review = ("review", SPACE, ID)
    assert run(*review, "verified", "--wait").stdout.startswith("applied  0:2")
    assert run(*GET).stdout == "Acme\n"
    run(*review, "rejected")
    assert run(*GET).stdout == "Globex\n"
    run(*review, "candidate")
    assert document(run("get", SPACE, ALICE, "employer", "--json"))["value"] == "Globex"
    assert run(*GET, "--trust", "verified", "--as-of", "2").stdout == "Acme\n"


def test_what_a_review_says_is_on_its_event(run: Run) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme", "--event-id", ID)
    words = ("--reason", "seen it", "--session", "run-7", "--cause", ID, "--actor", "user:ana")
    receipt = document(run("review", SPACE, ID, "verified", "--json", *words))
    assert receipt["status"] == "accepted"
    given = {"type": "FactReviewed", "target": ID, "verdict": "verified", "reason": "seen it", "session": "run-7"}
    assert {**given, "cause": ID, "actor": "user:ana", "event_id": receipt["event_id"]}.items() <= last_event(
        run
    ).items()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((ID, "verified"), f"no event {ID} is known"),
        (("x", "verified"), "'x' is no event id"),
        ((ID, "good"), "'good' is not one of 'verified', 'rejected', 'candidate'"),
        ((ID,), "Missing argument"),
    ],
)
def test_a_review_that_is_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme")
    result = run("review", SPACE, *words, code=2)
    assert result.stdout == ""
    assert told in result.stderr
    assert len(documents(run("replay", SPACE, "--json"))) == 1


# -- forbid and allow


def test_a_forbidden_value_is_believed_in_no_spelling_until_it_is_allowed(run: Run) -> None:
    run("append", stdin=lines(fact("Acme"), fact("Globex")))
    named = (SPACE, ALICE, "employer")
    assert run("forbid", *named, " gLOBEX", "--reason", "asked", "--wait").stdout.startswith("applied  0:2")
    assert last_event(run)["reason"] == "asked"
    assert run(*GET).stdout == "Acme\n"
    blocked = run("remember", *named, "GLOBEX", "--wait", code=1).stdout
    assert blocked.startswith("blocked  0:3")
    assert blocked.endswith("the value is forbidden since 0:2; allow lifts that\n")
    assert document(run("allow", *named, "Globex", "--json"))["status"] == "accepted"
    assert run(*GET).stdout == "GLOBEX\n"


def test_a_value_may_be_forbidden_before_anyone_says_it(run: Run) -> None:
    run("forbid", SPACE, ALICE, "seats", "--json-value", "42")
    words = ("remember", SPACE, ALICE, "seats", "42", "--json-value", "--wait", "--json")
    assert document(run(*words, code=1))["status"] == "blocked"


@pytest.mark.parametrize("command", ["forbid", "allow"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("acme//x", ALICE, "employer", "Acme"), "empty segment"),
        ((SPACE, "", "employer", "Acme"), "entity: is empty"),
        ((SPACE, ALICE, "employer", "--json-value", "nul"), "is not JSON"),
        ((SPACE, ALICE, "employer"), "Missing argument 'VALUE'"),
    ],
)
def test_a_tombstone_that_is_refused(run: Run, tmp_path: Path, command: str, words: tuple[str, ...], told: str) -> None:
    assert told in run(command, *words, code=2).stderr
    assert list(tmp_path.iterdir()) == []


# -- declare


def test_a_slot_declared_to_hold_many_is_read_so_from_then_on(run: Run) -> None:
    run("append", stdin=lines(fact("Emma", slot="reads"), fact("Dune", slot="reads")))
    assert run("declare", SPACE, "reads", "--cardinality", "many", "--wait").stdout.startswith("applied  0:2")
    reads = ("get", SPACE, ALICE, "reads", "--value-only")
    assert run(*reads).stdout == "Emma\nDune\n"
    assert run(*reads, "--as-of", "1").stdout == "Dune\n"
    words = ("--cardinality", "one", "--entity-kind", "user", "--value-type", "entity", "--description", "books")
    assert document(run("declare", SPACE, "reads", *words, "--json"))["status"] == "accepted"
    given = {
        "slot": "reads",
        "cardinality": "one",
        "entity_kind": "user",
        "value_type": "entity",
        "description": "books",
    }
    assert given.items() <= last_event(run).items()
    assert run(*reads).stdout == "Dune\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Missing option '--cardinality'"),
        (("--cardinality", "two"), "'two' is not one of 'one', 'many'"),
        (("--cardinality", "one", "--value-type", "int"), "'int' is not one of"),
        (("--cardinality", "one", "--entity-kind", ""), "entity_kind: is empty"),
    ],
)
def test_a_declaration_that_is_refused(run: Run, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    assert told in run("declare", SPACE, "reads", *words, code=2).stderr
    assert list(tmp_path.iterdir()) == []


# -- policy


def test_a_policy_is_set_in_the_order_given_and_shown(run: Run) -> None:
    words = (
        "policy",
        SPACE,
        "--rule",
        "user:*=verified,may-verify",
        "--rule",
        "agent:*=candidate",
        "--rule",
        "*=rejected",
    )
    assert run(*words, "--wait", "--session", "run-7").stdout.startswith("applied  0:0")
    assert run("policy", SPACE).stdout.splitlines() == [
        "ACTORS   STARTING TRUST  MAY VERIFY",
        "user:*   verified        yes",
        "agent:*  candidate       no",
        "*        rejected        no",
    ]
    assert document(run("policy", SPACE, "--json"))["rules"][0] == {
        "actors": "user:*",
        "starting_trust": "verified",
        "may_verify": True,
    }
    run("remember", SPACE, ALICE, "employer", "Acme", "--actor", "user:ana")
    run("remember", SPACE, ALICE, "employer", "Globex")
    run("remember", SPACE, ALICE, "employer", "Initech", "--actor", "hook:x")
    belief = document(run("get", SPACE, ALICE, "employer", "--json"))
    assert (belief["value"], belief["trust"], belief["contested"]["value"]) == ("Acme", "verified", "Globex")


def test_the_newest_declarations_are_shown_beside_the_policy(run: Run) -> None:
    run("declare", SPACE, "reads", "--cardinality", "one")
    run(
        "declare", SPACE, "reads", "--cardinality", "many", "--value-type", "string", "--description", "books\u2028read"
    )
    run("declare", SPACE, "reads", "--cardinality", "one", "--entity-kind", "svc")
    assert run("policy", SPACE).stdout.splitlines() == [
        "no policy: every actor's facts start as candidates, and every actor's verdicts count",
        "",
        "SLOT   OF          HOLDS  TYPE    DESCRIPTION",
        "reads  every kind  many   string  books\\u2028read",
        "reads  svc         one",
    ]
    found = document(run("policy", SPACE, "--json"))
    assert found["rules"] == []
    assert [(one["cardinality"], one.get("entity_kind")) for one in found["declarations"]] == [
        ("many", None),
        ("one", "svc"),
    ]
    assert [one["cardinality"] for one in document(run("policy", SPACE, "--as-of", "0", "--json"))["declarations"]] == [
        "one"
    ]


def test_a_policy_is_cleared(run: Run) -> None:
    run("policy", SPACE, "--rule", "a=b=verified")
    assert document(run("policy", SPACE, "--json"))["rules"][0]["actors"] == "a=b"
    assert document(run("policy", SPACE, "--clear", "--json"))["status"] == "accepted"
    assert run("policy", SPACE).stdout.startswith("no policy: ")
    assert document(run("policy", SPACE, "--as-of", "0", "--json"))["rules"][0]["actors"] == "a=b"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--rule", "user:*"), "'user:*' is not PATTERN=TRUST or PATTERN=TRUST,may-verify"),
        (("--rule", "=verified"), "is not PATTERN=TRUST"),
        (("--rule", "user:*=good"), "trust 'good' is not one of candidate, verified, rejected"),
        (("--rule", "user:*=verified,may"), "'may' is not may-verify"),
        (("--rule", "user:*=verified,"), "'' is not may-verify"),
        (("--rule", "user:*=verified", "--clear"), "give one of them"),
        (("--rule", "user:*=verified", "--trust", "verified"), "only go with a read"),
        (("--wait",), "go with --rule or --clear"),
        (("--session", "run-7"), "go with --rule or --clear"),
        (("--rule", "a\nb=verified"), "rules[0].actors: 'a\\nb' has the control character"),
    ],
)
def test_a_policy_that_is_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme")
    assert told in run("policy", SPACE, *words, code=2).stderr
    assert len(documents(run("replay", SPACE, "--json"))) == 1


# -- distrust and trust


def test_nothing_that_a_distrusted_actor_wrote_counts_until_it_is_trusted(run: Run) -> None:
    run("append", stdin=lines(fact("Acme"), fact("Globex", actor="agent:intern")))
    assert (
        run("distrust", SPACE, "agent:intern", "--reason", "injected", "--yes", "--wait")
        .stdout.splitlines()[-1]
        .startswith("applied  0:2")
    )
    assert {"about": "agent:intern", "reason": "injected", "actor": "agent:test"}.items() <= last_event(run).items()
    assert run(*GET).stdout == "Acme\n"
    assert (
        document(run("trust", SPACE, "agent:intern", "--reason", "mended", "--yes", "--json"))["status"] == "accepted"
    )
    assert last_event(run)["reason"] == "mended"
    assert run(*GET).stdout == "Globex\n"


def test_distrust_since_an_event_or_a_time(run: Run) -> None:
    intern = {"actor": "agent:intern"}
    run("append", stdin=lines(fact("Acme", **intern), fact("Globex", event_id=ID, **intern)))
    run("distrust", SPACE, "agent:intern", "--since", ID.upper(), "--yes")
    assert last_event(run)["since_event"] == ID
    assert run(*GET).stdout == "Acme\n"
    run("distrust", SPACE, "agent:intern", "--since", "2020-01-01T01:00:00+01:00", "--yes")
    assert last_event(run)["since_time"] == "2020-01-01T00:00:00Z"
    run(*GET, code=1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("agent:x", "--since", ID), f"since_event: no event {ID} is known"),
        (("agent:x", "--since", "12"), "--since '12' is no event id and no time"),
        (("agent:x", "--since", ID[:-1]), "is no event id and no time"),
        (("agent:x", "--since", "2026-03-01"), "write it with a time of day"),
        (("agent:x", "--since", "2026-03-01T00:00:00"), "has no zone"),
        (("",), "about: is empty"),
        ((), "Missing argument 'ABOUT'"),
    ],
)
def test_distrust_that_is_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    run("remember", SPACE, ALICE, "employer", "Acme")
    assert told in run("distrust", SPACE, *words, code=2).stderr
    assert len(documents(run("replay", SPACE, "--json"))) == 1


def test_trust_needs_an_actor(run: Run) -> None:
    assert "about: is empty" in run("trust", SPACE, "", code=2).stderr
