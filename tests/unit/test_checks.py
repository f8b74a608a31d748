"""Every rule at the door: what it says when it is broken, and that it names the field."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from samples import T0, full

from schemas import events as ev
from schemas.checks import check, check_given
from schemas.errors import InvalidEvent, InvalidInput
from schemas.jsonform import from_json, to_json
from schemas.times import EARLIEST, LATEST, instant, micros, parse_time, rfc3339

FACT = full(ev.FactAsserted)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("entity", "", "is empty"),
        ("entity", "x" * 513, "513 characters, and a name has at most 512"),
        ("slot", "a\nb", "control character U+000A"),
        ("actor", "a\x7fb", "control character U+007F"),
        ("session", "\ud800", "half a surrogate pair"),
        ("space", "acme//x", "empty segment"),
        ("space", "/acme", "empty segment"),
        ("space", "a/b/c/d/e/f/g/h/i", "9 segments"),
        ("value", float("nan"), "no finite number"),
        ("value", float("inf"), "no finite number"),
        ("value", 2**63, "does not fit 64 bits"),
        ("value", None, "null is no value"),
        ("value", [1], "expected bool | int | float | str, got array"),
        ("value", "x" * 262_145, "262,145 bytes, and max_value_bytes allows 262,144"),
        ("value", "é" * 131_073, "262,146 bytes"),
        ("valid_to", T0, "is not after valid_from"),
        ("valid_to", T0 - 1, "is not after valid_from"),
        ("valid_from", LATEST + 1, "outside the years 1 to 9999"),
        ("recorded_at", EARLIEST - 1, "outside the years 1 to 9999"),
        ("recorded_at", "now", "expected int, got str"),
        ("confidence", 1.01, "not between 0 and 1"),
        ("origin", "guessed", "invalid enum value 'guessed'"),
        ("event_id", b"short", "16 bytes, not 5"),
        ("cause", b"", "16 bytes, not 0"),
        ("code.sha", ev.Code(repo="r", sha=""), "is empty"),
    ],
)
def test_a_broken_field_is_named(field: str, value: object, problem: str) -> None:
    broken = msgspec.structs.replace(FACT, **{field.partition(".")[0]: value})
    with pytest.raises(InvalidEvent, match=re.escape(problem)) as caught:
        check_given(broken)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (msgspec.structs.replace(full(ev.FactRetracted), entity=None), "target"),
        (msgspec.structs.replace(full(ev.FactRetracted), target=bytes(16)), "target"),
        (msgspec.structs.replace(full(ev.ValueForbidden), value="both"), "value"),
        (msgspec.structs.replace(full(ev.ValueAllowed), value=None), "value"),
        (msgspec.structs.replace(full(ev.ValueForbidden), value_hash=b"short"), "value_hash"),
        (msgspec.structs.replace(full(ev.SessionStarted), session=None), "session"),
        (msgspec.structs.replace(full(ev.SessionEnded), session=None), "session"),
        (msgspec.structs.replace(full(ev.SubjectErased), subject=None), "subject"),
        (msgspec.structs.replace(full(ev.ActorDistrusted), since_event=bytes(16)), "since_time"),
        (
            msgspec.structs.replace(
                full(ev.PolicySet), rules=(ev.PolicyRule(actors="", starting_trust="verified", may_verify=True),)
            ),
            "rules[0].actors",
        ),
        (
            msgspec.structs.replace(full(ev.Recalled), hits=(ev.Hit(event_id=b"x", score=1.0),)),
            "hits[0].event_id",
        ),
        (
            msgspec.structs.replace(full(ev.Recalled), hits=(ev.Hit(event_id=bytes(16), score=float("nan")),)),
            "hits[0].score",
        ),
        (msgspec.structs.replace(full(ev.CommitSeen), parents=("",)), "parents[0]"),
        (
            msgspec.structs.replace(full(ev.BranchMerged), slots=(ev.EntitySlot(entity="e", slot=""),)),
            "slots[0].slot",
        ),
        (msgspec.structs.replace(full(ev.Observed), attributes={"big": "x" * 300_000}), "attributes.big"),
    ],
)
def test_rules_of_single_types(event: ev.Event, field: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        check_given(event)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "name",
    ["用户:阿丽", "ユーザー", "пользователь", "👩‍👩‍👧", "a/b:c|d\\e", "  spaced  ", "ａｃｍｅ", "\u200b", "x" * 512],
)
def test_names_are_free_in_any_script(name: str) -> None:
    check(msgspec.structs.replace(FACT, entity=name, slot=name, actor=name))


@pytest.mark.parametrize("value", ["", 0, -(2**63), 2**63 - 1, -0.0, 1e308, False, "\n\t", "null", "x" * 262_144])
def test_values_at_their_edges_are_taken(value: ev.Value) -> None:
    event = msgspec.structs.replace(FACT, value=value)
    check_given(event)
    back = from_json(to_json(event))
    assert isinstance(back, ev.FactAsserted)
    assert type(back.value) is type(value)
    assert back.value == value


@pytest.mark.parametrize(
    ("change", "field", "hint"),
    [
        ({"type": "FactAssert"}, "type", "did you mean FactAsserted?"),
        ({"type": None}, "type", "say which event it is"),
        ({"entty": "x"}, "entty", "did you mean entity?"),
        ({"valid_from": "2026-03-01T09:00:00"}, "valid_from", "give it one"),
        ({"valid_from": "2026-03-01"}, "valid_from", "write it like 2026-03-01T09:00:00Z"),
        ({"valid_from": True}, "valid_from", None),
        ({"event_id": "abc"}, "event_id", "an event id is a UUID"),
        ({"value": None}, "value", "end the fact"),
        ({"entity": 5}, "entity", None),
        ({"code": {"repo": "r"}}, "code.sha", None),
        ({"code": {"repo": "r", "sha": "a", "x": 1}}, "code.x", None),
    ],
)
def test_json_that_is_no_event_is_named(change: dict[str, object], field: str, hint: str | None) -> None:
    with pytest.raises(InvalidEvent) as caught:
        from_json({**to_json(FACT), **change})
    assert caught.value.field == field
    assert hint is None or hint in str(caught.value.hint)


def test_a_missing_field_is_named() -> None:
    given = to_json(FACT)
    del given["slot"]
    with pytest.raises(InvalidEvent, match="slot: is missing"):
        from_json(given)


def test_equal_instants_in_different_zones_are_equal() -> None:
    utc = datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert micros(utc) == micros(utc.astimezone(timezone(timedelta(hours=5, minutes=45))))
    assert parse_time("2026-03-01T14:45:00+05:45") == parse_time("2026-03-01T09:00:00Z") == micros(utc)
    assert rfc3339(micros(utc)) == "2026-03-01T09:00:00Z"


@pytest.mark.parametrize("at", [EARLIEST, -1, 0, 1, LATEST])
def test_instants_round_trip(at: int) -> None:
    assert micros(instant(at)) == at
    assert parse_time(rfc3339(at)) == at


def test_naive_datetimes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="valid_from 2026-03-01T09:00:00 has no zone, so it names no instant"):
        micros(datetime(2026, 3, 1, 9), "valid_from")
    with pytest.raises(InvalidInput, match="must be a datetime with a zone, not str"):
        micros("2026", "valid_from")  # type: ignore[arg-type]
