"""The parts of the HTTP API that need no server: what a URL says, cursors, and how errors are told."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from projectors.surfaces.api import cursors, params
from projectors.surfaces.api.cursors import Cursor
from projectors.surfaces.api.problems import Refused, problem, status_of, told
from schemas import errors
from schemas.errors import InvalidInput, SlotlogError
from schemas.times import EARLIEST, LATEST, instant, micros, rfc3339
from streams.ports import Position
from streams.view import ResolvedView, View
from streams.wire import PROBLEM_TYPE

TEXT = st.text(st.characters(codec="utf-8"))
OF = "/v1/spaces/{space}/timeline"


def quoted(text: str) -> str:
    """Every byte percent-encoded."""
    return "".join(f"%{byte:02x}" for byte in text.encode())


# Names and parameters.


@given(TEXT)
@examples(200)
def test_percent_encoding_is_undone(text: str) -> None:
    assert params.decoded(quoted(text), "it") == text
    assert params.decoded(text.replace("%", "%25"), "it") == text


@pytest.mark.parametrize("text", ["%", "%1", "%zz", "a%", "%ff", "%c3", "%ed%a0%80", "%C3%28", "\udcff"])
def test_what_is_not_percent_encoded_utf8(text: str) -> None:
    with pytest.raises(InvalidInput, match="percent-encoded"):
        params.decoded(text, "it")


def test_names_in_a_path() -> None:
    path, pattern = "/v1/spaces/acme%2Fsupport/facts/a%252Fb/%2E%2E", "/v1/spaces/{space}/facts/{entity}/{slot}"
    assert params.names_in(path, pattern) == {"space": "acme/support", "entity": "a%2Fb", "slot": ".."}
    for wrong in ("/v1/spaces/a%2F/facts/b/c", "/v1/spaces/a/facts/%00/c", f"/v1/spaces/a/facts/b/{'x' * 513}"):
        with pytest.raises(errors.InvalidEvent):
            params.names_in(wrong, pattern)


def test_parameters_of_a_query() -> None:
    known = (*params.view_parameters(), *params.PAGING)
    found = params.parameters_in("as_of=0:7&without_actor=a&&without_actor=user%3A%20b+c&limit=5&trust=", known)
    assert found == {"as_of": Position(0, 7), "without_actor": ["a", "user: b c"], "limit": 5, "trust": ""}
    view = params.view_in(found)
    assert view == View(as_of=Position(0, 7), trust="", without_actors=("a", "user: b c"))
    assert params.view_in(params.parameters_in("", known)) == View()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("nope=1", "no parameter"),
        ("limit=1&limit=1", "twice"),
        ("as_of=1&as_of=1", "twice"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=²", "limit"),
        ("limit", "limit"),
        ("as_of=", "as_of"),
        ("as_of=yesterday", "as_of"),
        ("as_of=1:2:3", "as_of"),
        ("as_of=2026-01-01", "as_of"),
        ("as_of=2026-01-01T00:00:00", "zone"),
        ("as_of=99999999999999999999", "as_of"),
        ("valid_at=0001-01-01T00:00:00%2B14:00", "years"),
        ("valid_at=9999-12-31T23:59:59-14:00", "years"),
        ("valid_at=5", "valid_at"),
        ("without_actor=", "without_actor"),
        ("limit=%zz", "percent-encoded"),
        ("%ff=1", "percent-encoded"),
    ],
)
def test_a_wrong_query(query: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        params.parameters_in(query, (*params.view_parameters(), *params.PAGING))


@pytest.mark.parametrize("text", ["-1", "61", "nan", "inf", "1e1", "", "²", "0x1", "1_0", " 1"])
def test_seconds_are_a_plain_number_up_to_a_minute(text: str) -> None:
    with pytest.raises(InvalidInput):
        params.seconds("timeout", text)
    assert params.seconds("timeout", "0") == 0.0
    assert params.seconds("timeout", "60.0") == 60.0


def test_a_required_parameter_is_missed() -> None:
    with pytest.raises(InvalidInput, match="position is missing"):
        params.parameters_in("", (params.POSITION,))


@given(st.integers(EARLIEST, LATEST), st.sampled_from(["Z", "+00:00", " 00:00"]))
@examples(100)
def test_times_come_back(at: int, zone: str) -> None:
    text = rfc3339(at).replace("Z", zone)
    assert micros(params.time("as_of", text)) == at
    assert params.point("as_of", text) == instant(at)


# Cursors.

VIEWS = st.builds(
    ResolvedView,
    as_of=st.builds(Position, st.integers(0, 9), st.integers(-1, 2**40)),
    valid_at=st.integers(EARLIEST, LATEST),
    trust=st.sampled_from(["candidate", "verified"]),
    without_actors=st.lists(TEXT, max_size=3).map(tuple),
)


@given(st.integers(0, 2**40) | TEXT, st.lists(VIEWS, max_size=2), st.dictionaries(TEXT, TEXT, max_size=2))
@examples(100)
def test_a_cursor_comes_back(start: int | str, views: list[ResolvedView], names: dict[str, str]) -> None:
    cursor = Cursor(start, tuple(views), names)
    text = cursors.written(cursor, OF)
    assert cursors.read(text, OF) == cursor
    with pytest.raises(InvalidInput):
        cursors.read(text, "/v1/spaces/{space}/sessions")


@given(TEXT | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
@examples(200)
def test_other_text_is_no_cursor(text: str) -> None:
    with pytest.raises(InvalidInput):
        cursors.read(text, OF)


def forged(**changes: Any) -> str:
    """A cursor with a right checksum and other contents."""
    view = {"as_of": {"partition": 0, "offset": 1}, "valid_at": "2026-01-01T00:00:00Z"}
    fields = {"start": 0, "views": [view], "names": {}, "check": "", **changes}
    wire = msgspec.convert(fields, cursors._Wire, strict=False) if not changes.get("raw") else None
    if wire is not None:
        fields["check"] = cursors._check(wire, OF)
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()


@pytest.mark.parametrize(
    "views",
    [
        [{}],
        [1],
        [{"as_of": 1, "valid_at": "2026-01-01T00:00:00Z"}],
        [{"as_of": {"partition": 0, "offset": 1}, "valid_at": "0001-01-01T00:00:00+14:00"}],
        [{"as_of": {"partition": 0, "offset": 1}, "valid_at": 7}],
        [{"as_of": {"partition": 0, "offset": 1}, "valid_at": "x"}],
        [{"as_of": {"partition": 0, "offset": 1}}],
    ],
)
def test_a_forged_cursor_is_refused(views: list[Any]) -> None:
    assert cursors.read(forged(), OF).start == 0
    with pytest.raises(InvalidInput):
        cursors.read(forged(views=views), OF)


def test_a_forged_start_is_refused() -> None:
    for start in (-1, 2**62, 1.5, None):
        data = {"start": start, "views": [], "names": {}, "check": ""}
        with pytest.raises(InvalidInput):
            cursors.read(base64.urlsafe_b64encode(json.dumps(data).encode()).decode(), OF)


# Problems.


def every_error() -> list[type[SlotlogError]]:
    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SlotlogError)]
    assert len(found) > 15
    return found


def made(cls: type[SlotlogError]) -> SlotlogError:
    if cls is errors.InvalidEvent:
        return errors.InvalidEvent("value", "is wrong", hint="do it right")
    if cls is errors.NotReached:
        return errors.NotReached("not there", reached="0:7", hint="wait")
    return cls("it is wrong", hint="do it right")


@pytest.mark.parametrize("cls", every_error())
def test_every_error_has_its_status_and_class(cls: type[SlotlogError]) -> None:
    error = made(cls)
    found = problem(error)
    assert found["type"] == f"{PROBLEM_TYPE}{cls.__name__}"
    assert (found["detail"], found["hint"]) == (str(error), error.hint)
    assert found["title"]
    assert "`" not in found["title"]
    if issubclass(cls, errors.NotReached):
        expected = 504
    elif issubclass(cls, errors.Unavailable | errors.StoreClosed):
        expected = 503
    elif issubclass(cls, errors.NotFound):
        expected = 404
    elif issubclass(cls, errors.InvalidInput):
        expected = 400
    else:
        expected = 507 if cls is errors.StoreFull else 500
    assert found["status"] == status_of(error) == expected
    response = told(error)
    assert response.status == expected
    assert ("Retry-After" in response.headers) is (expected == 503)
    assert ("field" in found) is (cls is errors.InvalidEvent)
    assert found.get("reached") == ("0:7" if cls is errors.NotReached else None)


def test_a_refusal_is_invalid_input_with_a_status_of_its_own() -> None:
    from http import HTTPStatus

    error = Refused(HTTPStatus.METHOD_NOT_ALLOWED, "no", headers={"Allow": "GET"})
    assert problem(error)["type"] == f"{PROBLEM_TYPE}InvalidInput"
    assert (told(error).status, told(error).headers["Allow"]) == (405, "GET")
