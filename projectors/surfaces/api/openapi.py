"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from projectors.surfaces.api.calls import EVENT_STREAM, POSITION_HEADER, SEEN_HEADER, Route
from projectors.surfaces.api.shapes import Schema, Shapes
from streams.wire import JSON, JSON_LINES, PROBLEM, PROBLEM_TYPE

VERSION = "1"

_NAMES = {
    "space": "The space, `/` written %2F.",
    "entity": "The entity.",
    "slot": "The slot.",
    "branch": "The branch.",
    "event_id": "The event's id, a UUID.",
}
_PROBLEMS = {
    HTTPStatus.BAD_REQUEST: "What was asked for or given is wrong",
    HTTPStatus.NOT_FOUND: "It names something that is not known",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is of no type that is taken",
    HTTPStatus.SERVICE_UNAVAILABLE: "Nobody can answer at the moment; ask again",
    HTTPStatus.GATEWAY_TIMEOUT: "The tables did not reach the offset in time",
    HTTPStatus.INSUFFICIENT_STORAGE: "There is no room on the disk",
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The document, as JSON values."""
    shapes = Shapes()
    shapes.components["Problem"] = _problem()
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, shapes)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "slotlog",
            "version": VERSION,
            "description": "Event-sourced memory for fleets of AI agents. Times are RFC 3339, bodies are UTF-8.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(shapes.components.items())),
            "responses": {str(int(status)): _problem_response(status) for status in _PROBLEMS},
        },
    }


def _operation(route: Route, shapes: Shapes) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": route.text,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": {
            **{str(int(status)): _answer(route, status, shapes) for status in route.statuses},
            **{str(int(status)): {"$ref": f"#/components/responses/{int(status)}"} for status in _problems_of(route)},
        },
    }
    if route.body:
        given = shapes.given_event()
        several = {"anyOf": [given, {"type": "array", "items": given}]}
        operation["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": several}, JSON_LINES: {"schema": {"type": "string"}}},
        }
    return operation


def operation_id(route: Route) -> str:
    """The route's name, unique in the document."""
    words = re.findall(r"[a-z0-9]+", route.path.replace("event_id", "event"))
    return "_".join((route.method.lower(), *words))


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _NAMES[name],
            "schema": {"type": "string", **({"format": "uuid"} if name == "event_id" else {})},
        }
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "in": "query",
            "required": one.required,
            "description": one.text,
            "schema": {"type": "array", "items": dict(one.schema)} if one.many else dict(one.schema),
        }
        for one in route.parameters
    ]


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    if route.media != EVENT_STREAM:
        return []
    text = "The id of the last message that came: goes on after it, and wins over since."
    return [
        {"name": "Last-Event-ID", "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
    ]


def _answer(route: Route, status: HTTPStatus, shapes: Shapes) -> dict[str, Any]:
    shape: Schema = {"type": "string"} if route.answer is None else shapes.of(route.answer)
    made: dict[str, Any] = {
        "description": "Not settled yet" if status == HTTPStatus.ACCEPTED else "Answered",
        "content": {route.media: {"schema": shape}},
    }
    if route.scope == "owner":
        made["headers"] = {
            POSITION_HEADER: {"description": "What the tables had reached, P:OFFSET.", "schema": {"type": "string"}}
        }
        if any(one.name.rpartition(".")[2] == "as_of" for one in route.parameters):
            made["headers"][SEEN_HEADER] = {
                "description": "Id of the newest event that counts in the answer's view.",
                "schema": {"type": "string", "format": "uuid"},
            }
    return made


def _problems_of(route: Route) -> list[HTTPStatus]:
    """What may go wrong, by who answers and what is taken."""
    found = [HTTPStatus.BAD_REQUEST]
    if route.scope in ("owner", "anywhere"):
        found += [HTTPStatus.NOT_FOUND, HTTPStatus.GATEWAY_TIMEOUT]
    if route.body:
        found += [HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE]
        found += [HTTPStatus.INSUFFICIENT_STORAGE]
    if HTTPStatus.SERVICE_UNAVAILABLE not in route.statuses:
        found.append(HTTPStatus.SERVICE_UNAVAILABLE)
    return sorted(found)


def _problem_response(status: HTTPStatus) -> dict[str, Any]:
    made: dict[str, Any] = {
        "description": _PROBLEMS[status],
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        text = "Seconds after which to ask again."
        made["headers"] = {"Retry-After": {"description": text, "schema": {"type": "integer"}}}
    return made


def _problem() -> Schema:
    text = {"type": "string"}
    return {
        "type": "object",
        "description": "RFC 9457. The last part of `type` is the class of the error.",
        "properties": {
            "type": {"type": "string", "pattern": f"^{PROBLEM_TYPE}[A-Za-z]+$"},
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "hint": {**text, "description": "What to do about it."},
            "field": {**text, "description": "The field of an event that is wrong."},
            "event": {"type": "integer", "description": "Which of several given events it is about, from 0."},
            "reached": {**text, "description": "What the tables had reached, P:OFFSET."},
        },
        "required": ["type", "title", "status", "detail"],
    }
