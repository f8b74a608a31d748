"""Memory behind an HTTP API, for threads and for event loops."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit

from schemas import events as ev
from schemas.checks import DEFAULT_MAX_VALUE_BYTES
from schemas.errors import InvalidInput, StoreClosed
from streams import clock
from streams.answers import Receipt, Recorded
from streams.http_client import AsyncClient, Client
from streams.making import Making
from streams.memory import Memory
from streams.remote_calls import Asking, Direct, log_itself
from streams.remote_exchange import Call, Exchange, Pause, Replayed, Request, Work
from streams.remote_questions import Page
from streams.verbs import verb_like

P = ParamSpec("P")
T = TypeVar("T")
Awaited = Coroutine[Any, Any, T]


def asked(ask: Callable[Concatenate[Asking, P], Call[T]]) -> Callable[Concatenate[RemoteMemory, P], T]:
    """The verb of RemoteMemory that drives the call."""

    @verb_like(getattr(Memory, ask.__name__))
    def verb(self: RemoteMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(ask(self._asking, *args, **kwargs))

    return verb


def awaited(ask: Callable[Concatenate[Asking, P], Call[T]]) -> Callable[Concatenate[AsyncMemory, P], Awaited[T]]:
    """The verb of AsyncMemory that drives the call."""

    @verb_like(getattr(Memory, ask.__name__))
    async def verb(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(ask(self._asking, *args, **kwargs))

    return verb


def awaited_append(
    make: Callable[Concatenate[Making, P], ev.Event],
) -> Callable[Concatenate[AsyncMemory, P], Awaited[Receipt]]:
    """The verb of AsyncMemory that appends the one event that `make` makes."""

    @verb_like(make, "Receipt")
    async def verb(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        return (await self.append([make(self._asking.making, *args, **kwargs)]))[0]

    return verb


def paged(ask: Callable[Concatenate[Asking, P], Call[Page[T]]]) -> Callable[Concatenate[RemoteMemory, P], Iterator[T]]:
    """The verb of RemoteMemory that asks for the first page at once, and for the others when they are wanted."""

    @verb_like(getattr(Memory, ask.__name__))
    def verb(self: RemoteMemory, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._items(self._run(ask(self._asking, *args, **kwargs)))

    return verb


def awaited_pages(
    ask: Callable[Concatenate[Asking, P], Call[Page[T]]],
) -> Callable[Concatenate[AsyncMemory, P], AsyncIterator[T]]:
    """The verb of AsyncMemory that asks for each page when it is wanted, the first one too."""

    @verb_like(getattr(Memory, ask.__name__), "AsyncIterator")
    async def verb(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        page = await self._run(ask(self._asking, *args, **kwargs))
        while True:
            for one in page.items:
                yield one
            if page.more is None:
                return
            page = await self._run(page.more())

    return verb


def streamed(
    ask: Callable[Concatenate[Asking, P], Call[Replayed]],
) -> Callable[Concatenate[RemoteMemory, P], Iterator[Recorded]]:
    """The verb of RemoteMemory that opens the stream at once, so that it refuses here what the server refuses."""

    @verb_like(getattr(Memory, ask.__name__))
    def verb(self: RemoteMemory, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Recorded]:
        def events() -> Iterator[Recorded | None]:
            replayed = self._run(ask(self._asking, *args, **kwargs))
            try:
                yield None  # from here on the stream is closed, however far it is read
                for piece in replayed.stream.pieces():
                    yield from replayed.read(piece)
                replayed.end()
            except ConnectionError as error:
                replayed.end(error)
            finally:
                replayed.stream.close()

        opened = events()
        next(opened)
        return (one for one in opened if one is not None)

    return verb


def awaited_stream(
    ask: Callable[Concatenate[Asking, P], Call[Replayed]],
) -> Callable[Concatenate[AsyncMemory, P], AsyncIterator[Recorded]]:
    """The verb of AsyncMemory that opens the stream when its first event is wanted."""

    @verb_like(getattr(Memory, ask.__name__), "AsyncIterator")
    async def verb(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Recorded]:
        replayed = await self._run(ask(self._asking, *args, **kwargs))
        try:
            async for piece in replayed.stream.pieces():
                for one in replayed.read(piece):
                    yield one
            replayed.end()
        except ConnectionError as error:
            replayed.end(error)
        finally:
            await replayed.stream.close()

    return verb


class RemoteMemory(Memory):
    """`Memory` behind the URL of an HTTP API. What each verb means is said in `Memory`.

    A request that is not answered is repeated, for `busy_timeout_s` at most. A write is repeated as well: its event
    has had its id from before, so it counts once. If an attempt came through and only its answer was lost, the receipt
    says `duplicate`.
    """

    def __init__(
        self, store: str, *, actor: str | None, max_value_bytes: int, timeout_s: float, api: str | None = None
    ) -> None:
        self._asking, self._direct = _asking(store, actor, max_value_bytes, timeout_s, api)
        self._making = self._asking.making
        self._pid = os.getpid()
        self._closed = threading.Event()
        if self._direct is not None:
            self._direct.open()
        self._client = Client(self._asking.exchange.url)

    def close(self) -> None:
        self._mind_fork()
        if self._closed.is_set():
            return
        self._closed.set()
        self._client.close()
        if self._direct is not None:
            self._direct.close()

    append = asked(Asking.append)
    check = asked(Asking.check)
    merge_plan = asked(Asking.merge_plan)
    preview = asked(Asking.preview)
    wait = asked(Asking.wait)
    get = asked(Asking.get)
    entity = asked(Asking.entity)
    history = asked(Asking.history)
    changes = asked(Asking.changes)
    explain = asked(Asking.explain)
    diff = asked(Asking.diff)
    schema = asked(Asking.schema)
    policy_in_force = asked(Asking.policy_in_force)
    declarations = asked(Asking.declarations)
    timeline = paged(Asking.timeline)
    resolve = asked(Asking.resolve)
    event = asked(Asking.event)
    known_at = asked(Asking.known_at)
    replay = streamed(Asking.replay)
    branches = asked(Asking.branches)
    branch_log = asked(Asking.branch_log)
    ls = asked(Asking.ls)
    commits = asked(Asking.commits)
    pinned = asked(Asking.pinned)
    sessions = asked(Asking.sessions)
    reached = asked(Asking.reached)
    quarantined = asked(Asking.quarantined)
    digest = asked(Asking.digest)
    info = asked(Asking.info)
    rebuild = asked(Asking.rebuild)
    copy = asked(Asking.copy)
    export = asked(Asking.export)
    import_ = asked(Asking.import_)
    verify = asked(Asking.verify)
    vouched = asked(Asking.vouched)
    flaws = asked(Asking.flaws)

    @property
    def tables_folder(self) -> Path:
        raise log_itself("tables_folder")

    def _run(self, call: Call[T]) -> T:
        try:
            step = next(call)
            while True:
                step = call.send(self._done(step))
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    def _done(self, step: Request | Pause | Work) -> Any:
        self._mind_fork()
        if self._closed.is_set() or (isinstance(step, Pause) and self._closed.wait(step.seconds)):
            raise closed(self._asking)
        match step:
            case Request():
                try:
                    return self._client.send(step)
                except RuntimeError as error:
                    if self._closed.is_set():  # by another thread, just now
                        raise closed(self._asking) from error
                    raise
            case Work(do=do):
                return do()
        return None

    def _items(self, page: Page[T]) -> Iterator[T]:
        while True:
            yield from page.items
            if page.more is None:
                return
            page = self._run(page.more())

    def _mind_fork(self) -> None:
        """A child that was forked has connections of its own; those that there were stay its parent's."""
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self._asking.horizon.forked()
        was_closed, self._closed = self._closed.is_set(), threading.Event()
        if was_closed:
            self._closed.set()


