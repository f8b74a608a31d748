"""The HTTP API, on an aiohttp application of whoever serves it. The only package of projectors that imports aiohttp."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from projectors.surfaces.api.asking import Asked, Limits
from projectors.surfaces.api.calls import Api, Call, Route, encoded
from projectors.surfaces.api.openapi import document
from projectors.surfaces.api.params import names_in, parameters_in
from projectors.surfaces.api.problems import Refused, told_of
from projectors.surfaces.api.proxying import Proxy
from projectors.surfaces.api.routes import ROUTES
from projectors.surfaces.api.streaming import Stream
from schemas.errors import InvalidInput
from streams import clock
from streams.local import LocalMemory
from streams.metrics import Metrics
from streams.ports import Fleet

__all__ = ["Limits", "install"]


def install(app: web.Application, memory: LocalMemory, fleet: Fleet, metrics: Metrics, limits: Limits) -> None:
    """Put the API on `app`, which is not started yet. The memory is the caller's to close, after the app's cleanup."""
    api = Api(memory, fleet, metrics, limits, Asked(memory, fleet, limits), Proxy(), encoded(document(ROUTES)))

    async def opened(_: web.Application) -> None:
        await api.proxy.open()

    async def closing(_: web.Application) -> None:
        api.closing = True

    async def closed(_: web.Application) -> None:
        await api.proxy.close()
        await api.asked.close()

    for route in ROUTES:
        _add(app, api, route)
    app.middlewares.append(_answering(api))
    app.on_startup.append(opened)
    app.on_shutdown.append(closing)
    app.on_cleanup.append(closed)


def _add(app: web.Application, api: Api, route: Route) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        call = Call(
            api,
            route,
            request,
            names_in(request.rel_url.raw_path, route.path),
            parameters_in(request.rel_url.raw_query_string, route.parameters),
        )
        if route.body:
            call.body = await _body(request, api.limits)
        if route.scope == "owner" and (url := call.elsewhere()) is not None:
            return await call.pass_on(url)
        return await route.handler(call)

    app.router.add_route(route.method, route.pattern, handle)
    if route.method == hdrs.METH_GET:
        app.router.add_route(hdrs.METH_HEAD, route.pattern, handle)


def _answering(api: Api) -> Middleware:
    """Every error told in one form, whoever found it, and every answer counted."""

    @web.middleware
    async def answering(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = clock.monotonic_s()
        try:
            response = await handler(request)
        except ConnectionError as error:
            if request.transport is None or request.transport.is_closing():
                raise  # nobody is there to be told
            response = told_of(error, request)
        except web.HTTPMethodNotAllowed as error:
            if request.method != hdrs.METH_OPTIONS:
                response = told_of(error, request)
            else:
                allowed = ",".join(sorted({*error.allowed_methods, hdrs.METH_OPTIONS}))
                response = web.Response(status=HTTPStatus.NO_CONTENT, headers={hdrs.ALLOW: allowed})
        except web.HTTPException as error:
            if error.status < HTTPStatus.BAD_REQUEST:
                raise
            response = told_of(error, request)
        except Exception as error:  # noqa: BLE001  told and logged
            response = told_of(error, request)
        resource = request.match_info.route.resource
        route = "other" if resource is None else resource.canonical
        ended = response.head_sent_s if isinstance(response, Stream) else None
        api.metrics.answered(route, response.status, (clock.monotonic_s() if ended is None else ended) - began)
        return response

    return answering


async def _body(request: web.Request, limits: Limits) -> bytes:
    """The body, as long as it is not too large.

    Raises:
        InvalidInput: it broke off, or its encoding is damaged.
    """
    most = limits.max_body_bytes
    too_large = Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than the {most:,} bytes that one request takes",
        hint="append fewer events at a time",
    )
    if (request.content_length or 0) > most:
        raise too_large
    found = bytearray()
    try:
        async for piece in request.content.iter_any():
            found += piece
            if len(found) > most:
                raise too_large
    except (web.RequestPayloadError, web.HTTPException, OSError) as error:
        raise InvalidInput("the body broke off, or is not encoded as it says") from error
    return bytes(found)
