"""A real store whose spaces have branches, used in any order by two openers, against the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from comparing import FromMemory, check_changes, check_entity, check_slot, lens_of
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from store_machine import Store, kept
from strategies import ACTORS, BASE, BRANCHES, ENTITIES, SLOTS, SPACE, STEP, VALUES, Step, branched, examples, pinned

from schemas import events as ev
from schemas.errors import InvalidEvent, InvalidInput, InvalidView, MergeConflict
from schemas.times import instant, micros
from streams.answers import Belief
from streams.memory import Memory
from streams.values import identity
from streams.view import View

PAIRS = [(entity, slot) for entity in ENTITIES[:2] for slot in SLOTS]
_branch, _which, _actor = st.sampled_from(BRANCHES), st.integers(0, 1), st.sampled_from(ACTORS)
_number = st.integers(0, 3)


class BranchedStore(Store):
    """As a store; most of what is written is on branches, and most of what is asked is, too."""

    @initialize(value=st.sampled_from(VALUES[:3]), names=st.lists(_branch, max_size=3))
    def begin(self, value: Any, names: list[str]) -> None:
        """Something is believed, and some branches are there."""
        self.now += STEP
        with Memory.open(self.folder.name, actor="agent:a", hold=False) as memory:
            memory.remember(SPACE, *PAIRS[0], value)
            for number, name in enumerate(name for name in dict.fromkeys(names) if name != "main"):
                memory.fork(SPACE, name, parent=names[number - 1] if number else "main")

    def live(self, number: int) -> str:
        """A branch that is there."""
        self.follow()
        there = [one for one in BRANCHES if self.oracle.exists(one, self.log.end(0))]
        return there[number % len(there)]

    @rule(which=_which, given=st.lists(st.one_of(branched, pinned), min_size=1, max_size=4))
    def append_on_branches(self, which: int, given: list[Step]) -> None:
        self.append(which, given)

    @rule(which=_which, name=_branch, parent=_branch, actor=_actor)
    def fork(self, which: int, name: str, parent: str, actor: str) -> None:
        self.follow()
        end = self.log.end(0)
        taken = name == "main" or self.oracle.begun(name, end)
        if taken or not self.oracle.exists(parent, end):
            with pytest.raises(InvalidEvent):
                self.memories[which].fork(SPACE, name, parent=parent, actor=actor)
        else:
            self.check_receipt(self.memories[which], self.memories[which].fork(SPACE, name, parent=parent, actor=actor))

    @rule(
        which=_which,
        branch=_number,
        pair=st.sampled_from(PAIRS[:2]),
        value=st.sampled_from(VALUES[:3]),
        verb=st.sampled_from(("remember", "remember", "end", "forget", "review")),
        actor=_actor,
    )
    def say(self, which: int, branch: int, pair: tuple[str, str], value: Any, verb: str, actor: str) -> None:
        name, memory = self.live(branch), self.memories[which]
        common: dict[str, Any] = {"branch": name, "actor": actor}
        match verb:
            case "remember":
                receipt = memory.remember(SPACE, *pair, value, **common)
            case "end":
                receipt = memory.end(SPACE, *pair, **common)
            case _:
                answer = memory.get(SPACE, *pair, View(branch=name))
                if not isinstance(answer, Belief):
                    return
                if verb == "forget":
                    receipt = memory.forget(SPACE, *pair, **common)
                else:
                    receipt = memory.review(SPACE, answer.event_id, "verified", **common)
        self.check_receipt(memory, receipt)

    @rule(which=_which, branch=_branch, actor=_actor)
    def say_where_no_branch_is(self, which: int, branch: str, actor: str) -> None:
        self.follow()
        if not self.oracle.exists(branch, self.log.end(0)):
            with pytest.raises(InvalidEvent, match="branch"):
                self.memories[which].remember(SPACE, *PAIRS[0], "Acme", branch=branch, actor=actor)

    @rule(
        which=_which,
        sides=st.tuples(_number, _number),
        take=st.sampled_from((None, "ours", "theirs")),
        only=st.one_of(st.none(), st.none(), st.lists(st.sampled_from(PAIRS), min_size=1, max_size=2, unique=True)),
    )
    def merge(self, which: int, sides: tuple[int, int], take: Any, only: Any) -> None:
        """Conflicts are those of the reference; a side that is taken is what is believed; the rest is as planned."""
        source, into = map(self.live, sides)
        memory, end = self.memories[which], self.log.end(0)
        if source == into:
            with pytest.raises(InvalidInput):
                memory.merge_plan(SPACE, source, into=into, take=take, only=only)
            return
        before = {side: self._histories(memory, side) for side in (source, into)}
        plan = memory.merge_plan(SPACE, source, into=into, only=only)
        assert self.log.end(0) == end
        ours = lens_of(memory.resolve(SPACE, View(branch=into)))
        wanted = self.oracle.conflicts(ours, replace(ours, branch=source)) & set(PAIRS if only is None else only)
        found = {(one.entity, one.slot) for one in plan.conflicts}
        assert found & set(PAIRS) == wanted & set(PAIRS)
        if found and take is None:
            with pytest.raises(MergeConflict):
                memory.merge(SPACE, source, into=into, only=only)
            assert self.log.end(0) == end
            return
        if self._is_rejected(memory):
            return  # what is asserted to settle a conflict would not count
        merged = memory.merge(SPACE, source, into=into, take=take, only=only)
        for receipt in merged.receipts:
            self.check_receipt(memory, receipt)
        after = self._histories(memory, into)
        for slot in found & set(PAIRS):
            assert after[slot] == before[into if take == "ours" else source][slot], f"{take} {slot}"
        if only is not None:
            assert {slot: after[slot] for slot in PAIRS if slot not in only} == {
                slot: before[into][slot] for slot in PAIRS if slot not in only
            }

    def _is_rejected(self, memory: Memory) -> bool:
        """Whether what the memory's own actor writes may not count."""
        rules = memory.policy_in_force(SPACE)
        words = [word for word in memory.timeline(SPACE) if isinstance(word.event, ev.ActorDistrusted)]
        return any(one.starting_trust == "rejected" for one in rules) or bool(words)

    def _histories(self, memory: Memory, branch: str) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
        view = View(branch=branch)
        return {slot: [_run(one) for one in memory.history(SPACE, *slot, view)] for slot in PAIRS}

    @rule(which=_which, number=_number, given=branched)
    def preview(self, which: int, number: int, given: Step) -> None:
        """What a preview shows is what happens; it writes nothing."""
        branch = self.live(number)
        memory, end = self.memories[which], self.log.end(0)
        event = self._event(given)
        view = View(branch=branch, valid_at=instant(self.now))
        if event is None:
            return
        try:
            told = memory.preview(SPACE, [event], view)
        except InvalidInput:
            try:
                assert memory.wait(memory.append([event])[0]).status in ("conflict", "duplicate", "quarantined")
            except InvalidInput:
                assert self.log.end(0) == end
            return
        assert self.log.end(0) == end
        before = {slot: memory.get(SPACE, *slot, view) for slot in PAIRS}
        self.check_receipt(memory, memory.append([event])[0])
        try:
            after = {slot: memory.get(SPACE, *slot, view) for slot in PAIRS}
        except InvalidView:
            return  # it was the branch's deletion
        changed = {slot for slot in PAIRS if kept(before[slot]) != kept(after[slot])}
        assert {(one.entity, one.slot) for one in told} & set(PAIRS) == changed

    @rule(
        which=_which,
        as_of=st.one_of(st.none(), st.integers(-1, 40)),
        step=st.integers(-1, 9),
        branch=_branch,
        entity=st.sampled_from(ENTITIES[:2]),
    )
    def read_a_branch(self, which: int, as_of: int | None, step: int, branch: str, entity: str) -> None:
        self.follow()
        memory = self.memories[which]
        end = self.log.end(0)
        as_of = None if as_of is None else min(as_of, end - 1)
        view = View(as_of=as_of, valid_at=instant(BASE + step * STEP), branch=branch)
        if not self.oracle.exists(branch, end - 1 if as_of is None else as_of):
            with pytest.raises(InvalidView, match="branch"):
                memory.resolve(SPACE, view)
            return
        lens, reads = lens_of(memory.resolve(SPACE, view)), FromMemory(memory)
        check_entity(reads, SPACE, self.oracle, lens, entity)
        for slot in SLOTS:
            check_slot(reads, SPACE, self.oracle, lens, entity, slot)
        check_changes(reads, SPACE, self.oracle, lens, entity, SLOTS[0])

    @rule(which=_which, numbers=st.tuples(_number, _number), step=st.integers(-1, 9))
    def compare_branches(self, which: int, numbers: tuple[int, int], step: int) -> None:
        """diff of two branches is what asking every slot of both finds."""
        memory = self.memories[which]
        first, second = (View(branch=self.live(one), valid_at=instant(BASE + step * STEP)) for one in numbers)
        found = {(one.entity, one.slot): (one.before, one.after) for one in memory.diff(SPACE, first, second)}
        for slot in PAIRS:
            answers = memory.get(SPACE, *slot, first), memory.get(SPACE, *slot, second)
            assert (slot in found) == (kept(answers[0]) != kept(answers[1]))
            assert slot not in found or found[slot] == answers


def _run(one: Belief) -> tuple[Any, int, int | None]:
    return identity(one.value), micros(one.valid_from), None if one.valid_to is None else micros(one.valid_to)


TestBranchedStore = BranchedStore.TestCase
TestBranchedStore.settings = examples(60, steps=24)
