"""The commands that ask what is believed: answers, views, JSON, and what is told where there is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import ALICE, ID, SPACE, Run, document, documents, fact, lines, runner

from projectors.surfaces import output
from projectors.surfaces.render import lanes
from streams import Memory


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ("get", SPACE, ALICE, "employer"),
        ("entity", SPACE, ALICE),
        ("history", SPACE, ALICE, "employer"),
        ("timeline", SPACE),
        ("sessions", SPACE),
        ("replay", SPACE),
        ("explain", SPACE, ALICE, "employer"),
        ("diff", SPACE, "--before", "0"),
        ("known", SPACE, ID),
        ("schema", SPACE),
        ("policy", SPACE),
        ("review", SPACE, ID, "verified"),
        ("allow", SPACE, ALICE, "employer", "Acme"),
        ("trust", SPACE, "agent:x"),
        ("distrust", SPACE, "agent:x", "--since", ID),
        ("copy", "store", "other"),
        ("export", "memory.avro"),
        ("rebuild",),
        ("digest",),
        ("info",),
        ("quarantine",),
        ("verify",),
        ("doctor",),
    ],
    ids=lambda words: words[0],
)
def test_what_needs_a_store_says_so_and_makes_none(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
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
            "at_sha": None,
            "also_at": [],
            "ancestry": None,
            "hidden": 0,
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
    assert "trusts agent:x again" in text
