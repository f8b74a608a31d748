"""What kind of thing each field of an event is, read from the classes' own types.

An int is a time (a value may be one too, and is its own kind), bytes are an event id (or the hash of a value), and text
is a name unless it is listed as free text here. The checks and the JSON form both go by this.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, get_args, get_origin

from msgspec.structs import fields

from schemas.events import Event, Part

Kind = Literal["name", "text", "value", "time", "id", "hash", "part", "parts", "other"]

FREE_TEXT = frozenset({"text", "reason", "description", "query", "outcome", "source"})

_cache: dict[type, dict[str, Kind]] = {}


def kinds(cls: type[Event] | type[Part]) -> dict[str, Kind]:
    """Field name to kind, in the order of the fields."""
    if cls not in _cache:
        _cache[cls] = {field.name: _kind(field.name, field.type) for field in fields(cls)}
    return _cache[cls]


def named(cls: type[Event], *wanted: Kind) -> tuple[str, ...]:
    """The fields of `cls` that are of one of these kinds."""
    return tuple(name for name, kind in kinds(cls).items() if kind in wanted)


def part_type(cls: type[Event] | type[Part], field: str) -> type[Part]:
    """The record class inside a field of kind part or parts."""
    hint = next(one.type for one in fields(cls) if one.name == field)
    for option in _options(hint):
        item = get_args(option)[0] if get_origin(option) is tuple else option
        if isinstance(item, type) and issubclass(item, Part):
            return item
    raise TypeError(f"{cls.__name__}.{field} holds no record")


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)


def _kind(name: str, hint: Any) -> Kind:
    if name == "value":
        return "value"
    for option in _options(hint):
        if option is str:
            return "text" if name in FREE_TEXT else "name"
        if option is int:
            return "time"
        if option is bytes:
            return "hash" if name == "value_hash" else "id"
        if isinstance(option, type) and issubclass(option, Part):
            return "part"
        if get_origin(option) is tuple and issubclass(get_args(option)[0], Part):
            return "parts"
    return "other"
