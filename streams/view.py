"""Which events count: a View as asked for, a View resolved, and the rules compiled from it. Pure.

`View` is what a caller says; `ResolvedView` is what it meant on this log at that moment, and asking with that gives the
same answer for ever. `Judge` answers, for one space through one resolved View, whether an event counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from copy import copy
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal, Protocol

import msgspec

from schemas import events as ev
from schemas.errors import InvalidView
from schemas.times import Micros, instant
from streams.branching import MAIN, Branches, Shown
from streams.distrust import Distrust, Origin, Rule
from streams.ports import Position
from streams.rows import ClaimRow, Mark, Step

_SHA = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")


class View(msgspec.Struct, frozen=True):
    """What a reader looks through. Nothing shared moves: every call brings its own.

    as_of: only events up to this one count, inclusive: an offset in the space's partition, a Position, or an aware
        datetime, which means the last event the space had by then. None: every event acknowledged before the call.
    valid_at: the instant asked about, an aware datetime. None: the time that as_of is when it is one; else the append
        time of the last event that counts; without as_of the present, if that is later.
    branch: the line of memory: what it said, had merged, and what its parent showed when it was forked.
    at_sha: only what was known at that commit of the code, by its full id: of the events that are pinned to a commit,
        those pinned to it or to an ancestor. None: whatever the commit.
    trust: the least trust that counts, `candidate` or `verified`.
    without_actors: actors whose events are left out.
    also_at: further commits, likewise, to look at a sibling on purpose; only with at_sha.
    """

    as_of: int | Position | datetime | None = None
    valid_at: datetime | None = None
    branch: str = MAIN
    at_sha: str | None = None
    trust: str = "candidate"
    without_actors: Sequence[str] = ()
    also_at: Sequence[str] = ()


class Fixed(View, frozen=True):
    """A View that was resolved a moment ago. It is answered whatever the log has let go of since, as its events are
    folded; any other view as of an offset before the log's start is refused: a rebuild could not answer it again."""


AncestrySource = Literal["log", "clone"]


class ResolvedView(msgspec.Struct, frozen=True):
    """What a View meant: `as_of` is the position of the last event that counts (offset -1: none does), `valid_at` the
    instant in µs. `view()` asks for exactly that again. With at_sha, `ancestry` says who knew the commits, the log or
    a clone of the repository, and `hidden` how many facts and ends known by then are pinned to commits of which neither
    knows whether they are ancestors: they do not count."""

    as_of: Position
    valid_at: Micros
    branch: str = MAIN
    trust: str = "candidate"
    without_actors: tuple[str, ...] = ()
    at_sha: str | None = None
    also_at: tuple[str, ...] = ()
    ancestry: AncestrySource | None = None
    hidden: int = 0

    def view(self) -> View:
        return View(
            as_of=self.as_of,
            valid_at=instant(self.valid_at),
            branch=self.branch,
            at_sha=self.at_sha,
            also_at=self.also_at,
            trust=self.trust,
            without_actors=self.without_actors,
        )

    def fixed(self) -> Fixed:
        """`view()`, for whoever resolved it a moment ago and is still answering."""
        asked = self.view()
        return Fixed(**{name: getattr(asked, name) for name in View.__struct_fields__})

    @property
    def shas(self) -> tuple[str, ...]:
        """The commits at which it looks; none: whatever the commit."""
        return () if self.at_sha is None else (self.at_sha, *self.also_at)


def refuse_unanswerable(view: View) -> None:
    """Raise InvalidView for what no log can answer."""
    if not isinstance(view, View):
        raise InvalidView(f"a view is a View, not {view!r}", hint="View(as_of=…, valid_at=…)")
    if view.trust not in ("candidate", "verified"):
        raise InvalidView(f"trust {view.trust!r} is no least trust", hint="candidate or verified")
    branch: object = view.branch
    if not isinstance(branch, str):
        raise InvalidView(f"branch must be a name, not {branch!r}", hint="every space has main")
    _refuse_one_text("without_actors", view.without_actors, "('agent:x',)")
    _refuse_one_text("also_at", view.also_at, "a list of full commit ids")
    if view.also_at and view.at_sha is None:
        raise InvalidView("also_at adds to at_sha, and that is not given", hint="View(at_sha=…, also_at=…)")
    shas: Iterable[object] = () if view.at_sha is None else (view.at_sha, *view.also_at)
    for sha in shas:
        if not isinstance(sha, str) or not _SHA.fullmatch(sha):
            raise InvalidView(
                f"{sha!r} is no full id of a commit",
                hint="40 or 64 hexadecimal digits, in lower case; git rev-parse gives them",
            )


