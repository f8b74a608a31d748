"""Random histories over small alphabets, so that equal times, touching intervals and near-twins are frequent.

A history is drawn as small frozen steps and built from them without chance, so that a failing one shrinks well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from reference import Space

from schemas import events as ev
from schemas.codec import Codec
from streams import keys
from streams.envelope import message
from streams.fold import fold
from streams.overlay import Empty, Overlay
from streams.ports import Batch, Record
from streams.rows import Head
from streams.values import digest_of

SPACE = "acme/support"
ENTITIES = ("user:alice", "org:acme", "acme")
SLOTS = ("employer", "tag")
VALUES = ("Acme", "acme", "ＡＣＭＥ", "", 1, 1.0, True, "1")
BRANCHES = ("main", "idea", "fix", "idea/deep")
SHAS = tuple(f"{number:02x}" * 20 for number in range(1, 7))
ACTORS = ("agent:a", "agent:b", "user:u")
PATTERNS = ("agent:*", "user:u", "*", "agent:a")
BASE = 1_700_000_000_000_000
STEP = 1_000_000

CODEC = Codec()


def examples(count: int, *, steps: int | None = None) -> settings:
    """Settings of a property: `count` examples, times SLOTLOG_PROPERTY_EXAMPLES when that is set. A failure prints how
    to reproduce it, after shrinking unless SLOTLOG_PROPERTY_SHRINK is 0."""
    times = float(os.environ.get("SLOTLOG_PROPERTY_EXAMPLES", "1"))
    shrink = os.environ.get("SLOTLOG_PROPERTY_SHRINK", "1") != "0"
    more = {} if steps is None else {"stateful_step_count": steps}
    return settings(
        max_examples=max(1, int(count * times)),
        deadline=None,
        print_blob=True,
        database=None,
        phases=[phase for phase in Phase if phase not in (Phase.shrink, Phase.explain) or shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        **more,
    )


def event_id(number: int) -> bytes:
    """A UUIDv7 that holds `number`."""
    return bytes(6) + b"\x70\x00\x80\x00" + number.to_bytes(6, "big")


def when(step: int | None) -> int | None:
    """The instant of a step of the grid."""
    return None if step is None else BASE + step * STEP


@dataclass(frozen=True)
class Step:
    """One record: what it says, who wrote it, how far the log's clock moved, which earlier event is its cause, counted
    backwards, on which branch it is, and which commit it is pinned to."""

    make: Callable[[Earlier], ev.Event | None]
    actor: str = ACTORS[0]
    ticks: int = 1
    cause: int | None = None
    text: str = ""
    branch: str = "main"
    sha: str | None = None

    def __repr__(self) -> str:
        where = f"on {self.branch} at {None if self.sha is None else self.sha[:2]}"
        return f"{self.text} by {self.actor} {where} +{self.ticks} cause={self.cause}"


class Earlier:
    """What was made so far, for steps that name it."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []
        self.common: dict[str, Any] = {}

    def at(self, back: int, *types: type) -> Any:
        """The event `back` places back among those of `types`, None when there is none."""
        fitting = [event for event in self.events if not types or isinstance(event, types)]
        return fitting[-1 - back % len(fitting)] if fitting else None

    def target(self, back: int) -> bytes:
        """Id of a claim, or of nothing known."""
        found = self.at(back, ev.FactAsserted, ev.FactEnded)
        return event_id(9_999) if found is None or back == 7 else found.event_id


_steps = st.integers(0, 6)
_back = st.integers(0, 7)
_entity = st.sampled_from((*[ENTITIES[0]] * 5, *ENTITIES))
_slot = st.sampled_from((*[SLOTS[0]] * 5, *SLOTS))
_value = st.sampled_from((*[VALUES[0]] * 4, *VALUES))
_few_values = st.sampled_from(VALUES[:3])


