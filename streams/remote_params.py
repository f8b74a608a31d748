"""What goes into a URL: names, Views, points of the log. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import quote, urlencode

from schemas.checks import check_name, check_space
from schemas.errors import InvalidInput, InvalidView
from schemas.times import micros, rfc3339
from streams.branching import MAIN
from streams.memory import Point
from streams.view import View, refuse_unanswerable
from streams.wire import WAIT_S_MAX

Params = tuple[tuple[str, str], ...]


def query(params: Params) -> str:
    """`?…`, percent-encoded; nothing for no parameters."""
    try:
        return f"?{urlencode(params, quote_via=quote)}" if params else ""
    except UnicodeEncodeError as error:
        raise InvalidInput("half a surrogate pair is no text") from error


def of_space(space: str) -> str:
    check_space(space)
    return f"/v1/spaces/{quote(space, safe='')}"


def of_slot(space: str, entity: str, slot: str) -> str:
    return f"{of_space(space)}/facts/{part('entity', entity)}/{part('slot', slot)}"


def part(field: str, name: str) -> str:
    """A name as a part of a path. `.` and `..` would be taken for steps."""
    check_name(field, name)
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def of_view(view: View, prefix: str) -> Iterator[tuple[str, str]]:
    """The parameters of a View; what it does not say is left out."""
    refuse_unanswerable(view)
    as_of, valid_at = view.as_of, view.valid_at
    if isinstance(as_of, datetime):
        yield f"{prefix}as_of", rfc3339(micros(as_of, "as_of"))
    elif isinstance(as_of, tuple):
        yield f"{prefix}as_of", f"{as_of[0]}:{as_of[1]}"
    elif type(as_of) is int:
        yield f"{prefix}as_of", str(as_of)
    elif as_of is not None:
        raise InvalidView(f"as_of must be an offset, a Position or an aware datetime, not {as_of!r}")
    if valid_at is not None:
        yield f"{prefix}valid_at", rfc3339(micros(valid_at, "valid_at"))
    if view.branch != MAIN:
        yield f"{prefix}branch", view.branch
    if view.at_sha is not None:
        yield f"{prefix}at_sha", view.at_sha
    for sha in view.also_at:
        yield f"{prefix}also_at", sha
    if view.trust != "candidate":
        yield f"{prefix}trust", view.trust
    for actor in view.without_actors:
        yield f"{prefix}without_actor", actor


def of_point(point: Point | None) -> str | None:
    if isinstance(point, datetime):
        return rfc3339(micros(point, "time"))
    if isinstance(point, tuple):
        return f"{point[0]}:{point[1]}"
    if point is not None and (isinstance(point, bool) or not isinstance(point, int)):
        raise InvalidView(f"a point of the log is an offset, a Position or an aware datetime, not {point!r}")
    return None if point is None else str(point)


def limit(items: int) -> tuple[str, str]:
    return ("limit", str(items))


def timeout(seconds: float) -> tuple[str, str]:
    return ("timeout", f"{min(seconds, WAIT_S_MAX):g}")
