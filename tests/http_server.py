"""An aiohttp application on a free port of this machine, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

DEADLINE_S = 60
MAX_LINE_BYTES = 32_768


@contextmanager
def serving(install: Callable[[web.Application], None]) -> Iterator[str]:
    """The base URL of an application to which `install` added its routes."""
    ready, urls, loop = threading.Event(), [], asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=64 * 2**20)
        install(app)
        runner = web.AppRunner(app, max_line_size=MAX_LINE_BYTES, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=run, name="http-server")
    thread.start()
    try:
        assert ready.wait(DEADLINE_S)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
