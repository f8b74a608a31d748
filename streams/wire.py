"""Answers as JSON values, for `--json` and the HTTP API, and back again: `typed(cls, plain(x)) == x`.

A struct is an object by its fields' names, a Position `{"partition", "offset"}`, a time RFC 3339, an id UUID text, an
event its own JSON form. Numbers keep their type as long as the JSON library does: `1` is a long and `1.0` a double.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin
from uuid import UUID

import msgspec

from schemas import events as ev
from schemas.errors import SlotlogError
from schemas.jsonform import from_json, to_json
from schemas.times import Micros, instant, micros, parse_time, rfc3339
from streams.ports import Position
from streams.view import ResolvedView

# What both ends of the HTTP API go by.
JSON, JSON_LINES, PROBLEM = "application/json", "application/x-ndjson", "application/problem+json"
PROBLEM_TYPE = "urn:slotlog:problem:"
"""Before the name of the error's class in `schemas.errors`."""
WAIT_S_MAX = 60.0
"""The most seconds that a server waits at a time."""
PAGE_ITEMS_MAX = 1_000

T = TypeVar("T")
_Make = Callable[[Any], Any]

_SCALARS: tuple[type, ...] = (NoneType, bool, int, float, str)


class Unreadable(ValueError):
    """JSON that is not what was to be answered."""


def plain(found: Any) -> Any:
    """JSON values of an answer: a dataclass by its fields' names, times as RFC 3339, ids as UUID text."""
    match found:
        case None | bool() | int() | float() | str():
            return found
        case Position(partition=partition, offset=offset):
            return {"partition": partition, "offset": offset}
        case datetime():
            return rfc3339(micros(found))
        case UUID():
            return str(found)
        case ev.Event():
            return to_json(found)
        case ResolvedView():
            return {**_fields(found), "valid_at": rfc3339(found.valid_at)}
        case Mapping():
            return {name: plain(one) for name, one in found.items()}
        case list() | tuple():
            return [plain(one) for one in found]
    return _fields(found)


def typed(cls: type[T], given: Any) -> T:
    """The answer of class `cls` (any annotation of an answer's field will do) whose `plain` is `given`. Fields that
    are unknown here are passed over: a newer server may say more.

    Raises:
        Unreadable: it is none; the text says where.
    """
    try:
        made: T = _maker(cast(Any, cls))(given)
    except SlotlogError as error:  # an event or a time that breaks a rule
        raise Unreadable(str(error)) from error
    return made


def _fields(found: Any) -> dict[str, Any]:
    names = getattr(found, "__struct_fields__", None) or [field.name for field in dataclasses.fields(found)]
    return {name: plain(getattr(found, name)) for name in names}


@cache
def _maker(cls: Any) -> _Make:
    """What makes a `cls` of its JSON values."""
    origin = get_origin(cls)
    if origin in (Union, UnionType):
        return _of_union(cls)
    if origin is Literal:
        return _of_literal(get_args(cls))
    if origin in (list, tuple) and (len(get_args(cls)) == 1 or Ellipsis in get_args(cls)):
        return _of_list(origin, get_args(cls)[0])
    if origin is tuple:
        return _of_tuple(get_args(cls))
    if origin is dict:
        return _of_dict(get_args(cls)[1])
    if cls in _SCALARS:
        return _of_scalar(cls)
    return _of_class(cls)


def _of_class(cls: type) -> _Make:
    if cls is Position:
        return lambda given: Position(_part(given, "partition"), _part(given, "offset"))
    if cls is datetime:
        return lambda given: instant(_micros(given))
    if cls is UUID:
        return _uuid
    if issubclass(cls, ev.Event):
        return _of_event(cls)
    make = _of_struct(cls)
    if cls is ResolvedView:
        return lambda given: make({**_expected(dict, given), "valid_at": _micros(given.get("valid_at"))})
    return make


def _of_struct(cls: type) -> _Make:
    required = {
        field.name
        for field in msgspec.structs.fields(cls)
        if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    }
    makers = {field.name: _maker(field.type) for field in msgspec.structs.fields(cls)}

    def make(given: Any) -> Any:
        found = _expected(dict, given)
        for name in sorted(required - found.keys()):
            raise Unreadable(f"{cls.__name__} without {name}")
        return cls(**{name: make_field(found[name]) for name, make_field in makers.items() if name in found})

    return make


def _of_event(cls: type[ev.Event]) -> _Make:
    def make(given: Any) -> Any:
        event = from_json(_expected(dict, given))
        if not isinstance(event, cls):
            raise Unreadable(f"a {type(event).__name__}, and not a {cls.__name__}")
        return event

    return make


def _of_union(cls: Any) -> _Make:
    """Each kind of JSON value belongs to one option at most, once literals are put together."""
    literals = [value for option in get_args(cls) if get_origin(option) is Literal for value in get_args(option)]
    by_kind = {_kind(option): _maker(option) for option in get_args(cls)}
    if literals:
        by_kind[str] = _of_literal(tuple(literals))

    def make(given: Any) -> Any:
        option = by_kind.get(type(given))
        if option is None:
            raise Unreadable(f"{given!r} is no {cls}")
        return option(given)

    return make


def _kind(option: Any) -> type:
    """The type of the JSON values of `option`."""
    origin = get_origin(option) or option
    if origin in _SCALARS or origin in (list, dict):
        kind: type = origin
        return kind
    if origin is tuple:
        return list
    return str if origin in (Literal, datetime, UUID) else dict


def _of_literal(options: tuple[Any, ...]) -> _Make:
    def make(given: Any) -> Any:
        if given not in options:
            raise Unreadable(f"{given!r} is none of {', '.join(map(str, options))}")
        return given

    return make


def _of_list(cls: Callable[[Any], Any], item: Any) -> _Make:
    make = _maker(item)
    return lambda given: cls([make(one) for one in _expected(list, given)])


def _of_tuple(items: tuple[Any, ...]) -> _Make:
    makers = [_maker(item) for item in items]

    def make(given: Any) -> Any:
        if len(_expected(list, given)) != len(makers):
            raise Unreadable(f"{len(given)} values, and not {len(makers)}")
        return tuple(one(value) for one, value in zip(makers, given, strict=True))

    return make


def _of_dict(item: Any) -> _Make:
    make = _maker(item)
    return lambda given: {name: make(one) for name, one in _expected(dict, given).items()}


def _of_scalar(cls: type) -> _Make:
    return lambda given: _expected(cls, given)


def _uuid(given: Any) -> UUID:
    try:
        return UUID(_expected(str, given))
    except ValueError as error:
        raise Unreadable(f"{given!r} is no UUID") from error


def _micros(given: Any) -> Micros:
    return parse_time(_expected(str, given))


def _part(given: Any, name: str) -> int:
    found: int = _expected(int, _expected(dict, given).get(name))
    return found


def _expected(cls: type, given: Any) -> Any:
    """`given`, which must be a `cls` itself: `true` is no number, and `1` is no double."""
    if type(given) is not cls:
        raise Unreadable(f"{given!r} is no {cls.__name__}")
    return given
