"""`slotlog serve`, the HTTP API of one process, and `slotlog workers`, what those of a fleet say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from projectors.surfaces.params import Settings, common, writing


@click.command(short_help="Answer over HTTP for a folder or a topic.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Where to listen.")
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), metavar="N", help="0 takes a free one."
)
@click.option(
    "--max-body",
    default=16 * 1024 * 1024,
    type=click.IntRange(1),
    metavar="BYTES",
    help="The largest body of a request. Default: 16 MiB.",
)
@click.option(
    "--max-batch",
    default=10_000,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="The most events of a request.",
)
@writing
@click.pass_obj
def serve(settings: Settings, host: str, port: int, max_body: int, max_batch: int) -> None:
    """Answer over HTTP for a store, in one process: a folder, which is made where there is none, or all of a topic.

    It prints its URL once it listens, and ends on SIGTERM or Ctrl-C. Whoever can reach it may read and write
    everything. /v1/openapi.json describes what it answers; for a fleet of workers there is slotlog worker.

    \b
    Examples:
      slotlog serve
      slotlog --store ./memory serve --port 0
      slotlog --store http://127.0.0.1:8080 get acme/support user:alice employer
    """
    import asyncio
    import logging
    import sys

    from projectors.surfaces import output
    from projectors.surfaces.api import Limits
    from projectors.surfaces.api.listening import serve as answer
    from schemas.errors import InvalidInput
    from streams.local import LocalMemory

    def listening(url: str) -> None:
        if settings.json:
            output.document({"url": url})
        else:
            output.line(url)
        output.flush()

    if settings.store_name.startswith(("http://", "https://")):
        raise InvalidInput(f"{settings.store_name} is served already", hint="name a folder, or kafka://HOST:PORT/TOPIC")
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # it tells of each client that speaks no HTTP
    limits = Limits(max_body_bytes=max_body, max_batch_events=max_batch)
    with settings.open(create=True, hold=True) as memory:
        assert isinstance(memory, LocalMemory)
        memory.info()  # takes the tables and folds what is new, so that what it answers first is quick
        asyncio.run(answer(memory, host, port, limits, listening))


@click.command(short_help="What the workers of a fleet are doing.")
@common
@click.pass_obj
def workers(settings: Settings) -> None:
    """The workers of a fleet and their partitions, and what is not as it should be; any one of them is asked.

    READY is whether a partition is answered from there. A standby is kept warm, and never is.

    \b
    Examples:
      slotlog --store http://127.0.0.1:8081 workers
      slotlog --store http://127.0.0.1:8081 workers --json | jq -r '.workers[].reasons[]'
    """
    from projectors.surfaces import output

    found = _asked(settings.store_name, "/v1/workers", settings.timeout)
    if settings.json:
        output.document(found)
        return
    told = found["workers"]
    heads = ("WORKER", "URL", "PARTITION", "ROLE", "STATE", "NEXT", "END", "LAG", "READY")
    output.table(heads, [row for one in told for row in _rows(one)])
    for one in told:
        for reason in one["reasons"]:
            output.line(f"{output.word(one['worker'])}: {output.printable(reason)}")


def _rows(worker: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for each partition of a worker, one without a partition for a worker that has none."""
    from projectors.surfaces import output

    who = output.word(worker["worker"]), "" if worker["url"] is None else output.printable(worker["url"])
    if not worker["partitions"]:
        yield *who, "", "", "", "", "", "", "yes" if worker["ready"] else "no"
    for one in worker["partitions"]:
        state = one["state"]
        if state == "catching up" and one["end"] > 0:
            state = f"{state} {int(100 * min(one['next'], one['end']) / one['end'])}%"
        counts = (f"{count:,}" for count in (one["next"], one["end"], max(0, one["end"] - one["next"])))
        yield *who, str(one["partition"]), one["role"], state, *counts, "yes" if one["ready"] else "no"


def _asked(url: str, path: str, timeout_s: float) -> dict[str, Any]:
    """The JSON object that an API answers."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.parse import urlsplit
    from urllib.request import ProxyHandler, build_opener

    import msgspec

    from schemas.errors import InvalidInput, Unavailable

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(
            f"workers are asked over HTTP, and the store is {url}", hint="name one: --store http://127.0.0.1:8080"
        )
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url.rstrip("/") + path, timeout=timeout_s) as answer:
            return msgspec.json.decode(answer.read(), type=dict[str, Any])
    except HTTPError as error:
        with error:
            raise Unavailable(f"{url} answered {error.code} {error.reason}", hint="is it a worker's URL?") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise Unavailable(f"{url} does not answer: {reason}", hint="is it running there?") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInput(f"{url} does not answer as slotlog does", hint="is it a worker's URL?") from error
