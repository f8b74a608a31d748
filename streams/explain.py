"""Why a slot answers as it does: every claim about it, what became of each, and who said so. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from schemas import events as ev
from streams.answers import Answer, Claimed, Recorded
from streams.belief import Claim, Span, cut_spans
from streams.distrust import Origin
from streams.reads import Reads
from streams.rows import Mark
from streams.values import identity
from streams.view import STANDS, Judge, ResolvedView, Standing

Outcome = (
    Literal["believed", "outranked", "ended", "expired", "not yet valid", "in force", "not yet in force", "rolled back"]
    | Standing
)
"""What became of a claim at the view's instant; ends are in force or not yet. A Standing says why it does not stand, or
`rolled back`, that its branch said it or had it merged and was rolled back."""


class Said(msgspec.Struct, frozen=True):
    """A verdict on a claim, or a retraction of it (`verdict` None), and whether it counts through the view."""

    recorded: Recorded
    verdict: ev.Trust | None
    counts: bool


class ExplainedClaim(msgspec.Struct, frozen=True):
    """One fact or end: its event, its trust, what was said about it, and its outcome. `because` is the claim that
    outranks or ends it, where one does; `decided_by` the event that does not let it stand: the newest retraction or
    rejection that counts, the tombstone, the rollback of its branch, or the distrust of its actor, branch or commit."""

    recorded: Recorded
    trust: ev.Trust
    outcome: Outcome
    because: Claimed | None
    decided_by: Recorded | None
    said: tuple[Said, ...]


class Explanation(msgspec.Struct, frozen=True):
    """The answer of a slot, and every claim known at the view's offset, newest rank first."""

    entity: str
    slot: str
    cardinality: str
    answer: Answer
    claims: tuple[ExplainedClaim, ...]
    view: ResolvedView


def explain(reads: Reads, space: str, entity: str, slot: str, resolved: ResolvedView) -> Explanation:
    """Why entity:slot answers as it does through `resolved`."""
    judge = reads.judge(space, resolved).on(entity, slot)
    cardinality = judge.cardinality(entity, slot)
    known = [
        (claim, standing)
        for claim, standing in reads.claims(space, entity, slot, judge)
        if claim.offset <= resolved.as_of.offset
    ]
    outcomes = _outcomes([claim for claim, standing in known if standing in STANDS], cardinality, resolved.valid_at)
    explained = []
    for claim, standing in sorted(known, key=lambda one: one[0].rank, reverse=True):
        outcome, because = outcomes[claim.offset] if standing in STANDS else (standing, None)
        if standing == "other branch" and judge.rolled_back_at(_origin(claim), (entity, slot)) is not None:
            outcome = "rolled back"
        said = _said(reads, space, judge, claim, resolved.as_of.offset)
        explained.append(
            ExplainedClaim(
                reads.event_at(space, claim.offset),
                judge.trust(claim.row, claim.offset),
                outcome,
                None if because is None else reads.claimed(because),
                _decided_by(reads, space, entity, slot, judge, claim, standing, said),
                said,
            )
        )
    answer = reads.get(space, entity, slot, resolved)
    return Explanation(entity, slot, cardinality, answer, tuple(explained), resolved)


def _origin(claim: Claim) -> Origin:
    row = claim.row
    return Origin(claim.offset, row.append_time, row.actor, row.branch, row.sha)


def _outcomes(claims: Sequence[Claim], cardinality: str, at: int) -> dict[int, tuple[Outcome, Claim | None]]:
    """Offset to (outcome, because) of claims that stand."""
    found: dict[int, tuple[Outcome, Claim | None]] = {}
    contenders: list[Span] = []
    for span in cut_spans(claims):
        claim = span.claim
        if claim.at > at:
            found[claim.offset] = ("not yet valid", None)
        elif span.stop > at:
            contenders.append(span)
        elif span.cut_by is not None:
            found[claim.offset] = ("ended", span.cut_by)
        else:
            found[claim.offset] = ("expired", None)
    best: dict[object, Claim] = {}
    for span in contenders:
        group = identity(span.claim.row.value) if cardinality == "many" else None
        if group not in best or span.claim.rank > best[group].rank:
            best[group] = span.claim
    for span in contenders:
        group = identity(span.claim.row.value) if cardinality == "many" else None
        won = best[group] is span.claim
        found[span.claim.offset] = ("believed", None) if won else ("outranked", best[group])
    for claim in claims:
        if claim.row.ended:
            found[claim.offset] = ("in force" if claim.at <= at else "not yet in force", None)
    return found


def _decided_by(
    reads: Reads,
    space: str,
    entity: str,
    slot: str,
    judge: Judge,
    claim: Claim,
    standing: Standing,
    said: Sequence[Said],
) -> Recorded | None:
    """The event because of which a claim does not stand, where one event says so."""
    if standing in ("retracted", "rejected"):
        verdict = "rejected" if standing == "rejected" else None
        return next((one.recorded for one in reversed(said) if one.counts and one.verdict == verdict), None)
    offset = None
    if standing == "distrusted":
        offset = judge.distrusted_at(_origin(claim))
    elif standing == "other branch":
        offset = judge.rolled_back_at(_origin(claim), (entity, slot))
    elif standing == "forbidden" and claim.row.value is not None:
        offset = reads.forbidden_at(space, entity, slot, claim.row.value, judge)
    return None if offset is None else reads.event_at(space, offset)


def _said(reads: Reads, space: str, judge: Judge, claim: Claim, limit: int) -> tuple[Said, ...]:
    marks: list[tuple[Mark, bool]] = [(mark, judge.retraction_counts(mark)) for mark in claim.row.retractions]
    marks += [(mark, judge.verdict_counts(mark)) for mark in claim.row.reviews]
    return tuple(
        Said(reads.event_at(space, mark.offset), mark.verdict, counts)
        for mark, counts in sorted(marks, key=lambda one: one[0].offset)
        if mark.offset <= limit
    )
