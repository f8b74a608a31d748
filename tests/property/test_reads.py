"""Every read of folded rows against the reference, over random histories and views."""

from __future__ import annotations

from comparing import check_changes, check_entity, check_slot, lens_of
from hypothesis import given
from hypothesis import strategies as st
from reference import Lens, Space
from strategies import (
    ACTORS,
    BASE,
    CODEC,
    ENTITIES,
    SLOTS,
    SPACE,
    STEP,
    Step,
    built,
    busy_slots,
    examples,
    folded,
    histories,
    steps,
    unjudged,
)

from schemas.times import EARLIEST, instant
from streams import keys
from streams.fold import fold
from streams.hot import HotSlots
from streams.overlay import Empty, Overlay
from streams.ports import Batch
from streams.reads import Bounds, Reads
from streams.rows import ClaimRow, Head, decode
from streams.view import View

_AROUND = (-1, 0, 1)
NOW = BASE + 100 * STEP


def _lenses(last: int) -> st.SearchStrategy[Lens]:
    ats = st.builds(lambda step, off: BASE + step * STEP + off, st.integers(-1, 11), st.sampled_from(_AROUND))
    without = st.one_of(st.just(()), st.lists(st.sampled_from(ACTORS), max_size=2, unique=True).map(tuple))
    return st.builds(
        Lens, st.one_of(st.just(last), st.integers(-1, last)), ats, st.sampled_from(("candidate", "verified")), without
    )


def _pairs() -> list[tuple[str, str]]:
    return [(entity, slot) for entity in ENTITIES for slot in SLOTS]


@examples(300)
@given(given_steps=histories(), data=st.data())
def test_reads_agree_with_the_reference(given_steps: list[Step], data: st.DataObject) -> None:
    """get, entity and history of every slot, through random lenses."""
    history = built(given_steps)
    rows, head = folded(history.records())
    oracle, reads = history.reference(), Reads(rows, 0, CODEC)
    for _ in range(3):
        lens = data.draw(_lenses(head.next_offset - 1))
        for entity, slot in _pairs():
            check_slot(reads, SPACE, oracle, lens, entity, slot)
        for entity in ENTITIES:
            check_entity(reads, SPACE, oracle, lens, entity)


@examples(120)
@given(given_steps=histories(max_size=10), trust=st.sampled_from(("candidate", "verified")))
def test_every_offset_and_every_boundary(given_steps: list[Step], trust: str) -> None:
    """One slot as of every offset, and at the end of the log at every instant around every boundary."""
    history = built(given_steps)
    rows, head = folded(history.records())
    oracle, reads = history.reference(), Reads(rows, 0, CODEC)
    entity, slot = ENTITIES[0], SLOTS[0]
    last = head.next_offset - 1
    for offset in range(-1, last + 1):
        check_slot(reads, SPACE, oracle, Lens(offset, BASE + 3 * STEP, trust), entity, slot)
    for boundary in oracle.through(Lens(last, BASE, trust)).instants(entity, slot):
        for off in _AROUND:
            check_slot(reads, SPACE, oracle, Lens(last, boundary + off, trust), entity, slot)


@examples(200)
@given(given_steps=histories(of=unjudged, max_size=24), data=st.data(), chunk=st.sampled_from((1, 2, 5)))
def test_busy_slots_agree_with_the_reference(given_steps: list[Step], data: st.DataObject, chunk: int) -> None:
    """The shortcut for slots with very many claims, taken for all: through random lenses and around every boundary."""
    history = built(given_steps)
    rows, head = folded(history.records())
    oracle, last = history.reference(), head.next_offset - 1
    entity, slot = ENTITIES[0], SLOTS[0]
    with busy_slots(chunk=chunk):
        reads = Reads(rows, 0, CODEC)
        for _ in range(3):
            check_slot(reads, SPACE, oracle, data.draw(_lenses(last)), entity, slot)
        as_of = data.draw(st.integers(-1, last))
        for boundary in oracle.through(Lens(as_of, BASE)).instants(entity, slot):
            for off in _AROUND:
                check_slot(reads, SPACE, oracle, Lens(as_of, boundary + off), entity, slot)


