"""Faust and its Kafka consumer, told where to read by us. The only file that knows Faust.

Offsets belong to the tables, so Faust's own idea of where to read (the group's committed offsets) is replaced, at the
one place where every seek of a rebalance gets it: `Consumer.seek_to_committed`. The private members this rests on are
listed, and checked when a worker starts; pyproject.toml pins the versions they were found in.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import aiokafka
import faust
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import KafkaError
from faust.assignor import PartitionAssignor
from faust.assignor.client_assignment import ClientMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.auth import CredentialsT
from faust.types.tuples import Message
from faust.web.drivers.aiohttp import Web

from schemas.errors import InvalidInput, LogUnreachable, SlotlogError
from streams.group_membership import Membership, boot_time
from streams.ports import Headers, Record
from streams.settings import WorkerSettings
from streams.stores import KafkaAddress

MAX_LINE_BYTES = 65_536
UNREADABLE_PAUSE_S = 0.1
WEB_SHUTDOWN_S = 3.0
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_EXPECTED: tuple[tuple[type, tuple[str, ...]], ...] = (
    (driver.Consumer, ("seek_to_committed", "_new_consumer_thread", "perform_seek", "pause_partitions")),
    (driver.Consumer, ("resume_partitions", "_reset_state")),
    (driver.AIOKafkaConsumerThread, ("_create_consumer", "on_start", "on_thread_stop", "seek_wait")),
    (aiokafka.AIOKafkaConsumer, ("start", "stop", "highwater")),
    (driver.AIOKafkaConsumerThread, ("_fetch_records",)),
    (
        GroupCoordinator,
        ("_do_heartbeat", "_do_rejoin_group", "_maybe_leave_group", "_on_join_complete", "_coordination_routine"),
    ),
    (PartitionAssignor, ("_decompress",)),
)


def check_private_members() -> None:
    """
    Raises:
        SlotlogError: the installed Faust or aiokafka is not one that the worker was written for.
    """
    for owner, names in _EXPECTED:
        for name in names:
            if not callable(getattr(owner, name, None)):
                raise SlotlogError(
                    f"{owner.__module__}.{owner.__qualname__} has no {name}: faust-streaming {faust.__version__} or "
                    f"aiokafka {aiokafka.__version__} is not what this version of slotlog was written for",
                    hint="pip install --force-reinstall slotlog brings the versions that are",
                )


class NamesakesPlace(Exception):
    """The group gave this worker the assignment of whoever had its id at `url`."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread that talks to Kafka: it reads committed records only, as librdkafka does here, and keeps account of
    heartbeats."""

    consumer: Consumer

    def _create_consumer(self, loop: Any) -> aiokafka.AIOKafkaConsumer:
        made = super()._create_consumer(loop=loop)
        made._isolation_level = "read_committed"
        return made

    async def on_start(self) -> None:
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator
        membership: Membership = self.consumer.transport.membership
        coordinator._do_heartbeat = _watched(coordinator._do_heartbeat, membership)
        coordinator._on_join_complete = _for_us(coordinator._on_join_complete, cast(faust.App, self.app))
        coordinator._do_rejoin_group = _watched(_in_our_place(coordinator, membership), membership)
        coordinator._coordination_task.add_done_callback(partial(_ended, membership))

    async def _fetch_records(self, *arguments: Any, **named: Any) -> Any:
        """A header's name that is not UTF-8 can't be read by aiokafka. librdkafka reads over it."""
        try:
            return await super()._fetch_records(*arguments, **named)
        except UnicodeDecodeError:
            self.app.loop.call_soon_threadsafe(self.consumer.transport.unreadable)
            await asyncio.sleep(UNREADABLE_PAUSE_S)
            return {}

    async def on_thread_stop(self) -> None:
        if not self.consumer.transport.stay and self._consumer is not None and self._consumer._coordinator is not None:
            self._consumer._coordinator._group_instance_id = None  # a static member never says that it leaves
        await super().on_thread_stop()


def _watched(ask: Callable[..., Awaitable[Any]], membership: Membership) -> Callable[..., Awaitable[Any]]:
    async def watched(*arguments: Any) -> Any:
        asked_at = boot_time()
        try:
            answer = await ask(*arguments)
        except Exception as error:
            if not isinstance(error, KafkaError) or not error.retriable:
                membership.refused(_refusal(error))
            raise
        if answer:
            membership.confirmed(asked_at)
        return answer

    return watched


def _for_us(accept: Callable[..., Awaitable[None]], app: faust.App) -> Callable[..., Awaitable[None]]:
    """A static member that is back gets the assignment that it had, with the URL that it had: accept only our own."""

    async def accepted(generation: int, member_id: str, protocol: str, data: bytes) -> None:
        assignor = cast(PartitionAssignor, app.assignor)
        told = assignor._decompress(ConsumerProtocol.ASSIGNMENT.decode(data).user_data)
        url = cast(ClientMetadata, ClientMetadata.loads(told)).url.rstrip("/")
        if url != own_url(app):
            raise NamesakesPlace(url)
        await accept(generation, member_id, protocol, data)

    return accepted


def _in_our_place(coordinator: Any, membership: Membership) -> Callable[..., Awaitable[bool]]:
    """Join the group; from a place that is ours and elsewhere, leave it at once, and join again."""
    join = coordinator._do_rejoin_group

    async def joined(*arguments: Any) -> bool:
        try:
            return bool(await join(*arguments))
        except NamesakesPlace as error:
            if membership.is_own_place(error.url):
                own_id, coordinator._group_instance_id = coordinator._group_instance_id, None
                await coordinator._maybe_leave_group()
                coordinator._group_instance_id = own_id
            else:
                await asyncio.wait((coordinator._closing,))  # the process ends
            return False

    return joined


def _ended(membership: Membership, coordination: asyncio.Task[None]) -> None:
    """Without the task that talks to the group there is no membership, whatever it died of."""
    error = None if coordination.cancelled() else coordination.exception()
    if error is not None:
        membership.refused(_refusal(error.__cause__ or error))


def _refusal(error: BaseException) -> SlotlogError:
    """What is told of an error that ends the membership."""
    if isinstance(error, SlotlogError):
        return error
    if isinstance(error, KafkaError):
        return InvalidInput(
            f"the broker does not let this worker be a member of its group: {error}",
            hint="check --session-timeout against the broker's group.min.session.timeout.ms, and the rights",
        )
    return SlotlogError(
        f"what keeps this worker a member of its group has failed: {error!r}",
        hint="the log above says more; nothing is lost, start the worker again",
    )


class Consumer(driver.Consumer):
    """Faust's consumer, which begins to read where the tables say."""

    transport: Transport

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek where the tables want to read on. What Kafka has as committed is a display of the lag, no more."""
        committed = await super().seek_to_committed()
        wanted = {tp: offset for tp in self.assignment() if (offset := self.transport.wanted(tp)) is not None}
        if wanted:
            await self._thread.seek_wait(wanted)
        return {**committed, **wanted}

    async def hand_over(self, tp: TP, offset: int) -> None:
        """Go on live from `offset`, inclusive, after others read up to there, and forget what was read before."""
        await self._thread.seek_wait({tp: offset})
        self._committed_offset[tp] = offset
        self._acked.pop(tp, None)
        self._acked_index.pop(tp, None)
        self._gap.pop(tp, None)
        self.resume_partitions({tp})


class Transport(driver.Transport):
    """Makes our consumer, and hands it what it is to know."""

    Consumer = Consumer

    def __init__(
        self,
        urls: Any,
        app: faust.App,
        *,
        topic: str,
        wanted: Callable[[int], int | None],
        unreadable: Callable[[], None],
        membership: Membership,
        stay: bool,
    ) -> None:
        """`wanted` answers where to read a partition of `topic`; None leaves it where Kafka has it. `unreadable` is
        told of a record that aiokafka can't read."""
        super().__init__(urls, app)
        self._topic = topic
        self._wanted = wanted
        self.unreadable = unreadable
        self.membership = membership
        self.stay = stay

    def wanted(self, tp: TP) -> int | None:
        """Where to read the partition; None for one that is not ours to say."""
        return self._wanted(tp.partition) if tp.topic == self._topic else None


