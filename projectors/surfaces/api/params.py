"""What a URL says: names in its path, parameters in its query. What is unknown, doubled or malformed is an error.

A `+` in a query is a space, as forms and most clients write it; in the offset of a time it is taken for what was meant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from schemas.checks import check_name, check_space
from schemas.errors import InvalidInput, InvalidView
from schemas.jsonform import parse_id
from schemas.times import EARLIEST, LATEST, instant, parse_time
from streams.memory import Point
from streams.ports import Position, place_of
from streams.view import View
from streams.wire import PAGE_ITEMS_MAX, WAIT_S_MAX

PAGE_ITEMS = 100
TIMEOUT_S = 10.0

_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_MEANT_PLUS = re.compile(r"([Tt].*) (?=[0-9]{2}:[0-9]{2}$)")
_POINT_HINT = "an offset like 120, PARTITION:OFFSET like 0:120, or a time like 2026-03-01T09:00:00Z"


class Parameter(NamedTuple):
    """One parameter of a query. `read` makes its value of its name and text; `schema` is its JSON Schema."""

    name: str
    read: Callable[[str, str], Any]
    schema: Mapping[str, Any]
    text: str
    many: bool = False
    required: bool = False


def decoded(text: str, what: str) -> str:
    """Percent-encoded UTF-8 as text.

    Raises:
        InvalidInput: it is none.
    """
    try:
        if _ESCAPE.search(text):
            raise ValueError("a % without two hexadecimal digits")
        return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode()
    except ValueError as error:
        raise InvalidInput(
            f"{what} is not percent-encoded UTF-8: {text[:100].encode('ascii', 'backslashreplace').decode()}",
            hint="a / in a name is written %2F, and a % is written %25",
        ) from error


def names_in(path: str, pattern: str) -> dict[str, str]:
    """The names in a path as it came, by the parts of `pattern` in braces; each keeps the rules of its kind."""
    found = {}
    for given, part in zip(path.split("/"), pattern.split("/"), strict=True):
        if part.startswith("{"):
            name = part.strip("{}")
            found[name] = _CHECKED[name](name, decoded(given, name))
    return found


def parameters_in(query: str, known: Sequence[Parameter]) -> dict[str, Any]:
    """Name to value of the parameters that a query gives; to a list of values for one that may be repeated.

    Raises:
        InvalidInput: one is unknown, given twice, missing, or not what it should be.
    """
    by_name = {one.name: one for one in known}
    found: dict[str, Any] = {}
    for pair in query.split("&"):
        if not pair:
            continue
        given, _, value = pair.partition("=")
        name = decoded(given.replace("+", " "), "a parameter's name")
        one = by_name.get(name)
        if one is None:
            listed = ", ".join(by_name) or "none"
            raise InvalidInput(f"{name[:100]!r} is no parameter here", hint=f"known are: {listed}")
        read = one.read(name, decoded(value.replace("+", " "), name))
        if one.many:
            found.setdefault(name, []).append(read)
        elif name in found:
            raise InvalidInput(f"{name} is given twice")
        else:
            found[name] = read
    for one in known:
        if one.required and one.name not in found:
            raise InvalidInput(f"{one.name} is missing")
    return found


def view_in(found: Mapping[str, Any], prefix: str = "") -> View:
    """The View that parameters say."""
    return View(
        as_of=found.get(f"{prefix}as_of"),
        valid_at=found.get(f"{prefix}valid_at"),
        branch=found.get(f"{prefix}branch", "main"),
        at_sha=found.get(f"{prefix}at_sha"),
        also_at=tuple(found.get(f"{prefix}also_at", ())),
        trust=found.get(f"{prefix}trust", "candidate"),
        without_actors=tuple(found.get(f"{prefix}without_actor", ())),
    )


def view_parameters(prefix: str = "") -> tuple[Parameter, ...]:
    """Every parameter of a View."""
    text = {"type": "string"}
    return (
        Parameter(f"{prefix}as_of", point, _POINT, "Only what was known at this offset, P:OFFSET or time."),
        Parameter(f"{prefix}valid_at", time, _TIME, "The instant asked about. Default: now, or as_of."),
        Parameter(f"{prefix}branch", name, text, "The branch of memory. Default: main."),
        Parameter(f"{prefix}at_sha", plain_text, _SHA, "Only what was known at that commit of the code; its full id."),
        Parameter(f"{prefix}also_at", plain_text, _SHA, "A further commit, likewise; with at_sha.", many=True),
        Parameter(f"{prefix}trust", plain_text, _TRUST, "The least trust that counts. Default: candidate."),
        Parameter(f"{prefix}without_actor", name, text, "Leave out what this actor wrote.", many=True),
    )


def name(field: str, text: str) -> str:
    """A name of an entity, a slot, an actor and so on."""
    check_name(field, text)
    return text


def plain_text(_: str, text: str) -> str:
    """Text that somebody else will judge."""
    return text


def point(field: str, text: str) -> Point:
    """A point of the log: an offset, P:OFFSET, or a time."""
    found = place_of(text)
    if found is not None:
        return found
    if ":" not in text and "-" not in text:
        raise InvalidView(f"{field} {text[:100]!r} is no point of the log", hint=_POINT_HINT)
    return time(field, text)


def place(field: str, text: str) -> int | Position:
    """An offset, or P:OFFSET."""
    found = place_of(text)
    if found is None:
        raise InvalidView(f"{field} {text[:100]!r} is no offset", hint="write it like 120, or with its partition 0:120")
    return found


def position(field: str, text: str) -> Position:
    """P:OFFSET."""
    found = place_of(text)
    if not isinstance(found, Position):
        raise InvalidView(
            f"{field} {text[:100]!r} is no position", hint="write it like 0:120, as every answer shows it"
        )
    return found


def time(field: str, text: str) -> datetime:
    """RFC 3339 with an offset from UTC."""
    hint = "write it like 2026-03-01T09:00:00Z; in a URL a + is written %2B"
    try:
        at = parse_time(_MEANT_PLUS.sub(r"\1+", text), field)
    except InvalidInput as error:
        raise InvalidView(str(error), hint=hint) from error
    if not EARLIEST <= at <= LATEST:
        raise InvalidView(f"{field} {text} is outside the years 1 to 9999 in UTC")
    return instant(at)


def seconds(field: str, text: str) -> float:
    """A time to wait, up to a minute."""
    found = float(text) if _NUMBER.fullmatch(text) else math.inf
    if found > WAIT_S_MAX:
        raise InvalidInput(f"{field} {text[:100]!r} is no number of seconds from 0 to {WAIT_S_MAX:g}")
    return found


def side(field: str, text: str) -> str:
    """Whose belief settles a conflict."""
    if text not in ("ours", "theirs"):
        raise InvalidInput(f"{field} {text[:100]!r} is no side", hint="ours or theirs")
    return text


def entity_slot(field: str, text: str) -> tuple[str, str]:
    """An entity and a slot, as JSON."""
    try:
        entity, slot = msgspec.json.decode(text, type=tuple[str, str])
    except (msgspec.DecodeError, ValueError) as error:
        hint = 'as JSON: ["user:alice","employer"]'
        raise InvalidInput(f"{field} {text[:100]!r} is no entity with a slot", hint=hint) from error
    return name("entity", entity), name("slot", slot)


def yes_or_no(field: str, text: str) -> bool:
    """true or false."""
    if text not in ("true", "false"):
        raise InvalidInput(f"{field} {text[:100]!r} is neither true nor false")
    return text == "true"


def items(field: str, text: str) -> int:
    """How many items a page may have."""
    found = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= found <= PAGE_ITEMS_MAX:
        raise InvalidInput(f"{field} {text[:100]!r} is no number from 1 to {PAGE_ITEMS_MAX:,}")
    return found


def _space(_: str, text: str) -> str:
    check_space(text)
    return text


def _event_id(field: str, text: str) -> str:
    parse_id(text, field)
    return text


_CHECKED: dict[str, Callable[[str, str], str]] = {
    "space": _space,
    "entity": name,
    "slot": name,
    "branch": name,
    "event_id": _event_id,
}
_TIME = {"type": "string", "format": "date-time"}
_PLACE = {"type": "string", "pattern": "^([0-9]+:)?-?[0-9]+$"}
_POINT = {"anyOf": [_PLACE, _TIME]}
_TRUST = {"type": "string", "enum": ["candidate", "verified"]}
_SHA = {"type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"}
_SLOT_PAIR = {"type": "string", "pattern": r"^\[.*\]$", "examples": ['["user:alice","employer"]']}

MIN_OFFSET = Parameter("min_offset", place, _PLACE, "Answer once the tables have folded this offset, or P:OFFSET.")
TIMEOUT = Parameter(
    "timeout",
    seconds,
    {"type": "number", "minimum": 0, "maximum": WAIT_S_MAX, "default": TIMEOUT_S},
    "The most seconds to wait; then 504.",
)
WAITING = (MIN_OFFSET, TIMEOUT)
LIMIT = Parameter(
    "limit",
    items,
    {"type": "integer", "minimum": 1, "maximum": PAGE_ITEMS_MAX, "default": PAGE_ITEMS},
    "The most items of a page.",
)
CURSOR = Parameter(
    "cursor", plain_text, {"type": "string"}, "`next` of the page before. It wins over what is beside it."
)
PAGING = (LIMIT, CURSOR)
ENTITY = Parameter("entity", name, {"type": "string"}, "Only what is about this entity.")
SLOT = Parameter("slot", name, {"type": "string"}, "Only what is about this slot.")
SESSION = Parameter("session", name, {"type": "string"}, "Only this session.")
START = Parameter("start", point, _POINT, "Where to begin, inclusive: an offset, P:OFFSET, or a time.")
END = Parameter("end", point, _POINT, "Where to stop, exclusive.")
SINCE = Parameter("since", place, _PLACE, "Only changes by events after this offset. Default: from now on.")
POSITION = Parameter(
    "position",
    position,
    {"type": "string", "pattern": "^[0-9]+:[0-9]+$"},
    "Where the event is, as its receipt says.",
    required=True,
)
WAIT = Parameter(
    "wait",
    seconds,
    {"type": "number", "minimum": 0, "maximum": WAIT_S_MAX, "default": 0},
    "The most seconds to wait for what becomes of the events.",
)
INTO = Parameter("into", name, {"type": "string", "default": "main"}, "The branch that is merged into.")
TAKE = Parameter(
    "take", side, {"type": "string", "enum": ["ours", "theirs"]}, "Settle conflicts with what this side believes."
)
ONLY = Parameter("only", entity_slot, _SLOT_PAIR, "Merge only this [entity, slot].", many=True)
ACTOR = Parameter("actor", name, {"type": "string"}, "Who is to write the events of the plan.")
WITH_DELETED = Parameter(
    "deleted", yes_or_no, {"type": "boolean", "default": False}, "With the branches that were deleted."
)
PREFIX = Parameter("prefix", plain_text, {"type": "string"}, "Look below this name. Default: at the top.")
SHA = Parameter("sha", plain_text, _SHA, "Only this commit.", many=True)
