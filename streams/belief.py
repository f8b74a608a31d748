"""What is believed of one slot, from the facts and ends that stand. Pure: the rule of the whole product in one file.

A claim is a fact or an end. Claims rank by (verified first, instant, offset), where the instant is a fact's
`valid_from` or an end's `at`. An end cuts short every fact of its value (or of any) that ranks below it. At an
instant the contenders are the facts whose interval, so cut, holds it; the highest-ranked is believed. Where a slot
holds many values, the same runs per value. A run is a maximal interval in which one value is believed; runs that
touch are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from schemas.events import Value
from schemas.times import LATEST, Micros
from streams.rows import ClaimRow
from streams.values import identity, same

FOREVER: Micros = LATEST + 1
_ANY = identity(None)


class Claim(NamedTuple):
    """A fact or an end that stands. `until` is exclusive, FOREVER where the fact has no end of its own."""

    at: Micros
    offset: int
    until: Micros
    verified: bool
    row: ClaimRow

    @property
    def rank(self) -> tuple[bool, Micros, int]:
        return self.verified, self.at, self.offset


class Run(NamedTuple):
    """`value` is believed from `start`, inclusive, to `stop`, exclusive; `tops` are the highest-ranked contenders along
    it, each from its instant on; `corroborations` counts the actors whose contenders claim that value within it;
    `closed_by` is the claim that stopped it, None when the fact's own interval ended or it goes on for ever."""

    value: Value
    start: Micros
    stop: Micros
    tops: tuple[tuple[Micros, Claim], ...]
    corroborations: int
    closed_by: Claim | None

    def top_at(self, at: Micros) -> Claim:
        """The highest-ranked contender at an instant inside the run."""
        return next(claim for since, claim in reversed(self.tops) if since <= at)


def runs(claims: Iterable[Claim], cardinality: str) -> list[Run]:
    """Every run, ascending by (start, offset of its first top)."""
    claims = list(claims)
    if cardinality == "one":
        return _runs_of_one(claims)
    groups: dict[object, list[Claim]] = {}
    for claim in claims:
        if not claim.row.ended:
            groups.setdefault(identity(claim.row.value), []).append(claim)
    ends = [claim for claim in claims if claim.row.ended]
    found: list[Run] = []
    for facts in groups.values():
        value = facts[0].row.value
        found += _runs_of_one([*facts, *(end for end in ends if _concerns(end, value))])
    return sorted(found, key=lambda run: (run.start, run.tops[0][1].offset))


def contested(run: Run, claims: Iterable[Claim], at: Micros, cardinality: str) -> Claim | None:
    """The claim of another value, or the end, that would be first at `at` if trust did not rank: None if there is none.

    Only a verified belief can have one: it yields to no candidate.
    """
    if not run.top_at(at).verified:
        return None
    ended: set[object] = set()
    for claim in sorted(claims, key=lambda claim: (claim.at, claim.offset), reverse=True):
        if claim.at > at:
            continue
        own = same(claim.row.value, run.value)
        if claim.row.ended:
            if claim.row.value is None or own:
                return claim
            ended.add(identity(claim.row.value))
        elif claim.until > at and identity(claim.row.value) not in ended:
            if own:
                return None
            if cardinality == "one":
                return claim
    return None


def _concerns(end: Claim, value: Value | None) -> bool:
    return end.row.value is None or same(end.row.value, value)


class Span(NamedTuple):
    """A fact's interval after the ends have cut it, and the end that did; `stop` ≤ `start` where nothing is left."""

    start: Micros
    stop: Micros
    claim: Claim
    cut_by: Claim | None


def _runs_of_one(claims: Sequence[Claim]) -> list[Run]:
    spans = [span for span in cut_spans(claims) if span.stop > span.start]
    segments = _segments(spans)
    claimants: dict[object, _Claimants] = {}
    for span in spans:
        claimants.setdefault(identity(span.claim.row.value), _Claimants([])).spans.append(span)
    found: list[Run] = []
    first = 0
    for last, (_, stop, top) in enumerate(segments):
        value = top.claim.row.value
        assert value is not None
        following = segments[last + 1] if last + 1 < len(segments) else None
        if following is not None and following[0] == stop and same(following[2].claim.row.value, value):
            continue
        start = segments[first][0]
        outranked = following is not None and following[0] == stop < top.stop
        found.append(
            Run(
                value,
                start,
                stop,
                tuple((since, span.claim) for since, _, span in segments[first : last + 1]),
                claimants[identity(value)].between(start, stop),
                following[2].claim if outranked and following is not None else top.cut_by,
            )
        )
        first = last + 1
    return found


class _Claimants:
    """Counts the distinct actors whose claims of one value touch a run; asked for runs in ascending order only."""

    def __init__(self, spans: list[Span]) -> None:
        self.spans = spans
        self._begun = 0
        self._ending: list[tuple[Micros, int, str]] = []
        self._active: dict[str, int] = {}

    def between(self, start: Micros, stop: Micros) -> int:
        while self._begun < len(self.spans) and self.spans[self._begun].start < stop:
            span = self.spans[self._begun]
            heappush(self._ending, (span.stop, self._begun, span.claim.row.actor))
            self._active[span.claim.row.actor] = self._active.get(span.claim.row.actor, 0) + 1
            self._begun += 1
        while self._ending and self._ending[0][0] <= start:
            _, _, actor = heappop(self._ending)
            self._active[actor] -= 1
            if not self._active[actor]:
                del self._active[actor]
        return len(self._active)


def cut_spans(claims: Iterable[Claim]) -> list[Span]:
    """Each fact's interval, cut by the earliest end that outranks it; ascending by start."""
    spans = []
    earliest: dict[object, Claim] = {}
    for claim in sorted(claims, key=lambda claim: claim.rank, reverse=True):
        own = identity(claim.row.value)
        if claim.row.ended:
            known = earliest.get(own)
            if known is None or claim.at <= known.at:
                earliest[own] = claim
            continue
        cutting = [end for end in (earliest.get(own), earliest.get(_ANY)) if end is not None]
        cut_by = min(cutting, key=lambda end: (end.at, end.offset), default=None)
        if cut_by is not None and cut_by.at >= claim.until:
            cut_by = None
        stop = claim.until if cut_by is None else cut_by.at
        spans.append(Span(claim.at, stop, claim, cut_by))
    return sorted(spans)


def _segments(spans: Sequence[Span]) -> list[tuple[Micros, Micros, Span]]:
    """(start, stop, highest-ranked span) of every stretch with one winner; stretches without any are left out."""
    boundaries = sorted({span.start for span in spans} | {span.stop for span in spans})
    waiting = iter(spans)
    upcoming = next(waiting, None)
    heap: list[tuple[tuple[bool, Micros, int], Span]] = []
    segments: list[tuple[Micros, Micros, Span]] = []
    for start, stop in pairwise(boundaries):
        while upcoming is not None and upcoming.start == start:
            verified, at, offset = upcoming.claim.rank
            heappush(heap, ((not verified, -at, -offset), upcoming))
            upcoming = next(waiting, None)
        while heap and heap[0][1].stop <= start:
            heappop(heap)
        if not heap:
            continue
        top = heap[0][1]
        if segments and segments[-1][2] is top and segments[-1][1] == start:
            segments[-1] = (segments[-1][0], stop, top)
        else:
            segments.append((start, stop, top))
    return segments
