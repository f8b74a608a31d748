"""What two Views of one space answer differently. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streams.answers import Answer, Belief, beliefs_of
from streams.reads import Reads
from streams.view import ResolvedView


class Difference(msgspec.Struct, frozen=True):
    """One slot whose answers differ: `before` through the first View, `after` through the second."""

    entity: str
    slot: str
    before: Answer
    after: Answer


def diff(reads: Reads, space: str, first: ResolvedView, second: ResolvedView) -> list[Difference]:
    """Slots whose believed values, or their trust, differ; by entity, then slot.

    When the two Views differ in nothing but their offset, and no event since the earlier one rules the whole space,
    only slots that an event between them touched are looked at.
    """
    judges = reads.judge(space, first), reads.judge(space, second)
    found = []
    for entity, slot in _to_compare(reads, space, first, second):
        before = reads.answer(space, entity, slot, first, judges[0])
        after = reads.answer(space, entity, slot, second, judges[1])
        if believed(before) != believed(after):
            found.append(Difference(entity, slot, before, after))
    return found


def _to_compare(reads: Reads, space: str, first: ResolvedView, second: ResolvedView) -> Iterable[tuple[str, str]]:
    """Slots that may answer differently, by entity, then slot."""
    same_otherwise = (
        (first.valid_at, first.branch, first.trust, first.without_actors)
        == (second.valid_at, second.branch, second.trust, second.without_actors)
    )  # fmt: skip
    earlier, later = sorted((first.as_of.offset, second.as_of.offset))
    if same_otherwise and reads.rules_changed(space) <= earlier:  # the newest: an older one may lie between the two
        return sorted(reads.touched(space, earlier + 1, later + 1))
    return reads.slots(space)


def believed(answer: Answer) -> list[tuple[type, object, str]]:
    """What of an answer makes it another one: values and their trust."""
    return sorted((_kept(belief) for belief in beliefs_of(answer)), key=repr)


def _kept(belief: Belief) -> tuple[type, object, str]:
    return type(belief.value), belief.value, belief.trust
