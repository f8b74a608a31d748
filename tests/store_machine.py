"""A real store, used in any order by two openers at once, against the reference that reads the same log."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from comparing import FromMemory, check_changes, check_entity, check_slot, lens_of
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from reference import Lens, Space
from strategies import (
    ACTORS,
    BASE,
    CODEC,
    ENTITIES,
    SLOTS,
    SPACE,
    STEP,
    VALUES,
    Earlier,
    Step,
    event_id,
    steps,
)

from schemas import events as ev
from schemas.errors import InvalidEvent, InvalidView
from schemas.times import instant
from streams.answers import Receipt
from streams.memory import Memory
from streams.sqlite_log import SqliteLog
from streams.view import View

SMALL_TAIL_EVENTS = 4
_entity, _slot, _value = st.sampled_from(ENTITIES), st.sampled_from(SLOTS), st.sampled_from(VALUES)
_actor, _which = st.sampled_from(ACTORS), st.integers(0, 1)
_step = st.one_of(st.none(), st.integers(-1, 8))
_session = st.sampled_from((None, "run-1", "run-2"))


class Store(RuleBasedStateMachine):
    """Two openers of one folder; the clock is ours and moves on the grid, tails and flushes are short."""

    busy = False

    def __init__(self) -> None:
        super().__init__()
        self.now = BASE
        self.patches = [
            patch("streams.stores.now_micros", lambda: self.now),
            patch("streams.clock.now_micros", lambda: self.now),
            patch("streams.catchup.TAIL_MAX_EVENTS", SMALL_TAIL_EVENTS),
            patch("streams.catchup.FLUSH_INTERVAL_S", 0.0),
        ]
        if self.busy:
            self.patches += [patch("streams.reads.HOT_CLAIMS", 1), patch("streams.hot.CHUNK_CLAIMS", 2)]
        for one in self.patches:
            one.start()
        self.folder = tempfile.TemporaryDirectory()
        self.log = SqliteLog(Path(self.folder.name), clock=lambda: self.now)
        self.memories: list[Memory] = []
        self.oracle, self.read_up_to, self.made = Space(), 0, 0
        self.earlier = Earlier()

    @initialize(holds=st.tuples(st.booleans(), st.booleans()))
    def open(self, holds: tuple[bool, bool]) -> None:
        self.memories = [Memory.open(self.folder.name, actor="agent:a", hold=hold) for hold in holds]

    def teardown(self) -> None:
        for memory in self.memories:
            memory.close()
        self.log.close()
        self.folder.cleanup()
        for one in self.patches:
            one.stop()

    # -- writes

    @rule(ticks=st.sampled_from((1, 1, 2, -1)))
    def time_passes(self, ticks: int) -> None:
        self.now += ticks * STEP

    @rule(
        which=_which, entity=_entity, slot=_slot, value=_value, start=_step, length=_step, actor=_actor,
        session=_session, again=st.booleans(),
    )  # fmt: skip
    def remember(self, which: int, again: bool, start: int | None, length: int | None, **fields: Any) -> None:
        """Once, or twice with one id: the second time is a duplicate."""
        start_us = None if start is None else BASE + start * STEP
        begins = self.now if start_us is None else start_us
        stop = None if length is None else begins + max(1, length) * STEP
        self.made += 1
        for _ in range(2 if again else 1):
            receipt = self.memories[which].remember(
                SPACE,
                valid_from=None if start_us is None else instant(start_us),
                valid_to=None if stop is None else instant(stop),
                event_id=_text(event_id(self.made)),
                **fields,
            )
            self.check_receipt(self.memories[which], receipt)

    @rule(which=_which, entity=_entity, slot=_slot, value=st.one_of(st.none(), _value), at=_step, actor=_actor)
    def end(self, which: int, at: int | None, **fields: Any) -> None:
        receipt = self.memories[which].end(SPACE, at=None if at is None else instant(BASE + at * STEP), **fields)
        self.check_receipt(self.memories[which], receipt)

    @rule(which=_which, entity=_entity, slot=_slot, value=st.one_of(st.none(), _value), actor=_actor)
    def forget(self, which: int, entity: str, slot: str, value: Any, actor: str) -> None:
        """Refused at the door exactly when nothing known has that name."""
        asked = ev.FactRetracted(
            event_id=event_id(0), space=SPACE, actor=actor, recorded_at=0, entity=entity, slot=slot, value=value
        )
        self.follow()
        if self.oracle._makes_sense(asked, self.log.end(0), self.now):
            receipt = self.memories[which].forget(SPACE, entity, slot, value, actor=actor)
            self.check_receipt(self.memories[which], receipt)
        else:
            with pytest.raises(InvalidEvent, match="no fact or end"):
                self.memories[which].forget(SPACE, entity, slot, value, actor=actor)

    @rule(which=_which, back=st.integers(0, 5), actor=_actor)
    def forget_one(self, which: int, back: int, actor: str) -> None:
        self.follow()
        if self.oracle.entries:
            target = self.oracle.entries[-1 - back % len(self.oracle.entries)].event
            if isinstance(target, ev.FactAsserted | ev.FactEnded):
                receipt = self.memories[which].forget(SPACE, event_id=_text(target.event_id), actor=actor)
                self.check_receipt(self.memories[which], receipt)
            else:
                with pytest.raises(InvalidEvent, match="no fact and no end"):
                    self.memories[which].forget(SPACE, event_id=_text(target.event_id), actor=actor)

    @rule(
        which=_which, verb=st.sampled_from(("forbid", "allow", "declare", "policy", "distrust", "trust")),
        entity=_entity, slot=_slot, value=_value, actor=_actor, about=_actor,
        cardinality=st.sampled_from(("one", "many")), starting=st.sampled_from(("candidate", "verified", "rejected")),
    )  # fmt: skip
    def rule_what_counts(
        self, which: int, verb: str, entity: str, slot: str, value: Any, actor: str, about: str, cardinality: Any,
        starting: Any,
    ) -> None:  # fmt: skip
        memory = self.memories[which]
        match verb:
            case "forbid" | "allow":
                receipt = getattr(memory, verb)(SPACE, entity, slot, value, actor=actor)
            case "declare":
                receipt = memory.declare(SPACE, slot, cardinality=cardinality, actor=actor)
            case "policy":
                made = {"actors": about, "starting_trust": starting, "may_verify": cardinality == "one"}
                receipt = memory.policy(SPACE, [made], actor=actor)
            case _:
                receipt = getattr(memory, verb)(SPACE, about, actor=actor)
        self.check_receipt(memory, receipt)

    @rule(
        which=_which,
        back=st.integers(0, 5),
        verdict=st.sampled_from(("candidate", "verified", "rejected")),
        actor=_actor,
    )
    def review(self, which: int, back: int, verdict: Any, actor: str) -> None:
        self.follow()
        claims = [one.event for one in self.oracle.entries if isinstance(one.event, ev.FactAsserted | ev.FactEnded)]
        if claims:
            target = _text(claims[-1 - back % len(claims)].event_id)
            self.check_receipt(self.memories[which], self.memories[which].review(SPACE, target, verdict, actor=actor))

    @rule(which=_which, session=_session, actor=_actor)
    def observe(self, which: int, session: str | None, actor: str) -> None:
        receipt = self.memories[which].observe(SPACE, "user", "hello", session=session, actor=actor)
        self.check_receipt(self.memories[which], receipt)

    @rule(which=_which, given=st.lists(steps, min_size=1, max_size=4))
    def append(self, which: int, given: list[Step]) -> None:
        """Several events of any kind at once: all of them are there, or none."""
        self.follow()
        batch = [event for step in given if (event := self._event(step)) is not None]
        end = self.log.end(0)
        try:
            receipts = self.memories[which].append(batch)
        except InvalidEvent:
            assert self.log.end(0) == end
            return
        assert [receipt.position.offset for receipt in receipts] == list(range(end, end + len(batch)))
        for receipt in receipts:
            self.check_receipt(self.memories[which], receipt)

    def _event(self, step: Step) -> ev.Event | None:
        self.made += 1
        self.earlier.events = [entry.event for entry in self.oracle.entries]
        cause = None if step.cause is None else self.earlier.at(step.cause)
        self.earlier.common = {
            "event_id": event_id(self.made),
            "space": SPACE,
            "actor": step.actor,
            "recorded_at": self.now,
            "cause": None if cause is None else cause.event_id,
            "branch": step.branch,
            "code": None if step.sha is None else ev.Code(repo="acme/app", sha=step.sha),
        }
        return step.make(self.earlier)

    def check_receipt(self, memory: Memory, receipt: Receipt) -> None:
        """What became of the event, now that the log is read: as the reference has it."""
        self.follow()
        offset = receipt.position.offset
        fate = self.oracle.fates[offset]
        wanted = {"counts": "applied", "refused": "quarantined"}.get(fate, fate)
        event = next((entry.event for entry in self.oracle.entries if entry.offset == offset), None)
        if event is not None:
            through = self.oracle.through(Lens(offset, 0, branch=event.branch))
            covered = isinstance(event, ev.FactAsserted) and through.forbidden(event.entity, event.slot, event.value)
            if covered or all(entry.offset != offset for entry in through.visible):
                wanted = "blocked"
        assert receipt.status in (wanted, "accepted")
        assert memory.wait(receipt).status == wanted

    def follow(self) -> None:
        """Let the reference read what the log has got."""
        for batch in self.log.read(0, self.read_up_to):
            for record in batch.records:
                self.oracle.append(record.offset, record.append_time, CODEC.decode(record.value or b""))
            self.read_up_to = batch.next_offset

    # -- openers come and go

    @rule(which=_which, hold=st.booleans())
    def reopen(self, which: int, hold: bool) -> None:
        self.memories[which].close()
        self.memories[which] = Memory.open(self.folder.name, actor="agent:a", hold=hold)

    @rule(which=_which)
    def rebuild(self, which: int) -> None:
        """By one opener, with the other one's tables let go of first."""
        before = self.memories[which].digest()
        self.memories[1 - which].close()
        self.memories[which].rebuild()
        assert self.memories[which].digest() == before
        self.memories[1 - which] = Memory.open(self.folder.name, actor="agent:a", hold=False)

    # -- reads

    @rule(
        which=_which,
        as_of=st.one_of(st.none(), st.integers(-1, 40), st.integers(-1, 10).map(lambda n: instant(BASE + n * STEP))),
        valid_at=st.one_of(st.none(), st.integers(-1, 9).map(lambda n: instant(BASE + n * STEP))),
        trust=st.sampled_from(("candidate", "verified")),
        without=st.sampled_from(((), (ACTORS[0],))),
        entity=_entity,
    )
    def read(self, which: int, as_of: Any, valid_at: Any, trust: str, without: tuple[str, ...], entity: str) -> None:
        self.follow()
        memory = self.memories[which]
        view = View(as_of=as_of, valid_at=valid_at, trust=trust, without_actors=without)
        try:
            resolved = memory.resolve(SPACE, view)
        except InvalidView:
            self.check_unanswerable(as_of)
            return
        lens, reads = lens_of(resolved), FromMemory(memory)
        check_entity(reads, SPACE, self.oracle, lens, entity)
        for slot in SLOTS:
            check_slot(reads, SPACE, self.oracle, lens, entity, slot)
            check_changes(reads, SPACE, self.oracle, lens, entity, slot)
        told = [one.event for one in memory.timeline(SPACE, view=view)]
        assert told == [entry.event for entry in self.oracle.through(lens).visible]

    @rule(which=_which, offsets=st.tuples(st.integers(-1, 40), st.integers(-1, 40)), step=st.integers(-1, 9))
    def compare(self, which: int, offsets: tuple[int, int], step: int) -> None:
        """diff is what asking every slot through both views finds, and explain gives the same answer as get."""
        memory, end = self.memories[which], self.log.end(0)
        at = instant(BASE + step * STEP)
        views = [View(as_of=min(offset, end - 1), valid_at=at) for offset in offsets]
        named = [(entity, slot) for entity in ENTITIES for slot in SLOTS]
        answers = [{name: memory.get(SPACE, *name, view) for name in named} for view in views]
        found = {(one.entity, one.slot): (one.before, one.after) for one in memory.diff(SPACE, *views)}
        wanted = {
            name: (answers[0][name], answers[1][name])
            for name in named
            if kept(answers[0][name]) != kept(answers[1][name])
        }
        assert found == wanted
        for name in named:
            assert memory.explain(SPACE, *name, views[0]).answer == answers[0][name]

    def check_unanswerable(self, as_of: Any) -> None:
        """Only what is past the end of the log, or in the future."""
        if isinstance(as_of, int):
            assert as_of >= self.log.end(0)
        else:
            assert as_of is not None
            assert as_of > instant(self.now)

    @rule(which=_which, session=st.sampled_from(("run-1", "run-2")))
    def replay(self, which: int, session: str) -> None:
        self.follow()
        entries = self.oracle.entries
        assert [one.event for one in self.memories[which].replay(SPACE)] == [entry.event for entry in entries]
        wanted = [entry.event for entry in entries if entry.event.session == session]
        if wanted:
            assert [one.event for one in self.memories[which].replay(SPACE, session)] == wanted

    @invariant()
    def both_hold_the_same(self) -> None:
        if self.memories:
            infos = [memory.info() for memory in self.memories]
            assert infos[0].spaces == infos[1].spaces
            assert len({(p.applied, p.duplicates, p.quarantined, p.chain) for i in infos for p in i.partitions}) == 1

    @rule()
    def digests_are_equal(self) -> None:
        assert self.memories[0].digest() == self.memories[1].digest()


def kept(answer: Any) -> list[str]:
    """What of an answer makes a difference: its values, with their types, and their trust."""
    beliefs = answer if isinstance(answer, list) else [] if answer is None else [answer]
    return sorted(f"{type(one.value).__name__} {one.value!r} {one.trust}" for one in beliefs)


def _text(identity: bytes) -> str:
    return str(UUID(bytes=identity))
