"""The OpenAPI document: valid, of all routes and no others, and true of real answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from aiohttp import web
from api_client import ALICE, AT, Reply, api, ask, filled
from api_client import SPACE as NAME
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from samples import all_samples, full

from projectors.surfaces.api import Limits, install
from projectors.surfaces.api.openapi import document, operation_id
from projectors.surfaces.api.routes import ROUTES
from schemas import events as ev
from schemas.jsonform import to_json
from streams import Memory
from streams.local import LocalMemory
from streams.metrics import Metrics
from streams.status import Alone

DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document(ROUTES)))


def validate(schema: Any, found: Any) -> None:
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(found)


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with filled() as opened:
        yield opened


@pytest.fixture(scope="module")
def url(memory: Memory) -> Iterator[str]:
    with api(memory) as url:
        yield url


def test_it_is_valid() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    for name, schema in DOCUMENT["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert schema, name


def test_it_has_every_route_and_no_other(memory: Memory) -> None:
    assert isinstance(memory, LocalMemory)
    app = web.Application()
    install(app, memory, Alone(memory), Metrics(), Limits())
    registered = {(route.method, route.resource.canonical) for route in app.router.routes() if route.resource}
    described = {(method.upper(), path) for path, operations in DOCUMENT["paths"].items() for method in operations}
    assert {one for one in registered if one[0] != "HEAD"} == described
    assert {path for method, path in registered if method == "HEAD"} == {p for m, p in described if m == "GET"}


def test_operations_have_names_of_their_own() -> None:
    assert len({operation_id(route) for route in ROUTES}) == len(ROUTES)


def test_it_is_served(url: str) -> None:
    assert ask(url, "/v1/openapi.json").json == DOCUMENT


SPACE_ROUTES = [route for route in ROUTES if route.method == "GET" and route.answer is not None]


@pytest.mark.parametrize("route", SPACE_ROUTES, ids=operation_id)
def test_real_answers_are_as_described(url: str, memory: Memory, route: Any) -> None:
    names = {"space": quote(NAME, safe=""), "entity": ALICE, "branch": "draft"}
    receipt = memory.remember(NAME, ALICE, "note", "x")
    for slot in ("employer", "tag", "age", "secret", "none") if "{slot}" in route.path else ("",):
        path = route.path.format(**names, slot=slot, event_id=receipt.event_id)
        query = f"?position={receipt.position}" if "receipts" in path else "?a.as_of=1" if "diff" in path else ""
        reply = ask(url, path + query)
        assert reply.status == 200, reply.body
        told = DOCUMENT["paths"][route.path]["get"]["responses"]["200"]
        validate(told["content"][reply.headers["content-type"]]["schema"], reply.json)
        described = {header.lower() for header in told.get("headers", {})}
        assert {header for header in reply.headers if header.startswith("slotlog")} <= described


def described(route: str, method: str, reply: Reply) -> Any:
    told = DOCUMENT["paths"][route][method]["responses"][str(reply.status)]
    if "$ref" in told:
        told = DOCUMENT["components"]["responses"][told["$ref"].rsplit("/", 1)[1]]
    return told["content"][reply.headers["content-type"]]["schema"]


def test_writes_and_problems_are_as_described(url: str) -> None:
    route = "/v1/spaces/{space}/events"
    fact = {"type": "FactAsserted", "entity": ALICE, "slot": "note", "value": 1}
    for body in (fact, [fact, fact], [fact, {**fact, "value": None}], {}, b"{"):
        reply = ask(url, f"{AT}/events", "POST", body)
        validate(described(route, "post", reply), reply.json)
        if not isinstance(body, bytes):
            checked = ask(url, f"{AT}/events/check", "POST", body)
            validate(described(f"{route}/check", "post", checked), checked.json)
    fact_route = "/v1/spaces/{space}/facts/{entity}/{slot}"
    for query in ("?x=1", "?min_offset=999999&timeout=0"):
        reply = ask(url, f"{AT}/facts/a/b{query}")
        validate(described(fact_route, "get", reply), reply.json)


def test_every_kind_of_event_is_described() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for event in all_samples():
        form = to_json(event)
        for name in ("Event", "GivenEvent"):
            validate(schemas[name], form)
        assert set(form) <= set(schemas[type(event).__name__]["properties"])
    for cls in ev.EVENT_TYPES.values():
        form = to_json(full(cls))
        assert set(form) <= set(schemas[cls.__name__]["properties"])
        given = {name: one for name, one in form.items() if name not in ("event_id", "recorded_at", "actor", "space")}
        validate(schemas["GivenEvent"], given)
        with pytest.raises(Exception, match="is not valid under any of the given schemas"):
            validate(schemas["Event"], {**form, "recorded_at": 7})
