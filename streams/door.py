"""What is refused before anything is written because of what the space holds. The fold asks the same again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from schemas import events as ev
from schemas.checks import MAX_EVENT_BYTES
from schemas.codec import Codec
from schemas.errors import InvalidEvent
from schemas.jsonform import id_text
from schemas.times import Micros, rfc3339
from streams.branching import BRANCHING, MAIN, Branches, BranchingEvent, Problem, changed, problem_of_branch
from streams.envelope import message
from streams.ports import Message
from streams.reads import Reads
from streams.rows import BranchRow
from streams.values import same
from streams.view import ResolvedView

AFTER_ALL = (1 << 62) - 1
"""An offset after all that are known: where what is not appended yet will be."""

_Claims = ev.FactAsserted | ev.FactEnded
_Naming = ev.FactRetracted | ev.FactReviewed | ev.FactPinned | ev.ActorDistrusted | BranchingEvent
NAMING = (ev.FactRetracted, ev.FactReviewed, ev.FactPinned, ev.ActorDistrusted, *BRANCHING)


def names_known(event: ev.Event) -> bool:
    """Whether the event names earlier ones or a branch, so that the tables must be asked whether those are known."""
    return isinstance(event, NAMING) or event.branch != MAIN


def check_effect(event: ev.Event) -> None:
    """
    Raises:
        InvalidEvent: the event would have no effect, whatever the space holds.
    """
    if isinstance(event, ev.SubjectErased):
        raise InvalidEvent("type", "SubjectErased has no effect in this version, so it is not written")


def ready(event: ev.Event, codec: Codec, now: Micros) -> Message:
    """The message of an event that is appended at about `now`.

    Raises:
        InvalidEvent: it would be over before it holds, or is too large.
    """
    if isinstance(event, ev.FactAsserted) and event.valid_from is None and event.valid_to is not None:
        _check_not_over(event.valid_to, now)
    made = message(event, codec)
    if len(made.value) > MAX_EVENT_BYTES:
        problem = f"{len(made.value):,} bytes in all, and an event has at most {MAX_EVENT_BYTES:,}"
        raise InvalidEvent(type(event).__name__, problem, hint="split what it carries over several events")
    return made


def _check_not_over(valid_to: Micros, now: Micros) -> None:
    """The fact begins to hold when it is appended, so it must end later than that."""
    if valid_to <= now:
        problem = f"{rfc3339(valid_to)} is past, and without valid_from the fact begins to hold now, {rfc3339(now)}"
        raise InvalidEvent("valid_to", problem, hint="say since when it held: valid_from")


class Door:
    """Checks the events of one append in their order; what an event names may come earlier in the same append.

    `reads` brings the tables of a space up to date; it is called only for events that name something.
    """

    def __init__(self, reads: Callable[[str], Reads], locked: Callable[[str], AbstractContextManager[object]]) -> None:
        """`locked` gives what is held while the tables of a space are read."""
        self._reads = reads
        self._locked = locked
        self._earlier: dict[tuple[str, bytes], ev.Event] = {}
        self._branches: dict[str, dict[str, BranchRow]] = {}

    def check(self, event: ev.Event) -> None:
        """
        Raises:
            InvalidEvent: the event names a branch, an event, or facts that aren't known in its space, or what
                `check_effect` says.
        """
        check_effect(event)
        if names_known(event):
            with self._locked(event.space):
                if event.branch != MAIN and not isinstance(event, ev.BranchForked):
                    self._check_branch(event)
                self._check_named(event)
        self._earlier[event.space, event.event_id] = event

    def _check_branch(self, event: ev.Event) -> None:
        rows = self._rows(event.space)
        problem = problem_of_branch(Branches(rows), event.branch)
        if problem is not None:
            known = ", ".join(sorted({MAIN, *(name for name, row in rows.items() if row.deleted_at is None)}))
            raise InvalidEvent("branch", problem, hint=f"the space has {known}; slotlog branch create makes one")

    def _check_named(self, event: ev.Event) -> None:
        match event:
            case ev.FactRetracted(target=None):
                self._check_named_facts(event)
            case ev.FactRetracted(target=target) | ev.FactReviewed(target=target) | ev.FactPinned(target=target):
                assert target is not None
                self._check_target(event.space, target)
            case ev.ActorDistrusted(since_event=since) if since is not None:
                self._named(event.space, since, "since_event")
            case ev.BranchForked() | ev.BranchMerged() | ev.BranchRolledBack() | ev.BranchDeleted():
                self._check_branching(event)
            case _:
                pass

    def _check_branching(self, event: BranchingEvent) -> None:
        field = "to" if isinstance(event, ev.BranchRolledBack) else "at"
        rows = self._rows(event.space)
        made = changed(rows, event, AFTER_ALL, 0, lambda event_id: self._offset_of(event.space, event_id, field))
        if isinstance(made, Problem):
            raise InvalidEvent(made.field, made.text)
        rows[event.branch] = made

    def _rows(self, space: str) -> dict[str, BranchRow]:
        """The branches as they are with what comes earlier in the same append."""
        if space not in self._branches:
            known = self._reads(space).branches(space)
            self._branches[space] = {} if known is None else dict(known.rows)
        return self._branches[space]

    def _offset_of(self, space: str, event_id: bytes, field: str) -> int:
        if (space, event_id) in self._earlier:
            return AFTER_ALL
        self._named(space, event_id, field)
        found = self._reads(space).find(space, event_id)
        assert found is not None
        return found.position.offset

    def _check_target(self, space: str, target: bytes) -> None:
        named = self._named(space, target, "target")
        if not isinstance(named, _Claims):
            raise InvalidEvent("target", f"event {id_text(target)} is a {type(named).__name__}, no fact and no end")

    def _check_named_facts(self, event: ev.FactRetracted) -> None:
        assert event.entity is not None
        assert event.slot is not None
        if self._knows_claim(event, event.entity, event.slot):
            return
        for earlier in self._earlier.values():
            if (
                isinstance(earlier, _Claims)
                and (earlier.space, earlier.entity, earlier.slot) == (event.space, event.entity, event.slot)
                and (event.value is None or same(earlier.value, event.value))
            ):
                return
        what = f"{event.entity} {event.slot}" + ("" if event.value is None else f" = {event.value!r}")
        where = "" if event.branch == MAIN else f" on branch {event.branch}"
        raise InvalidEvent("entity", f"no fact or end of {what} is known{where}", hint="slotlog entity shows what is")

    def _knows_claim(self, event: ev.FactRetracted, entity: str, slot: str) -> bool:
        reads = self._reads(event.space)
        if reads.branches(event.space) is None or event.branch in self._made(event.space):
            return reads.knows_claim(event.space, entity, slot, event.value)
        end, _ = reads.last_event(event.space, AFTER_ALL)
        judge = reads.judge(event.space, ResolvedView(reads.position(end), 0, event.branch))
        return any(
            worth != "other branch" and (event.value is None or same(claim.row.value, event.value))
            for claim, worth in reads.claims(event.space, entity, slot, judge)
        )

    def _made(self, space: str) -> set[str]:
        """Branches that are made or changed in the same append."""
        return {one.branch for one in self._earlier.values() if one.space == space and isinstance(one, BRANCHING)}

    def _named(self, space: str, event_id: bytes, field: str) -> ev.Event:
        earlier = self._earlier.get((space, event_id))
        if earlier is not None:
            return earlier
        found = self._reads(space).find(space, event_id)
        if found is None:
            raise InvalidEvent(field, f"no event {id_text(event_id)} is known in space {space!r}")
        return found.event
