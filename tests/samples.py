"""One full and one bare event of every type: every optional field set, and none."""

from __future__ import annotations

from typing import Any

from schemas import events as ev

ID = bytes.fromhex("018f2f6e8c0070008000000000000001")
OTHER = bytes.fromhex("018f2f6e8c0070008000000000000002")
T0 = 1_700_000_000_000_000

_BARE: dict[str, Any] = {"event_id": ID, "space": "acme/support", "actor": "agent:planner", "recorded_at": T0}
_FULL: dict[str, Any] = {
    **_BARE,
    "session": "run-7",
    "branch": "experiment",
    "code": ev.Code(repo="acme/app", sha="0f" * 20),
    "cause": OTHER,
    "subject": "person-31",
    "seen": OTHER,
}
_REQUIRED: dict[type[ev.Event], dict[str, Any]] = {
    ev.FactAsserted: {"entity": "user:alice", "slot": "employer", "value": "Acme"},
    ev.FactEnded: {"entity": "user:alice", "slot": "employer"},
    ev.FactRetracted: {"target": OTHER},
    ev.FactReviewed: {"target": OTHER, "verdict": "verified"},
    ev.ValueForbidden: {"entity": "user:alice", "slot": "employer", "value": "Acme"},
    ev.ValueAllowed: {"entity": "user:alice", "slot": "employer", "value": "Acme"},
    ev.SlotDeclared: {"slot": "employer", "cardinality": "many"},
    ev.FactPinned: {"target": OTHER, "pinned": True},
    ev.PolicySet: {"rules": (ev.PolicyRule(actors="user:*", starting_trust="verified", may_verify=True),)},
    ev.Observed: {"role": "user", "text": "I moved to Globex.\nLast week."},
    ev.Recalled: {"query": "employer?", "view": ev.RecalledView(valid_at=T0), "hits": ()},
    ev.SessionStarted: {"session": "run-7", "agent": "planner"},
    ev.SessionEnded: {"session": "run-7"},
    ev.BranchForked: {"parent": "main"},
    ev.BranchMerged: {"from_branch": "experiment"},
    ev.BranchRolledBack: {"to": OTHER},
    ev.BranchDeleted: {},
    ev.CommitSeen: {"repo": "acme/app", "sha": "ab" * 20, "parents": (), "committed_at": T0},
    ev.ActorDistrusted: {"about": "agent:planner"},
    ev.ActorTrusted: {"about": "agent:planner"},
    ev.SubjectErased: {"subject": "person-31"},
}
_OPTIONAL: dict[type[ev.Event], dict[str, Any]] = {
    ev.FactAsserted: {
        "valid_from": T0,
        "valid_to": T0 + 1,
        "confidence": 0.75,
        "origin": "extracted",
        "engine": "rules@1",
        "source": "https://example.org/crm?id=7",
    },
    ev.FactEnded: {"value": 7, "at": T0, "reason": "left"},
    ev.FactRetracted: {"target": None, "entity": "user:alice", "slot": "age", "value": 41.5, "reason": "typo"},
    ev.FactReviewed: {"reason": "checked"},
    ev.ValueForbidden: {"value": None, "value_hash": bytes(range(32)), "reason": "secret"},
    ev.ValueAllowed: {"value": True, "reason": "public now"},
    ev.SlotDeclared: {"entity_kind": "user", "value_type": "entity", "description": "Where they work."},
    ev.Observed: {"content_type": "application/json", "attributes": {"tool": "search"}},
    ev.Recalled: {
        "view": ev.RecalledView(
            as_of=OTHER, valid_at=T0, branch="b", at_sha="ab", trust="verified", without_actors=("agent:x",)
        ),
        "hits": (ev.Hit(event_id=OTHER, score=0.5),),
        "engine": "wordllama@1",
    },
    ev.SessionStarted: {"attributes": {"model": "small"}},
    ev.SessionEnded: {"outcome": "done"},
    ev.BranchForked: {"at": OTHER},
    ev.BranchMerged: {"at": OTHER, "slots": (ev.EntitySlot(entity="user:alice", slot="employer"),)},
    ev.BranchRolledBack: {"reason": "poisoned"},
    ev.BranchDeleted: {"reason": "done with"},
    ev.CommitSeen: {"parents": ("cd" * 20, "ef" * 20), "rewritten_from": "12" * 20},
    ev.ActorDistrusted: {"since_time": T0, "reason": "poisoned", "about_kind": "branch"},
    ev.ActorTrusted: {"reason": "mended", "about_kind": "commit"},
    ev.SubjectErased: {"reason": "asked for it"},
}


def bare(cls: type[ev.Event]) -> ev.Event:
    """An event of this type with no optional field."""
    return cls(**{**_BARE, **_REQUIRED[cls]})


def full(cls: type[ev.Event]) -> ev.Event:
    """An event of this type with every optional field that may stand beside the others."""
    return cls(**{**_FULL, **_REQUIRED[cls], **_OPTIONAL.get(cls, {})})


def all_samples() -> list[ev.Event]:
    """The bare and the full event of each type, in the order of the types."""
    return [make(cls) for cls in ev.EVENT_TYPES.values() for make in (bare, full)]
