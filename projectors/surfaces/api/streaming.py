"""Answers that are sent as they are made. One that fails half-way breaks its connection: it never looks whole."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from aiohttp import hdrs, web

from projectors.surfaces.api.problems import log_failure, log_unexpected
from schemas.errors import SlotlogError
from streams import clock


class Stream(web.StreamResponse):
    """The head of an answer that is sent as it is made. `head_sent_s` is when, by `clock.monotonic_s`: an answer took
    until then, however long its body goes on."""

    head_sent_s: float | None = None


async def streamed(request: web.Request, response: Stream, pieces: AsyncGenerator[bytes, None]) -> Stream:
    """Send `pieces` as the body of `response`. `pieces` is closed in any case."""
    async with aclosing(pieces):
        await response.prepare(request)
        response.head_sent_s = clock.monotonic_s()
        if request.method == hdrs.METH_HEAD:
            return response
        try:
            async for piece in pieces:
                await response.write(piece)
            await response.write_eof()
        except ConnectionError:  # the client went away, or whom we asked for it
            break_off(request)
        except SlotlogError as error:
            break_off(request)
            log_failure(error, request)
        except Exception as error:  # noqa: BLE001  the head is sent: nobody can be told but the log
            break_off(request)
            log_unexpected(error, request)
    return response


def stream_of(media: str, headers: Mapping[str, str]) -> Stream:
    """The head of a stream that is made here."""
    response = Stream(headers={**headers, "Cache-Control": "no-store"})
    response.content_type = media
    return response


def break_off(request: web.Request) -> None:
    """Reset the connection. In HTTP/1.0 an orderly end of it would be the end of the answer."""
    if request.transport is None:
        return
    at = request.transport.get_extra_info("socket")
    if at is not None:
        at.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()
