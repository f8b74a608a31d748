"""HTTP for the remote Memory: requests out, replies in, no judgement. The only file that imports httpx."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import httpx

from schemas.errors import InvalidInput
from streams.remote_exchange import Broken, Reply, Request
from streams.remote_params import query
from streams.wire import JSON

CONNECT_S = 5.0
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30.0)
_HEADERS = {"user-agent": "slotlog"}

_left_by_fork: list[httpx.Client] = []
"""Clients of a parent process: closing them here would speak on its connections."""


class Client:
    """Connections to one server, for several threads. In a child that was forked it has connections of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pid = os.getpid()
        self._client = httpx.Client(limits=_LIMITS, headers=_HEADERS)

    def send(self, request: Request) -> Reply | Broken:
        """
        Raises:
            InvalidInput: the URL would be too long.
            RuntimeError: it is closed.
        """
        self._mind_fork()
        try:
            response = self._client.send(_built(self._client, self._url, request), stream=request.stream)
            if request.stream and response.status_code != httpx.codes.OK:
                response.read()
                return _reply(response)
            return _reply(response, Body(response) if request.stream else None)
        except httpx.HTTPError as error:
            return Broken(error)

    def close(self) -> None:
        """Twice is harmless."""
        self._mind_fork()
        self._client.close()

    def _mind_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            _left_by_fork.append(self._client)
            self._client = httpx.Client(limits=_LIMITS, headers=_HEADERS)


class Body:
    """The body of a reply, read as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    def pieces(self) -> Iterator[bytes]:
        """
        Raises:
            ConnectionError: it broke off.
        """
        try:
            yield from self._response.iter_bytes()
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        self._response.close()


class AsyncClient:
    """Connections to one server, for one event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.AsyncClient(limits=_LIMITS, headers=_HEADERS)

    async def send(self, request: Request) -> Reply | Broken:
        """See `Client.send`."""
        try:
            response = await self._client.send(_built(self._client, self._url, request), stream=request.stream)
            if request.stream and response.status_code != httpx.codes.OK:
                await response.aread()
                return _reply(response)
            return _reply(response, AsyncBody(response) if request.stream else None)
        except httpx.HTTPError as error:
            return Broken(error)

    async def close(self) -> None:
        """Twice is harmless."""
        await self._client.aclose()


class AsyncBody:
    """See `Body`."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def pieces(self) -> AsyncIterator[bytes]:
        """See `Body.pieces`."""
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise ConnectionError(str(error)) from error

    async def close(self) -> None:
        await self._response.aclose()


def _built(client: httpx.Client | httpx.AsyncClient, url: str, request: Request) -> httpx.Request:
    try:
        return client.build_request(
            request.method,
            f"{url}{request.path}{query(request.params)}",
            content=request.body,
            headers=None if request.body is None else {"content-type": JSON},
            timeout=httpx.Timeout(request.timeout_s, connect=min(request.timeout_s, CONNECT_S)),
        )
    except httpx.InvalidURL as error:
        raise InvalidInput(f"too much is asked for in one URL: {error}") from error


def _reply(response: httpx.Response, stream: Body | AsyncBody | None = None) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, b"" if stream is not None else response.content, stream)
