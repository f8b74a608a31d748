"""The oracle: what one space's log means, written from the design alone, tiny and slow.

A log is a list of entries; every question is answered by comprehensions over it, from nothing, each time. Belief is
asked instant by instant, and a run is found by asking at every instant at which anything begins or ends. Nothing here
shares code or shape with `streams`; only the event classes are the same.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from schemas import events as ev
from streams import keys
from streams.values import digest_of

Value = bool | int | float | str
Claimed = ev.FactAsserted | ev.FactEnded
Graph = tuple[tuple[str, tuple[str, ...]], ...]
"""Commits of a repository: (sha, parents)."""

WHOLE_SPACE = (ev.SlotDeclared, ev.PolicySet, ev.ValueForbidden, ev.ValueAllowed, ev.CommitSeen)
"""They hold on every branch and at every commit."""
DISTRUST = (ev.ActorDistrusted, ev.ActorTrusted)


@dataclass(frozen=True)
class Entry:
    """An event that counts. `time` is the greatest append time of the space so far."""

    offset: int
    time: int
    event: Any


@dataclass(frozen=True)
class Lens:
    """A View, resolved: the last offset that counts, the instant in µs, the least trust, actors left out, the branch,
    the commits at which it looks (none: whatever the commit), and the commits of the repository at hand."""

    as_of: int
    at: int
    trust: str = "candidate"
    without: tuple[str, ...] = ()
    branch: str = "main"
    shas: tuple[str, ...] = ()
    clone: Graph = ()


@dataclass(frozen=True)
class Claim:
    """A fact or end that stands. `until` None: for ever."""

    entry: Entry
    at: int
    until: int | None
    verified: bool

    @property
    def event(self) -> Any:
        return self.entry.event

    @property
    def ends(self) -> bool:
        return isinstance(self.entry.event, ev.FactEnded)

    @property
    def rank(self) -> tuple[bool, int, int]:
        return self.verified, self.at, self.entry.offset

    @property
    def time_rank(self) -> tuple[int, int]:
        return self.at, self.entry.offset

    def holds(self, at: int) -> bool:
        return not self.ends and self.at <= at and (self.until is None or at < self.until)


@dataclass(frozen=True)
class Belief:
    """What is believed; `stop` None: open. `contested` and `ended_by` name events by offset, `ended_by` all that may be
    given as what ended the run (none: it ended by itself or is open)."""

    value: Value
    start: int
    stop: int | None
    top: Claim
    corroborations: int
    contested: int | None
    ended_by: frozenset[int] = field(compare=False)


@dataclass
class Space:
    """One space's log."""

    entries: list[Entry] = field(default_factory=list)
    fates: dict[int, str] = field(default_factory=dict)
    _shown: dict[tuple[str, int, int], set[int]] = field(default_factory=dict)

    # -- what counts at all

    def append(self, offset: int, append_time: int, event: ev.Event) -> str:
        """`counts`, `duplicate`, `conflict`, or `refused`."""
        time = max([append_time, *(entry.time for entry in self.entries)])
        fate = self._fate(event, offset, time)
        if fate == "counts":
            self.entries.append(Entry(offset, time, event))
        self.fates[offset] = fate
        return fate

    def _fate(self, event: Any, offset: int, time: int) -> str:
        twins = [entry.event for entry in self.entries if entry.event.event_id == event.event_id]
        if twins:
            return "duplicate" if repr(twins[0]) == repr(event) else "conflict"
        return "counts" if self._makes_sense(event, offset, time) else "refused"

    def _makes_sense(self, event: Any, offset: int, time: int) -> bool:
        claims = [entry.event for entry in self.entries if isinstance(entry.event, Claimed)]
        if not isinstance(event, ev.BranchForked) and not self.exists(event.branch, offset):
            return False
        match event:
            case ev.FactAsserted():
                start = time if event.valid_from is None else event.valid_from
                return event.valid_to is None or start < event.valid_to
            case ev.FactRetracted(target=None):
                shown = self.shown(event.branch, offset)
                return any(
                    isinstance(entry.event, Claimed) and named(event, entry.event) and entry.offset in shown
                    for entry in self.entries
                )
            case ev.BranchForked():
                taken = event.branch == "main" or any(fork.event.branch == event.branch for fork in self._forks())
                return not taken and self._can_take_from(event.parent, event.at, offset)
            case ev.BranchMerged():
                return event.from_branch != event.branch and self._can_take_from(event.from_branch, event.at, offset)
            case ev.BranchRolledBack():
                return any(entry.event.event_id == event.to for entry in self.entries)
            case ev.BranchDeleted():
                return bool(event.branch != "main")
            case ev.FactRetracted() | ev.FactReviewed() | ev.FactPinned():
                return any(claim.event_id == event.target for claim in claims)
            case ev.ActorDistrusted() if event.since_event is not None:
                return any(entry.event.event_id == event.since_event for entry in self.entries)
            case _:
                return True

    # -- branches

    def _forks(self) -> list[Entry]:
        return [entry for entry in self.entries if isinstance(entry.event, ev.BranchForked)]

    def exists(self, branch: str, offset: int) -> bool:
        """Whether a branch was there at an offset: forked by then, and not deleted."""
        deleted = any(
            isinstance(entry.event, ev.BranchDeleted) and entry.event.branch == branch and entry.offset <= offset
            for entry in self.entries
        )
        return self.begun(branch, offset) and not deleted

    def begun(self, branch: str, offset: int) -> bool:
        """Whether a branch was forked by an offset."""
        return branch == "main" or any(f.event.branch == branch and f.offset <= offset for f in self._forks())

    def _can_take_from(self, branch: str, at: bytes | None, offset: int) -> bool:
        """Whether what a branch showed at an event can be forked from or merged at an offset."""
        named = [entry.offset for entry in self.entries if entry.event.event_id == at]
        known = at is None or bool(named)
        return known and self.exists(branch, offset) and self.begun(branch, named[0] if named else offset)

    def shown(self, branch: str, offset: int) -> set[int]:
        """Offsets of the events that a branch showed at an offset, whoever wrote them: merges and rollbacks of those
        who were distrusted by then are as if they had not been."""
        key = branch, offset, len(self.entries)
        if key not in self._shown:
            self._shown[key] = self.through(Lens(offset, 0, branch=branch)).on_branch()
        return self._shown[key]

    def brings(self, ours: Lens, theirs: Lens, only: Any) -> bool:
        """Whether a merge of one lens's branch into the other's shows anything new; of `only`, where given."""
        here, there = self.through(ours), self.through(theirs)
        brought = there._said_on(theirs.branch, theirs.as_of) - here.on_branch()
        of_slots = [entry.offset for entry in self.entries if only is None or here._about(entry.event) in only]
        return not brought.isdisjoint(of_slots)

    def conflicts(self, ours: Lens, theirs: Lens) -> set[tuple[str, str]]:
        """Slots that stand against a merge of one lens's branch into the other's: both sides said something about them
        that the other does not show, and from the instant on they believe different things; of a slot that holds many,
        different things of a value that both said something about."""
        here, there = self.through(ours), self.through(theirs)
        brought = there._said_on(theirs.branch, theirs.as_of) - here.on_branch()
        sides = [here.touched(here.on_branch() - there.on_branch()), there.touched(brought)]
        found = set()
        for slot in sides[0].keys() & sides[1].keys():
            runs = [one.runs_from_now(*slot) for one in (here, there)]
            if here.cardinality(*slot) == "many":
                both = {key for key in runs[0] + runs[1] if any(_overlaps(key[0], side[slot]) for side in sides)}
                both = {key for key in both if all(_overlaps(key[0], side[slot]) for side in sides)}
                runs = [sorted((run for run in one if run in both), key=repr) for one in runs]
            if runs[0] != runs[1]:
                found.add(slot)
        return found

    # -- resolving a View

    def last_by(self, time: int) -> int:
        """The last offset the space had by `time`; -1: none."""
        return max((entry.offset for entry in self.entries if entry.time <= time), default=-1)

    def time_at(self, offset: int) -> int | None:
        """Append time of the last event up to `offset`."""
        return max((entry.time for entry in self.entries if entry.offset <= offset), default=None)

    def through(self, lens: Lens) -> Through:
        return Through(self, lens)

    def pairs(self) -> list[tuple[str, str]]:
        """Every entity:slot of which anything was ever claimed."""
        return sorted({(e.event.entity, e.event.slot) for e in self.entries if isinstance(e.event, Claimed)})


