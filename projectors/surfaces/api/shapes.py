"""JSON Schemas of what the API answers and takes, derived from its own types, in the form of `streams.wire`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

import msgspec

from schemas import events as ev
from schemas.fields import kinds, part_type
from streams.ports import Position
from streams.view import ResolvedView

Schema = dict[str, Any]

_TIME: Schema = {"type": "string", "format": "date-time"}
_ID: Schema = {"type": "string", "format": "uuid"}
_VALUE: Schema = {"type": ["boolean", "number", "string"]}
_SCALARS: dict[Any, Schema] = {
    NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    datetime: _TIME,
    UUID: _ID,
    object: {},
}
_FILLED_IN = ("event_id", "recorded_at", "actor", "space")
"""What an event that is given may leave out and an event that is answered has."""


class Shapes:
    """Makes schemas; those of classes are kept by name, as the components of a document."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def of(self, shape: Any) -> Schema:
        """The schema of a type, or of an object by its fields' names and types."""
        if isinstance(shape, Mapping):
            return _object({name: self.of(one) for name, one in shape.items()}, list(shape))
        origin, arguments = get_origin(shape), get_args(shape)
        if origin in (Union, UnionType):
            return self._union(arguments)
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if origin in (list, tuple):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        return dict(_SCALARS[shape]) if shape in _SCALARS else self._class(shape)

    def given_event(self) -> Schema:
        """An event as it is given."""
        return self._event("GivenEvent", "Given", _FILLED_IN)

    def _class(self, cls: type) -> Schema:
        if cls is ev.Event:
            return self._event("Event", "", ())
        if issubclass(cls, ev.Event):
            return self._event_type(cls, "", ())
        if cls.__name__ not in self.components:
            self.components[cls.__name__] = {}  # it may hold itself
            made = self._position() if cls is Position else self._struct(cls)
            self.components[cls.__name__] = {**made, **_described(cls)}
        return _reference(cls.__name__)

    def _struct(self, cls: type) -> Schema:
        fields = msgspec.structs.fields(cls)
        properties = {field.name: self.of(field.type) for field in fields}
        if cls is ResolvedView:
            properties["valid_at"] = _TIME
        return _object(properties, [field.name for field in fields])

    def _position(self) -> Schema:
        return _object({name: {"type": "integer"} for name in Position._fields}, list(Position._fields))

    def _union(self, options: tuple[Any, ...]) -> Schema:
        if set(options) == {bool, int, float, str}:
            return _VALUE
        if set(options) == {bool, int, float, str, NoneType}:
            return {"type": [*_VALUE["type"], "null"]}
        return {"anyOf": [self.of(option) for option in options]}

    def _event(self, name: str, prefix: str, filled_in: tuple[str, ...]) -> Schema:
        if name not in self.components:
            listed = [self._event_type(cls, prefix, filled_in) for cls in ev.EVENT_TYPES.values()]
            mapping = {kind: one["$ref"] for kind, one in zip(ev.EVENT_TYPES, listed, strict=True)}
            self.components[name] = {
                "oneOf": listed,
                "discriminator": {"propertyName": "type", "mapping": mapping},
            }
        return _reference(name)

    def _event_type(self, cls: type[ev.Event], prefix: str, filled_in: tuple[str, ...]) -> Schema:
        name = f"{prefix}{cls.__name__}"
        if name not in self.components:
            made = self._record(cls, filled_in, nullable=bool(filled_in))
            made["properties"] = {"type": {"const": cls.__name__}, **made["properties"]}
            made["required"] = ["type", *made["required"]]
            self.components[name] = made
        return _reference(name)

    def _record(self, cls: type[ev.Event] | type[ev.Part], filled_in: tuple[str, ...], *, nullable: bool) -> Schema:
        """A record in the events' own JSON form (`schemas.jsonform`), in which what is null is left out."""
        properties: dict[str, Schema] = {}
        required = []
        for field in msgspec.structs.fields(cls):
            made = self._field(cls, field.name, field.type, nullable=nullable)
            has_default = not (field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT)
            if not has_default and field.name not in filled_in:
                required.append(field.name)
            if nullable and has_default and field.default is None:
                made = {"anyOf": [made, {"type": "null"}]}
            properties[field.name] = made
        return _object(properties, required)

    def _field(self, cls: type[ev.Event] | type[ev.Part], name: str, shape: Any, *, nullable: bool) -> Schema:
        match kinds(cls)[name]:
            case "time":
                return {"anyOf": [_TIME, {"type": "integer"}]} if nullable else _TIME
            case "id":
                return _ID
            case "hash":
                return {"type": "string", "pattern": "^([0-9a-fA-F]{2})*$"}
            case "value":
                return _VALUE
            case "part":
                return self._record(part_type(cls, name), (), nullable=nullable)
            case "parts":
                return {"type": "array", "items": self._record(part_type(cls, name), (), nullable=nullable)}
        options = [option for option in get_args(shape) if option is not NoneType]
        if get_origin(shape) is UnionType and len(options) == 1:
            return self.of(options[0])
        return self.of(shape)


def _object(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _described(cls: type) -> Schema:
    text = (cls.__doc__ or "").strip()
    return {"description": " ".join(text.split())} if text and "msgspec" not in text else {}
