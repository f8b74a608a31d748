"""What a verb about branches says, as an event."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from schemas import events as ev
from schemas.jsonform import parse_id


class BranchMaking:
    """Makes events about branches, and writes nothing."""

    @abstractmethod
    def _common(
        self,
        space: str,
        session: str | None,
        actor: str | None,
        branch: str,
        subject: str | None,
        cause: UUID | str | None,
        event_id: UUID | str | None,
    ) -> dict[str, Any]:
        """What every event has."""

    def fork(
        self,
        space: str,
        branch: str,
        *,
        parent: str = "main",
        at: UUID | str | None = None,
        session: str | None = None,
        actor: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """Make a branch that shows what `parent` shows up to the event `at`, inclusive (default: all of it, now). What
        becomes of the parent later changes nothing there. A name is never used again.

        Raises:
            InvalidEvent: the name is taken, or there is no such parent or event.
        """
        fields = self._common(space, session, actor, branch, None, cause, event_id)
        return ev.BranchForked(**fields, parent=parent, at=None if at is None else parse_id(at, "at"))

    def merge(
        self,
        space: str,
        source: str,
        *,
        into: str = "main",
        at: UUID | str | None = None,
        only: Iterable[tuple[str, str]] | None = None,
        session: str | None = None,
        actor: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """Show on the branch `into` what `source` said or had merged up to the event `at`, inclusive; of the (entity,
        slot) pairs `only`, where given. Nothing is looked at for conflicts: `Memory.merge` does that."""
        fields = self._common(space, session, actor, into, None, cause, event_id)
        slots = None if only is None else tuple(ev.EntitySlot(entity=entity, slot=slot) for entity, slot in only)
        return ev.BranchMerged(**fields, from_branch=source, at=None if at is None else parse_id(at, "at"), slots=slots)

    def rollback(
        self,
        space: str,
        branch: str,
        to: UUID | str,
        *,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """Hide what the branch itself said or had merged after the event `to`, up to now. A rollback can be rolled
        back: to the event before it.

        Raises:
            InvalidEvent: there is no such branch or event.
        """
        fields = self._common(space, session, actor, branch, None, cause, event_id)
        return ev.BranchRolledBack(**fields, to=parse_id(to, "to"), reason=reason)

    def delete_branch(
        self,
        space: str,
        branch: str,
        *,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """Hide the branch. Its events stay on the log, views as of an earlier offset show it, branches that were forked
        from it live on, and its name is never used again.

        Raises:
            InvalidEvent: it is main, or there is no such branch.
        """
        fields = self._common(space, session, actor, branch, None, cause, event_id)
        return ev.BranchDeleted(**fields, reason=reason)