class Through:
    """One space through one lens."""

    def __init__(self, space: Space, lens: Lens) -> None:
        self.space = space
        self.all = space.entries
        self.lens = lens
        self.known = [entry for entry in self.all if entry.offset <= lens.as_of]

    @cached_property
    def visible(self) -> list[Entry]:
        """What counts, in order: the events of a timeline."""
        shown = self.on_branch()
        return [entry for entry in self.known if self._is_visible(entry, shown)]

    @cached_property
    def hidden(self) -> int:
        """How many facts and ends are pinned to commits of which nobody knows whether they are ancestors."""
        pinned = [entry.event.code for entry in self.known if isinstance(entry.event, Claimed)]
        return sum(code is not None and self.is_ancestor(code.sha) is None for code in pinned)

    def of(self, *types: type) -> list[Entry]:
        return [entry for entry in self.visible if isinstance(entry.event, types)]

    # -- which events are visible

    def _is_visible(self, entry: Entry, shown: set[int]) -> bool:
        if isinstance(entry.event, DISTRUST):
            return True
        if not self._actor_counts(entry):
            return False
        code = entry.event.code
        pinned_elsewhere = code is not None and self.is_ancestor(code.sha) is not True
        return isinstance(entry.event, WHOLE_SPACE) or (entry.offset in shown and not pinned_elsewhere)

    def _actor_counts(self, entry: Entry) -> bool:
        event = entry.event
        sha = None if event.code is None else event.code.sha
        named = {("actor", event.actor), ("branch", event.branch), ("commit", sha)}
        return event.actor not in self.lens.without and not any(self._distrusted(entry, *one) for one in named)

    def _distrusted(self, entry: Entry, kind: str, name: str | None) -> bool:
        words = [
            other.event
            for other in self.known
            if isinstance(other.event, DISTRUST) and (other.event.about_kind, other.event.about) == (kind, name)
        ]
        if not words or isinstance(words[-1], ev.ActorTrusted):
            return False
        last = words[-1]
        if last.since_event is not None:
            return entry.offset >= self._offset_of(last.since_event)
        return last.since_time is None or entry.time >= last.since_time

    def _offset_of(self, event_id: bytes) -> int:
        return next(entry.offset for entry in self.all if entry.event.event_id == event_id)

    # -- on a branch

    def on_branch(self) -> set[int]:
        """Offsets of what the lens's branch shows, whoever wrote it."""
        return self._on(self.lens.branch, self.lens.as_of)

    def _on(self, branch: str, limit: int) -> set[int]:
        """What a branch shows at an offset: what it said or had merged, and what its parent showed at the fork."""
        found = self._said_on(branch, limit)
        for fork in self.space._forks():
            if fork.event.branch == branch:
                cut = fork.offset if fork.event.at is None else self._offset_of(fork.event.at)
                found |= self._on(fork.event.parent, min(cut, limit))
        return found

    def _said_on(self, branch: str, limit: int) -> set[int]:
        """What a branch itself said or had merged by an offset, and no rollback of it hides."""
        own = [entry for entry in self.all if entry.event.branch == branch and entry.offset <= limit]
        hidden: set[int] = set()
        for entry in reversed(own):
            if (
                isinstance(entry.event, ev.BranchRolledBack)
                and entry.offset not in hidden
                and self._actor_counts(entry)
            ):
                back_to = self._offset_of(entry.event.to)
                hidden |= {other.offset for other in own if back_to < other.offset < entry.offset}
        left = [entry for entry in own if entry.offset not in hidden]
        found = {entry.offset for entry in left}
        for entry in left:
            if isinstance(entry.event, ev.BranchMerged) and self._actor_counts(entry):
                found |= self._merged(entry)
        return found

    def _merged(self, merge: Entry) -> set[int]:
        cut = merge.offset if merge.event.at is None else self._offset_of(merge.event.at)
        brought = self._said_on(merge.event.from_branch, cut)
        if merge.event.slots is None:
            return brought
        wanted = {(one.entity, one.slot) for one in merge.event.slots}
        return {entry.offset for entry in self.all if entry.offset in brought and self._about(entry.event) in wanted}

    def _about(self, event: Any) -> tuple[str, str] | None:
        """The slot that an event is about, itself or through the claim that it names."""
        target = getattr(event, "target", None)
        if target is not None:
            event = next(entry.event for entry in self.all if entry.event.event_id == target)
        entity, slot = getattr(event, "entity", None), getattr(event, "slot", None)
        return None if entity is None or slot is None else (entity, slot)

    def touched(self, offsets: set[int]) -> dict[tuple[str, str], set[Any]]:
        """Slot to the values that facts, ends, retractions and verdicts at these offsets are about; None: all."""
        found: dict[tuple[str, str], set[Any]] = {}
        for entry in self.known:
            event = entry.event
            if entry.offset in offsets and isinstance(event, Claimed | ev.FactRetracted | ev.FactReviewed):
                target = getattr(event, "target", None)
                about = event if target is None else next(e.event for e in self.all if e.event.event_id == target)
                found.setdefault((about.entity, about.slot), set()).add(
                    None if about.value is None else _key(about.value)
                )
        return found

    def runs_from_now(self, entity: str, slot: str) -> list[tuple[Any, int | None, int | None]]:
        """(value, start where it is to come, stop) of the runs that hold at the instant or later."""
        now = self.lens.at
        return [
            (_key(one.value), one.start if one.start > now else None, one.stop)
            for one in self.history(entity, slot)
            if one.stop is None or one.stop > now
        ]

    # -- at a commit

    def is_ancestor(self, sha: str) -> bool | None:
        """Whether a commit is one of the lens's or an ancestor of one, or became one when history was rewritten; None:
        that can't be told. Always True for a lens that looks at no commit."""
        if not self.lens.shas:
            return True
        found = [self._leads_to(sha, head, frozenset()) for head in self.lens.shas]
        return True if True in found else None if None in found else False

    def _leads_to(self, sha: str, head: str, tried: frozenset[str]) -> bool | None:
        reached, whole = self._ancestors(head)
        if sha in reached:
            return True
        became = {
            entry.event.sha for entry in self._commits() if entry.event.rewritten_from == sha and sha not in tried
        }
        found = [self._leads_to(other, head, tried | {sha}) for other in became]
        if True in found:
            return True
        is_known = sha in self._graph()
        return False if whole and is_known and None not in found else None

    def _ancestors(self, head: str) -> tuple[set[str], bool]:
        """A commit with its ancestors, and whether those are all."""
        graph = self._graph()
        reached, waiting, whole = set(), [head], True
        while waiting:
            sha = waiting.pop()
            if sha not in reached:
                reached.add(sha)
                whole = whole and sha in graph
                waiting += graph.get(sha, ())
        return reached, whole

    def _graph(self) -> dict[str, tuple[str, ...]]:
        return {entry.event.sha: entry.event.parents for entry in self._commits()} | dict(self.lens.clone)

    def _commits(self) -> list[Entry]:
        return [e for e in self.known if isinstance(e.event, ev.CommitSeen) and self._actor_counts(e)]

    # -- which claims stand

    @cached_property
    def _policies(self) -> list[Entry]:
        return self.of(ev.PolicySet)

    def _policy(self, actor: str, offset: int) -> tuple[str, bool]:
        """(starting trust, may verify) under the policy in force before `offset`."""
        before = [entry.event for entry in self._policies if entry.offset < offset]
        rules = before[-1].rules if before else ()
        fitting = [(rule.starting_trust, rule.may_verify) for rule in rules if fnmatchcase(actor, rule.actors)]
        return fitting[0] if fitting else ("candidate", True)

    def _trust(self, claim: Entry) -> str:
        verdicts = [
            review.event.verdict
            for review in self.of(ev.FactReviewed)
            if review.event.target == claim.event.event_id and self._policy(review.event.actor, review.offset)[1]
        ]
        return verdicts[-1] if verdicts else self._policy(claim.event.actor, claim.offset)[0]

    def _root(self, entry: Entry) -> Entry:
        causes = [e for e in self.all if e.event.event_id == entry.event.cause and e.offset < entry.offset]
        return self._root(causes[0]) if causes else entry

    def _retracted(self, claim: Entry) -> bool:
        return any(
            retraction.event.target == claim.event.event_id
            if retraction.event.target is not None
            else named(retraction.event, claim.event) and self._reaches(retraction, claim)
            for retraction in self.of(ev.FactRetracted)
        )

    def _reaches(self, retraction: Entry, claim: Entry) -> bool:
        """Whether a retraction by name reaches a claim that it names: its branch showed the claim, or the claim was
        derived later from an event that its branch showed."""
        shown = self.space.shown(retraction.event.branch, retraction.offset)
        recorded = claim if claim.offset < retraction.offset else self._root(claim)
        return recorded.offset < retraction.offset and recorded.offset in shown

    def forbidden(self, entity: str, slot: str, value: Value) -> bool:
        words = [
            entry.event
            for entry in self.of(ev.ValueForbidden, ev.ValueAllowed)
            if (entry.event.entity, entry.event.slot) == (entity, slot) and _covers(entry.event, value)
        ]
        return bool(words) and isinstance(words[-1], ev.ValueForbidden)

    def standing(self, entity: str, slot: str) -> list[Claim]:
        found = []
        for entry in self.of(ev.FactAsserted, ev.FactEnded):
            event = entry.event
            if (event.entity, event.slot) != (entity, slot) or self._retracted(entry):
                continue
            trust = self._trust(entry)
            if trust == "rejected" or (self.lens.trust == "verified" and trust != "verified"):
                continue
            if event.value is not None and self.forbidden(entity, slot, event.value):
                continue
            given = event.at if isinstance(event, ev.FactEnded) else event.valid_from
            until = None if isinstance(event, ev.FactEnded) else event.valid_to
            found.append(Claim(entry, entry.time if given is None else given, until, trust == "verified"))
        return found

    def cardinality(self, entity: str, slot: str) -> str:
        declared = [entry.event for entry in self.of(ev.SlotDeclared) if entry.event.slot == slot]
        kind = entity.partition(":")[0] if ":" in entity else None
        special = [event.cardinality for event in declared if kind is not None and event.entity_kind == kind]
        general = [event.cardinality for event in declared if event.entity_kind is None]
        return ([*["one"], *general, *special])[-1]

    # -- what is believed

    def get(self, entity: str, slot: str) -> list[Belief]:
        """The beliefs at the lens's instant, by (start, offset); one at most where the slot holds one value."""
        return [belief for belief in self._beliefs(entity, slot, self.lens.at) if _within(belief, self.lens.at)]

    def history(self, entity: str, slot: str) -> list[Belief]:
        """Every run, each described at its own start."""
        return self._beliefs(entity, slot, None)

    def instants(self, entity: str, slot: str) -> list[int]:
        """Every instant at which a claim that stands begins or ends."""
        claims = self.standing(entity, slot)
        return sorted({claim.at for claim in claims} | {c.until for c in claims if c.until is not None})

    def _beliefs(self, entity: str, slot: str, at: int | None) -> list[Belief]:
        claims, many = self.standing(entity, slot), self.cardinality(entity, slot) == "many"
        values = {_key(claim.event.value): claim.event.value for claim in claims if not claim.ends}
        instants = self.instants(entity, slot)
        found = []
        for key, value in values.items():
            believed = [key in _believed(claims, t, many) for t in instants]
            for start, stop in _stretches(instants, believed):
                asked = at if at is not None and start <= at and (stop is None or at < stop) else start
                top = _believed(claims, asked, many)[key]
                inside = [t for t in instants if start <= t and (stop is None or t < stop)]
                actors = {c.event.actor for t in inside for c in _contenders(claims, t) if _key(c.event.value) == key}
                contested = _contested(claims, asked, top, many)
                ended_by = _ended_by(claims, stop, key, many)
                found.append(Belief(value, start, stop, top, len(actors), contested, ended_by))
        return sorted(found, key=lambda belief: (belief.start, belief.top.entry.offset))


