"""What a merge of one branch into another would do, what stands against it, and the events that make it so. Pure.

A slot conflicts when both sides said something about it that the other does not show, and what they believe from now
on differs; of a slot that holds many, when that is so for one of its values. A conflict is settled by taking one side:
after the merge, retractions and assertions on the merged-into branch, with the merge as their cause, make the slot
what that side believes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal
from uuid import UUID

import msgspec

from schemas import events as ev
from schemas.errors import InvalidInput, MergeConflict
from schemas.jsonform import id_text
from schemas.times import micros
from streams.answers import Belief, Conflict, Receipt
from streams.belief import Claim
from streams.branching import Branches, Shown, Slot, Spans, slot_of
from streams.compare import Difference, diff
from streams.drafting import Draft
from streams.making import Making
from streams.ports import Position
from streams.reads import Reads
from streams.values import identity
from streams.view import STANDS, WHOLE_SPACE, ResolvedView

Side = Literal["ours", "theirs"]
"""Whose belief a settled conflict keeps: that of the branch merged into, or of the one merged."""

_ANY = identity(None)


class MergePlan(msgspec.Struct, frozen=True):
    """A merge, as it would be now. `at` is the last event of the space that it would take account of, `changes` what it
    would change on the branch merged into, `events` what has to be appended for it: none while a conflict is not
    settled, and none where there is nothing to merge. `idle` are those of the slots that were asked for of which the
    source has nothing to bring."""

    source: str
    into: str
    at: Position
    conflicts: tuple[Conflict, ...]
    changes: tuple[Difference, ...]
    events: tuple[ev.Event, ...]
    idle: tuple[tuple[str, str], ...] = ()


class Merged(msgspec.Struct, frozen=True):
    """A merge that was done: what was planned, and a receipt for each of its events."""

    plan: MergePlan
    receipts: tuple[Receipt, ...]


def refuse_conflicts(plan: MergePlan, take: Side | None) -> None:
    """
    Raises:
        MergeConflict: slots conflict, and no side is taken.
    """
    if plan.conflicts and take is None:
        slots = [f"{one.entity} {one.slot}" for one in plan.conflicts]
        named = ", ".join(slots[:3]) + (f" and {len(slots) - 3} more" if len(slots) > 3 else "")
        raise MergeConflict(
            f"{plan.source} and {plan.into} both changed {named}",
            slots=tuple((one.entity, one.slot) for one in plan.conflicts),
            hint="merge_plan shows both sides; settle them with take ours or theirs, or merge only other slots",
        )


class Merger:
    """Plans one merge over the rows of a space as they are."""

    def __init__(
        self,
        space: str,
        making: Making,
        reads: Reads,
        draft: Callable[[], Draft],
        views: tuple[ResolvedView, ResolvedView],
    ) -> None:
        """`views` are of the branch merged into and of the one merged, as of the end of the log; `draft` begins what
        would be, over the same rows."""
        self._space = space
        self._making = making
        self._reads = reads
        self._draft = draft
        self._ours, self._theirs = views
        self._judges = tuple(reads.judge(space, view) for view in views)

    def plan(self, take: Side | None, only: Sequence[Slot] | None, common: dict[str, Any]) -> MergePlan:
        """
        Args:
            take: how conflicts are settled; None: they are only told.
            only: the slots to merge, None for all.
            common: actor and session of the events.

        Raises:
            InvalidInput: a conflict can't be settled so.
        """
        source, into, at = self._theirs.branch, self._ours.branch, self._theirs.as_of
        idle = tuple(slot for slot in only or () if not self._brings([slot]))
        if not self._brings(only):
            return MergePlan(source, into, at, (), (), (), idle)
        at_event = self._reads.event_at(self._space, at.offset).event.event_id
        merge = self._making.merge(self._space, source, into=into, at=id_text(at_event), only=only, **common)
        conflicts = tuple(self._conflicts(only))
        draft = self._draft()
        draft.add([merge])
        settling: list[ev.Event] = []
        if take is not None:
            common = {**common, "cause": id_text(merge.event_id), "branch": into}
            for conflict in conflicts:
                settling += self._settled(draft, (conflict.entity, conflict.slot), take, common)
        changes = tuple(diff(self._reads, self._space, self._ours, self._after(draft), draft.reads))
        events = () if conflicts and take is None else (merge, *settling)
        return MergePlan(source, into, at, conflicts, changes, events, idle)

    def _brings(self, only: Sequence[Slot] | None) -> bool:
        """Whether the merge shows anything that is not shown without it."""
        said, shown = self._judges[1].said, self._judges[0].shown
        if only is None and self._reads.events_in(self._space, said.everywhere - shown.everywhere):
            return True
        return any(
            self._reads.slot_of(self._space, recorded.event) == slot
            for slot in ((*said.only, *shown.only) if only is None else only)
            for recorded in self._reads.events_in(self._space, said.in_slot(slot) - shown.in_slot(slot))
        )

    def _conflicts(self, only: Sequence[Slot] | None) -> Iterator[Conflict]:
        """By entity, then slot."""
        ours, theirs = self._judges
        here, there = self._touched(ours.shown, theirs.shown), self._touched(theirs.said, ours.shown)
        base = self._base()
        for slot in sorted(here.keys() & there.keys()):
            if only is not None and slot not in only:
                continue
            if self._differ(slot, here[slot], there[slot]):
                views = (base, self._ours, self._theirs)
                yield Conflict(*slot, *(self._reads.get(self._space, *slot, view) for view in views))

    def _touched(self, shown: Shown, without: Shown) -> dict[Slot, set[object]]:
        """Slot to the values that events of `shown`, and not of `without`, say something about."""
        found: dict[Slot, set[object]] = {}
        parts: list[tuple[Slot | None, Spans]] = [(None, shown.everywhere - without.everywhere)]
        parts += [(slot, shown.in_slot(slot) - without.in_slot(slot)) for slot in {**shown.only, **without.only}]
        for wanted, spans in parts:
            for recorded in self._reads.events_in(self._space, spans):
                event = recorded.event
                if isinstance(event, (*WHOLE_SPACE, ev.FactPinned)):
                    continue
                target = getattr(event, "target", None)
                about = event if target is None else self._reads.event(self._space, target).event
                slot = slot_of(about)
                if slot is None or wanted not in (None, slot):
                    continue
                if (event.branch, recorded.position.offset) not in without.in_slot(slot):
                    found.setdefault(slot, set()).add(identity(getattr(about, "value", None)))
        return found

    def _differ(self, slot: Slot, here: set[object], there: set[object]) -> bool:
        """Whether the two sides believe different things of the slot from the instant on; of one that holds many, of a
        value that both sides said something about."""
        ours, theirs = (self._from_now(slot, view) for view in (self._ours, self._theirs))
        if self._judges[0].cardinality(*slot) == "one":
            return ours != theirs
        both = here if _ANY in there else there if _ANY in here else here & there
        said = {run[0] for run in (*ours, *theirs)} if _ANY in both else both
        return any(
            [run for run in ours if run[0] == value] != [run for run in theirs if run[0] == value] for value in said
        )

    def _from_now(self, slot: Slot, view: ResolvedView) -> list[tuple[object, int | None, int | None]]:
        """(value, start where it is to come, stop) of the runs that hold at the view's instant or later."""
        now = view.valid_at
        return [
            (value, start if start > now else None, stop)
            for value, start, stop in _runs(self._reads.history(self._space, *slot, view))
            if stop is None or stop > now
        ]

    def _base(self) -> ResolvedView:
        """What both sides showed when they parted."""
        branches = self._reads.branches(self._space) or Branches({})
        ours, theirs = (dict(branches.line(view.branch, view.as_of.offset)) for view in (self._ours, self._theirs))
        name = next(name for name in theirs if name in ours)
        position = Position(self._ours.as_of.partition, min(ours[name], theirs[name]))
        return msgspec.structs.replace(self._ours, branch=name, as_of=position)

    def _settled(self, draft: Draft, slot: Slot, take: Side, common: dict[str, Any]) -> list[ev.Event]:
        """Events after the merge that make the slot what one side believes; they are added to the draft."""
        side = 0 if take == "ours" else 1
        view, shown = (self._ours, self._theirs)[side], self._judges[side].shown.in_slot(slot)
        wanted = self._reads.history(self._space, *slot, view)
        foreign = [
            self._making.forget(self._space, event_id=UUID(bytes=claim.row.event_id), **common)
            for claim in self._standing(draft, slot)
            if (claim.row.branch, claim.offset) not in shown
        ]
        draft.add(foreign)
        if self._is(draft, slot, wanted):
            return foreign
        again = [
            self._making.forget(self._space, event_id=UUID(bytes=claim.row.event_id), **common)
            for claim in self._standing(draft, slot)
        ]
        for belief in wanted:
            again += self._said_again(belief, common)
        draft.add(again)
        if not self._is(draft, slot, wanted):
            raise InvalidInput(
                f"{slot[0]} {slot[1]} can't be made what {view.branch} believes",
                hint="the trust policy of the space, or a tombstone, does not let this actor's facts count",
            )
        return foreign + again

    def _said_again(self, belief: Belief, common: dict[str, Any]) -> Iterator[ev.Event]:
        fact = self._making.remember(
            self._space,
            belief.entity,
            belief.slot,
            belief.value,
            valid_from=belief.valid_from,
            valid_to=belief.valid_to,
            **common,
        )
        yield fact
        if belief.trust == "verified":
            yield self._making.review(self._space, UUID(bytes=fact.event_id), "verified", **common)

    def _standing(self, draft: Draft, slot: Slot) -> list[Claim]:
        reads = draft.reads
        judge = reads.judge(self._space, self._after(draft))
        return [claim for claim, worth in reads.claims(self._space, *slot, judge) if worth in STANDS]

    def _is(self, draft: Draft, slot: Slot, wanted: list[Belief]) -> bool:
        return _runs(draft.reads.history(self._space, *slot, self._after(draft))) == _runs(wanted)

    def _after(self, draft: Draft) -> ResolvedView:
        """The branch merged into, as the draft has it."""
        return msgspec.structs.replace(self._ours, as_of=Position(self._ours.as_of.partition, draft.last))


def _runs(beliefs: Iterable[Belief]) -> list[tuple[object, int, int | None]]:
    return [
        (identity(one.value), micros(one.valid_from), None if one.valid_to is None else micros(one.valid_to))
        for one in beliefs
    ]