def _step(name: str, make: Callable[..., Any], /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    def build(given: dict[str, Any], actor: str, ticks: int, cause: int | None) -> Step:
        return Step(lambda earlier: make(earlier, **given), actor, ticks, cause, f"{name} {given}")

    return st.builds(
        build,
        st.fixed_dictionaries(fields),
        st.sampled_from(ACTORS),
        st.sampled_from((0, 0, 1, 1, 2, -1)),
        st.sampled_from((None, None, None, 0, 1, 2, 4)),
    )


def _assert(e: Earlier, entity: str, slot: str, value: Any, start: int | None, length: int | None) -> ev.Event:
    stop = None if length is None else when((0 if start is None else start) + length)
    return ev.FactAsserted(**e.common, entity=entity, slot=slot, value=value, valid_from=when(start), valid_to=stop)


def _end(e: Earlier, entity: str, slot: str, value: Any, at: int | None) -> ev.Event:
    return ev.FactEnded(**e.common, entity=entity, slot=slot, value=value, at=when(at))


def _forget(e: Earlier, entity: str, slot: str, value: Any) -> ev.Event:
    return ev.FactRetracted(**e.common, entity=entity, slot=slot, value=value)


def _retract(e: Earlier, back: int) -> ev.Event:
    return ev.FactRetracted(**e.common, target=e.target(back))


def _review(e: Earlier, back: int, verdict: ev.Trust) -> ev.Event:
    return ev.FactReviewed(**e.common, target=e.target(back), verdict=verdict)


def _tombstone(e: Earlier, forbid: bool, entity: str, slot: str, value: Any, hashed: bool) -> ev.Event:
    cls = ev.ValueForbidden if forbid else ev.ValueAllowed
    if not hashed:
        return cls(**e.common, entity=entity, slot=slot, value=value)
    digest = digest_of(keys.slot_part(e.common["space"], entity, slot), value)
    return cls(**e.common, entity=entity, slot=slot, value_hash=digest)


def _declare(e: Earlier, slot: str, kind: str | None, cardinality: ev.Cardinality) -> ev.Event:
    return ev.SlotDeclared(**e.common, slot=slot, entity_kind=kind, cardinality=cardinality)


def _policy(e: Earlier, rules: list[tuple[str, ev.Trust, bool]]) -> ev.Event:
    made = tuple(ev.PolicyRule(actors=a, starting_trust=t, may_verify=m) for a, t, m in rules)
    return ev.PolicySet(**e.common, rules=made)


def _distrust(e: Earlier, about: str, since: str, back: int) -> ev.Event:
    if since == "event":
        named = e.at(back)
        return ev.ActorDistrusted(**e.common, about=about, since_event=named.event_id if named else event_id(9_999))
    return ev.ActorDistrusted(**e.common, about=about, since_time=when(back) if since == "time" else None)


def _again(e: Earlier, back: int) -> ev.Event | None:
    return e.at(back)


def _twin(e: Earlier, back: int) -> ev.Event | None:
    """Another event with the id of an earlier one; of a fact, one whose value is a near-twin."""
    event = e.at(back)
    if isinstance(event, ev.FactAsserted):
        others = {1: 1.0, "1": True, "": "Acme"}
        return msgspec.structs.replace(event, value=others.get(event.value, 1))
    return None if event is None else msgspec.structs.replace(event, session="another")


def _common(event: ev.Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in ev.Event.__struct_fields__}


_trust = st.sampled_from(("candidate", "verified", "rejected"))
_asserting = _step(
    "assert",
    _assert,
    entity=_entity,
    slot=_slot,
    value=_value,
    start=st.one_of(st.none(), _steps),
    length=st.one_of(st.none(), st.none(), st.integers(1, 4)),
)
_ending = _step(
    "end",
    _end,
    entity=_entity,
    slot=_slot,
    value=st.one_of(st.none(), _value),
    at=st.one_of(st.none(), _steps),
)
_reviewing = _step("review", _review, back=_back, verdict=_trust)
_rules = st.lists(st.tuples(st.sampled_from(PATTERNS), _trust, st.booleans()), max_size=3)
_OTHERS = (
    _step("forget", _forget, entity=_entity, slot=_slot, value=st.one_of(st.none(), _few_values)),
    _step("retract", _retract, back=_back),
    _step(
        "tombstone",
        _tombstone,
        forbid=st.booleans(),
        entity=_entity,
        slot=_slot,
        value=_few_values,
        hashed=st.booleans(),
    ),
    _step(
        "declare",
        _declare,
        slot=_slot,
        kind=st.sampled_from((None, "user", "org")),
        cardinality=st.sampled_from(("one", "many")),
    ),
    _step(
        "distrust",
        _distrust,
        about=st.sampled_from(ACTORS),
        since=st.sampled_from(("event", "time", "ever")),
        back=_back,
    ),
    _step("trust", lambda e, about: ev.ActorTrusted(**e.common, about=about), about=st.sampled_from(ACTORS)),
    _step("again", _again, back=_back),
    _step("twin", _twin, back=_back),
    _step("observe", lambda e: ev.Observed(**e.common, role="user", text="hello")),
)
_POLICY = _step("policy", _policy, rules=_rules)


def _one_of(weighted: Sequence[st.SearchStrategy[Step]]) -> st.SearchStrategy[Step]:
    """As often as they are named; `st.one_of` names each but once."""
    return st.integers(0, len(weighted) - 1).flatmap(weighted.__getitem__)


steps = _one_of((*[_asserting] * 9, *[_ending] * 3, *[_reviewing] * 3, _POLICY, *_OTHERS))
unjudged = _one_of((*[_asserting] * 9, *[_ending] * 3, *_OTHERS))


def _fork(e: Earlier, name: str, parent: str, back: int | None) -> ev.Event:
    at = None if back is None or e.at(back) is None else e.at(back).event_id
    return ev.BranchForked(**{**e.common, "branch": name}, parent=parent, at=at)


def _merge(e: Earlier, source: str, back: int | None, only: list[tuple[str, str]] | None) -> ev.Event:
    at = None if back is None or e.at(back) is None else e.at(back).event_id
    slots = None if only is None else tuple(ev.EntitySlot(entity=entity, slot=slot) for entity, slot in only)
    return ev.BranchMerged(**e.common, from_branch=source, at=at, slots=slots)


def _roll_back(e: Earlier, back: int) -> ev.Event:
    named = e.at(back)
    return ev.BranchRolledBack(**e.common, to=event_id(9_999) if named is None else named.event_id)


_PARENTS = ((), (0,), (0,), (1, 2), (1,), (4, 3))
PARENTS = {sha: tuple(SHAS[one] for one in of) for sha, of in zip(SHAS, _PARENTS, strict=True)}
"""The commits of `SHAS` and their parents: a fork, two merges and a root."""


def _commit(e: Earlier, number: int, old: int | None) -> ev.Event:
    return ev.CommitSeen(
        **e.common,
        repo="acme/app",
        sha=SHAS[number],
        parents=PARENTS[SHAS[number]],
        committed_at=BASE,
        rewritten_from=None if old is None else SHAS[old],
    )


_branch = st.sampled_from(BRANCHES)
_far_back = st.integers(0, 12)
_BRANCHING = (
    *[_step("fork", _fork, name=st.sampled_from(BRANCHES), parent=_branch, back=st.one_of(st.none(), _far_back))] * 3,
    *[
        _step(
            "merge",
            _merge,
            source=_branch,
            back=st.one_of(st.none(), st.none(), _far_back),
            only=st.one_of(st.none(), st.lists(st.tuples(_entity, _slot), min_size=1, max_size=2)),
        )
    ]
    * 3,
    *[_step("roll back", _roll_back, back=_far_back)] * 3,
    _step("delete", lambda e: ev.BranchDeleted(**e.common)),
    _step(
        "distrust branch or commit",
        lambda e, kind, number: ev.ActorDistrusted(
            **e.common, about={"branch": BRANCHES, "commit": SHAS}[kind][number], about_kind=kind
        ),
        kind=st.sampled_from(("branch", "commit")),
        number=st.integers(0, 3),
    ),
)
_COMMITS = _step("commit", _commit, number=st.integers(0, 5), old=st.one_of(st.none(), st.none(), st.integers(0, 5)))


def _placed(step: st.SearchStrategy[Step], shas: Sequence[str | None]) -> st.SearchStrategy[Step]:
    """On a branch, most often one that is there, and pinned to a commit or none."""
    return st.builds(
        lambda one, branch, sha: replace(one, branch=branch, sha=sha),
        step,
        st.sampled_from(("main", "main", *BRANCHES)),
        st.sampled_from(shas),
    )


branched = _placed(_one_of((*[_asserting] * 9, *[_ending] * 2, *[_reviewing] * 2, *_OTHERS, *_BRANCHING)), (None,))
"""Steps on several branches."""
pinned = _placed(
    _one_of((*[_asserting] * 9, *[_ending] * 2, *[_reviewing] * 2, *_OTHERS, *_BRANCHING[:6], *[_COMMITS] * 6)),
    (None, *SHAS),
)
"""Steps on several branches, pinned to commits, and commits."""


def histories(*, max_size: int = 16, of: st.SearchStrategy[Step] = steps) -> st.SearchStrategy[list[Step]]:
    """Steps of one space's log; long ones are as frequent as short ones. `unjudged` ones hold no verdict, no policy."""
    return st.one_of(
        st.lists(of, min_size=1, max_size=max_size), st.lists(of, min_size=max_size // 2, max_size=max_size)
    )


@contextmanager
def busy_slots(*, claims: int = 1, chunk: int = 2) -> Iterator[None]:
    """Every slot with so many claims is read as a busy one, in chunks of so many."""
    with patch("streams.reads.HOT_CLAIMS", claims), patch("streams.hot.CHUNK_CLAIMS", chunk):
        yield


@dataclass(frozen=True)
class History:
    """A built history: one record per event, at offsets from 0."""

    events: tuple[ev.Event, ...]
    times: tuple[int, ...]

    def records(self) -> list[Record]:
        return [
            record(event, offset, time)
            for offset, (event, time) in enumerate(zip(self.events, self.times, strict=True))
        ]

    def reference(self, space: str = SPACE) -> Space:
        """The oracle over the same events."""
        oracle = Space()
        for offset, (event, time) in enumerate(zip(self.events, self.times, strict=True)):
            if event.space == space:
                oracle.append(offset, time, event)
        return oracle


def built(given: Iterable[Step], space: str = SPACE, first_id: int = 1) -> History:
    """The events and append times that the steps say. Append times may fall; the fold makes them rise."""
    earlier, times, clock = Earlier(), [], 0
    for number, step in enumerate(given, first_id):
        cause = None if step.cause is None else earlier.at(step.cause)
        earlier.common = {
            "event_id": event_id(number),
            "space": space,
            "actor": step.actor,
            "recorded_at": BASE,
            "cause": None if cause is None else cause.event_id,
            "branch": step.branch,
            "code": None if step.sha is None else ev.Code(repo="acme/app", sha=step.sha),
        }
        event = step.make(earlier)
        if event is None:
            continue
        clock += step.ticks
        earlier.events.append(event)
        times.append(BASE + clock * STEP)
    return History(tuple(earlier.events), tuple(times))


def record(event: ev.Event, offset: int, append_time: int) -> Record:
    key, value, headers = message(event, CODEC)
    return Record(0, offset, append_time, key, value, headers)


def folded(records: Sequence[Record], rows: Overlay | None = None) -> tuple[Overlay, Head]:
    """All records folded at once over nothing."""
    rows = Overlay(Empty()) if rows is None else rows
    head = Head("a log", 0, 1)
    if records:
        head = fold(Batch(list(records), records[-1].offset + 1), rows, head, CODEC)
    return rows, head