def _refuse_one_text(name: str, given: object, example: str) -> None:
    if isinstance(given, str) or not isinstance(given, Iterable):
        what = "one text" if isinstance(given, str) else repr(given)
        raise InvalidView(f"{name} must be several names, not {what}", hint=example)


Standing = Literal[
    "candidate",
    "verified",
    "rejected",
    "not verified",
    "forbidden",
    "retracted",
    "distrusted",
    "left out",
    "not known",
    "other branch",
    "other commit",
    "unknown commit",
]
"""What a claim is worth through a View."""

STANDS: tuple[Standing, ...] = ("candidate", "verified")
"""The worth of claims that stand."""

WHOLE_SPACE = (ev.SlotDeclared, ev.PolicySet, ev.ValueForbidden, ev.ValueAllowed, ev.CommitSeen)
"""Events that hold on every branch and at every commit."""
ALWAYS = (ev.ActorDistrusted, ev.ActorTrusted, ev.SubjectErased)
"""Events that count whoever wrote them, too."""


class IsAncestor(Protocol):
    """Whether commits lead to those that a View looks at."""

    def __call__(self, sha: str, /) -> bool | None:
        """Whether the commit is one of them, or an ancestor, or became one; None: nobody knows."""


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

    def __init__(
        self,
        resolved: ResolvedView,
        rules: Rules | Iterable[Rule],
        branches: Branches | None = None,
        is_ancestor: IsAncestor | None = None,
    ) -> None:
        """`branches` are those of the space, None where there is but main; `is_ancestor` is asked for a View that looks
        at commits, and for no other."""
        self.resolved = resolved
        self._limit = resolved.as_of.offset
        self._without = frozenset(resolved.without_actors)
        self._rules = rules if isinstance(rules, Rules) else Rules(rules)
        self._distrust = Distrust(rule for rule in self._rules.distrusts if rule.offset <= self._limit)
        self._suspects = bool(self._without or self._distrust)
        self._least_is_verified = resolved.trust == "verified"
        self._is_ancestor = is_ancestor
        self._branches = branches
        self._shown = None if branches is None else branches.shown(resolved.branch, self._limit, self._step_counts)
        self._spans = None if self._shown is None else self._shown.everywhere
        self._is_free = self._spans is None and is_ancestor is None and not self._suspects  # by far the most frequent

    def on(self, entity: str, slot: str) -> Judge:
        """The judge of what is about one slot: a merge may have brought that slot alone."""
        if self._shown is None or (entity, slot) not in self._shown.only:
            return self
        judge = copy(self)
        judge._spans = self._shown.in_slot((entity, slot))
        return judge

    @property
    def shown(self) -> Shown:
        """What its branch shows."""
        if self._shown is not None:
            return self._shown
        return Branches({}).shown(self.resolved.branch, self._limit, self._step_counts)

    @property
    def said(self) -> Shown:
        """What its branch itself said or had merged: what a merge of it brings."""
        return (self._branches or Branches({})).said(self.resolved.branch, self._limit, self._step_counts)

    def is_at(self, sha: str) -> bool:
        """Whether events that are pinned to the commit count at the view's commits."""
        return self._is_ancestor is None or self._is_ancestor(sha) is True

    @property
    def is_plain(self) -> bool:
        """Whether nothing is hidden for its branch or its commit."""
        return self._spans is None and self._is_ancestor is None and self._distrust.of_actors_only

    def shows_any_of(self, branches: Iterable[str], since: int) -> bool:
        """Whether anything of these branches from offset `since` on is shown."""
        if self._spans is None:
            return True
        shown = self._spans.of_branch
        return any(shown[branch][-1][1] > since for branch in branches if branch in shown)

    def is_at_any_of(self, shas: Iterable[str | None]) -> bool:
        """Whether one of these commits leads to those looked at, or is none."""
        is_ancestor = self._is_ancestor
        return is_ancestor is None or any(sha is None or is_ancestor(sha) for sha in shas)

    def counts(self, origin: Origin) -> bool:
        """Whether an event of the whole space counts: known by then, and not distrusted or left out."""
        return origin.offset <= self._limit and not (self._suspects and self._suspicion(origin))

    def shows(self, origin: Origin, event: ev.Event) -> bool:
        """Whether an event counts, by what it is; one that is about a slot is asked of the judge `on` that slot."""
        if isinstance(event, ALWAYS):
            return origin.offset <= self._limit
        return self.counts(origin) if isinstance(event, WHOLE_SPACE) else self._why_not(origin) is None

    def _suspicion(self, origin: Origin) -> Standing | None:
        if origin.actor in self._without:
            return "left out"
        return None if self._distrust.said_at(origin) is None else "distrusted"

    def _why_not(self, origin: Origin) -> Standing | None:
        offset, _, _, branch, sha = origin
        if offset > self._limit:
            return "not known"
        if self._spans is not None and (branch, offset) not in self._spans:
            return "other branch"
        if self._suspects and (suspicion := self._suspicion(origin)) is not None:
            return suspicion
        if sha is None or self._is_ancestor is None:
            return None
        known = self._is_ancestor(sha)
        return None if known else "unknown commit" if known is None else "other commit"

    def _step_counts(self, branch: str, step: Step) -> bool:
        return self.counts(Origin(step.offset, step.append_time, step.actor, branch, step.sha))

    def _counts(self, mark: Mark) -> bool:
        if self._is_free:
            return mark.offset <= self._limit
        return self._why_not(Origin(mark.offset, mark.append_time, mark.actor, mark.branch, mark.sha)) is None

    def standing(self, claim: ClaimRow, offset: int) -> Standing:
        """`candidate` or `verified` when the claim counts, is not retracted and is trusted enough; else why not."""
        if self._is_free:
            if offset > self._limit:
                return "not known"
        elif why_not := self._why_not(Origin(offset, claim.append_time, claim.actor, claim.branch, claim.sha)):
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

    def distrusted_at(self, origin: Origin) -> int | None:
        """Offset of the event that distrusts an event's actor, branch or commit; None where none does."""
        return self._distrust.said_at(origin)

    def steps_that_count(self, branch: str) -> set[int]:
        """Offsets of the branch's merges and rollbacks that no rollback hides and whose actors count."""
        branches = self._branches or Branches({})
        return {step.offset for step in branches.steps_that_count(branch, self._limit, self._step_counts)}

    def rolled_back_at(self, origin: Origin, slot: tuple[str, str]) -> int | None:
        """Offset of the rollback that hides an event about the slot which the view's branch said or had merged; None
        where none does."""
        if self._branches is None:
            return None
        place = origin.branch, origin.offset
        return self._branches.rolled_back_at(self.resolved.branch, place, slot, self._limit, self._step_counts)

    def may_hide(self, actors: Set[str]) -> bool:
        """Whether anything that one of these actors wrote may not count, for being theirs or for where it stands."""
        return not (self.is_plain and self._without.isdisjoint(actors) and actors.isdisjoint(self._distrust.actors))

    def hides_all(self, actors: Set[str], since: int) -> bool:
        """Whether nothing that these actors wrote from offset `since` on counts."""
        return all(actor in self._without or self._distrust.hides_all_of(actor, since) for actor in actors)

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
        return self.counts(origin_of(rule.event, rule.offset, rule.append_time))

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


def origin_of(event: ev.Event, offset: int, append_time: Micros) -> Origin:
    """Where an event at an offset stands and what it is from."""
    return Origin(offset, append_time, event.actor, event.branch, None if event.code is None else event.code.sha)
