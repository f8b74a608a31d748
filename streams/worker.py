"""One worker of a fleet: a Faust app around the tables of the partitions that the group gives it.

Faust holds membership, assignment, the live agent and the web server. The tables say where to read: a partition is
first read in bulk by librdkafka, whether it is new, was rebuilt or fell behind, and then handed over to the live agent
at the exact next offset. What can't be applied ends the process; nothing is ever skipped.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from schemas.errors import InvalidInput, LogChanged, LogRecreated, LogUnreachable, NotFound, SlotlogError
from streams.delivery import Deliverer, Delivery
from streams.faust_client import (
    Wiring,
    check_private_members,
    hand_over,
    make_app,
    own_url,
    owners,
    pause,
    standbys,
    web_application,
)
from streams.group_membership import Membership
from streams.hosting import HostedMemory
from streams.metrics import Metrics
from streams.routing import Router
from streams.settings import WorkerSettings, left_url, lock_state, remember_url, worker_id_of
from streams.status import PartitionStatus, WorkerStatus, quarantine_reasons
from streams.stores import KafkaAddress, kafka_address

TICK_S = 1.0
FLUSH_EVENTS = 100_000
STOP_WITHIN_S, APP_STOPS_WITHIN_S = 20.0, 12.0
LAGGING_EVENTS = 10_000
TOLD_EVERY_TICKS = 5
GONE_AFTER_TICKS = 15

Mount = Callable[[Any, HostedMemory, "Worker", Metrics], None]
"""Puts the web application's routes on Faust's own aiohttp application."""

_log = logging.getLogger("slotlog.worker")


class Worker:
    """The fleet as this process sees it (`ports.Fleet`), and the process's own life."""

    def __init__(self, store: str, settings: WorkerSettings, *, mount: Mount, actor: str, timeout_s: float) -> None:
        """`timeout_s`: most seconds that a question to the broker waits for its answer.

        Raises:
            InvalidInput: a setting, or the topic's, is not as it must be.
            StoreBusy: another worker has the state folder.
            SlotlogError: whatever opening a store may raise.
        """
        check_private_members()
        self._settings = settings.checked()
        address = kafka_address(store)
        self._state = address.state
        self._lock = lock_state(address.state)
        try:
            self.id = worker_id_of(address.state, settings.worker_id)
            self.metrics = Metrics()
            left = left_url(address.state, settings.url)
            self._membership = Membership(settings.session_timeout_s, self.id, left)
            self.memory = HostedMemory(
                store,
                self.metrics,
                actor=actor,
                timeout_s=timeout_s,
                flush_s=settings.flush_s,
                flush_events=FLUSH_EVENTS,
                answers=lambda: self._membership.holds,
            )
            self._refuse_flaws(address)
            self._topic = address.topic
            self._delivery = Delivery(
                self.memory.hosted,
                Deliverer(
                    pause=lambda number: pause(self._app, self._topic, number),
                    hand_over=lambda number, offset: hand_over(self._app, self._topic, number, offset),
                ),
                self.metrics,
                behind=self._settings.behind,
                fail=self.fail,
            )
            self._app = make_app(
                address,
                self._settings,
                Wiring(
                    worker_id=self.id,
                    membership=self._membership,
                    wanted=self._wanted,
                    take=self._delivery.take,
                    unreadable=self._delivery.fall_back_all,
                    revoked=self._on_revoked,
                    assigned=self._on_assigned,
                ),
            )
            self._url = own_url(self._app)
        except BaseException:
            self._lock.close()
            raise
        self._router = Router(self._url, address.topic, len(self.memory.hosted), lambda: owners(self._app))
        self._failure: BaseException | None = None
        self._ended = asyncio.Event()
        self._reachable = True
        self._missing = 0
        mount(web_application(self._app), self.memory, self, self.metrics)

    # What the web application asks (ports.Fleet).

    def elsewhere(self, space: str) -> str | None:
        """See `ports.Fleet.elsewhere`. A partition of our own is answered for here, or not at all."""
        found = self._router.partition(space)
        if self.memory.hosted[found].role == "active":
            return None
        url = self._router.url_of(found)
        return None if url == self._url else url

    def others(self) -> Sequence[str]:
        """See `ports.Fleet.others`."""
        return self._router.others()

    def status(self) -> WorkerStatus:
        """How this worker stands, as of its last look at the log."""
        partitions = self._partitions()
        active = [one for one in partitions if one.role == "active"]
        reasons = list(quarantine_reasons(partitions))
        member, assigned = self._membership.holds, self._delivery.is_assigned
        if not member:
            reasons.append("not confirmed as a member of the group for a session timeout")
        if not assigned:
            reasons.append("a rebalance is going on: which partitions this worker has is not known yet")
        if not self._reachable:
            reasons.append("the broker does not answer")
        reasons += [f"partition {one.partition}: {one.state}, {one.lag:,} behind" for one in active if not one.ready]
        reasons += [
            f"partition {one.partition}: {one.lag:,} events behind"
            for one in active
            if one.ready and one.lag > LAGGING_EVENTS
        ]
        ready = member and assigned and all(one.ready for one in active)
        return WorkerStatus(self.id, self._url, member, ready, partitions, tuple(reasons))

    async def changed(self, space: str, timeout_s: float) -> None:
        """See `ports.Fleet.changed`."""
        await self._delivery.moved(self._router.partition(space), timeout_s)

    # Its life.

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then leave in good order.

        Raises:
            SlotlogError: what made it impossible to go on.
        """
        ending = asyncio.ensure_future(stop.wait())
        ended = asyncio.ensure_future(self._ended.wait())
        watching = asyncio.ensure_future(self._watch())
        try:
            starting = asyncio.ensure_future(self._app.start())
            await asyncio.wait((starting, ending, ended), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                self._check_started(starting)
                await asyncio.wait((ending, ended), return_when=asyncio.FIRST_COMPLETED)
            else:
                starting.cancel()
        finally:
            _end_anyway(STOP_WITHIN_S)
            for task in (ending, ended, watching):
                task.cancel()
            try:
                await self._stop()
            except SlotlogError as error:  # what came first is the cause, and is told
                self.fail(error)
        if self._failure is not None:
            raise self._failure

    def _check_started(self, starting: asyncio.Future[Any]) -> None:
        try:
            starting.result()
        except OSError as error:
            raise InvalidInput(
                f"can't listen on {self._settings.host}:{self._settings.port}: {error.strerror or error}",
                hint="another process has the port; choose one with --port",
            ) from error

    def fail(self, error: BaseException) -> None:
        """End the process with `error`: it can't go on, and what it can't fold it must not skip."""
        if self._failure is None:
            self._failure = error
        self._ended.set()

    async def _stop(self) -> None:
        """Answer no more, leave the group, flush and close the tables, whatever hangs.

        Raises:
            SlotlogError: Faust does not stop, or the tables can't be closed.
        """
        try:
            await self._delivery.stop()
            await self._stop_app()
        finally:
            try:
                await asyncio.to_thread(self.memory.close)
            finally:
                self._lock.close()

    async def _stop_app(self) -> None:
        stopping = asyncio.ensure_future(self._app.stop())
        if not (await asyncio.wait((stopping,), timeout=APP_STOPS_WITHIN_S))[0]:
            raise SlotlogError(
                f"the web server or the group's client does not stop within {APP_STOPS_WITHIN_S:g} s",
                hint="nothing is lost, and the tables are closed; start the worker again",
            )
        stopping.result()

    def _refuse_flaws(self, address: KafkaAddress) -> None:
        flaws = self.memory.log.flaws()
        if flaws:
            raise InvalidInput(
                f"the topic {address.topic} is not set up as a log must be: {'; '.join(flaws)}",
                hint="slotlog topic check shows all of its settings",
            )

    # What Faust calls.

    async def _on_revoked(self, revoked: set[int]) -> None:
        self._delivery.revoke(revoked)

    async def _on_assigned(self, active: set[int]) -> None:
        self.metrics.rebalanced()
        standby = standbys(self._app, self._topic) - active
        known = len(self.memory.hosted)
        if beyond := [number for number in active | standby if number >= known]:
            error = LogChanged(
                f"{self._topic} has a partition {max(beyond)} now, and had {known} when this worker began",
                hint="a log's partition count is fixed: spaces would move; copy it to a new topic with slotlog copy",
            )
            self.fail(error)
            return
        remember_url(self._state, self._url)
        _log.info("assigned: active %s, standby %s", _listed(active), _listed(standby))
        self._delivery.assign(active, standby)

    def _wanted(self, number: int) -> int | None:
        """Where Faust is to read the partition when it seeks by itself."""
        return self.memory.hosted[number].next_offset if number < len(self.memory.hosted) else None

    # Watching.

    async def _watch(self) -> None:
        try:
            for tick in count(1):
                await asyncio.sleep(TICK_S)
                crash = self._app.crash_reason
                if crash is not None or self._app.should_stop:
                    self.fail(_as_ours(crash))
                    return
                self._membership.check()
                await self._look(tick)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  whatever it is, nobody watches any more
            self.fail(error)

    async def _look(self, tick: int) -> None:
        """Where the log ends, who is behind, who does not move, what is to be flushed."""
        try:
            ends = await asyncio.to_thread(self.memory.log.ends)
            if tick % TOLD_EVERY_TICKS == 0:
                await asyncio.to_thread(self.memory.log.check_unchanged)
                self._missing = 0
            self._reachable = True
        except NotFound as error:  # a broker that has just started may not know it yet
            ends = None
            self._missing += 1
            if self._missing > GONE_AFTER_TICKS:
                hint = "bring it back from an archive: slotlog topic create, then slotlog import"
                raise LogRecreated(f"the topic {self._topic} is gone: {error}", hint=hint) from error
        except LogUnreachable as error:
            if self._reachable:
                _log.warning("%s", error)
            self._reachable = False
            ends = None
        moves = any(one.has_moved for one in self.memory.hosted if one.role is not None)
        for number, one in enumerate(self.memory.hosted):
            if ends is not None:
                one.end = ends[number]
            if one.role is None:
                continue
            if one.has_stood_still(known=ends is not None, others_move=moves) * TICK_S > self._settings.watchdog_s:
                raise SlotlogError(
                    f"partition {number} has not moved from offset {one.next_offset} for "
                    f"{self._settings.watchdog_s:g} s, and the log goes on to {one.end}",
                    hint="start the worker again; when it stops again, slotlog verify looks at the log and the tables",
                )
            self._delivery.look_after(number)
            if one.state == "catching up" and one.lag > self._settings.behind and tick % TOLD_EVERY_TICKS == 0:
                _log.info("partition %d: catching up, %d of %d", number, one.next_offset, one.end)

    def _partitions(self) -> tuple[PartitionStatus, ...]:
        return tuple(status for one in self.memory.hosted if (status := one.status()) is not None)


def _as_ours(crash: BaseException | None) -> BaseException:
    if isinstance(crash, SlotlogError):
        return crash
    problem = "the Faust app stopped" if crash is None else f"the Faust app crashed: {crash!r}"
    return SlotlogError(problem, hint="the log above says more; nothing is lost, start the worker again")


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"


def _end_anyway(seconds: float) -> None:
    """A shutdown that hangs must not keep a broken worker alive. What was folded and not flushed is read again."""
    timer = threading.Timer(seconds, os._exit, (4,))
    timer.daemon = True
    timer.start()