class Wiring(NamedTuple):
    """What a worker gives its app: who it is, and what is to be called when."""

    worker_id: str
    membership: Membership
    wanted: Callable[[int], int | None]
    take: Callable[[Record], None]
    unreadable: Callable[[], None]
    revoked: Callable[[set[int]], Awaitable[None]]
    assigned: Callable[[set[int]], Awaitable[None]]


def make_app(address: KafkaAddress, settings: WorkerSettings, wiring: Wiring) -> faust.App:
    """A Faust app with our consumer, one agent on the topic, and no table, topic or page of its own."""
    app = faust.App(
        settings.group or address.topic,
        broker=[f"kafka://{host}" for host in address.bootstrap.split(",")],
        broker_credentials=credentials(address.config),
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.heartbeat_s,
        broker_request_timeout=max(40.0, settings.session_timeout_s + 10.0),
        broker_rebalance_timeout=max(60.0, settings.session_timeout_s),
        consumer_group_instance_id=wiring.worker_id,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        table_standby_replicas=1,  # with none, Faust takes another assignor, which tells nobody who has what
        topic_allow_declare=False,
        topic_disable_leader=True,
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        datadir=str(address.state / "faust"),
        canonical_url=settings.url,
        web_bind=settings.host,
        web_port=settings.port,
        web_tables_enabled=False,
        web_router_enabled=False,
        web_stats_enabled=False,
        web_graph_enabled=False,
        web_metrics_enabled=False,
    )
    app.transport = Transport(
        app.conf.broker_consumer,
        app,
        topic=address.topic,
        wanted=wiring.wanted,
        unreadable=wiring.unreadable,
        membership=wiring.membership,
        stay=settings.stay,
    )

    async def live(stream: faust.StreamT[bytes]) -> None:
        async for event in stream.events():
            wiring.take(_record(event.message))

    async def revoked(_: Any, tps: set[TP], **__: Any) -> None:
        await wiring.revoked({tp.partition for tp in tps if tp.topic == address.topic})

    async def assigned(_: Any, tps: set[TP], **__: Any) -> None:
        await wiring.assigned({tp.partition for tp in tps if tp.topic == address.topic})

    app.agent(app.topic(address.topic, key_type=bytes, value_type=bytes), name="slotlog.live")(live)
    app.on_partitions_revoked.connect(cast(Any, revoked), weak=False)
    app.on_partitions_assigned.connect(cast(Any, assigned), weak=False)
    return app