def _overlaps(value: Any, said: set[Any]) -> bool:
    return value in said or None in said


def same(left: Any, right: Any) -> bool:
    """Equal in type and content."""
    return type(left) is type(right) and left == right


def named(retraction: ev.FactRetracted, claim: Any) -> bool:
    """Whether a retraction by name names this claim."""
    return (retraction.entity, retraction.slot) == (claim.entity, claim.slot) and (
        retraction.value is None or same(retraction.value, claim.value)
    )


def normal_form(value: Value) -> str:
    """Text (JSON for non-strings), Cf removed, NFKC, casefold, NFKC, white space folded."""
    text = value if isinstance(value, str) else json.dumps(value)
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(part for part in re.split(r"\s+", text) if part)


def _covers(word: Any, value: Value) -> bool:
    if word.value is not None:
        return normal_form(word.value) == normal_form(value)
    return bool(word.value_hash == digest_of(keys.slot_part(word.space, word.entity, word.slot), value))


def _key(value: Value) -> tuple[str, Value]:
    return type(value).__name__, value


def _within(belief: Belief, at: int) -> bool:
    return belief.start <= at and (belief.stop is None or at < belief.stop)


def _concerns(end: Claim, value: Value) -> bool:
    return end.event.value is None or same(end.event.value, value)


