"""Every event as a typed, frozen class. Field for field the Avro record of the same name in `schemas/avro`.

Times are whole microseconds since 1970 UTC (`schemas.times.micros` makes one from a datetime), ids are 16 bytes. What a
field means is said once, in its schema; the rules it must keep are in `schemas.checks`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from schemas.times import Micros

Value = bool | int | float | str
Trust = Literal["candidate", "verified", "rejected"]
Origin = Literal["stated", "observed", "extracted", "imported"]
AboutKind = Literal["actor", "branch", "commit"]
Cardinality = Literal["one", "many"]
ValueType = Literal["boolean", "long", "double", "string", "entity"]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A record inside an event."""


class Code(Part, frozen=True, kw_only=True):
    repo: str
    sha: str


class PolicyRule(Part, frozen=True, kw_only=True):
    actors: str
    starting_trust: Trust
    may_verify: bool


class RecalledView(Part, frozen=True, kw_only=True):
    as_of: bytes | None = None
    valid_at: Micros
    branch: str = "main"
    at_sha: str | None = None
    trust: Trust = "candidate"
    without_actors: tuple[str, ...] = ()


class Hit(Part, frozen=True, kw_only=True):
    event_id: bytes
    score: float


class EntitySlot(Part, frozen=True, kw_only=True):
    entity: str
    slot: str


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What every event carries. `PARTS` names the fields that Avro gives in another shape, for the codec."""

    PARTS: ClassVar[dict[str, Any]] = {"code": Code}

    event_id: bytes
    space: str
    session: str | None = None
    actor: str
    recorded_at: Micros
    branch: str = "main"
    code: Code | None = None
    cause: bytes | None = None
    subject: str | None = None
    seen: bytes | None = None


class FactAsserted(Event, frozen=True, kw_only=True):
    entity: str
    slot: str
    value: Value
    valid_from: Micros | None = None
    valid_to: Micros | None = None
    confidence: float | None = None
    origin: Origin = "stated"
    engine: str | None = None
    source: str | None = None


class FactEnded(Event, frozen=True, kw_only=True):
    entity: str
    slot: str
    value: Value | None = None
    at: Micros | None = None
    reason: str | None = None


class FactRetracted(Event, frozen=True, kw_only=True):
    target: bytes | None = None
    entity: str | None = None
    slot: str | None = None
    value: Value | None = None
    reason: str | None = None


class FactReviewed(Event, frozen=True, kw_only=True):
    target: bytes
    verdict: Trust
    reason: str | None = None


class ValueForbidden(Event, frozen=True, kw_only=True):
    entity: str
    slot: str
    value: Value | None = None
    value_hash: bytes | None = None
    reason: str | None = None


class ValueAllowed(Event, frozen=True, kw_only=True):
    entity: str
    slot: str
    value: Value | None = None
    value_hash: bytes | None = None
    reason: str | None = None


class SlotDeclared(Event, frozen=True, kw_only=True):
    slot: str
    entity_kind: str | None = None
    cardinality: Cardinality
    value_type: ValueType | None = None
    description: str | None = None


class FactPinned(Event, frozen=True, kw_only=True):
    target: bytes
    pinned: bool


class PolicySet(Event, frozen=True, kw_only=True):
    PARTS: ClassVar[dict[str, Any]] = {"code": Code, "rules": tuple[PolicyRule, ...]}

    rules: tuple[PolicyRule, ...]


class Observed(Event, frozen=True, kw_only=True):
    role: str
    text: str
    content_type: str = "text/plain"
    attributes: dict[str, str] = {}


class Recalled(Event, frozen=True, kw_only=True):
    PARTS: ClassVar[dict[str, Any]] = {"code": Code, "view": RecalledView, "hits": tuple[Hit, ...]}

    query: str
    view: RecalledView
    hits: tuple[Hit, ...]
    engine: str | None = None


class SessionStarted(Event, frozen=True, kw_only=True):
    agent: str
    attributes: dict[str, str] = {}


class SessionEnded(Event, frozen=True, kw_only=True):
    outcome: str | None = None


class BranchForked(Event, frozen=True, kw_only=True):
    parent: str
    at: bytes | None = None


class BranchMerged(Event, frozen=True, kw_only=True):
    PARTS: ClassVar[dict[str, Any]] = {"code": Code, "slots": tuple[EntitySlot, ...]}

    from_branch: str
    at: bytes | None = None
    slots: tuple[EntitySlot, ...] | None = None


class BranchRolledBack(Event, frozen=True, kw_only=True):
    to: bytes
    reason: str | None = None


class BranchDeleted(Event, frozen=True, kw_only=True):
    reason: str | None = None


class CommitSeen(Event, frozen=True, kw_only=True):
    PARTS: ClassVar[dict[str, Any]] = {"code": Code, "parents": tuple[str, ...]}

    repo: str
    sha: str
    parents: tuple[str, ...]
    committed_at: Micros
    rewritten_from: str | None = None


class ActorDistrusted(Event, frozen=True, kw_only=True):
    about: str
    since_event: bytes | None = None
    since_time: Micros | None = None
    reason: str | None = None
    about_kind: AboutKind = "actor"


class ActorTrusted(Event, frozen=True, kw_only=True):
    about: str
    reason: str | None = None
    about_kind: AboutKind = "actor"


class SubjectErased(Event, frozen=True, kw_only=True):
    reason: str | None = None


EVENT_TYPES: dict[str, type[Event]] = {
    cls.__name__: cls
    for cls in (
        FactAsserted, FactEnded, FactRetracted, FactReviewed, ValueForbidden, ValueAllowed, SlotDeclared,
        FactPinned, PolicySet, Observed, Recalled, SessionStarted, SessionEnded, BranchForked, BranchMerged,
        BranchRolledBack, BranchDeleted, CommitSeen, ActorDistrusted, ActorTrusted, SubjectErased,
    )
}  # fmt: skip