def web_application(app: faust.App) -> Any:
    """The aiohttp application that Faust's web server serves; routes are added before the app starts."""
    web = cast(Web, app.web)
    web._runner = type(web._runner)(
        web.web_app, access_log=None, max_line_size=MAX_LINE_BYTES, shutdown_timeout=WEB_SHUTDOWN_S
    )
    return web.web_app


def own_url(app: faust.App) -> str:
    """The worker's base URL exactly as the assignor tells it to the others."""
    return str(app.conf.canonical_url).rstrip("/")


def owners(app: faust.App) -> Mapping[str, Mapping[str, Sequence[int]]]:
    """Base URL to topic to the partitions that the worker there has, as of the last rebalance."""
    return app.router.external_topics_metadata()


def standbys(app: faust.App, topic: str) -> set[int]:
    """The partitions of the topic that this worker is to keep warm."""
    return {tp.partition for tp in app.assignor.assigned_standbys() if tp.topic == topic}


def pause(app: faust.App, topic: str, partition: int) -> None:
    """Stop delivering a partition's records until it is handed over again."""
    app.consumer.pause_partitions({TP(topic, partition)})


async def hand_over(app: faust.App, topic: str, partition: int, offset: int) -> None:
    """Deliver a partition's records from `offset` on, inclusive.

    Raises:
        LogUnreachable: the broker does not answer, or the partition is being given to somebody.
    """
    try:
        await cast(Consumer, app.consumer).hand_over(TP(topic, partition), offset)
    except (TimeoutError, KafkaError) as error:
        said = str(error) or type(error).__name__
        raise LogUnreachable(f"partition {partition} can't be read on from {offset} now: {said}") from error


def _record(message: Message) -> Record:
    """The message as our own readers make it, header for header."""
    headers: Headers = ()
    if message.headers:
        given = message.headers.items() if isinstance(message.headers, Mapping) else message.headers
        headers = tuple((name, content or b"") for name, content in given)
    append_time = round(message.timestamp * 1000) * 1000
    return Record(message.partition, message.offset, append_time, message.key, message.value, headers)


def credentials(config: Mapping[str, str]) -> CredentialsT | None:
    """What `security.protocol`, `sasl.*` and `ssl.*` of `config` mean; None for a broker that asks for nothing.

    Raises:
        InvalidInput: a worker can't do what they ask for.
    """
    protocol = config.get("security.protocol", "plaintext").lower()
    if protocol == "plaintext":
        return None
    if protocol not in ("ssl", "sasl_plaintext", "sasl_ssl"):
        raise InvalidInput(f"security.protocol is {protocol!r}", hint="plaintext, ssl, sasl_plaintext or sasl_ssl")
    context = _context(config) if protocol.endswith("ssl") else None
    if protocol == "ssl":
        return faust.SSLCredentials(context=context)
    mechanism = config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "PLAIN"
    if mechanism.upper() not in _MECHANISMS:
        raise InvalidInput(f"a worker can't do sasl.mechanism {mechanism!r}", hint=f"one of {', '.join(_MECHANISMS)}")
    return faust.SASLCredentials(
        username=config.get("sasl.username"),
        password=config.get("sasl.password"),
        ssl_context=context,
        mechanism=mechanism.upper(),
    )


def _context(config: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.get("ssl.ca.location"))
        if certificate := config.get("ssl.certificate.location"):
            context.load_cert_chain(certificate, config.get("ssl.key.location"), config.get("ssl.key.password"))
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"the TLS settings can't be used: {error}") from error
    if config.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    return context
