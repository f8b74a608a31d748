"""The commands that ask why, and what would be otherwise: explain, diff, known and schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import ALICE, ID, SPACE, Run, document, fact, lines, runner

from projectors.surfaces import output

OTHER = "0195d0a4-7c00-7000-8000-000000000008"
NAMED = (SPACE, ALICE, "employer")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


def values(answer: Any) -> list[Any]:
    beliefs = answer if isinstance(answer, list) else [] if answer is None else [answer]
    return [one["value"] for one in beliefs]


# -- explain


def disputed(run: Run) -> None:
    """Claims about one slot, with an outcome of every kind that a person asks about."""
    about = {"space": SPACE, "entity": ALICE, "slot": "employer"}
    first = fact(
        "Acme", event_id=ID, valid_from="2025-01-01T00:00:00Z", session="run-7", actor="agent:crm", origin="extracted",
        engine="rules@1", confidence=0.5, source="a mail",
    )  # fmt: skip
    events = [
        first,
        fact("Globex", valid_from="2026-03-01T00:00:00Z", cause=ID),
        fact("Hooli", event_id=OTHER, valid_from="2026-04-01T00:00:00Z"),
        fact("Hidden", valid_from="2026-05-01T00:00:00Z", actor="agent:intern"),
        fact("Later", valid_from="2036-05-01T00:00:00Z"),
        {"type": "FactEnded", **about, "value": "Hooli", "at": "2026-06-01T00:00:00Z", "reason": "left"},
        {"type": "FactRetracted", **about, "value": "Globex", "reason": "another Alice", "actor": "user:ana"},
        {"type": "FactReviewed", "space": SPACE, "target": ID, "verdict": "rejected", "actor": "agent:intern"},
        {
            "type": "FactReviewed",
            "space": SPACE,
            "target": ID,
            "verdict": "verified",
            "reason": "seen it",
            "actor": "user:ana",
        },
        {"type": "ActorDistrusted", "space": SPACE, "about": "agent:intern"},
        fact("Initech", valid_from="2026-07-01T00:00:00Z"),
        {"type": "ValueForbidden", **about, "value": "initech"},
    ]
    run("append", stdin=lines(*events))


def test_explain_tells_the_outcome_of_every_claim(run: Run) -> None:
    disputed(run)
    found = document(run("explain", *NAMED, "--valid-at", "2026-10-01T00:00:00Z", "--json"))
    assert values(found["answer"]) == ["Acme"]
    assert found["cardinality"] == "one"
    outcomes = {one["recorded"]["position"]["offset"]: one["outcome"] for one in found["claims"]}
    assert outcomes == {
        0: "believed", 1: "retracted", 2: "ended", 3: "distrusted", 4: "not yet valid", 5: "in force", 10: "forbidden"
    }  # fmt: skip
    believed = found["claims"][0]
    assert (believed["trust"], believed["recorded"]["event"]["event_id"]) == ("verified", ID)
    assert [(one["verdict"], one["counts"]) for one in believed["said"]] == [("rejected", False), ("verified", True)]
    ended = next(one for one in found["claims"] if one["outcome"] == "ended")
    assert (ended["because"]["ended"], ended["because"]["position"]["offset"]) == (True, 5)
    assert found["view"]["as_of"] == {"partition": 0, "offset": 11}


def test_explain_as_a_person_reads_it(run: Run) -> None:
    disputed(run)
    text = run("explain", *NAMED, "--valid-at", "2026-10-01T00:00:00Z").stdout
    shown = text.splitlines()
    assert max(map(output.cells, shown)) <= 100
    assert shown[0] == "Acme"
    assert f"by agent:crm, verified, event {ID} at 0:0" in shown[2]
    assert "7 claims, highest rank first; one value at an instant\nas of 0:11, at 2026-10-01T00:00:00Z\n" in text
    for line in (
        "  0:0  believed          Acme  from 2025-01-01T00:00:00Z on",
        f"       event {ID}",
        "       extracted, confidence 0.5, by rules@1, from a mail",
        "       called rejected by agent:intern at 0:7, which does not count",
        "       called verified by user:ana at 0:8: seen it",
        "  0:1  retracted         Globex  from 2026-03-01T00:00:00Z on",
        f"       follows from {ID}",
        "       retracted by user:ana at 0:6: another Alice",
        "  0:2  ended             Hooli  from 2026-04-01T00:00:00Z on",
        "       ended by the end of Hooli, by agent:test at 0:5",
        "  0:5  in force          the end of Hooli, at 2026-06-01T00:00:00Z: left",
        " 0:10  forbidden         Initech  from 2026-07-01T00:00:00Z on",
        "       forbidden by agent:test at 0:11",
    ):
        assert line in shown, line
    assert any(line.startswith("       by agent:crm, verified, session run-7, appended 20") for line in shown)


def test_explain_through_a_view(run: Run) -> None:
    disputed(run)
    words = ("--as-of", "1", "--trust", "verified", "--without-actor", "agent:crm")
    shown = run("explain", *NAMED, *words).stdout.splitlines()
    assert shown[0] == "nothing is believed of user:alice employer"
    assert shown[2].startswith("2 claims")
    assert shown[3].startswith("as of 0:1, at ")
    assert shown[3].endswith(", verified alone, without agent:crm")
    assert [line.split()[1:3] for line in shown if line.startswith("  0:")] == [["not", "verified"], ["left", "out"]]


def test_explain_an_outranked_claim_and_an_end_of_everything(run: Run) -> None:
    run("append", stdin=lines(fact("Acme", valid_from="2025-01-01T00:00:00Z"), fact("Globex")))
    text = run("explain", *NAMED).stdout
    assert "       outranked by Globex, by agent:test at 0:1" in text
    run("end", *NAMED)
    assert "an end of what holds, at 20" in run("explain", *NAMED).stdout


def test_explain_what_nobody_claimed(run: Run) -> None:
    run("remember", *NAMED, "Acme")
    result = run("explain", SPACE, ALICE, "x", code=1)
    assert (result.stdout, result.stderr) == ("", "nothing was ever claimed of user:alice x\n")
    assert document(run("explain", SPACE, ALICE, "x", "--json", code=1))["claims"] == []
    assert "past the end" in run("explain", *NAMED, "--as-of", "9", code=2).stderr
    assert "Missing argument 'SLOT'" in run("explain", SPACE, ALICE, code=2).stderr


def test_explain_lets_no_stored_text_disturb_the_terminal(run: Run) -> None:
    run("remember", *NAMED, "a\u202eb\x1b[2J", "--event-id", ID, "--source", "x\ny")
    run("review", SPACE, ID, "verified", "--reason", "a\x1b[2J\nb")
    text = run("explain", *NAMED).stdout
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "from x\\ny" in text
    assert "called verified by agent:test at 0:1: a\\u001b[2J\\nb" in text


# -- diff


def moved(run: Run) -> None:
    run("append", stdin=lines(
        fact("Acme", valid_from="2025-01-01T00:00:00Z"),
        fact("Bern", slot="city", valid_from="2025-01-01T00:00:00Z"),
        fact("Globex", valid_from="2026-01-01T00:00:00Z", actor="agent:intern", event_id=ID),
    ))  # fmt: skip


def test_diff_between_two_offsets(run: Run) -> None:
    moved(run)
    assert run("diff", SPACE, "--before", "1").stdout.splitlines() == [
        "user:alice employer  changed",
        "  - Acme  from 2025-01-01T00:00:00Z on, by agent:test, candidate, at 0:0",
        "  + Globex  from 2026-01-01T00:00:00Z on, by agent:intern, candidate, at 0:2",
    ]
    (found,) = document(run("diff", SPACE, "--before", "0:1", "--after", "2", "--json"))
    assert (found["entity"], found["slot"]) == (ALICE, "employer")
    assert (found["before"]["value"], found["after"]["value"]) == ("Acme", "Globex")
    added = document(run("diff", SPACE, "--before", "0", "--after", "1", "--json"))
    assert [(one["slot"], values(one["before"]), values(one["after"])) for one in added] == [("city", [], ["Bern"])]


@pytest.mark.parametrize(
    ("words", "before", "after"),
    [
        (("--after-without-actor", "agent:intern"), ["Globex"], ["Acme"]),
        (("--before-without-actor", "agent:intern"), ["Acme"], ["Globex"]),
        (("--before-valid-at", "2025-06-01T00:00:00Z"), ["Acme"], ["Globex"]),
        (("--after-valid-at", "2025-06-01T00:00:00Z"), ["Globex"], ["Acme"]),
        (("--valid-at", "2026-06-01T00:00:00Z", "--after-valid-at", "2025-06-01T00:00:00Z"), ["Globex"], ["Acme"]),
        (("--without-actor", "agent:intern", "--after-without-actor", "agent:test"), ["Acme"], []),
    ],
    ids=" ".join,
)
def test_diff_between_two_views(run: Run, words: tuple[str, ...], before: list[str], after: list[str]) -> None:
    moved(run)
    found = document(run("diff", SPACE, *words, "--json"))
    slots = {one["slot"]: (values(one["before"]), values(one["after"])) for one in found}
    assert slots["employer"] == (before, after)


def test_diff_by_trust(run: Run) -> None:
    moved(run)
    run("review", SPACE, ID, "verified")
    assert [one["slot"] for one in document(run("diff", SPACE, "--after-trust", "verified", "--json"))] == ["city"]
    verified = ("diff", SPACE, "--trust", "verified", "--before", "2", "--valid-at", "2026-06-01T00:00:00Z")
    assert run(*verified).stdout.splitlines()[1:] == [
        "  + Globex  from 2026-01-01T00:00:00Z on, by agent:intern, verified, at 0:2"
    ]


def test_diff_of_a_slot_that_holds_many_shows_what_came_and_what_went(run: Run) -> None:
    run("declare", SPACE, "reads", "--cardinality", "many")
    run("append", stdin=lines(fact("Emma", slot="reads"), fact("Dune", slot="reads"), fact("Ulysses", slot="reads")))
    run("end", SPACE, ALICE, "reads", "--value", "Emma")
    shown = run("diff", SPACE, "--before", "2").stdout.splitlines()
    assert [line.split()[:2] for line in shown[1:]] == [["-", "Emma"], ["+", "Ulysses"], ["by", "agent:test"]]


def test_diff_that_finds_nothing_or_can_not_be_asked(run: Run) -> None:
    moved(run)
    same = ("diff", SPACE, "--before", "2", "--valid-at", "2026-06-01T00:00:00Z")
    result = run(*same, code=1)
    assert (result.stdout, result.stderr) == ("", "nothing differs\n")
    assert document(run(*same, "--json", code=1)) == []
    assert "the two views are the same" in run("diff", SPACE, code=2).stderr
    assert "the two views are the same" in run("diff", SPACE, "--before", "1", "--after", "1", code=2).stderr
    assert "past the end" in run("diff", SPACE, "--before", "9", code=2).stderr
    assert "--before 'x' is no point of the log" in run("diff", SPACE, "--before", "x", code=2).stderr
    assert "not one of" in run("diff", SPACE, "--after-trust", "rejected", code=2).stderr
    assert "write it with a time of day" in run("diff", SPACE, "--after-valid-at", "2026", code=2).stderr


# -- known


def test_known_is_a_view_that_can_be_asked_again(run: Run) -> None:
    run("append", stdin=lines(fact("Acme"), fact("Globex"), fact("Initech", event_id=ID, seen=None)))
    view, marked = run("known", SPACE, ID).stdout.splitlines()
    assert view.startswith("--as-of 0:1 --valid-at 20")
    assert marked.startswith("  assumed: ")
    assert run("get", *NAMED, "--value-only", *view.split()).stdout == "Globex\n"
    found = document(run("known", SPACE, ID, "--json"))
    assert found["assumed"] is True
    assert found["view"]["as_of"] == {"partition": 0, "offset": 1}
    assert "answer" not in found


def test_known_up_to_what_the_writer_was_shown(run: Run) -> None:
    run("append", stdin=lines(fact("Acme", event_id=OTHER), fact("Globex"), fact("Initech", event_id=ID, seen=OTHER)))
    assert document(run("known", SPACE, ID, "--json"))["assumed"] is False
    text = run("known", SPACE, ID, "--entity", ALICE, "--slot", "employer").stdout
    assert text.startswith("--as-of 0:0 ")
    assert "  up to the newest event that its writer had been shown\n\nAcme\n  from " in text
    assert values(document(run("known", SPACE, ID, "--entity", ALICE, "--slot", "employer", "--json"))["answer"]) == [
        "Acme"
    ]
    whole = run("known", SPACE, ID, "--entity", ALICE).stdout
    assert "\nSLOT      VALUE" in whole
    answer = document(run("known", SPACE, ID, "--entity", ALICE, "--json"))["answer"]
    assert {slot: values(one) for slot, one in answer.items()} == {"employer": ["Acme"]}


def test_known_of_the_first_event_of_all(run: Run) -> None:
    run("remember", *NAMED, "Acme", "--event-id", ID)
    view = run("known", SPACE, ID).stdout.splitlines()[0]
    assert view.startswith("--as-of 0:-1 ")
    run("get", *NAMED, *view.split(), code=1)
    result = run("known", SPACE, ID, "--entity", ALICE, "--slot", "employer", code=1)
    assert result.stderr == "nothing was believed of user:alice employer\n"
    assert document(run("known", SPACE, ID, "--entity", ALICE, "--json", code=1))["answer"] == {}


def test_known_of_what_is_not(run: Run) -> None:
    run("remember", *NAMED, "Acme")
    assert f"no event {ID} is known" in run("known", SPACE, ID, code=2).stderr
    assert "'x' is no event id" in run("known", SPACE, "x", code=2).stderr
    assert "--slot needs --entity" in run("known", SPACE, ID, "--slot", "employer", code=2).stderr


# -- schema


def test_schema_shows_types_what_is_declared_and_what_is_suggested(run: Run) -> None:
    events = [
        fact(value, slot="reads", entity=entity, session="run-1")
        for entity in (ALICE, "user:bob")
        for value in ("Emma", "Dune")
    ]
    run("append", stdin=lines(*events, fact("Acme"), fact(3, slot="seats"), fact("3", slot="seats")))
    run("declare", SPACE, "city", "--cardinality", "one")
    run("declare", SPACE, "city", "--cardinality", "many", "--entity-kind", "svc")
    table = [line.split("  ") for line in run("schema", SPACE).stdout.splitlines()]
    rows = [[cell.strip() for cell in row if cell] for row in table]
    assert rows == [
        ["SLOT", "FACTS", "ENTITIES", "VALUES", "TYPES", "DECLARED", "SUGGESTED", "EVIDENCE"],
        ["city", "0", "0", "0", "one, svc: many", "one"],
        ["employer", "1", "1", "1", "string", "one"],
        ["reads", "4", "2", "2", "string", "many", "2 of 2 with several values, 2 side by side, 0 with one ended"],
        [
            "seats",
            "2",
            "1",
            "2",
            "long 1, string 1",
            "one",
            "1 of 1 with several values, 0 side by side, 0 with one ended",
        ],
    ]
    found = {one["slot"]: one for one in document(run("schema", SPACE, "--json"))}
    assert found["reads"]["suggested"]["cardinality"] == "many"
    assert found["city"]["declared_kinds"]["svc"]["cardinality"] == "many"
    assert found["seats"]["types"] == {"long": 1, "string": 1}
    assert [one["slot"] for one in document(run("schema", SPACE, "--as-of", "0", "--json"))] == ["reads"]


def test_schema_of_an_empty_space(run: Run) -> None:
    run("remember", *NAMED, "Acme")
    result = run("schema", "acme/other", code=1)
    assert (result.stdout, result.stderr) == ("", "acme/other has no slot\n")
    assert document(run("schema", "acme/other", "--json", code=1)) == []
    assert "empty segment" in run("schema", "acme//x", code=2).stderr