def _contenders(claims: list[Claim], at: int) -> list[Claim]:
    """Facts that hold at `at` and that no end in force outranks."""
    ends = [claim for claim in claims if claim.ends and claim.at <= at]
    return [
        fact
        for fact in claims
        if fact.holds(at) and not any(end.rank > fact.rank and _concerns(end, fact.event.value) for end in ends)
    ]


def _believed(claims: list[Claim], at: int, many: bool) -> dict[tuple[str, Value], Claim]:
    """Value to its first contender, for the values believed at `at`."""
    tops: dict[tuple[str, Value], Claim] = {}
    for claim in sorted(_contenders(claims, at), key=lambda claim: claim.rank):
        if not many:
            tops = {}
        key = _key(claim.event.value)
        tops[key] = claim
    return tops


def _stretches(instants: list[int], flags: list[bool]) -> list[tuple[int, int | None]]:
    """(first instant, instant after) of each stretch of true flags; None: it goes on for ever."""
    found: list[tuple[int, int | None]] = []
    for index, flag in enumerate(flags):
        if not flag:
            continue
        stop = instants[index + 1] if index + 1 < len(instants) else None
        if index > 0 and flags[index - 1]:
            found[-1] = found[-1][0], stop
        else:
            found.append((instants[index], stop))
    return found


