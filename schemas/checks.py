"""The rules an event must keep. The same ones hold at the door, before anything is written, and again in the fold.

What only the door asks beside them (`check_given`): that fields have their types, and that nothing is larger than the
caller's setting allows. The fold reads no setting, so its one bound on size is `MAX_EVENT_BYTES`.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from operator import attrgetter

import msgspec

from schemas import events as ev
from schemas.errors import InvalidEvent
from schemas.fields import named
from schemas.times import EARLIEST, LATEST, rfc3339

MAX_NAME_CHARACTERS = 512
MAX_SPACE_SEGMENTS = 8
MAX_EVENT_BYTES = 950_000
DEFAULT_MAX_VALUE_BYTES = 256 * 1024

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class _Plan:
    """Which fields of one event class fall under which rule; worked out once per class."""

    __slots__ = ("extra", "get_names", "ids", "names", "texts", "times")

    def __init__(self, cls: type[ev.Event]) -> None:
        self.names = named(cls, "name")
        self.get_names = attrgetter(*self.names)
        self.times = named(cls, "time")
        self.ids = named(cls, "id")
        self.texts = named(cls, "text", "value")
        self.extra = _EXTRA.get(cls)


_plans: dict[type[ev.Event], _Plan] = {}
_known_names: set[str | None] = {None}
_known_spaces: set[str] = set()
_CACHED_NAMES_MAX = 100_000


def _plan_of(cls: type[ev.Event]) -> _Plan:
    plan = _plans.get(cls)
    if plan is None:
        plan = _plans[cls] = _Plan(cls)
    return plan


def check(event: ev.Event) -> None:
    """Raise InvalidEvent, naming the field, unless `event` keeps every rule. Its fields have their types already."""
    plan = _plan_of(type(event))
    names = plan.get_names(event)
    if not _known_names.issuperset(names):
        for name, text in zip(plan.names, names, strict=True):
            if text is not None:
                check_name(name, text)
        if len(_known_names) >= _CACHED_NAMES_MAX:
            _known_names.clear()
        _known_names.update((None, *names))
    if event.space not in _known_spaces:
        check_space(event.space)
        if len(_known_spaces) >= _CACHED_NAMES_MAX:
            _known_spaces.clear()
        _known_spaces.add(event.space)
    for name in plan.times:
        at = getattr(event, name)
        if at is not None and not EARLIEST <= at <= LATEST:
            raise InvalidEvent(name, f"{at} µs since 1970 is outside the years 1 to 9999")
    if event.code is not None:
        check_name("code.repo", event.code.repo)
        check_name("code.sha", event.code.sha)
    if plan.extra is not None:
        plan.extra(event)


def check_given(event: ev.Event, *, max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES) -> None:
    """`check`, for an event that a caller made: also its types, ids, and the size of each text, in bytes of UTF-8."""
    try:
        msgspec.convert(msgspec.structs.asdict(event), type(event))
    except msgspec.ValidationError as error:
        raise invalid_from(error, type(event)) from error
    plan = _plan_of(type(event))
    for name in plan.ids:
        given = getattr(event, name)
        if given is not None and len(given) != 16:
            raise InvalidEvent(name, f"an event id has 16 bytes, not {len(given)}")
    texts = [(name, getattr(event, name)) for name in plan.texts]
    texts += [(f"attributes.{key}", value) for key, value in getattr(event, "attributes", {}).items()]
    for name, text in texts:
        if isinstance(text, str) and (size := _utf8_size(name, text)) > max_value_bytes:
            raise InvalidEvent(
                name,
                f"{size:,} bytes, and max_value_bytes allows {max_value_bytes:,}",
                hint="keep the artifact elsewhere and remember where it is, or split the text over several events",
            )
    check(event)


def check_name(field: str, name: str) -> None:
    """A name has 1 to 512 characters and no control characters; it is otherwise free, in any script."""
    if not isinstance(name, str):
        raise InvalidEvent(field, f"must be text, not {name!r}")
    if not name:
        raise InvalidEvent(field, "is empty")
    if len(name) > MAX_NAME_CHARACTERS:
        raise InvalidEvent(field, f"{len(name)} characters, and a name has at most {MAX_NAME_CHARACTERS}")
    if (found := _CONTROL.search(name)) is not None:
        raise InvalidEvent(field, f"{name!r} has the control character U+{ord(found.group()):04X}")
    _utf8_size(field, name)


def check_space(space: str) -> None:
    """A space is 1 to 8 names joined by `/`, none of them empty."""
    check_name("space", space)
    segments = space.split("/")
    if len(segments) > MAX_SPACE_SEGMENTS:
        raise InvalidEvent(
            "space", f"{space!r} has {len(segments)} segments, and at most {MAX_SPACE_SEGMENTS} are allowed"
        )
    if "" in segments:
        raise InvalidEvent("space", f"{space!r} has an empty segment", hint="write it like tenant/name")


def check_value(field: str, value: ev.Value | None) -> None:
    """A value is finite, fits 64 bits and is not null."""
    if value is None:
        raise InvalidEvent(field, "null is no value", hint="to say that nothing holds any longer, end the fact")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidEvent(field, f"{value} is no finite number")
    if type(value) is int and not _LONG_MIN <= value <= _LONG_MAX:
        raise InvalidEvent(field, f"{value} does not fit 64 bits", hint="give it as text")


def invalid_from(error: msgspec.ValidationError, cls: type[ev.Event]) -> InvalidEvent:
    """msgspec's complaint about an event of class `cls`, as ours: the field it names, and what is wrong with it."""
    text, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    field, inside = path or "event", f"{path}." if path else ""
    if "unknown field" in text:
        unknown = text.split("`")[1]
        near = difflib.get_close_matches(unknown, cls.__struct_fields__, n=1)
        hint = f"did you mean {near[0]}?" if near else f"{cls.__name__} has {', '.join(cls.__struct_fields__)}"
        return InvalidEvent(inside + unknown, "there is no such field", hint=hint if not path else None)
    if "missing required field" in text:
        return InvalidEvent(inside + text.split("`")[1], "is missing")
    if field == "value" and "null" in text:
        return InvalidEvent(field, "null is no value", hint="to say that nothing holds any longer, end the fact")
    return InvalidEvent(field, text[0].lower() + text[1:].replace("`", ""))


