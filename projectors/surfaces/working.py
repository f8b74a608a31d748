"""`slotlog worker`: one worker of a fleet on Kafka."""

from __future__ import annotations

import click

from projectors.surfaces.params import Settings, common


@click.command(short_help="Fold a topic's partitions and answer for them, together with other workers.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Where its web server listens.")
@click.option("--port", default=8080, show_default=True, metavar="N", help="The port it listens on.")
@click.option("--advertise", metavar="URL", help="How the other workers reach this one. Default: http://HOST:PORT.")
@click.option("--group", metavar="NAME", help="The group that shares the topic. Default: the topic's name.")
@click.option("--worker-id", metavar="ID", help="Who it is in the group. Default: what its state folder remembers.")
@click.option("--behind", default=2_000, show_default=True, metavar="N", help="So many events behind it reads in bulk.")
@click.option(
    "--session-timeout",
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Its partitions go to others so long after it was last heard of.",
)
@click.option(
    "--watchdog",
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="End, with an error, when the log grows and tables have not moved for so long.",
)
@click.option("--stay", is_flag=True, help="Keep the place in the group on SIGTERM, for a restart that moves nothing.")
@common
@click.pass_obj
def worker(
    settings: Settings,
    host: str,
    port: int,
    advertise: str | None,
    group: str | None,
    worker_id: str | None,
    behind: int,
    session_timeout: float,
    watchdog: float,
    stay: bool,
) -> None:
    """One worker of a fleet: it folds the partitions that its group gives it, keeps others warm, and answers for any
    space over HTTP, by asking the worker that has it.

    Start as many as there are partitions, each with a state folder of its own. It runs until SIGTERM or SIGINT, and
    ends with an error when it can't go on; start it again then. On stderr it says what it is doing.

    \b
    Examples:
      slotlog --store "kafka://127.0.0.1:9092/slotlog.memory?state=./w1" worker --port 8081
      slotlog --store "kafka://127.0.0.1:9092/slotlog.memory?state=./w2" worker --port 8082
      slotlog --store http://127.0.0.1:8081 workers
    """
    import asyncio
    import signal

    from projectors.surfaces.api import Limits, install
    from schemas.errors import InvalidInput
    from streams.settings import WorkerSettings

    if not settings.store_name.startswith("kafka://"):
        raise InvalidInput(
            f"a worker needs a topic, and the store is {settings.store_name}",
            hint="name one with --store kafka://HOST:PORT/TOPIC; slotlog serve answers for a folder",
        )
    chosen = WorkerSettings(
        host=host,
        port=port,
        advertise=advertise,
        group=group,
        worker_id=worker_id,
        behind=behind,
        session_timeout_s=session_timeout,
        heartbeat_s=min(1.0, session_timeout / 3),
        watchdog_s=watchdog,
        stay=stay,
    ).checked()
    _tell_on_stderr()

    async def run() -> None:
        from streams.worker import Worker

        made = Worker(
            settings.store_name,
            chosen,
            mount=lambda app, memory, fleet, metrics: install(app, memory, fleet, metrics, Limits()),
            actor=settings.actor or "engine:worker",
            timeout_s=settings.timeout,
        )
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, stop.set)
        await made.run(stop)

    asyncio.run(run())


def _tell_on_stderr() -> None:
    """What the worker does, a line each; what others log only when it is an error."""
    import logging
    import sys

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("slotlog").setLevel(logging.INFO)
    for name in ("aiokafka", "faust", "mode"):  # of a broker that is away they tell the same 60 times a second
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # a traceback for what is no HTTP
