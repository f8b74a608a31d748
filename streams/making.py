"""What a writing verb says, as an event. Each verb's signature and meaning is here, once for every kind of Memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from schemas import events as ev
from schemas.checks import MAX_EVENT_BYTES, check_given, invalid_from
from schemas.errors import InvalidEvent, InvalidInput
from schemas.events import Value
from schemas.jsonform import from_json, id_text, parse_id
from schemas.times import micros
from streams import clock
from streams.making_branches import BranchMaking

Seen = Mapping[str, tuple[int, bytes | None]]
"""Space to (offset, id) of the newest event that the last answer about it was of; None where that answer had none."""


class Making(BranchMaking):
    """Makes events, and writes nothing. With an id of the caller's own (a UUIDv7) a verb may be repeated: the same
    event again is a duplicate."""

    def __init__(self, actor: str | None, seen: Seen, max_value_bytes: int) -> None:
        """
        Args:
            actor: who writes, where a call does not say; default `SLOTLOG_ACTOR`, else `user:` and the login name.
            seen: what the last answer about each space showed; whoever answers keeps it.
            max_value_bytes: most bytes of UTF-8 that one value or text may have.

        Raises:
            InvalidInput: max_value_bytes is out of range.
        """
        if not 0 < max_value_bytes <= MAX_EVENT_BYTES:
            raise InvalidInput(f"max_value_bytes is {max_value_bytes:,}, and may be 1 to {MAX_EVENT_BYTES:,}")
        self.actor = (os.environ.get("SLOTLOG_ACTOR") or _login()) if actor is None else actor
        self._seen = seen
        self._max_value_bytes = max_value_bytes

    def remember(
        self,
        space: str,
        entity: str,
        slot: str,
        value: Value,
        *,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        session: str | None = None,
        actor: str | None = None,
        branch: str = "main",
        code: ev.Code | None = None,
        confidence: float | None = None,
        origin: ev.Origin = "stated",
        engine: str | None = None,
        source: str | None = None,
        subject: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """Assert that entity:slot has `value` from `valid_from`, inclusive (default: its append time), to `valid_to`,
        exclusive (default: for ever).

        With an `event_id` of the caller's own (a UUIDv7), the call may be repeated: the same fact again is a duplicate.
        """
        fields = self._common(space, session, actor, branch, subject, cause, event_id, code)
        return ev.FactAsserted(
            **fields,
            entity=entity,
            slot=slot,
            value=value,
            valid_from=_optional_micros(valid_from, "valid_from"),
            valid_to=_optional_micros(valid_to, "valid_to"),
            confidence=confidence,
            origin=origin,
            engine=engine,
            source=source,
        )

    def end(
        self,
        space: str,
        entity: str,
        slot: str,
        *,
        value: Value | None = None,
        at: datetime | None = None,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        branch: str = "main",
        code: ev.Code | None = None,
        subject: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """Say that from `at` on (default: its append time) the slot's value, or just `value`, no longer holds."""
        fields = self._common(space, session, actor, branch, subject, cause, event_id, code)
        return ev.FactEnded(
            **fields, entity=entity, slot=slot, value=value, at=_optional_micros(at, "at"), reason=reason
        )

    def forget(
        self,
        space: str,
        entity: str | None = None,
        slot: str | None = None,
        value: Value | None = None,
        *,
        event_id: UUID | str | None = None,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        branch: str = "main",
        code: ev.Code | None = None,
        cause: UUID | str | None = None,
        own_id: UUID | str | None = None,
    ) -> ev.Event:
        """Retract: the one fact or end `event_id`, or all of entity:slot (only those that carry `value`, when given),
        never count, at any time. A correction, where `end` is a change. `own_id` is this event's own id, as in
        `remember`.

        Raises:
            InvalidEvent: nothing known is named.
        """
        fields = self._common(space, session, actor, branch, None, cause, own_id, code)
        named = None if event_id is None else parse_id(event_id, "target")
        return ev.FactRetracted(**fields, target=named, entity=entity, slot=slot, value=value, reason=reason)

    def observe(
        self,
        space: str,
        role: str,
        text: str,
        *,
        session: str | None = None,
        content_type: str = "text/plain",
        attributes: Mapping[str, str] | None = None,
        actor: str | None = None,
        branch: str = "main",
        code: ev.Code | None = None,
        subject: str | None = None,
        cause: UUID | str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """Record what was said or done: a turn, a tool call, a hook's payload."""
        fields = self._common(space, session, actor, branch, subject, cause, event_id, code)
        return ev.Observed(**fields, role=role, text=text, content_type=content_type, attributes=dict(attributes or {}))

    def review(
        self,
        space: str,
        event_id: UUID | str,
        verdict: ev.Trust,
        *,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        branch: str = "main",
        code: ev.Code | None = None,
        cause: UUID | str | None = None,
        own_id: UUID | str | None = None,
    ) -> ev.Event:
        """Give a verdict on the fact or end `event_id`: `verified`, `rejected` or `candidate`. The last one
        counts, on a branch that shows it. `own_id` is this event's own id, as in `remember`.

        Raises:
            InvalidEvent: no such fact or end is known in the space.
        """
        fields = self._common(space, session, actor, branch, None, cause, own_id, code)
        return ev.FactReviewed(**fields, target=parse_id(event_id, "target"), verdict=verdict, reason=reason)

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
    ) -> ev.Event:
        """Put a tombstone on a value of entity:slot: in any spelling, earlier or later, it is not believed."""
        fields = self._common(space, session, actor, "main", None, None, event_id)
        return ev.ValueForbidden(**fields, entity=entity, slot=slot, value=value, reason=reason)

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
    ) -> ev.Event:
        """Lift the tombstone on a value of entity:slot, in whatever spelling it was set."""
        fields = self._common(space, session, actor, "main", None, None, event_id)
        return ev.ValueAllowed(**fields, entity=entity, slot=slot, value=value, reason=reason)

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
    ) -> ev.Event:
        """Say how the slot is read from now on: `one` value at an instant, or `many`. It changes no event, and a View
        as of an earlier offset reads as before. `entity_kind` limits it to entities
        with that text before their first `:`.
        """
        return ev.SlotDeclared(
            **self._common(space, session, actor, "main", None, None, event_id),
            slot=slot,
            entity_kind=entity_kind,
            cardinality=cardinality,
            value_type=value_type,
            description=description,
        )

    def policy(
        self,
        space: str,
        rules: Iterable[ev.PolicyRule | Mapping[str, Any]],
        *,
        session: str | None = None,
        actor: str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """Set the trust policy of the space; it replaces the one before, for facts and verdicts after it.

        Args:
            rules: in order, the first whose `actors` pattern (`user:*`) matches applies: `starting_trust` of that
                actor's facts, and `may_verify`, whether that actor's verdicts count. Without a matching rule facts
                start as candidates and verdicts count.

        Raises:
            InvalidEvent: a rule is not one; it names which, and what is wrong with it.
        """
        fields = self._common(space, session, actor, "main", None, None, event_id)
        return ev.PolicySet(**fields, rules=_policy_rules(rules))

    def distrust(
        self,
        space: str,
        about: str,
        *,
        kind: ev.AboutKind = "actor",
        since: UUID | str | datetime | None = None,
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """From `since` on, inclusive, nothing that the actor `about` wrote counts: an event id of the space, an append
        time, or None for everything. The newest word about an actor wins, whoever wrote it. Of kind `branch` it is
        about what is on a branch, wherever that was merged; of kind `commit`, about what is pinned to a commit.

        Raises:
            InvalidEvent: `since` names no known event.
        """
        return ev.ActorDistrusted(
            **self._common(space, session, actor, "main", None, None, event_id),
            about=about,
            since_event=None if since is None or isinstance(since, datetime) else parse_id(since, "since_event"),
            since_time=micros(since, "since") if isinstance(since, datetime) else None,
            reason=reason,
            about_kind=kind,
        )

    def trust(
        self,
        space: str,
        about: str,
        *,
        kind: ev.AboutKind = "actor",
        reason: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        event_id: UUID | str | None = None,
    ) -> ev.Event:
        """All that the actor, the branch or the commit `about` stands for counts again."""
        fields = self._common(space, session, actor, "main", None, None, event_id)
        return ev.ActorTrusted(**fields, about=about, reason=reason, about_kind=kind)

    def checked(self, given: ev.Event | Mapping[str, Any]) -> ev.Event:
        """The event, or the one of a JSON form with `event_id`, `recorded_at`, `actor` and `branch` filled in, once
        every rule was asked that needs neither a clock nor what the space holds.

        Raises:
            InvalidEvent: it breaks one.
        """
        event = given if isinstance(given, ev.Event) else from_json(self._filled_in(given))
        check_given(event, max_value_bytes=self._max_value_bytes)
        return event

    def checked_of(self, space: str, events: Iterable[ev.Event | Mapping[str, Any]]) -> list[ev.Event]:
        """Each of them `checked`.

        Raises:
            InvalidInput: one is of another space.
        """
        made = [self.checked(given) for given in events]
        for event in made:
            if event.space != space:
                raise InvalidInput(f"an event of space {event.space!r} is asked about in {space!r}")
        return made

    def _filled_in(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(given, dict | Mapping):
            raise InvalidEvent("event", f"must be an Event or a JSON object, not {type(given).__name__}")
        filled = {"actor": self.actor, **given}
        if "event_id" not in given or "recorded_at" not in given:
            identity, recorded_at = _identity(given.get("event_id"))
            filled = {"event_id": identity, "recorded_at": recorded_at, **filled}
        return filled

    def _common(
        self,
        space: str,
        session: str | None,
        actor: str | None,
        branch: str,
        subject: str | None,
        cause: UUID | str | None,
        event_id: UUID | str | None,
        code: ev.Code | None = None,
    ) -> dict[str, Any]:
        identity, recorded_at = _identity(event_id)
        return {
            "event_id": identity,
            "space": space,
            "session": session,
            "actor": self.actor if actor is None else actor,
            "recorded_at": recorded_at,
            "branch": branch,
            "code": code,
            "cause": None if cause is None else parse_id(cause, "cause"),
            "subject": subject,
            "seen": self._seen.get(space, (-1, None))[1],
        }


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


def _identity(event_id: UUID | str | None) -> tuple[bytes, int]:
    """(id, recorded_at): fresh ones, or the caller's id and the time inside it, so that a retry has the same bytes."""
    if event_id is None:
        return clock.new_event_id(), clock.now_micros()
    identity = parse_id(event_id)
    if identity[6] >> 4 != 7:
        raise InvalidEvent(
            "event_id",
            f"{id_text(identity)} is no UUIDv7",
            hint="make one with streams.new_event_id(); the time inside it becomes recorded_at",
        )
    return identity, int.from_bytes(identity[:6], "big") * 1000


def _optional_micros(instant: datetime | None, name: str) -> int | None:
    return None if instant is None else micros(instant, name)


def _login() -> str:
    import getpass

    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return f"user:{os.getuid()}"
