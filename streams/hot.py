"""Busy slots: what is believed at one instant without looking at every claim. Pure, and kept in memory only.

`belief.py` says what is believed by sweeping over all claims of a slot. For a slot with very many that is too slow, so
here its claims are kept decoded, in chunks of neighbouring rank with a summary each, and one instant is answered from
the claims around it; chunks that can't matter are skipped. It answers exactly what the sweep answers, for slots that
hold one value and in which no claim can be verified; `answers` says whether that is so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator

from schemas.events import Value
from schemas.times import Micros
from streams.belief import FOREVER, Claim, Run
from streams.rows import ClaimRow
from streams.values import identity, same
from streams.view import STANDS, Judge

CHUNK_CLAIMS = 256
_AFTER_ALL = 1 << 63

Key = tuple[Micros, int]
"""(instant, offset): the rank of a claim among candidates."""


class _Chunk:
    """Neighbouring claims in ascending order, and what holds for all of them."""

    __slots__ = (
        "actors", "branches", "has_end", "keys", "latest_until", "lowest_offset", "retracted_by", "retractors", "shas",
    )  # fmt: skip

    def __init__(self, keys: list[Key], rows: dict[Key, ClaimRow]) -> None:
        self.keys = keys
        self.summarise(rows)

    def summarise(self, rows: dict[Key, ClaimRow]) -> None:
        """`retracted_by` is the offset by which every claim here was retracted, by one of `retractors`; None when one
        was not."""
        held = [rows[key] for key in self.keys]
        self.lowest_offset = min(offset for _, offset in self.keys)
        self.latest_until = max((_until(row) for row in held if not row.ended), default=-_AFTER_ALL)
        self.has_end = any(row.ended for row in held)
        self.actors = {row.actor for row in held}
        self.branches = {row.branch for row in held}
        self.shas = {row.sha for row in held}
        firsts = [row.retractions[0].offset if row.retractions else None for row in held]
        self.retractors = {row.retractions[0].actor for row in held if row.retractions}
        self.retracted_by = None if None in firsts else max(offset for offset in firsts if offset is not None)

    def add(self, key: Key, row: ClaimRow) -> None:
        insort(self.keys, key)
        self.lowest_offset = min(self.lowest_offset, key[1])
        if row.ended:
            self.has_end = True
        else:
            self.latest_until = max(self.latest_until, _until(row))
        self.actors.add(row.actor)
        self.branches.add(row.branch)
        self.shas.add(row.sha)
        first = row.retractions[0].offset if row.retractions else None
        self.retractors.update(mark.actor for mark in row.retractions[:1])
        self.retracted_by = None if self.retracted_by is None or first is None else max(self.retracted_by, first)


class HotSlot:
    """All claims of one slot, whatever became of them; `put` keeps it as the rows are."""

    def __init__(self, claims: list[tuple[Key, ClaimRow]]) -> None:
        """`claims` in ascending order, at least one."""
        self.rows = dict(claims)
        keys = [key for key, _ in claims]
        self._chunks = [
            _Chunk(keys[first : first + CHUNK_CLAIMS], self.rows) for first in range(0, len(keys), CHUNK_CLAIMS)
        ]
        self._firsts = [chunk.keys[0] for chunk in self._chunks]
        self.ends = [key for key, row in claims if row.ended]
        self.of_value: dict[object, list[Key]] = {}
        self.actors_of_value: dict[object, set[str]] = {}
        self.verified = any(map(_was_verified, self.rows.values()))
        self.actors = {row.actor for _, row in claims}
        for key, row in claims:
            if not row.ended:
                self._count_value(key, row)

    def __len__(self) -> int:
        return len(self.rows)

    def put(self, key: Key, row: ClaimRow) -> None:
        """A new claim, or a known one with something more said about it."""
        place = max(bisect_right(self._firsts, key) - 1, 0)
        chunk = self._chunks[place]
        known = key in self.rows
        self.rows[key] = row
        self.verified = self.verified or _was_verified(row)
        self.actors.add(row.actor)
        if known:
            chunk.summarise(self.rows)
            return
        chunk.add(key, row)
        self._firsts[place] = chunk.keys[0]
        if row.ended:
            insort(self.ends, key)
        else:
            self._count_value(key, row)
        if len(chunk.keys) > 2 * CHUNK_CLAIMS:
            halves = [_Chunk(chunk.keys[:CHUNK_CLAIMS], self.rows), _Chunk(chunk.keys[CHUNK_CLAIMS:], self.rows)]
            self._chunks[place : place + 1] = halves
            self._firsts[place : place + 1] = [half.keys[0] for half in halves]

    def down(self, key: Key, skip: Callable[[_Chunk], bool]) -> Iterator[Key]:
        """Keys up to `key`, inclusive, descending, without those of chunks to skip (asked as each is reached)."""
        for place in range(bisect_right(self._firsts, key) - 1, -1, -1):
            chunk = self._chunks[place]
            if not skip(chunk):
                yield from reversed(chunk.keys[: bisect_right(chunk.keys, key)])

    def up(self, key: Key, skip: Callable[[_Chunk], bool]) -> Iterator[Key]:
        """Keys above `key`, ascending, likewise."""
        for place in range(max(bisect_right(self._firsts, key) - 1, 0), len(self._chunks)):
            chunk = self._chunks[place]
            if not skip(chunk):
                yield from chunk.keys[bisect_right(chunk.keys, key) :]

    def _count_value(self, key: Key, row: ClaimRow) -> None:
        own = identity(row.value)
        insort(self.of_value.setdefault(own, []), key)
        self.actors_of_value.setdefault(own, set()).add(row.actor)


class HotView:
    """One hot slot through one View. `covered` says whether a tombstone covers a value, None where there is none."""

    def __init__(self, slot: HotSlot, judge: Judge, covered: Callable[[Value], bool] | None) -> None:
        self._slot = slot
        self._judge = judge
        self._covered = covered
        self._limit = judge.resolved.as_of.offset

    @property
    def answers(self) -> bool:
        """Whether rank is (instant, offset) alone here, as this shortcut needs: nothing can be verified."""
        return not self._slot.verified and not self._judge.may_start_verified(self._slot.actors)

    def run_at(self, at: Micros) -> Run | None:
        """The run that holds `at`, as `belief.runs` has it; None when nothing is believed then."""
        top = self._top(at)
        if top is None:
            return None
        start, before = self._backward(top, at)
        stop, closed_by, after = self._forward(top, at)
        value = top.row.value
        assert value is not None
        tops = tuple(before + after)
        return Run(value, start, stop, tops, self._corroborations(value, start, stop), closed_by)

    def _top(self, at: Micros) -> Claim | None:
        """The highest-ranked contender at an instant."""

        def skip(chunk: _Chunk) -> bool:
            return (chunk.latest_until <= at and not chunk.has_end) or self._hopeless(chunk)

        ended: set[object] = set()
        for key in self._slot.down((at, _AFTER_ALL), skip):
            claim = self._standing(key)
            if claim is None:
                continue
            if claim.row.ended:
                if claim.row.value is None:
                    return None
                ended.add(identity(claim.row.value))
            elif claim.until > at and (not ended or identity(claim.row.value) not in ended):
                return claim
        return None

    def _backward(self, top: Claim, at: Micros) -> tuple[Micros, list[tuple[Micros, Claim]]]:
        """Where the run that holds `at` starts, and its highest-ranked contenders up to there, ascending."""
        tops: list[tuple[Micros, Claim]] = []
        while True:
            start = self._last_stop(top, at)
            tops.append((start, top))
            before = self._top(start - 1)
            if before is None or not same(before.row.value, top.row.value):
                return start, tops[::-1]
            top, at = before, start - 1

    def _last_stop(self, top: Claim, at: Micros) -> Micros:
        """When `top` became the first: its own instant, or when the last that outranked it stopped, by `at`."""
        latest = top.at
        cut: dict[object, Micros] = {}

        def skip(chunk: _Chunk) -> bool:
            return (chunk.latest_until <= latest and not chunk.has_end) or self._hopeless(chunk)

        for key in self._slot.down((at, _AFTER_ALL), skip):
            if key <= (top.at, top.offset):
                break
            claim = self._standing(key)
            if claim is None:
                continue
            own = identity(claim.row.value)
            if claim.row.ended:
                cut[own] = claim.at
            else:
                stop = min(claim.until, cut.get(own, FOREVER))
                if claim.at < stop:
                    latest = max(latest, stop)
        return latest

    def _forward(self, top: Claim, at: Micros) -> tuple[Micros, Claim | None, list[tuple[Micros, Claim]]]:
        """Where the run stops, what closes it, and its further highest-ranked contenders, ascending."""
        tops: list[tuple[Micros, Claim]] = []
        while True:
            stop = min(top.until, self._next_instant(at))
            if stop == FOREVER:
                return FOREVER, None, tops
            following = self._top(stop)
            if following is None or not same(following.row.value, top.row.value):
                closed_by = self._cutting(top, stop)
                if closed_by is None and top.until > stop:
                    closed_by = following
                return stop, closed_by, tops
            if following is not top and following.offset != top.offset:
                tops.append((stop, following))
            top, at = following, stop

    def _next_instant(self, at: Micros) -> Micros:
        """The instant of the next claim that stands after `at`."""
        for key in self._slot.up((at, _AFTER_ALL), self._hopeless):
            if self._standing(key) is not None:
                return key[0]
        return FOREVER

    def _cutting(self, fact: Claim, at: Micros) -> Claim | None:
        """The end that cuts the fact at this very instant; None where its own interval ends then anyway."""
        if fact.until <= at:
            return None
        for end in self._ends_after((max(fact.at, at), fact.offset if fact.at == at else -1), fact.row.value):
            return end if end.at == at else None
        return None

    def _ends_after(self, key: Key, value: Value | None) -> Iterator[Claim]:
        """Ends that stand, concern the value and rank above `key`, ascending."""
        ends = self._slot.ends
        for place in range(bisect_right(ends, key), len(ends)):
            end = self._standing(ends[place])
            if end is not None and (end.row.value is None or same(end.row.value, value)):
                yield end

    def _corroborations(self, value: Value, start: Micros, stop: Micros) -> int:
        """How many actors have a contender of the value somewhere in the run."""
        own = identity(value)
        keys, everyone = self._slot.of_value[own], self._slot.actors_of_value[own]
        actors: set[str] = set()
        for place in range(bisect_left(keys, (stop, -_AFTER_ALL)) - 1, -1, -1):
            if len(actors) == len(everyone):
                break
            claim = self._standing(keys[place])
            if claim is None or claim.row.actor in actors or claim.until <= start:
                continue
            cut = next(self._ends_after(keys[place], value), None)
            if cut is None or cut.at > max(start, claim.at):
                actors.add(claim.row.actor)
        return len(actors)

    def _standing(self, key: Key) -> Claim | None:
        row = self._slot.rows[key]
        if self._judge.standing(row, key[1]) not in STANDS:
            return None
        if self._covered is not None and row.value is not None and self._covered(row.value):
            return None
        return Claim(key[0], key[1], _until(row), False, row)

    def _hopeless(self, chunk: _Chunk) -> bool:
        """Whether no claim of the chunk can count."""
        if chunk.lowest_offset > self._limit or self._judge.hides_all(chunk.actors, chunk.lowest_offset):
            return True
        if not self._judge.shows_any_of(chunk.branches, chunk.lowest_offset):
            return True
        if not self._judge.is_at_any_of(chunk.shas):
            return True
        if chunk.retracted_by is None or chunk.retracted_by > self._limit:
            return False
        return not self._judge.may_hide(chunk.retractors)


def _was_verified(row: ClaimRow) -> bool:
    return any(mark.verdict == "verified" for mark in row.reviews)


def _until(row: ClaimRow) -> Micros:
    return FOREVER if row.until is None else row.until


class HotSlots:
    """The busy slots of one partition that were read lately, kept as the rows are."""

    def __init__(self, claims_max: int = 150_000) -> None:
        self._claims_max = claims_max
        self._slots: dict[bytes, HotSlot] = {}

    def get(self, part: bytes) -> HotSlot | None:
        """The slot with this `keys.slot_part`, if it is kept."""
        found = self._slots.pop(part, None)
        if found is not None:
            self._slots[part] = found  # the most lately used is last
        return found

    def keep(self, part: bytes, slot: HotSlot) -> None:
        """Keep a slot, and let go of those not used for longest while there are too many claims."""
        self._slots[part] = slot
        while len(self._slots) > 1 and sum(map(len, self._slots.values())) > self._claims_max:
            del self._slots[next(iter(self._slots))]

    def put(self, part: bytes, key: Key, row: ClaimRow) -> None:
        """Tell of a claim that was written."""
        slot = self._slots.get(part)
        if slot is not None:
            slot.put(key, row)

    def __bool__(self) -> bool:
        return bool(self._slots)

    def clear(self) -> None:
        self._slots.clear()