def _utf8_size(field: str, text: str) -> int:
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidEvent(
            field, f"has U+{ord(text[error.start]):04X}, half a surrogate pair, which is no text"
        ) from error


def _check_fact(event: ev.FactAsserted) -> None:
    check_value("value", event.value)
    if event.valid_to is not None and event.valid_from is not None and event.valid_to <= event.valid_from:
        raise InvalidEvent("valid_to", f"{rfc3339(event.valid_to)} is not after valid_from {rfc3339(event.valid_from)}")
    if event.confidence is not None and not 0.0 <= event.confidence <= 1.0:
        raise InvalidEvent("confidence", f"{event.confidence} is not between 0 and 1")


def _check_end(event: ev.FactEnded) -> None:
    if event.value is not None:
        check_value("value", event.value)


def _check_retraction(event: ev.FactRetracted) -> None:
    named = event.entity is not None and event.slot is not None
    if event.target is not None and (event.entity is not None or event.slot is not None or event.value is not None):
        raise InvalidEvent("target", "names one event, so entity, slot and value must be left out")
    if event.target is None and not named:
        raise InvalidEvent("target", "nothing is named", hint="give an event id, or an entity and a slot")
    if event.value is not None:
        check_value("value", event.value)


def _check_tombstone(event: ev.ValueForbidden | ev.ValueAllowed) -> None:
    if (event.value is None) == (event.value_hash is None):
        raise InvalidEvent("value", "give either the value or its keyed hash")
    if event.value_hash is not None and len(event.value_hash) != 32:
        raise InvalidEvent("value_hash", f"{len(event.value_hash)} bytes, and a keyed hash has 32")
    if event.value is not None:
        check_value("value", event.value)


def _check_declaration(event: ev.SlotDeclared) -> None:
    if event.entity_kind is not None and ":" in event.entity_kind:
        raise InvalidEvent(
            "entity_kind", f"{event.entity_kind!r} has a colon, and a kind is what stands before the first"
        )


def _check_policy(event: ev.PolicySet) -> None:
    for number, rule in enumerate(event.rules):
        check_name(f"rules[{number}].actors", rule.actors)


def _check_session(event: ev.SessionStarted | ev.SessionEnded) -> None:
    if event.session is None:
        raise InvalidEvent("session", f"is missing, and {type(event).__name__} is about one")


def _check_recalled(event: ev.Recalled) -> None:
    if not EARLIEST <= event.view.valid_at <= LATEST:
        raise InvalidEvent("view.valid_at", "is outside the years 1 to 9999")
    for number, hit in enumerate(event.hits):
        if not math.isfinite(hit.score):
            raise InvalidEvent(f"hits[{number}].score", f"{hit.score} is no finite number")
    ids = [
        ("view.as_of", event.view.as_of),
        *((f"hits[{n}].event_id", hit.event_id) for n, hit in enumerate(event.hits)),
    ]
    for field, given in ids:
        if given is not None and len(given) != 16:
            raise InvalidEvent(field, f"an event id has 16 bytes, not {len(given)}")


def _check_distrust(event: ev.ActorDistrusted) -> None:
    if event.since_event is not None and event.since_time is not None:
        raise InvalidEvent("since_time", "give either an event or a time")


def _check_merge(event: ev.BranchMerged) -> None:
    for number, part in enumerate(event.slots or ()):
        check_name(f"slots[{number}].entity", part.entity)
        check_name(f"slots[{number}].slot", part.slot)


def _check_commit(event: ev.CommitSeen) -> None:
    for number, parent in enumerate(event.parents):
        check_name(f"parents[{number}]", parent)


def _check_erasure(event: ev.SubjectErased) -> None:
    if event.subject is None:
        raise InvalidEvent("subject", "is missing, and SubjectErased is about one")


_EXTRA: dict[type[ev.Event], Callable[..., None]] = {
    ev.FactAsserted: _check_fact,
    ev.FactEnded: _check_end,
    ev.FactRetracted: _check_retraction,
    ev.ValueForbidden: _check_tombstone,
    ev.ValueAllowed: _check_tombstone,
    ev.PolicySet: _check_policy,
    ev.SlotDeclared: _check_declaration,
    ev.SessionStarted: _check_session,
    ev.SessionEnded: _check_session,
    ev.Recalled: _check_recalled,
    ev.ActorDistrusted: _check_distrust,
    ev.BranchMerged: _check_merge,
    ev.CommitSeen: _check_commit,
    ev.SubjectErased: _check_erasure,
}
