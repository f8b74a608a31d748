"""Every event type as bytes and as JSON, both ways, and bytes that are nobody's event."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from strategies import examples

from schemas import events as ev
from schemas.checks import check, check_given
from schemas.codec import Codec
from schemas.errors import InvalidEvent, UndecodableEvent
from schemas.jsonform import from_json, to_json
from schemas.times import EARLIEST, LATEST
from streams.envelope import message

CODEC = Codec()

_characters = st.characters(exclude_categories=("Cc", "Cs"))
names = st.one_of(st.sampled_from(("user:alice", "ＡＣＭＥ", "a b")), st.text(_characters, min_size=1, max_size=12))
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
times = st.one_of(st.integers(EARLIEST, LATEST), st.sampled_from((EARLIEST, -1, 0, 1, 999_999, LATEST)))
ids = st.binary(min_size=16, max_size=16)
spaces = st.lists(names.filter(lambda name: "/" not in name), min_size=1, max_size=8).map("/".join)
values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from((0, 0.0, -0.0, 1, 1.0, True, False, "", "1")),
    texts,
)
scores = st.floats(allow_nan=False, allow_infinity=False)
attributes = st.dictionaries(texts, texts, max_size=3)
trusts = st.sampled_from(("candidate", "verified", "rejected"))
cardinalities = st.sampled_from(("one", "many"))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


def tuples(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=3).map(tuple)


COMMON: dict[str, st.SearchStrategy[Any]] = {
    "event_id": ids,
    "space": spaces,
    "session": maybe(names),
    "actor": names,
    "recorded_at": times,
    "branch": names,
    "code": maybe(st.builds(ev.Code, repo=names, sha=names)),
    "cause": maybe(ids),
    "subject": maybe(names),
    "seen": maybe(ids),
}
VIEWS = st.builds(
    ev.RecalledView,
    as_of=maybe(ids),
    valid_at=times,
    branch=names,
    at_sha=maybe(names),
    trust=trusts,
    without_actors=tuples(names),
)
RULES = tuples(st.builds(ev.PolicyRule, actors=names, starting_trust=trusts, may_verify=st.booleans()))
HITS = tuples(st.builds(ev.Hit, event_id=ids, score=scores))
ENTITY_SLOTS = tuples(st.builds(ev.EntitySlot, entity=names, slot=names))
VALUE_TYPES = st.sampled_from(("boolean", "long", "double", "string", "entity"))

OWN: dict[type[ev.Event], dict[str, st.SearchStrategy[Any]]] = {
    ev.FactAsserted: {
        "entity": names,
        "slot": names,
        "value": values,
        "confidence": maybe(st.floats(0, 1)),
        "origin": st.sampled_from(("stated", "observed", "extracted", "imported")),
        "engine": maybe(names),
        "source": maybe(texts),
    },
    ev.FactEnded: {
        "entity": names, "slot": names, "value": maybe(values), "at": maybe(times), "reason": maybe(texts)
    },
    ev.FactRetracted: {"reason": maybe(texts)},
    ev.FactReviewed: {"target": ids, "verdict": trusts, "reason": maybe(texts)},
    ev.ValueForbidden: {"entity": names, "slot": names, "reason": maybe(texts)},
    ev.ValueAllowed: {"entity": names, "slot": names, "reason": maybe(texts)},
    ev.SlotDeclared: {
        "slot": names,
        "entity_kind": maybe(names.filter(lambda name: ":" not in name)),
        "cardinality": cardinalities,
        "value_type": maybe(VALUE_TYPES),
        "description": maybe(texts),
    },
    ev.FactPinned: {"target": ids, "pinned": st.booleans()},
    ev.PolicySet: {"rules": RULES},
    ev.Observed: {"role": names, "text": texts, "content_type": names, "attributes": attributes},
    ev.Recalled: {"query": texts, "view": VIEWS, "hits": HITS, "engine": maybe(names)},
    ev.SessionStarted: {"session": names, "agent": names, "attributes": attributes},
    ev.SessionEnded: {"session": names, "outcome": maybe(texts)},
    ev.BranchForked: {"parent": names, "at": maybe(ids)},
    ev.BranchMerged: {"from_branch": names, "at": maybe(ids), "slots": maybe(ENTITY_SLOTS)},
    ev.BranchRolledBack: {"to": ids, "reason": maybe(texts)},
    ev.BranchDeleted: {"reason": maybe(texts)},
    ev.CommitSeen: {
        "repo": names, "sha": names, "parents": tuples(names), "committed_at": times, "rewritten_from": maybe(names)
    },
    ev.ActorDistrusted: {"about": names, "reason": maybe(texts)},
    ev.ActorTrusted: {"about": names, "reason": maybe(texts)},
    ev.SubjectErased: {"subject": names, "reason": maybe(texts)},
}  # fmt: skip


def _linked(cls: type[ev.Event]) -> st.SearchStrategy[dict[str, Any]]:
    """The fields of which only some combinations are allowed."""
    if cls is ev.FactAsserted:
        pairs = st.lists(times, min_size=2, max_size=2, unique=True).map(sorted)
        both = pairs.map(lambda pair: {"valid_from": pair[0], "valid_to": pair[1]})
        return st.one_of(
            st.just({}), both, times.map(lambda t: {"valid_from": t}), times.map(lambda t: {"valid_to": t})
        )
    if cls is ev.FactRetracted:
        named = st.fixed_dictionaries({"entity": names, "slot": names, "value": maybe(values)})
        return st.one_of(ids.map(lambda target: {"target": target}), named)
    if cls in (ev.ValueForbidden, ev.ValueAllowed):
        hashes = st.binary(min_size=32, max_size=32)
        return st.one_of(values.map(lambda v: {"value": v}), hashes.map(lambda h: {"value_hash": h}))
    if cls is ev.ActorDistrusted:
        return st.one_of(st.just({}), ids.map(lambda i: {"since_event": i}), times.map(lambda t: {"since_time": t}))
    return st.just({})


def _events_of(cls: type[ev.Event]) -> st.SearchStrategy[ev.Event]:
    fields = st.tuples(st.fixed_dictionaries(COMMON | OWN[cls]), _linked(cls))
    return fields.map(lambda both: cls(**both[0], **both[1]))


events = st.sampled_from(sorted(OWN, key=lambda cls: cls.__name__)).flatmap(_events_of)


def exactly(left: ev.Event, right: ev.Event) -> bool:
    """Equal in type and content: `repr` tells 1 from 1.0, from True, and 0.0 from -0.0."""
    return repr(left) == repr(right)


def test_every_event_type_is_generated() -> None:
    assert set(OWN) == set(ev.EVENT_TYPES.values())


@examples(600)
@given(event=events)
def test_bytes_and_json_come_back(event: ev.Event) -> None:
    """What a valid event says is said again by its bytes, by its JSON form and by that as text."""
    check_given(event)
    assert exactly(CODEC.decode(CODEC.encode(event)), event)
    assert exactly(from_json(to_json(event)), event)
    assert exactly(from_json(json.loads(json.dumps(to_json(event)))), event)
    key, value, headers = message(event, CODEC)
    assert (key, value) == (event.space.encode(), CODEC.encode(event))
    assert all(content.isascii() for _, content in headers)


def _mutated(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for place, length, content in edits:
        start = place % (len(data) + 1)
        data = data[:start] + content + data[start + length :]
    return data


_edits = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.integers(0, 8),
        st.one_of(st.binary(max_size=4), st.sampled_from((b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\x01"))),
    ),
    min_size=1,
    max_size=4,
)


@examples(1_500)
@given(event=events, edits=_edits)
def test_mutated_bytes_are_an_event_or_undecodable(event: ev.Event, edits: list[tuple[int, int, bytes]]) -> None:
    """Nothing else is ever raised; what still decodes has its types, passes the rules or is refused by them, and can
    be written again."""
    data = _mutated(CODEC.encode(event), edits)
    try:
        found = CODEC.decode(data)
    except UndecodableEvent:
        return
    try:
        check(found)
    except InvalidEvent:
        return
    assert exactly(CODEC.decode(CODEC.encode(found)), found)


@examples(500)
@given(data=st.binary(max_size=60))
@example(b"")
@example(b"\x00")
@example(b"\xc3\x01")
@example(b"\x00\x00\x00\x00\x01")
def test_random_bytes_are_undecodable(data: bytes) -> None:
    """From the first byte on, or after a true marker and fingerprint."""
    for candidate in (data, CODEC.encode(_PLAIN)[:10] + data):
        try:
            CODEC.decode(candidate)
        except UndecodableEvent:
            continue


_PLAIN = ev.Observed(event_id=bytes(16), space="a/b", actor="x", recorded_at=0, role="user", text="")


@examples(300)
@given(
    given_json=st.dictionaries(
        st.sampled_from(("type", "event_id", "space", "actor", "recorded_at", "value", "rules", "view", "code", "at")),
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), texts, st.lists(texts, max_size=2),
            st.sampled_from(tuple(ev.EVENT_TYPES)), st.dictionaries(texts, texts, max_size=2),
        ),
    )
)  # fmt: skip
def test_any_json_object_is_an_event_or_invalid(given_json: dict[str, Any]) -> None:
    """Whatever somebody sends, the answer is an event or InvalidEvent."""
    try:
        check_given(from_json(given_json))
    except InvalidEvent:
        return


@examples(300)
@given(event=events, field=st.integers(0, 30), wrong=st.one_of(st.none(), st.booleans(), st.integers(), st.floats(),
       texts, st.binary(max_size=20), st.lists(texts, max_size=2)))  # fmt: skip
def test_a_wrong_field_is_refused_or_written(event: ev.Event, field: int, wrong: Any) -> None:
    """An event that `check_given` lets in can be written; any other raises InvalidEvent and nothing else."""
    names_of = type(event).__struct_fields__
    given = {name: getattr(event, name) for name in names_of} | {names_of[field % len(names_of)]: wrong}
    changed = type(event)(**given)
    try:
        check_given(changed)
    except InvalidEvent:
        return
    CODEC.decode(CODEC.encode(changed))
    message(changed, CODEC)
