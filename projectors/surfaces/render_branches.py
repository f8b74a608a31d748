"""Branches as a person reads them: the conflicts of a merge."""

from __future__ import annotations

from collections.abc import Iterator

from projectors.surfaces.output import cut, value, word
from projectors.surfaces.render import held
from streams import Belief
from streams.answers import Conflict, beliefs_of

_VALUE_CELLS = 200


def conflict_lines(found: Conflict, source: str, into: str) -> Iterator[str]:
    """The slot, what was believed of it when the branches parted, and what each believes now, with its origin."""
    yield f"{word(found.entity)} {word(found.slot)}"
    sides = (("base", found.base), (f"ours, {word(into)}", found.ours), (f"theirs, {word(source)}", found.theirs))
    widest = max(len(name) for name, _ in sides)
    for name, answer in sides:
        told = [text for belief in beliefs_of(answer) for text in _belief_lines(belief)] or ["nothing"]
        for number, text in enumerate(told):
            yield f"  {'' if number else name:<{widest}}  {text}"


def _belief_lines(belief: Belief) -> Iterator[str]:
    yield f"{cut(value(belief.value), _VALUE_CELLS)}  {held(belief)}"
    yield f"  by {word(belief.actor)}, {belief.trust}, event {belief.event_id} at {belief.position}"
