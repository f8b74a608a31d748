"""The commands that tend a store, and the demo."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import ALICE, ID, SPACE, Run, document, documents, fact, lines, runner

from projectors.surfaces import output
from streams import Memory


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


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
