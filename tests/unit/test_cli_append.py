"""`slotlog append`: what is filled in, what is refused and how it is told, and what an interrupt leaves behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from command_line import ALICE, ID, SPACE, Run, document, documents, fact, lines, runner

from projectors.surfaces.appending import BATCH_EVENTS, _Interrupts
from schemas import errors
from streams.local import LocalMemory


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


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
    appended = LocalMemory.append
    calls = []

    def fails_later(memory: LocalMemory, events: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise errors.StoreBusy("held")
        return appended(memory, events)

    with patch.object(LocalMemory, "append", fails_later):
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
