"""What two Views of one space answer differently, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from streams.answers import Answer, Belief, Recorded, beliefs_of
from streams.branching import Slot, Spans
from streams.explain import Explanation, Outcome, explain
from streams.reads import Reads
from streams.view import ResolvedView

Kind = Literal["added", "changed", "gone", "trust"]


class Difference(msgspec.Struct, frozen=True):
    """One slot whose answers differ: `before` through the first View, `after` through the second.

    kind: a value is there that was not; another one is; none is any longer; or only its trust is another.
    outcome: what became, through the second View, of what the first believed; None where that believed nothing.
    by: the event that made the difference, where one did: what is believed now, or what ended, retracted, rejected,
        forbade, rolled back or distrusted what was.
    """

    entity: str
    slot: str
    before: Answer
    after: Answer
    kind: Kind
    outcome: Outcome | None = None
    by: Recorded | None = None


def diff(
    reads: Reads, space: str, first: ResolvedView, second: ResolvedView, then: Reads | None = None
) -> list[Difference]:
    """Slots whose believed values, or their trust, differ; by entity, then slot.

    Only slots that an event touched which one of the two Views shows and the other does not are looked at, unless the
    two differ in their instant, their trust or their actors, or an event that rules the whole space lies between them.
    `then` reads what the second View is asked of, where that is not `reads`.
    """
    after_reads = reads if then is None else then
    judges = reads.judge(space, first), after_reads.judge(space, second)
    found = []
    for entity, slot in _to_compare(reads, after_reads, space, first, second):
        before = reads.answer(space, entity, slot, first, judges[0])
        after = after_reads.answer(space, entity, slot, second, judges[1])
        if believed(before) != believed(after):
            found.append(_difference(after_reads, space, entity, slot, (before, after), second))
    return found


def _difference(
    reads: Reads, space: str, entity: str, slot: str, answers: tuple[Answer, Answer], second: ResolvedView
) -> Difference:
    before, after = map(beliefs_of, answers)
    lost = [one for one in before if _kept(one) not in map(_kept, after)]
    won = [one for one in after if _kept(one) not in map(_kept, before)]
    values = [sorted((repr(type(one.value)), repr(one.value)) for one in side) for side in (before, after)]
    kind: Kind = "trust" if values[0] == values[1] else "added" if not lost else "gone" if not won else "changed"
    why = explain(reads, space, entity, slot, second)
    outcome, by = (None, None) if not lost else _became(reads, space, lost[0], why)
    if by is None and won and kind != "gone":
        by = reads.find(space, won[0].event_id.bytes)
    return Difference(entity, slot, *answers, kind, outcome, by)


def _became(reads: Reads, space: str, lost: Belief, why: Explanation) -> tuple[Outcome, Recorded | None]:
    """What became of a belief, and the event that did it."""
    for claim in why.claims:
        if claim.recorded.position == lost.position:
            said = None if claim.because is None else reads.find(space, claim.because.event_id.bytes)
            verdict = next((one.recorded for one in reversed(claim.said) if one.counts and one.verdict), None)
            return claim.outcome, claim.decided_by or said or (verdict if claim.outcome == "believed" else None)
    return "not known", None


def _to_compare(
    reads: Reads, then: Reads, space: str, first: ResolvedView, second: ResolvedView
) -> Iterable[tuple[str, str]]:
    """Slots that may answer differently, by entity, then slot."""
    same_otherwise = (
        (first.valid_at, first.trust, first.without_actors) == (second.valid_at, second.trust, second.without_actors)
    )  # fmt: skip
    earlier = min(first.as_of.offset, second.as_of.offset)
    if not same_otherwise or then.rules_changed(space) > earlier:  # the newest: an older one may lie between the two
        return sorted({*reads.slots(space), *then.slots(space)})
    return sorted(_touched(reads, then, space, first, second))


def _touched(reads: Reads, then: Reads, space: str, first: ResolvedView, second: ResolvedView) -> set[Slot]:
    """Slots of events that one of the two Views shows, and the other does not."""
    judges = reads.judge(space, first), then.judge(space, second)
    one, other = judges[0].shown, judges[1].shown
    found = touched_in(then, space, (one.everywhere - other.everywhere) | (other.everywhere - one.everywhere))
    for slot in one.only.keys() | other.only.keys():
        if one.in_slot(slot).of_branch != other.in_slot(slot).of_branch:
            found.add(slot)
    earlier = min(first.as_of.offset, second.as_of.offset)
    if first.shas != second.shas or (first.shas and then.commits_changed(space) > earlier):
        found |= then.pinned_slots(space, lambda sha: judges[0].is_at(sha) != judges[1].is_at(sha))
    return found


def touched_in(reads: Reads, space: str, spans: Spans) -> set[Slot]:
    """Slots that the events of these spans say something about."""
    found = {reads.slot_of(space, recorded.event) for recorded in reads.events_in(space, spans)}
    return {slot for slot in found if slot is not None}


def believed(answer: Answer) -> list[tuple[type, object, str]]:
    """What of an answer makes it another one: values and their trust."""
    return sorted((_kept(belief) for belief in beliefs_of(answer)), key=repr)


def _kept(belief: Belief) -> tuple[type, object, str]:
    return type(belief.value), belief.value, belief.trust
