"""Which event made something so: halving between one offset where it is not so and one where it is. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from typing import NamedTuple


class Found(NamedTuple):
    """It was not so as of `before`, and was as of `first`; both are offsets of events, or `before` one where there is
    none. `probes` were asked. Where `undecided` is not empty, one of those may be the first instead: all that lies
    between the two could not be told."""

    before: int
    first: int
    probes: int
    undecided: tuple[int, ...] = ()


def first_at_which(
    before: int, last: int, event_by: Callable[[int], int], holds: Callable[[int], bool | None]
) -> Found:
    """The first event at which it is so.

    Where it came and went more than once, it is one of the events at which it came. At most log2(last - before),
    rounded up, probes are asked, and one more for each that can't be told.

    Args:
        before: an offset at which it is not so.
        last: the offset of an event at which it is.
        event_by: offset of the last event up to an offset, inclusive; anything up to `before` for none after that.
        holds: whether it is so as of an event; None: it can't be told.
    """
    unknown: set[int] = set()
    probes = 0
    while (found := _between(before, last, event_by, unknown)) is not None:
        middle, event = found
        probes += 1
        answer = holds(event)
        if answer is None:
            unknown.add(event)
        elif answer:
            last = event
        else:
            before = middle  # no event lies between the event and the middle
    return Found(before, last, probes, tuple(sorted(event for event in unknown if before < event < last)))


def _between(before: int, last: int, event_by: Callable[[int], int], unknown: Set[int]) -> tuple[int, int] | None:
    """(offset, last event by then) nearest to the middle of the widest part between the two that has an event whose
    answer is not unknown; None where there is no such event."""
    parts = deque([(before, last)])
    while parts:
        start, stop = parts.popleft()
        if stop - start < 2:
            continue
        middle = (start + stop) // 2
        event = event_by(middle)
        if event <= start:
            parts.append((middle, stop))
        elif event in unknown:
            parts.extend(((start, event), (middle, stop)))
        else:
            return middle, event
    return None