@examples(80)
@given(given_steps=histories(of=st.one_of(unjudged, steps), max_size=24), chunk=st.sampled_from((1, 3)))
def test_busy_slots_follow_what_is_written(given_steps: list[Step], chunk: int) -> None:
    """Kept between reads and told of each claim as it is folded, as a Follower does it."""
    history = built(given_steps)
    oracle, rows, head = Space(), Overlay(Empty()), Head("a log", 0, 1)
    hot = HotSlots()
    entity, slot = ENTITIES[0], SLOTS[0]
    with busy_slots(chunk=chunk):
        for record, event in zip(history.records(), history.events, strict=True):
            oracle.append(record.offset, record.append_time, event)
            above = Overlay(rows)
            head = fold(Batch([record], record.offset + 1), above, head, CODEC)
            rows.update(above.writes)
            for key, row in above.writes.items():
                if key[:1] == keys.CLAIM:
                    hot.put(keys.slot_of_claim(key), keys.claim_parts(key), decode(ClaimRow, row))
            for step in (1, 3):
                lens = Lens(record.offset, BASE + step * STEP)
                check_slot(Reads(rows, 0, CODEC, hot), SPACE, oracle, lens, entity, slot)


@examples(100)
@given(given_steps=histories(max_size=12), data=st.data())
def test_changes_agree_with_the_reference(given_steps: list[Step], data: st.DataObject) -> None:
    """The answer along offsets changes where asking at each offset says that it does."""
    history = built(given_steps)
    rows, head = folded(history.records())
    lens = data.draw(_lenses(head.next_offset - 1))
    check_changes(Reads(rows, 0, CODEC), SPACE, history.reference(), lens, ENTITIES[0], SLOTS[0])


@examples(150)
@given(given_steps=histories(), data=st.data())
def test_a_view_resolves_as_designed(given_steps: list[Step], data: st.DataObject) -> None:
    """as_of as nothing, offset or time; valid_at given or not."""
    history = built(given_steps)
    rows, head = folded(history.records())
    oracle, reads = history.reference(), Reads(rows, 0, CODEC)
    last = head.next_offset - 1
    times = st.builds(lambda time, off: time + off, st.sampled_from((*history.times, BASE)), st.sampled_from(_AROUND))
    as_of = data.draw(st.one_of(st.none(), st.integers(-1, last), times.map(instant)))
    valid_at = data.draw(st.one_of(st.none(), times))
    now = data.draw(st.sampled_from((NOW, BASE + 3 * STEP)))
    if not isinstance(as_of, int) and as_of is not None:
        now = NOW  # before its append times a log has no past to ask about
    view = View(as_of=as_of, valid_at=None if valid_at is None else instant(valid_at))
    given_lens = lens_of(reads.resolve(SPACE, view, Bounds(0, head.next_offset, now)))
    assert (given_lens.as_of, given_lens.at) == _resolved(oracle, as_of, valid_at, now)


def _resolved(oracle: Space, as_of: object, valid_at: int | None, now: int) -> tuple[int, int]:
    offset, default = max((entry.offset for entry in oracle.entries), default=-1), None
    if isinstance(as_of, int):
        offset = max((entry.offset for entry in oracle.entries if entry.offset <= as_of), default=-1)
    elif as_of is not None:
        default = (as_of - instant(0)).days * 86_400_000_000 + (as_of - instant(0)).seconds * 1_000_000
        default += (as_of - instant(0)).microseconds
        offset = oracle.last_by(default)
    known = oracle.time_at(offset)
    known = EARLIEST if known is None else known
    if default is None:
        default = known if as_of is not None else max(known, now)
    return offset, default if valid_at is None else valid_at


@examples(80)
@given(before=histories(), after=histories(max_size=8), data=st.data())
def test_a_resolved_view_answers_the_same_for_ever(before: list[Step], after: list[Step], data: st.DataObject) -> None:
    """Asked again through `ResolvedView.view()` after more events, every answer is what it was."""
    history = built([*before, *after])
    cut = data.draw(st.integers(0, len(history.events)))
    records = history.records()
    early, head = folded(records[:cut])
    lens = data.draw(_lenses(cut - 1))
    view = View(
        as_of=data.draw(st.sampled_from((None, lens.as_of))),
        valid_at=data.draw(st.sampled_from((None, instant(lens.at)))),
        trust=lens.trust,
        without_actors=lens.without,
    )
    reads = Reads(early, 0, CODEC)
    meant = reads.resolve(SPACE, view, Bounds(0, head.next_offset, NOW))
    late, later_head = folded(records)
    later = Reads(late, 0, CODEC)
    assert later.resolve(SPACE, meant.view(), Bounds(0, later_head.next_offset, NOW + STEP)) == meant
    for entity, slot in _pairs():
        assert later.get(SPACE, entity, slot, meant) == reads.get(SPACE, entity, slot, meant)
        assert later.history(SPACE, entity, slot, meant) == reads.history(SPACE, entity, slot, meant)
        assert later.changes(SPACE, entity, slot, meant) == reads.changes(SPACE, entity, slot, meant)
    assert list(later.timeline(SPACE, meant)) == list(reads.timeline(SPACE, meant))
