"""What other workers are asked: a request passed on to the one that has the space, or the same question to all.

A question is passed on once. Where no answer has begun, a worker that can't be reached is a 503; where one has, the
connection breaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

import msgspec
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector, hdrs, web
from yarl import URL

from projectors.surfaces.api.calls import HOP, PARTITIONS_HEADER
from projectors.surfaces.api.streaming import Stream, streamed
from schemas.errors import NotServing

T = TypeVar("T")

CONNECT_S = 3.0
SILENCE_S = 120.0
"""The longest that another worker may say nothing while it has the space; that it lost it is noticed within WATCH_S."""
WATCH_S = 0.5

_HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
_OURS = {"host", "content-length", "expect", HOP.lower()}
_NOT_ADDED = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.USER_AGENT, hdrs.CONTENT_TYPE)


class Told(NamedTuple):
    """What another worker answered: JSON, and the partitions that it covers."""

    url: str
    partitions: list[int]
    found: Any


class Silent(NamedTuple):
    """Another worker that has no answer, and why."""

    url: str
    why: str


class Proxy:
    """Connections to the other workers. `open` it in the event loop."""

    def __init__(self) -> None:
        self._session: ClientSession | None = None

    async def open(self) -> None:
        self._session = ClientSession(
            connector=TCPConnector(limit=0),
            timeout=ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S),
            auto_decompress=False,
            skip_auto_headers=_NOT_ADDED,
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def pass_on(
        self, request: web.Request, url: str, body: bytes | None, still_there: Callable[[], bool]
    ) -> web.StreamResponse:
        """The answer of the worker at `url`. `still_there`: whether it is still the one to ask.

        Raises:
            NotServing: it gives none.
        """
        assert self._session is not None
        headers = [*_kept(request.headers, _OURS), (HOP, "1")]
        asking = self._session.request(
            request.method, _target(url, request), headers=headers, data=body, allow_redirects=False
        )
        try:
            got = await _unless_moved(asyncio.ensure_future(_opened(asking)), still_there)
        except (ClientError, OSError, TimeoutError) as error:
            raise NotServing(
                f"the worker at {url}, which has the space, does not answer: {_said(error)}", hint="ask again"
            ) from error
        try:
            response = Stream(status=got.status, reason=got.reason, headers=_kept(got.headers, set()))
            return await streamed(request, response, _pieces(got, still_there))
        finally:
            got.close()

    async def ask(self, url: str, path: str, timeout_s: float) -> Told | Silent:
        """What the worker at `url` alone says to GET `path`."""
        assert self._session is not None
        timeout = ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        try:
            target = URL(f"{url}{path}", encoded=True)
            async with self._session.get(target, headers={HOP: "1"}, timeout=timeout, allow_redirects=False) as got:
                found = msgspec.json.decode(await got.read())
                if got.status != HTTPStatus.OK:
                    return Silent(url, str(found["detail"]))
                numbers = got.headers.get(PARTITIONS_HEADER, "")
                return Told(url, [int(number) for number in numbers.split(",") if number], found)
        except (ClientError, OSError, TimeoutError) as error:
            return Silent(url, f"{url} does not answer: {_said(error)}")
        except (ValueError, KeyError, TypeError, msgspec.DecodeError):
            return Silent(url, f"{url} does not answer as a worker does")


async def _opened(asking: Any) -> ClientResponse:
    found: ClientResponse = await asking
    return found


async def _unless_moved(asked: asyncio.Task[T], still_there: Callable[[], bool]) -> T:
    """What the other worker says next, unless the space moves to another one before that."""
    try:
        while not asked.done():
            await asyncio.wait((asked,), timeout=WATCH_S)
            if not asked.done() and not still_there():
                raise NotServing("the space moved to another worker meanwhile", hint="ask again: it is routed anew")
        return asked.result()
    finally:
        if not asked.done():
            asked.cancel()
            await asyncio.wait((asked,))


async def _pieces(got: ClientResponse, still_there: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """The answer's body.

    Raises:
        ConnectionResetError: it broke off, or nothing more is to be expected of that worker.
    """
    try:
        while piece := await _unless_moved(asyncio.ensure_future(got.content.readany()), still_there):
            yield piece
    except (ClientError, TimeoutError, NotServing) as error:
        raise ConnectionResetError(_said(error)) from error


def _target(url: str, request: web.Request) -> URL:
    """The same path and query at another worker, byte for byte."""
    path, query = request.rel_url.raw_path, request.rel_url.raw_query_string
    return URL(f"{url}{path}?{query}" if query else f"{url}{path}", encoded=True)


def _kept(headers: Mapping[str, str], without: set[str]) -> list[tuple[str, str]]:
    """Headers that go from end to end."""
    named = {name.strip().lower() for name in headers.get(hdrs.CONNECTION, "").split(",")}
    dropped = _HOP_BY_HOP | named | without
    return [(name, value) for name, value in headers.items() if name.lower() not in dropped]


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
