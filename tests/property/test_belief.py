"""The sweep that finds runs, against asking instant by instant, over claims that all stand."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from reference import Belief, Claim, Entry, Lens, Space, Through
from strategies import event_id, examples

from schemas import events as ev
from schemas.events import Value
from streams import belief
from streams.rows import ClaimRow

HORIZON = 9


@dataclass(frozen=True)
class Said:
    at: int
    length: int | None
    value: Value
    verified: bool
    actor: str
    ended: bool

    @property
    def until(self) -> int | None:
        return None if self.length is None or self.ended else self.at + self.length


_values = st.sampled_from(("A", "A", "B", 1, True))
_said = st.builds(
    Said,
    at=st.integers(0, HORIZON - 3),
    length=st.one_of(st.none(), st.integers(1, 4)),
    value=_values,
    verified=st.sampled_from((False, False, True)),
    actor=st.sampled_from("ab"),
    ended=st.just(False),
)
_ends = st.builds(
    Said,
    at=st.integers(0, HORIZON - 1),
    length=st.none(),
    value=st.one_of(st.none(), _values),
    verified=st.sampled_from((False, False, True)),
    actor=st.just("a"),
    ended=st.just(True),
)
_claims = st.lists(st.one_of(_said, st.one_of(_said, _ends)), min_size=1, max_size=9)


class Standing(Through):
    """The reference with its claims given."""

    def __init__(self, claims: list[Claim], cardinality: str, at: int) -> None:
        super().__init__(Space(), Lens(-1, at))
        self.given, self.is_many = claims, cardinality

    def standing(self, entity: str, slot: str) -> list[Claim]:
        return self.given

    def cardinality(self, entity: str, slot: str) -> str:
        return self.is_many


def _event(said: Said, number: int) -> ev.Event:
    common = {"event_id": event_id(number), "space": "s", "actor": said.actor, "recorded_at": 0}
    cls = ev.FactEnded if said.ended else ev.FactAsserted
    return cls(**common, entity="e", slot="s", value=said.value)


def _for_reference(said: list[Said]) -> list[Claim]:
    return [
        Claim(Entry(offset, 0, _event(one, offset)), one.at, one.until, one.verified) for offset, one in enumerate(said)
    ]


def _for_sweep(said: list[Said]) -> list[belief.Claim]:
    return [
        belief.Claim(
            one.at,
            offset,
            belief.FOREVER if one.until is None else one.until,
            one.verified,
            ClaimRow(one.ended, one.value, one.until, event_id(offset), one.actor, 0, offset),
        )
        for offset, one in enumerate(said)
    ]


def _wanted(found: Belief) -> tuple[object, ...]:
    return (type(found.value), found.value, found.start, found.stop, found.corroborations)


def _told(run: belief.Run) -> tuple[object, ...]:
    stop = None if run.stop == belief.FOREVER else run.stop
    return (type(run.value), run.value, run.start, stop, run.corroborations)


@examples(1_000)
@given(said=_claims, cardinality=st.sampled_from(("one", "many")))
def test_runs_agree_with_every_instant(said: list[Said], cardinality: str) -> None:
    """Runs and their corroborations; at every instant the first contender and its rival; what ends each run."""
    claims = _for_sweep(said)
    runs = belief.runs(claims, cardinality)
    history = Standing(_for_reference(said), cardinality, 0).history("e", "s")
    assert [_told(run) for run in runs] == [_wanted(found) for found in history]
    for run, found in zip(runs, history, strict=True):
        named = frozenset() if run.closed_by is None else frozenset({run.closed_by.offset})
        assert named <= found.ended_by
        assert bool(named) == bool(found.ended_by)
    for at in range(-1, HORIZON + 3):
        wanted = Standing(_for_reference(said), cardinality, at).get("e", "s")
        holding = [run for run in runs if run.start <= at < run.stop]
        given_tops = [(run.top_at(at).offset, _rival(run, claims, at, cardinality)) for run in holding]
        assert sorted(given_tops, key=repr) == sorted(((b.top.entry.offset, b.contested) for b in wanted), key=repr)


def _rival(run: belief.Run, claims: list[belief.Claim], at: int, cardinality: str) -> int | None:
    found = belief.contested(run, claims, at, cardinality)
    return None if found is None else found.offset
