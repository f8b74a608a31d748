"""Entities as a tree: the segments of their names between slashes, with what is under each. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from streams.reads import Reads
from streams.view import ResolvedView


class Node(msgspec.Struct, frozen=True):
    """One step down the tree: `path` is the whole name so far, `name` its last segment. `entities` counts the entities
    with that name or under it, `slots` their slots, and `is_entity` says whether one has just that name."""

    path: str
    name: str
    is_entity: bool
    entities: int
    slots: int


def ls(reads: Reads, space: str, prefix: str, resolved: ResolvedView | None) -> list[Node]:
    """The nodes one step below `prefix` (empty: at the top), by name. With a View, only slots of which it believes
    something count, and each is asked; without, all of which anything was ever said."""
    slots: Counter[str] = Counter()
    entities: dict[str, set[str]] = {}
    above = f"{prefix}/" if prefix else ""
    for entity, _ in _counted(reads, space, above, resolved):
        name = entity[len(above) :].partition("/")[0]
        slots[name] += 1
        entities.setdefault(name, set()).add(entity)
    return [
        Node(above + name, name, above + name in entities[name], len(entities[name]), slots[name])
        for name in sorted(slots)
    ]


def _counted(reads: Reads, space: str, above: str, resolved: ResolvedView | None) -> Iterator[tuple[str, str]]:
    if resolved is None:
        yield from reads.slots(space, above)
        return
    judge = reads.judge(space, resolved)
    for entity, slot in reads.slots(space, above):
        if reads.answer(space, entity, slot, resolved, judge):
            yield entity, slot
