"""Answers as JSON and back: nothing is lost, and no number becomes another kind of number."""

from __future__ import annotations

from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import all_samples
from strategies import examples

from schemas import events as ev
from schemas.times import EARLIEST, LATEST, instant
from streams import answers, compare, explain, inference, merging, status, transfer, tree
from streams.ports import Position
from streams.view import ResolvedView
from streams.wire import Unreadable, plain, typed

ANSWERS: list[Any] = [
    answers.Belief,
    answers.Answer,
    answers.Change,
    answers.Claimed,
    answers.Recorded,
    answers.Known,
    answers.Session,
    answers.Quarantined,
    answers.Receipt,
    answers.Branch,
    answers.BranchChange,
    answers.Conflict,
    answers.KnownCommit,
    merging.MergePlan,
    tree.Node,
    answers.Info,
    explain.Explanation,
    compare.Difference,
    inference.SlotSchema,
    transfer.Transferred,
    status.WorkerStatus,
    ResolvedView,
    ev.SlotDeclared,
    ev.Event,
    tuple[ev.PolicyRule, ...],
    dict[str, answers.Belief | list[answers.Belief]],
    tuple[str, dict[str, str]],
]
TEXTS = st.one_of(st.sampled_from(("", "user:alice", "ＡＣＭＥ", "1", "null")), st.text(max_size=8))
LONGS = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from((0.0, -0.0, 1.0, 1e16, 1e22, 1e300, 5e-324))
)
MICROS = st.integers(EARLIEST, LATEST)


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of the annotation."""
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of([of(option) for option in options])
    if origin is Literal:
        return st.sampled_from(options)
    if origin is tuple and Ellipsis not in options:
        return st.tuples(*map(of, options))
    if origin in (list, tuple):
        return st.lists(of(options[0]), max_size=2).map(origin)
    if origin is dict:
        return st.dictionaries(of(options[0]), of(options[1]), max_size=2)
    if hint in SCALARS:
        return SCALARS[hint]
    if issubclass(hint, ev.Event):
        return st.sampled_from([event for event in all_samples() if isinstance(event, hint)])
    fields = {field.name: of(field.type) for field in msgspec.structs.fields(hint)}
    if hint is ResolvedView:
        fields["valid_at"] = MICROS
    return st.builds(hint, **fields)


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    int: LONGS,
    float: DOUBLES,
    str: TEXTS,
    UUID: st.uuids(),
    Position: st.builds(Position, st.integers(0, 99), st.integers(-1, 2**62)),
    datetime: MICROS.map(instant),
}


@pytest.mark.parametrize("cls", ANSWERS, ids=str)
def test_every_answer_comes_back_from_its_json(cls: Any) -> None:
    @examples(40)
    @given(found=of(cls))
    def comes_back(found: Any) -> None:
        again = typed(cls, msgspec.json.decode(msgspec.json.encode(plain(found))))
        assert again == found
        assert repr(again) == repr(found)  # tells 1 from 1.0 and from True, 0.0 from -0.0, a list from a tuple

    comes_back()


def test_every_answer_struct_is_asked_for() -> None:
    modules = (answers, compare, explain, inference)
    structs = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    public = {one for one in structs if issubclass(one, msgspec.Struct) and not one.__name__.startswith("_")}
    named: set[Any] = set()

    def walk(hint: Any) -> None:
        for option in get_args(hint):
            walk(option)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in named:
            named.add(hint)
            if not issubclass(hint, ev.Event):
                for field in msgspec.structs.fields(hint):
                    walk(field.type)

    for answer in ANSWERS:
        walk(answer)
    answered = {one for one in public if one.__module__ in {module.__name__ for module in modules}}
    assert answered <= named


@pytest.mark.parametrize(
    ("cls", "given", "complaint"),
    [
        (answers.Belief, [], r"\[\] is no dict"),
        (answers.Session, {"name": "x"}, "Session without"),
        (answers.Answer, 1, "1 is no"),
        (Position, {"partition": 0, "offset": 1.0}, "1.0 is no int"),
        (Position, {"partition": True, "offset": 1}, "True is no int"),
        (UUID, "x", "'x' is no UUID"),
        (datetime, "2026-01-01T00:00:00", "has no zone"),
        (answers.Status, "gone", "'gone' is none of applied"),
        (ev.SlotDeclared, {"type": "SlotDeclared"}, "is missing"),
        (ev.SlotDeclared, plain(all_samples()[0]), "a FactAsserted, and not a SlotDeclared"),
        (tuple[str, int], ["x"], "1 values, and not 2"),
    ],
)
def test_what_is_no_answer_is_refused_and_named(cls: Any, given: Any, complaint: str) -> None:
    with pytest.raises(Unreadable, match=complaint):
        typed(cls, given)


def test_what_a_newer_server_says_more_is_passed_over() -> None:
    known = answers.Known(ResolvedView(Position(0, 7), 0), assumed=True)
    assert typed(answers.Known, {**plain(known), "more": 1}) == known
