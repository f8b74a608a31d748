"""A server of its own for the API: one process that answers for every space."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable

from aiohttp import web

from projectors.surfaces.api import Limits, install
from schemas.errors import InvalidInput
from streams.local import LocalMemory
from streams.metrics import Metrics
from streams.status import Alone

LINE_BYTES_MAX = 64 * 1024
"""The longest request line: a path has three names of 512 characters, each of up to twelve when percent-encoded."""
SHUTDOWN_S = 10.0
_BACKLOG = 128


async def serve(memory: LocalMemory, host: str, port: int, limits: Limits, listening: Callable[[str], None]) -> None:
    """Answer until SIGTERM or SIGINT, then end what was begun. `listening` is told the URL once there is one.

    Raises:
        InvalidInput: it can't listen there.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    with bound(host, port) as at:
        url = url_of(at)
        app = web.Application()
        install(app, memory, Alone(memory, url), Metrics(), limits)
        runner = web.AppRunner(
            app,
            access_log=None,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=LINE_BYTES_MAX,
            shutdown_timeout=SHUTDOWN_S,
        )
        await runner.setup()
        try:
            await web.SockSite(runner, at, backlog=_BACKLOG).start()
            for name in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(name, stop.set)
            listening(url)
            await stop.wait()
        finally:
            await runner.cleanup()


def bound(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 is any that is free.

    Raises:
        InvalidInput: there can be none.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        at = socket.socket(family, kind, protocol)
        try:
            at.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            at.bind(address)
            at.listen(_BACKLOG)
        except OSError:
            at.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) else None
        if number == errno.EADDRINUSE:
            raise InvalidInput(
                f"port {port} of {host} is in use", hint="name another with --port; 0 takes any that is free"
            ) from error
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InvalidInput(f"can't listen at {host} port {port}: {said}") from error
    return at


def url_of(at: socket.socket) -> str:
    """The base URL of what listens there."""
    host, port = at.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
