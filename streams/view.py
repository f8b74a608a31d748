"""Which events count: a View as asked for, a View resolved, and the rules compiled from it. Pure.

`View` is what a caller says; `ResolvedView` is what it meant on this log at that moment, and asking with that gives the
same answer for ever. `Judge` answers, for one space through one resolved View, whether an event counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from schemas import events as ev
from schemas.errors import InvalidView
from schemas.times import Micros, instant
from streams.ports import Position
from streams.rows import ClaimRow, Mark


class View(msgspec.Struct, frozen=True):
    """What a reader looks through. Nothing shared moves: every call brings its own.

    as_of: only events up to this one count, inclusive: an offset in the space's partition, a Position, or an aware
        datetime, which means the last event the space had by then. None: every event acknowledged before the call.
    valid_at: the instant asked about, an aware datetime. None: the time that as_of is when it is one; else the append
        time of the last event that counts; without as_of the present, if that is later.
    branch: the line of memory.
    at_sha: only what was known at that commit of the code.
    trust: the least trust that counts, `candidate` or `verified`.
    without_actors: actors whose events are left out.
    """

    as_of: int | Position | datetime | None = None
    valid_at: datetime | None = None
    branch: str = "main"
    at_sha: str | None = None
    trust: str = "candidate"
    without_actors: Sequence[str] = ()


class ResolvedView(msgspec.Struct, frozen=True):
    """What a View meant: `as_of` is the position of the last event that counts (offset -1: none does), `valid_at` the
    instant in µs. `view()` asks for exactly that again."""

    as_of: Position
    valid_at: Micros
    branch: str = "main"
    trust: str = "candidate"
    without_actors: tuple[str, ...] = ()

    def view(self) -> View:
        return View(
            as_of=self.as_of,
            valid_at=instant(self.valid_at),
            branch=self.branch,
            trust=self.trust,
            without_actors=self.without_actors,
        )


def refuse_unanswerable(view: View) -> None:
    """Raise InvalidView for what no log can answer, or this one can't."""
    if not isinstance(view, View):
        raise InvalidView(f"a view is a View, not {view!r}", hint="View(as_of=…, valid_at=…)")
    if view.trust not in ("candidate", "verified"):
        raise InvalidView(f"trust {view.trust!r} is no least trust", hint="candidate or verified")
    if view.branch != "main":
        raise InvalidView(f"the space has no branch {view.branch!r}", hint="every space has main")
    if view.at_sha is not None:
        raise InvalidView("the log holds no commit graph, so nothing can be said at a commit", hint="leave at_sha out")
    without: object = view.without_actors
    if isinstance(without, str) or not isinstance(without, Iterable):
        given = "one text" if isinstance(without, str) else repr(without)
        raise InvalidView(f"without_actors must be several names, not {given}", hint="('agent:x',)")


Standing = Literal[
    "candidate", "verified", "rejected", "not verified", "forbidden", "retracted", "distrusted", "left out", "not known"
]
"""What a claim is worth through a View."""

STANDS: tuple[Standing, ...] = ("candidate", "verified")
"""The worth of claims that stand."""


class Rule(NamedTuple):
    """One event that rules the whole space, and where it stands. `since_offset` belongs to an ActorDistrusted that
    names an event: that event's offset."""

    offset: int
    append_time: Micros
    event: ev.Event
    since_offset: int = 0


class _Distrust(NamedTuple):
    said_at: int
    since_offset: int
    since_time: Micros | None