def _contested(claims: list[Claim], at: int, top: Claim, many: bool) -> int | None:
    """Offset of the rival, another value's fact or an end, that time alone would have put before the value."""
    if not top.verified:
        return None
    value = top.event.value
    ends = [claim for claim in claims if claim.ends and claim.at <= at]
    unended = [
        fact
        for fact in claims
        if fact.holds(at)
        and (same(fact.event.value, value) or not many)
        and not any(end.time_rank > fact.time_rank and _concerns(end, fact.event.value) for end in ends)
    ]
    first = max([*unended, *(end for end in ends if _concerns(end, value))], key=lambda claim: claim.time_rank)
    return None if not first.ends and same(first.event.value, value) else first.entry.offset


def _ended_by(claims: list[Claim], stop: int | None, key: tuple[str, Value], many: bool) -> frozenset[int]:
    """What may be named as the end of a run of the value: ends at its stop that beat its last contender, or, where that
    contender still holds there, the one that is believed instead."""
    if stop is None:
        return frozenset()
    last = _believed(claims, stop - 1, many)[key]
    if not last.holds(stop):
        return frozenset()
    if last in _contenders(claims, stop):
        return frozenset(claim.entry.offset for claim in _believed(claims, stop, many).values())
    return frozenset(
        claim.entry.offset
        for claim in claims
        if claim.ends and claim.at == stop and claim.rank > last.rank and _concerns(claim, last.event.value)
    )
