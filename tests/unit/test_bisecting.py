"""Halving: the first event at which something is so, in few probes, also where some can't be told."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Set

from hypothesis import given
from hypothesis import strategies as st

from streams.bisecting import Found, first_at_which


def search(events: list[int], first: int, unknown: Set[int] = frozenset()) -> tuple[Found, list[int]]:
    """Looks for `first` among the offsets of events, and what was asked on the way."""
    asked: list[int] = []

    def holds(offset: int) -> bool | None:
        asked.append(offset)
        return None if offset in unknown else offset >= first

    def event_by(offset: int) -> int:
        place = bisect_right(events, offset)
        return events[place - 1] if place else -1

    return first_at_which(-1, events[-1], event_by, holds), asked


@given(st.sets(st.integers(0, 5_000), min_size=1), st.data())
def test_it_is_found_in_a_logarithm_of_probes(offsets: set[int], data: st.DataObject) -> None:
    events = sorted(offsets)
    first = data.draw(st.sampled_from(events))
    found, asked = search(events, first)
    assert found.first == first
    assert found.before < first
    assert not [event for event in events if found.before < event < first]
    assert found.probes == len(asked) == len(set(asked)) <= math.ceil(math.log2(events[-1] + 1))
    assert set(asked) <= offsets


@given(st.sets(st.integers(0, 300), min_size=1, max_size=60), st.data())
def test_what_can_not_be_told_is_passed_over_and_named(offsets: set[int], data: st.DataObject) -> None:
    events = sorted(offsets)
    first = data.draw(st.sampled_from(events))
    unknown = data.draw(st.sets(st.sampled_from(events))) - {events[-1]}
    found, asked = search(events, first, unknown)
    known = [event for event in events if event >= first and event not in unknown]
    assert found.first == known[0]
    assert first in (found.first, *found.undecided)
    assert set(found.undecided) == {event for event in events if found.before < event < found.first}
    assert set(found.undecided) <= unknown
    assert len(asked) == len(set(asked))


def test_nothing_is_asked_where_there_is_but_one_event() -> None:
    assert search([0], 0) == (Found(-1, 0, 0), [])
