"""Cursors: where a page ended and what it was a page of, as text that only the same list takes back."""

from __future__ import annotations

import base64
import hashlib
from typing import Annotated, Any

import msgspec

from schemas.errors import InvalidInput
from schemas.times import EARLIEST, LATEST
from streams.view import ResolvedView
from streams.wire import Unreadable, plain, typed

HINT = "give back `next` of the page before as it came, to the same path"


class Cursor(msgspec.Struct, frozen=True):
    """`start` is where the next page begins, in whatever the list counts; `views` are what it is seen through, and
    `names` what else narrows it."""

    start: int | str
    views: tuple[ResolvedView, ...] = ()
    names: dict[str, str] = {}


class _Wire(msgspec.Struct, forbid_unknown_fields=True):
    start: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] | str
    views: list[Any]
    names: dict[str, str]
    check: str


def written(cursor: Cursor, of: str) -> str:
    """The cursor as text. `of` names the list."""
    wire = _Wire(cursor.start, plain(cursor.views), cursor.names, "")
    wire.check = _check(wire, of)
    return base64.urlsafe_b64encode(msgspec.json.encode(wire)).decode().rstrip("=")


def read(text: str, of: str) -> Cursor:
    """
    Raises:
        InvalidInput: the text is no cursor of the list `of`.
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
        wire = msgspec.json.decode(data, type=_Wire)
        given, wire.check = wire.check, ""
        views = tuple(typed(ResolvedView, one) for one in wire.views)
        if given != _check(wire, of) or not all(EARLIEST <= one.valid_at <= LATEST for one in views):
            raise Unreadable("of another list")
        return Cursor(wire.start, views, wire.names)
    except (ValueError, TypeError, KeyError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("cursor is none that this list gave", hint=HINT) from error


def _check(wire: _Wire, of: str) -> str:
    """Tells a cursor of another list, or one that was tampered with by mistake; it is no protection against malice,
    and needs none: a cursor says nothing that parameters could not."""
    return hashlib.sha256(of.encode() + b"\0" + msgspec.json.encode(wire)).hexdigest()[:16]
