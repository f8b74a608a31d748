"""What two Views of one space answer differently. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from streams.answers import Answer, Belief
from streams.reads import Reads
from streams.view import ResolvedView


@dataclass(frozen=True, slots=True)
class Difference:
    """One slot whose answers differ: `before` through the first View, `after` through the second."""

    entity: str
    slot: str
    before: Answer
    after: Answer


def diff(reads: Reads, space: str, first: ResolvedView, second: ResolvedView) -> list[Difference]:
    """Slots whose believed values, or their trust, differ; by entity, then slot.

    When the two Views differ in nothing but their offset, only slots that a later event touched are looked at.
    """
    judges = reads.judge(space, first), reads.judge(space, second)
    touched_after = _only_touched_after(reads, space, first, second)
    found = []
    for entity, slot, row in reads.slots(space):
        if touched_after is not None and row.last_offset <= touched_after:
            continue
        before = reads.answer(space, entity, slot, first, judges[0])
        after = reads.answer(space, entity, slot, second, judges[1])
        if _believed(before) != _believed(after):
            found.append(Difference(entity, slot, before, after))
    return found


def _only_touched_after(reads: Reads, space: str, first: ResolvedView, second: ResolvedView) -> int | None:
    """The offset up to which both Views see the same of each slot; None where they may differ anywhere."""
    same_otherwise = (
        (first.valid_at, first.branch, first.trust, first.without_actors)
        == (second.valid_at, second.branch, second.trust, second.without_actors)
    )  # fmt: skip
    earlier = min(first.as_of.offset, second.as_of.offset)
    return earlier if same_otherwise and reads.rules_changed(space) <= earlier else None


def _believed(answer: Answer) -> list[tuple[type, object, str]]:
    beliefs = answer if isinstance(answer, list) else [] if answer is None else [answer]
    return sorted((_kept(belief) for belief in beliefs), key=repr)


def _kept(belief: Belief) -> tuple[type, object, str]:
    return type(belief.value), belief.value, belief.trust
