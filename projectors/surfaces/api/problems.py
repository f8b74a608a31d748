"""Errors as application/problem+json: `urn:slotlog:problem:` and the name of the class in `schemas.errors`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from schemas import errors
from schemas.errors import InvalidEvent, NotReached, SlotlogError
from streams.wire import PROBLEM, PROBLEM_TYPE

RETRY_AFTER_S = 1

_STATUS: tuple[tuple[type[SlotlogError], HTTPStatus], ...] = (
    (errors.NotReached, HTTPStatus.GATEWAY_TIMEOUT),
    (errors.Unavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.StoreClosed, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.StoreFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (errors.NotFound, HTTPStatus.NOT_FOUND),
    (errors.InvalidInput, HTTPStatus.BAD_REQUEST),
)
_log = logging.getLogger("slotlog.api")


class Problem:
    """The object that tells of an error; its schema is written by hand."""


class Refused(errors.InvalidInput):
    """A request that HTTP has a status of its own for."""

    def __init__(
        self, status: HTTPStatus, message: str, *, hint: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.headers = headers or {}


class RefusedEvent(Exception):
    """One of several events can't be appended: `number` from 0."""

    def __init__(self, error: InvalidEvent, number: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.number = number


def problem(error: SlotlogError, event: int | None = None) -> dict[str, Any]:
    """The error as JSON values. `event`: which of several given events it is about, from 0."""
    cls = next(one for one in type(error).__mro__ if one.__module__ == errors.__name__)
    title = (cls.__doc__ or cls.__name__).partition("\n")[0].partition(". ")[0].rstrip(".").replace("`", "")
    told: dict[str, Any] = {
        "type": f"{PROBLEM_TYPE}{cls.__name__}",
        "title": title,
        "status": int(status_of(error)),
        "detail": str(error),
    }
    if error.hint is not None:
        told["hint"] = error.hint
    if isinstance(error, InvalidEvent):
        told["field"] = error.field
    if isinstance(error, NotReached):
        told["reached"] = error.reached
    if event is not None:
        told["event"] = event
    return told


def status_of(error: SlotlogError) -> HTTPStatus:
    """The status that the error is told with."""
    if isinstance(error, Refused):
        return error.status
    return next((status for cls, status in _STATUS if isinstance(error, cls)), HTTPStatus.INTERNAL_SERVER_ERROR)


def told(error: SlotlogError, event: int | None = None) -> web.Response:
    """The response that tells of the error."""
    response = _response(problem(error, event))
    if isinstance(error, Refused):
        response.headers.update(error.headers)
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def told_of(error: Exception, request: web.Request) -> web.Response:
    """The response that tells of whatever went wrong; what was not meant to is logged, and not told."""
    match error:
        case RefusedEvent():
            return told(error.error, error.number)
        case SlotlogError():
            if status_of(error) == HTTPStatus.INTERNAL_SERVER_ERROR:
                log_failure(error, request)
            return told(error)
        case web.HTTPException():
            return told_of_http(error, request)
    log_unexpected(error, request)
    internal = {
        "type": f"{PROBLEM_TYPE}Internal",
        "title": "An error in slotlog itself",
        "status": int(HTTPStatus.INTERNAL_SERVER_ERROR),
        "detail": "this should not have happened; the server's log says more",
    }
    return _response(internal)


def told_of_http(error: web.HTTPException, request: web.Request) -> web.Response:
    """What aiohttp found wrong: no such page, or no such method of it."""
    status = HTTPStatus(error.status)
    allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    if status == HTTPStatus.NOT_FOUND:
        text = f"nothing is at {request.path}"
        return told(errors.NotFound(text, hint="GET /v1/openapi.json lists what there is"))
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return told(Refused(status, f"{request.method} does nothing at {request.path}", headers=allowed))
    return told(Refused(status, error.reason or status.phrase, headers=allowed))


def log_failure(error: SlotlogError, request: web.Request) -> None:
    """Where an error goes that says itself what is wrong, and that the client can't be told or can't help."""
    _log.error("%s %s: %s", request.method, request.path, error)


def log_unexpected(error: BaseException, request: web.Request) -> None:
    """Where an error goes that nobody expected."""
    _log.error("%s %s failed", request.method, request.path, exc_info=error)


def _response(problem: dict[str, Any]) -> web.Response:
    return web.Response(status=problem["status"], body=msgspec.json.encode(problem), content_type=PROBLEM)