class Rules:
    """The rules of one space apart by what they rule, each kind in the order of its offsets."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.declarations: dict[str, list[Rule]] = {}
        self.policies: list[Rule] = []
        self.distrusts: list[Rule] = []
        for rule in rules:
            if isinstance(rule.event, ev.SlotDeclared):
                self.declarations.setdefault(rule.event.slot, []).append(rule)
            elif isinstance(rule.event, ev.PolicySet):
                self.policies.append(rule)
            else:
                self.distrusts.append(rule)


class Judge:
    """Whether events of one space count, through one resolved View."""

    def __init__(self, resolved: ResolvedView, rules: Rules | Iterable[Rule]) -> None:
        self.resolved = resolved
        self._limit = resolved.as_of.offset
        self._without = frozenset(resolved.without_actors)
        self._rules = rules if isinstance(rules, Rules) else Rules(rules)
        self._distrusted = _distrusted(rule for rule in self._rules.distrusts if rule.offset <= self._limit)
        self._least_is_verified = resolved.trust == "verified"

    def counts(self, offset: int, append_time: Micros, actor: str) -> bool:
        """Whether an event of the whole space counts: known by then, and its actor neither distrusted nor left out."""
        return self._why_not(offset, append_time, actor) is None

    def _why_not(self, offset: int, append_time: Micros, actor: str) -> Standing | None:
        if offset > self._limit:
            return "not known"
        if actor in self._without:
            return "left out"
        distrust = self._distrusted.get(actor)
        if distrust is None:
            return None
        since_then = (
            offset >= distrust.since_offset if distrust.since_time is None else append_time >= distrust.since_time
        )
        return "distrusted" if since_then else None

    def _counts(self, mark: Mark) -> bool:
        return self._why_not(mark.offset, mark.append_time, mark.actor) is None

    def standing(self, claim: ClaimRow, offset: int) -> Standing:
        """`candidate` or `verified` when the claim counts, is not retracted and is trusted enough; else why not."""
        why_not = self._why_not(offset, claim.append_time, claim.actor)
        if why_not is not None:
            return why_not
        if claim.retractions and any(map(self._counts, claim.retractions)):
            return "retracted"
        trust = self.trust(claim, offset)
        if trust == "candidate" and self._least_is_verified:
            return "not verified"
        return trust

    def may_start_verified(self, actors: Set[str]) -> bool:
        """Whether a policy that counts, whenever it was in force, starts one of these actors as verified."""
        return any(
            rule.starting_trust == "verified" and any(fnmatchcase(actor, rule.actors) for actor in actors)
            for _, policy in self._policies
            for rule in policy.rules
        )

    @property
    def policy(self) -> tuple[ev.PolicyRule, ...]:
        """The rules of the newest policy that counts, in order."""
        return self._policies[-1][1].rules if self._policies else ()

    def distrust_of(self, actor: str) -> int | None:
        """Offset of the event that distrusts the actor, None where none does."""
        distrust = self._distrusted.get(actor)
        return None if distrust is None else distrust.said_at

    def may_hide(self, actors: Set[str]) -> bool:
        """Whether anything that one of these actors wrote may not count for being theirs."""
        return not (self._without.isdisjoint(actors) and self._distrusted.keys().isdisjoint(actors))

    def hides_all(self, actors: Set[str], since: int) -> bool:
        """Whether nothing that these actors wrote from offset `since` on counts."""
        return all(self._hides(actor, since) for actor in actors)

    def _hides(self, actor: str, since: int) -> bool:
        distrust = self._distrusted.get(actor)
        if distrust is None:
            return actor in self._without
        return actor in self._without or (distrust.since_time is None and distrust.since_offset <= since)

    def trust(self, claim: ClaimRow, offset: int) -> ev.Trust:
        """The last verdict that counts, else what the policy at the claim's own offset starts its actor with."""
        for mark in reversed(claim.reviews):
            if mark.verdict is not None and self.verdict_counts(mark):
                return mark.verdict
        rule = self._policy_rule(claim.actor, offset)
        return "candidate" if rule is None else rule.starting_trust

    def cardinality(self, entity: str, slot: str) -> ev.Cardinality:
        """`one` or `many`: the newest declaration for the entity's kind, else the newest general one, else `one`."""
        kind, colon, _ = entity.partition(":")
        general: ev.Cardinality | None = None
        for rule in reversed(self._rules.declarations.get(slot, ())):
            declared = rule.event
            assert isinstance(declared, ev.SlotDeclared)
            if declared.entity_kind not in (None, kind if colon else None) or not self._rule_counts(rule):
                continue
            if declared.entity_kind is not None:
                return declared.cardinality
            general = declared.cardinality if general is None else general
        return "one" if general is None else general

    @property
    def declarations(self) -> list[ev.SlotDeclared]:
        """Every declaration that counts, in the order of their offsets."""
        declared = [rule for rules in self._rules.declarations.values() for rule in rules if self._rule_counts(rule)]
        declared.sort(key=lambda rule: rule.offset)
        return [rule.event for rule in declared if isinstance(rule.event, ev.SlotDeclared)]

    @cached_property
    def _policies(self) -> list[tuple[int, ev.PolicySet]]:
        counting = [rule for rule in self._rules.policies if self._rule_counts(rule)]
        return [(rule.offset, rule.event) for rule in counting if isinstance(rule.event, ev.PolicySet)]

    def _rule_counts(self, rule: Rule) -> bool:
        return self.counts(rule.offset, rule.append_time, rule.event.actor)

    def _policy_rule(self, actor: str, offset: int) -> ev.PolicyRule | None:
        """The rule for `actor` in the policy that was in force before `offset`."""
        for since, policy in reversed(self._policies):
            if since < offset:
                return next((rule for rule in policy.rules if fnmatchcase(actor, rule.actors)), None)
        return None

    def verdict_counts(self, mark: Mark) -> bool:
        """Whether a verdict counts: its event does, and the policy at its own offset lets its actor verify."""
        rule = self._policy_rule(mark.actor, mark.offset)
        return self._counts(mark) and (rule is None or rule.may_verify)

    def retraction_counts(self, mark: Mark) -> bool:
        """Whether a retraction's event counts."""
        return self._counts(mark)


def _distrusted(rules: Iterable[Rule]) -> dict[str, _Distrust]:
    """Per actor the newest word about it, where that is distrust. Whoever wrote it: distrust annuls no distrust."""
    found: dict[str, _Distrust] = {}
    for rule in rules:
        match rule.event:
            case ev.ActorDistrusted(about=about, since_time=since_time):
                found[about] = _Distrust(rule.offset, rule.since_offset, since_time)
            case ev.ActorTrusted(about=about):
                found.pop(about, None)
            case _:
                pass
    return found
