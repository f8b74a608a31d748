"""The JSON form of an event: `{"type": "FactAsserted", …}`, for people, `slotlog append` and other programs.

Field for field the Avro record, with ids as UUID text, times as RFC 3339, hashes as hexadecimal, and fields that are
null left out. Numbers keep their type: `1` is a long and `1.0` a double.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from schemas import events as ev
from schemas.checks import invalid_from
from schemas.errors import InvalidEvent, InvalidInput
from schemas.fields import kinds, part_type
from schemas.times import parse_time, rfc3339


def to_json(event: ev.Event) -> dict[str, Any]:
    """The event as plain JSON values, `type` first."""
    return {"type": type(event).__name__, **_fields_to_json(event)}


def from_json(given: Mapping[str, Any]) -> ev.Event:
    """The event in its JSON form. `check_given` is still to be called on it.

    Raises:
        InvalidEvent: a field is unknown, missing, or has another type; it names the field.
    """
    if not isinstance(given, Mapping):
        raise InvalidEvent("event", f"must be a JSON object, not {type(given).__name__}")
    name = given.get("type")
    if name is None:
        raise InvalidEvent("type", "is missing", hint="say which event it is, for example FactAsserted")
    cls = ev.EVENT_TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        near = difflib.get_close_matches(str(name), ev.EVENT_TYPES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(ev.EVENT_TYPES)}"
        raise InvalidEvent("type", f"{name!r} is no event type", hint=hint)
    fields = {field: value for field, value in given.items() if field != "type"}
    try:
        return msgspec.convert(_fields_from_json(cls, fields, ""), cls)
    except msgspec.ValidationError as error:
        raise invalid_from(error, cls) from error


def id_text(event_id: bytes) -> str:
    """UUID text of 16 bytes."""
    return str(UUID(bytes=event_id))


def parse_id(text: Any, field: str = "event_id") -> bytes:
    """16 bytes of UUID text, of a UUID, or of 16 bytes.

    Raises:
        InvalidEvent: it is none of these.
    """
    if isinstance(text, UUID):
        return text.bytes
    if isinstance(text, bytes) and len(text) == 16:
        return text
    try:
        return UUID(text).bytes
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidEvent(
            field, f"{text!r} is no event id", hint="an event id is a UUID, as every answer shows it"
        ) from error


def _fields_to_json(record: ev.Event | ev.Part) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, kind in kinds(type(record)).items():
        value = getattr(record, name)
        if value is None or value == {}:
            continue
        match kind:
            case "time":
                out[name] = rfc3339(value)
            case "id":
                out[name] = id_text(value)
            case "hash":
                out[name] = value.hex()
            case "part":
                out[name] = _fields_to_json(value)
            case "parts":
                out[name] = [_fields_to_json(one) for one in value]
            case _:
                out[name] = list(value) if isinstance(value, tuple) else value
    return out


def _fields_from_json(cls: type[ev.Event] | type[ev.Part], given: Mapping[str, Any], path: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    known = kinds(cls)
    for name, value in given.items():
        kind = known.get(name, "other")
        where = path + name
        try:
            if value is None:
                out[name] = None
            elif kind == "time":
                if type(value) is int:
                    out[name] = value
                    continue
                if not isinstance(value, str):
                    raise InvalidEvent(where, f"must be RFC 3339 text, not {value!r}")
                out[name] = parse_time(value, "time")
            elif kind == "id":
                out[name] = parse_id(value, where)
            elif kind == "hash":
                out[name] = bytes.fromhex(value)
            elif kind == "part" and isinstance(value, Mapping):
                out[name] = _fields_from_json(part_type(cls, name), value, f"{where}.")
            elif kind == "parts" and isinstance(value, list):
                part = part_type(cls, name)
                out[name] = [
                    _fields_from_json(part, one, f"{where}[{number}].") if isinstance(one, Mapping) else one
                    for number, one in enumerate(value)
                ]
            else:
                out[name] = value
        except InvalidEvent:
            raise
        except InvalidInput as error:
            raise InvalidEvent(where, str(error), hint=error.hint) from error
        except (ValueError, TypeError) as error:
            raise InvalidEvent(where, f"{value!r} is no hexadecimal text") from error
    return out
