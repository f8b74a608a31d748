"""The verbs that rule what counts: verdicts, tombstones, declarations, the trust policy and distrust."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from schemas import events as ev
from schemas.checks import invalid_from
from schemas.errors import InvalidEvent
from schemas.events import Value
from schemas.jsonform import parse_id
from schemas.times import micros
from streams.answers import Receipt
from streams.memory_writes import Writes


class Ruling(Writes):
    """Ruling verbs of `Memory`. Each is one event with its actor and reason; none changes or removes another. With
    an id of the caller's own (a UUIDv7) each may be repeated, as `remember` may."""

    def review(
        self,
        space: str,
        event_id: UUID | str,
        verdict: ev.Trust,
        *,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        cause: UUID | str | None = None,
        own_id: UUID | str | None = None,
    ) -> Receipt:
        """Give a verdict on the fact or end `event_id`: `verified`, `rejected` or `candidate`. The last one
        counts. `own_id` is this event's own id, as in `remember`.

        Raises:
            InvalidEvent: no such fact or end is known in the space.
        """
        fields = self._common(space, session, actor, "main", None, cause, own_id)
        return self.append(
            [ev.FactReviewed(**fields, target=parse_id(event_id, "target"), verdict=verdict, reason=reason)]
        )[0]

    def forbid(
        self,
        space: str,
        entity: str,
        slot: str,
        value: Value,
        *,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """Put a tombstone on a value of entity:slot: in any spelling, earlier or later, it is not believed."""
        fields = self._common(space, session, actor, "main", None, None, event_id)
        return self.append([ev.ValueForbidden(**fields, entity=entity, slot=slot, value=value, reason=reason)])[0]

    def allow(
        self,
        space: str,
        entity: str,
        slot: str,
        value: Value,
        *,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """Lift the tombstone on a value of entity:slot, in whatever spelling it was set."""
        fields = self._common(space, session, actor, "main", None, None, event_id)
        return self.append([ev.ValueAllowed(**fields, entity=entity, slot=slot, value=value, reason=reason)])[0]

    def declare(
        self,
        space: str,
        slot: str,
        *,
        cardinality: ev.Cardinality,
        value_type: ev.ValueType | None = None,
        entity_kind: str | None = None,
        description: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """Say how the slot is read from now on: `one` value at an instant, or `many`. It changes no event, and a View
        as of an earlier offset reads as before. `entity_kind` limits it to entities
        with that text before their first `:`.
        """
        event = ev.SlotDeclared(
            **self._common(space, session, actor, "main", None, None, event_id),
            slot=slot,
            entity_kind=entity_kind,
            cardinality=cardinality,
            value_type=value_type,
            description=description,
        )
        return self.append([event])[0]

    def policy(
        self,
        space: str,
        rules: Iterable[ev.PolicyRule | Mapping[str, Any]],
        *,
        session: str | None = None,
        actor: str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """Set the trust policy of the space; it replaces the one before, for facts and verdicts after it.

        Args:
            rules: in order, the first whose `actors` pattern (`user:*`) matches applies: `starting_trust` of that
                actor's facts, and `may_verify`, whether that actor's verdicts count. Without a matching rule facts
                start as candidates and verdicts count.

        Raises:
            InvalidEvent: a rule is not one; it names which, and what is wrong with it.
        """
        fields = self._common(space, session, actor, "main", None, None, event_id)
        return self.append([ev.PolicySet(**fields, rules=_policy_rules(rules))])[0]

    def distrust(
        self,
        space: str,
        about: str,
        *,
        since: UUID | str | datetime | None = None,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """From `since` on, inclusive, nothing that the actor `about` wrote counts: an event id of the space, an append
        time, or None for everything. The newest word about an actor wins, whoever wrote it.

        Raises:
            InvalidEvent: `since` names no known event.
        """
        event = ev.ActorDistrusted(
            **self._common(space, session, actor, "main", None, None, event_id),
            about=about,
            since_event=None if since is None or isinstance(since, datetime) else parse_id(since, "since_event"),
            since_time=micros(since, "since") if isinstance(since, datetime) else None,
            reason=reason,
        )
        return self.append([event])[0]

    def trust(
        self,
        space: str,
        about: str,
        *,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        event_id: UUID | str | None = None,
    ) -> Receipt:
        """All that the actor `about` wrote counts again."""
        fields = self._common(space, session, actor, "main", None, None, event_id)
        return self.append([ev.ActorTrusted(**fields, about=about, reason=reason)])[0]


def _policy_rules(given: Iterable[ev.PolicyRule | Mapping[str, Any]]) -> tuple[ev.PolicyRule, ...]:
    shape = "each rule has actors, starting_trust (candidate, verified or rejected) and may_verify (true or false)"
    try:
        listed = None if isinstance(given, (str, Mapping)) else list(given)
    except TypeError:
        listed = None
    if listed is None:
        raise InvalidEvent("rules", f"must be a list of rules, not {type(given).__name__}", hint=shape)
    try:
        return msgspec.convert(listed, tuple[ev.PolicyRule, ...], from_attributes=True)
    except msgspec.ValidationError as error:
        found = invalid_from(error, ev.PolicySet)
        raise InvalidEvent(f"rules{found.field}", found.problem, hint=shape) from error
