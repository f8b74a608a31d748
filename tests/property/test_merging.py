"""Merges against the reference: which slots conflict, that a side taken is believed, and nothing else is settled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import event as note
from hypothesis import given
from hypothesis import strategies as st
from reference import Lens, Space
from strategies import BASE, CODEC, ENTITIES, SLOTS, SPACE, STEP, History, Step, branched, built, examples, folded, when

from schemas import events as ev
from schemas.errors import InvalidInput
from streams.drafting import Draft
from streams.making import Making
from streams.merging import MergePlan, Merger
from streams.ports import Position
from streams.reads import Reads
from streams.view import ResolvedView

PAIRS = [(entity, slot) for entity in ENTITIES[:2] for slot in SLOTS]
NOW = BASE + 12 * STEP
_two = st.sampled_from(("main", "idea"))
_here = st.builds(lambda one, branch: replace(one, branch=branch), branched, _two)
_facts = st.builds(
    lambda value, branch, start, actor: Step(
        lambda e: ev.FactAsserted(**e.common, entity=ENTITIES[0], slot=SLOTS[0], value=value, valid_from=when(start)),
        actor,
        text=f"say {value!r} from {start}",
        branch=branch,
    ),
    st.sampled_from(("Acme", "Globex", 1)),
    _two,
    st.one_of(st.none(), st.integers(0, 14)),
    st.sampled_from(("agent:a", "agent:b")),
)
_FORK = Step(lambda e: ev.BranchForked(**e.common, parent="main"), text="fork", branch="idea")
_pairs = st.lists(st.sampled_from(PAIRS), min_size=1, max_size=2, unique=True)


def _planned(history: History, take: Any, only: Any, source: str, into: str) -> tuple[MergePlan, Draft]:
    rows, head = folded(history.records())
    end, _ = Reads(rows, 0, CODEC).last_event(SPACE, head.next_offset)
    views = [ResolvedView(Position(0, end), NOW, branch) for branch in (into, source)]
    making = Making("user:u", {}, 1000)

    def draft() -> Draft:
        return Draft(rows, head, CODEC, NOW)

    merger = Merger(SPACE, making, Reads(rows, 0, CODEC), draft, (views[0], views[1]))
    plan = merger.plan(take, only, {"session": None, "actor": None})
    after = draft()
    after.add(plan.events)
    return plan, after


def _histories(oracle: Space, branch: str) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    through = oracle.through(Lens(10_000, NOW, branch=branch))
    return {pair: [(type(b.value), b.value, b.start, b.stop) for b in through.history(*pair)] for pair in PAIRS}


@examples(250)
@given(
    before=st.lists(_here.map(lambda one: replace(one, branch="main")), max_size=4),
    since=st.lists(st.one_of(_facts, _facts, _here), min_size=2, max_size=12),
    take=st.sampled_from((None, "ours", "ours", "theirs", "theirs")),
    only=st.one_of(st.none(), st.none(), _pairs),
    back=st.booleans(),
)
def test_a_merge_is_what_the_reference_says(
    before: list[Step], since: list[Step], take: Any, only: Any, back: bool
) -> None:
    history = built([*before, _FORK, *since])
    oracle = history.reference()
    source, into = ("main", "idea") if back else ("idea", "main")
    last = len(history.events) - 1
    if not (oracle.exists("idea", last) and oracle.entries):
        return
    ours = Lens(last, NOW, branch=into)
    wanted = oracle.conflicts(ours, replace(ours, branch=source)) & set(PAIRS if only is None else only)
    kept = _histories(oracle, into if take == "ours" else source)
    untouched = _histories(oracle, into)
    try:
        plan, _ = _planned(history, take, only, source, into)
    except InvalidInput as error:
        note(f"refused: {str(error)[:20]}")
        assert any(isinstance(one, ev.PolicySet | ev.ActorDistrusted) for one in history.events)  # or it would count
        return
    assert {(one.entity, one.slot) for one in plan.conflicts} & set(PAIRS) == wanted
    brings = oracle.brings(ours, replace(ours, branch=source), only)
    assert bool(plan.events) == (brings and (take is not None or not plan.conflicts))
    assert plan.idle == tuple(one for one in only or () if not oracle.brings(ours, replace(ours, branch=source), [one]))
    note(f"{len(wanted)} conflicts, take {take}, {len(plan.events)} events")
    assert plan.events == () or take is not None or not plan.conflicts
    _append(oracle, plan, last)
    after = _histories(oracle, into)
    if plan.events:
        assert {slot: after[slot] for slot in wanted} == {slot: kept[slot] for slot in wanted}
    unasked = [] if only is None else [slot for slot in PAIRS if slot not in only]
    assert {slot: after[slot] for slot in unasked} == {slot: untouched[slot] for slot in unasked}
    changed = {slot for slot in PAIRS if _now(after[slot]) != _now(untouched[slot])}
    assert changed <= {(one.entity, one.slot) for one in plan.changes}
    assert all(one.cause == plan.events[0].event_id for one in plan.events[1:])


def _append(oracle: Space, plan: MergePlan, last: int) -> None:
    for number, one in enumerate(plan.events, last + 1):
        assert oracle.append(number, NOW, one) == "counts"


def _now(runs: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((run[:2] for run in runs if run[2] <= NOW and (run[3] is None or run[3] > NOW)), key=repr)