class AsyncMemory:
    """`RemoteMemory` for one event loop: the same verbs, awaited; what iterates is iterated with `async for`.

        async with AsyncMemory.open("http://127.0.0.1:8080", actor="agent:planner") as memory:
            await memory.remember("acme/support", "user:alice", "employer", "Acme")
            async for one in memory.timeline("acme/support"):
                ...

    Verbs may be awaited side by side.
    """

    def __init__(
        self, store: str, *, actor: str | None, max_value_bytes: int, timeout_s: float, api: str | None = None
    ) -> None:
        self._asking, self._direct = _asking(store, actor, max_value_bytes, timeout_s, api)
        self._closed = False
        self._client = AsyncClient(self._asking.exchange.url)

    @staticmethod
    def open(
        store: str,
        *,
        actor: str | None = None,
        max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES,
        busy_timeout_s: float = 30.0,
        api: str | None = None,
    ) -> AsyncMemory:
        """Open the URL of an HTTP API, or `kafka://…` with `api`. See `Memory.open`; nothing is asked here yet."""
        return AsyncMemory(store, actor=actor, max_value_bytes=max_value_bytes, timeout_s=busy_timeout_s, api=api)

    async def __aenter__(self) -> Self:
        if self._direct is not None:
            await asyncio.to_thread(self._direct.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of everything. Twice is harmless; any use afterwards raises StoreClosed."""
        self._closed = True
        await self._client.close()
        if self._direct is not None:
            await asyncio.to_thread(self._direct.close)

    remember = awaited_append(Making.remember)
    end = awaited_append(Making.end)
    forget = awaited_append(Making.forget)
    observe = awaited_append(Making.observe)
    review = awaited_append(Making.review)
    forbid = awaited_append(Making.forbid)
    allow = awaited_append(Making.allow)
    declare = awaited_append(Making.declare)
    policy = awaited_append(Making.policy)
    distrust = awaited_append(Making.distrust)
    trust = awaited_append(Making.trust)
    fork = awaited_append(Making.fork)
    rollback = awaited_append(Making.rollback)
    delete_branch = awaited_append(Making.delete_branch)
    merge = awaited(Asking.merge)
    append = awaited(Asking.append)
    check = awaited(Asking.check)
    merge_plan = awaited(Asking.merge_plan)
    preview = awaited(Asking.preview)
    wait = awaited(Asking.wait)
    get = awaited(Asking.get)
    entity = awaited(Asking.entity)
    history = awaited(Asking.history)
    changes = awaited(Asking.changes)
    explain = awaited(Asking.explain)
    diff = awaited(Asking.diff)
    schema = awaited(Asking.schema)
    policy_in_force = awaited(Asking.policy_in_force)
    declarations = awaited(Asking.declarations)
    timeline = awaited_pages(Asking.timeline)
    resolve = awaited(Asking.resolve)
    event = awaited(Asking.event)
    known_at = awaited(Asking.known_at)
    replay = awaited_stream(Asking.replay)
    branches = awaited(Asking.branches)
    branch_log = awaited(Asking.branch_log)
    ls = awaited(Asking.ls)
    commits = awaited(Asking.commits)
    pinned = awaited(Asking.pinned)
    sessions = awaited(Asking.sessions)
    reached = awaited(Asking.reached)
    quarantined = awaited(Asking.quarantined)
    digest = awaited(Asking.digest)
    info = awaited(Asking.info)
    rebuild = awaited(Asking.rebuild)
    copy = awaited(Asking.copy)
    export = awaited(Asking.export)
    import_ = awaited(Asking.import_)
    verify = awaited(Asking.verify)
    vouched = awaited(Asking.vouched)
    flaws = awaited(Asking.flaws)

    @property
    def tables_folder(self) -> Path:
        """Refused, as the verbs are that work on the log itself."""
        raise log_itself("tables_folder")

    async def _run(self, call: Call[T]) -> T:
        try:
            step = next(call)
            while True:
                step = call.send(await self._done(step))
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    async def _done(self, step: Request | Pause | Work) -> Any:
        if self._closed:
            raise closed(self._asking)
        match step:
            case Request():
                return await self._client.send(step)
            case Work(do=do):
                return await asyncio.to_thread(do)
            case Pause(seconds=seconds):
                await asyncio.sleep(seconds)
        return None


def closed(asking: Asking) -> StoreClosed:
    """What is said of a memory that was closed."""
    return StoreClosed(f"the memory of {asking.exchange.url} is closed")


def _asking(
    store: str, actor: str | None, max_value_bytes: int, timeout_s: float, api: str | None
) -> tuple[Asking, Direct | None]:
    """The verbs for `store`, and the log that is appended to past the API."""
    direct = None if api is None else Direct(store, timeout_s)
    url = (store if api is None else api).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(f"{url!r} is no URL of an API", hint="write it like http://127.0.0.1:8080")
    exchange = Exchange(url, timeout_s, clock.monotonic_s, clock.chance)
    return Asking(exchange, actor, max_value_bytes, direct), direct
