"""What kind of thing each field of an event is, read from the classes' own types.

An int is a time (a value may be one too, and is its own kind), bytes are an event id (or the hash of a value), and text
is a name unless it is listed as free text here. The checks and the JSON form both go by this.
"""

from __future__ import annotations

from typing import Literal

from msgspec import inspect

from schemas.events import Event, Part

Kind = Literal["name", "text", "value", "time", "id", "hash", "part", "parts", "other"]

FREE_TEXT = frozenset({"text", "reason", "description", "query", "outcome", "source"})

_cache: dict[type, dict[str, Kind]] = {}


def kinds(cls: type[Event] | type[Part]) -> dict[str, Kind]:
    """Field name to kind, in the order of the fields."""
    if cls not in _cache:
        info = inspect.type_info(cls)
        assert isinstance(info, inspect.StructType)
        _cache[cls] = {field.name: _kind(field.name, field.type) for field in info.fields}
    return _cache[cls]


def part_type(cls: type[Event] | type[Part], field: str) -> type[Part]:
    """The record class inside a field of kind part or parts."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    hint = next(one.type for one in info.fields if one.name == field)
    for option in _options(hint):
        item = option.item_type if isinstance(option, inspect.VarTupleType) else option
        if isinstance(item, inspect.StructType) and issubclass(item.cls, Part):
            return item.cls
    raise TypeError(f"{cls.__name__}.{field} holds no record")


def _options(hint: inspect.Type) -> tuple[inspect.Type, ...]:
    return hint.types if isinstance(hint, inspect.UnionType) else (hint,)


def _kind(name: str, hint: inspect.Type) -> Kind:
    if name == "value":
        return "value"
    for option in _options(hint):
        match option:
            case inspect.StrType():
                return "text" if name in FREE_TEXT else "name"
            case inspect.IntType():
                return "time"
            case inspect.BytesType():
                return "hash" if name == "value_hash" else "id"
            case inspect.StructType():
                return "part"
            case inspect.VarTupleType(item_type=inspect.StructType()):
                return "parts"
            case _:
                continue
    return "other"


def named(cls: type[Event], *wanted: Kind) -> tuple[str, ...]:
    """The fields of `cls` that are of one of these kinds."""
    return tuple(name for name, kind in kinds(cls).items() if kind in wanted)
