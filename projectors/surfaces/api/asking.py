"""How the memory is asked: in threads of bounded executors, never in the event loop, and once its tables are there.

`Asked` is what the API needs of a memory beside its verbs; what it takes from inside LocalMemory is taken here alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar
from uuid import UUID

from schemas import events as ev
from schemas.errors import InvalidView, NotFound, NotReached, Unavailable, UndecodableEvent
from schemas.jsonform import id_text, parse_id
from streams import clock
from streams.answers import Answer, Receipt, Recorded, beliefs_of
from streams.local import LocalMemory
from streams.ports import Fleet, Position
from streams.view import ResolvedView, View

T = TypeVar("T")


class Limits(NamedTuple):
    """What one request, and all of them together, may take of the process."""

    max_body_bytes: int = 16 * 1024 * 1024
    max_batch_events: int = 10_000
    threads: int = 16
    appends: int = 256
    page_bytes: int = 4 * 1024 * 1024


class Seen(NamedTuple):
    """A View as it was resolved: what the tables had reached, and the newest event that counts in it."""

    reached: Position
    view: ResolvedView
    event_id: bytes | None


class _Short(NamedTuple):
    """The tables are not there yet."""

    reached: Position


class Asked:
    """A memory in threads. What is awaited is for the event loop, everything else is called in a thread. Appends, which
    may wait for a broker, what reads everything, and what the process says of itself have threads of their own, so that
    none of them waits for the others."""

    def __init__(self, memory: LocalMemory, fleet: Fleet, limits: Limits) -> None:
        self.memory = memory
        self._fleet = fleet
        self._appends_max, self._appends = limits.appends, 0
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="slotlog-api")
        self._appending = ThreadPoolExecutor(limits.threads, thread_name_prefix="slotlog-append")
        self._whole = ThreadPoolExecutor(1, thread_name_prefix="slotlog-whole")
        self._telling = ThreadPoolExecutor(2, thread_name_prefix="slotlog-tell")

    async def close(self) -> None:
        """Wait for what is being asked; nothing more is answered."""
        for threads in (self._threads, self._appending, self._whole, self._telling):
            await asyncio.to_thread(threads.shutdown, wait=True, cancel_futures=True)

    async def run(self, do: Callable[[], T]) -> T:
        """What `do` returns, called in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, do)

    async def run_append(self, do: Callable[[], T]) -> T:
        """`run` for what appends.

        Raises:
            Unavailable: too many appends wait for the log already.
        """
        if self._appends >= self._appends_max:
            raise Unavailable(f"{self._appends:,} appends wait for the log already", hint="try again")
        self._appends += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._appending, do)
        finally:
            self._appends -= 1

    async def run_whole(self, do: Callable[[], T]) -> T:
        """`run` for what reads everything: one at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._whole, do)

    async def run_telling(self, do: Callable[[], T]) -> T:
        """`run` for what the process says of itself."""
        return await asyncio.get_running_loop().run_in_executor(self._telling, do)

    async def reach(self, space: str, needed: int | Position | None, timeout_s: float) -> None:
        """Wait until the tables of the space have folded the offset `needed`; see `ask`."""
        await self.ask(space, needed, timeout_s, lambda: None)

    async def ask(self, space: str, needed: int | Position | None, timeout_s: float, do: Callable[[], T]) -> T:
        """What `do` returns, called in a thread once the tables of the space have folded the offset `needed`.

        Raises:
            NotReached: they had not in time.
            InvalidView: it is an offset of another partition.
        """
        if needed is None:
            return await self.run(do)
        attempt = partial(self._attempt, space, needed, do)
        ends = clock.monotonic_s() + timeout_s
        found = await self.run(attempt)
        while isinstance(found, _Short):
            left = ends - clock.monotonic_s()
            if left <= 0:
                raise NotReached(
                    f"the tables have folded up to {found.reached}, and not {_shown(needed)} in {timeout_s:g} s",
                    reached=str(found.reached),
                    hint="ask again, or with a longer timeout",
                )
            moved = asyncio.ensure_future(self._fleet.changed(space, left))  # before the attempt: it misses nothing
            try:
                found = await self.run(attempt)
                if isinstance(found, _Short):
                    await moved
            finally:
                moved.cancel()
        return found

    def _attempt(self, space: str, needed: int | Position, do: Callable[[], T]) -> T | _Short:
        reached = self.memory.reached(space)
        return _Short(reached) if reached.offset < self.offset(space, needed, reached) else do()

    def offset(self, space: str, place: int | Position, reached: Position) -> int:
        """The offset that `place` means in the partition of the space.

        Raises:
            InvalidView: it is in another partition.
        """
        if isinstance(place, Position):
            if place.partition != reached.partition:
                raise InvalidView(f"{place} is in another partition", hint=f"{space} is in {reached.partition}")
            return place.offset
        return place

    def seen(self, space: str, view: View) -> Seen:
        """What `view` means for the space now."""
        with self.memory._locked(space):
            resolved = self.memory.resolve(space, view)
            return Seen(self.memory._at(space), resolved, self._newest(space))

    def get(self, space: str, entity: str, slot: str, view: View) -> tuple[Seen, Answer]:
        """`Memory.get`, and what the answer is of. A belief says so itself, so that it is asked for once."""
        with self.memory._locked(space):
            answer = self.memory.get(space, entity, slot, view)
            if beliefs := beliefs_of(answer):
                return Seen(self.memory._at(space), beliefs[0].view, self._newest(space)), answer
        seen = self.seen(space, view)
        return seen, self.memory.get(space, entity, slot, seen.view.fixed())

    def _newest(self, space: str) -> bytes | None:
        """Id of the newest event of the last answer about the space; its lock is held since that answer."""
        return self.memory._seen.get(space, (-1, None))[1]

    def timeline(
        self, space: str, entity: str | None, slot: str | None, view: ResolvedView, start: int, most: int
    ) -> list[Recorded]:
        """At most `most` events of `Memory.timeline`, from offset `start` on, inclusive."""
        with self.memory._locked(space):
            reads = self.memory._fresh(space)
            return list(islice(reads.timeline(space, view, start, entity, slot), most))

    def events(self, space: str, start: int, stop: int, most: int) -> list[Recorded]:
        """At most `most` events of the space from offset `start`, inclusive, to `stop`, exclusive, ascending, whatever
        any View says of them."""
        with self.memory._locked(space):
            reads = self.memory._fresh(space)
            return list(islice(reads.events(space, start, stop), most))

    def slot_of(self, space: str, event: ev.Event) -> tuple[str, str] | None:
        """(entity, slot) that an event of the space is about, itself or through the fact it names."""
        with self.memory._locked(space):
            return self.memory._fresh(space).slot_of(space, event)

    def receipt(self, space: str, event_id: str, position: Position) -> Receipt:
        """What became of the event, whose position is folded.

        Raises:
            NotFound: it is not what is there.
        """
        wanted = parse_id(event_id)
        found = self.memory.wait(Receipt(space, UUID(bytes=wanted), position, "accepted"))
        with self.memory._locked(space):
            reads = self.memory._fresh(space)
            there = reads.id_at(space, position.offset)
            refused = reads.quarantined_at(position.offset)
            is_known = reads.find(space, wanted) is not None
        if there is not None:
            is_it = there == wanted
        elif refused is not None:
            is_it = (refused.space, refused.event_id) == (space, wanted)
        else:
            is_it = is_known and self._is_logged(space, wanted, position)
        if not is_it:
            raise NotFound(f"event {id_text(wanted)} of space {space!r} is not at {position}")
        return found

    def _is_logged(self, space: str, event_id: bytes, position: Position) -> bool:
        """Whether the log has the event just there: as a duplicate, of which no table tells."""
        records = (one for batch in self.memory._log.read(*position, position.offset + 1) for one in batch.records)
        found = next(records, None)
        if found is None or found.value is None:
            return False
        try:
            event = self.memory._codec.decode(found.value)
        except UndecodableEvent:
            return False
        return (event.space, event.event_id) == (space, event_id)

    @contextmanager
    def covered(self) -> Iterator[list[int]]:
        """The partitions that are answered for here; as long as this is entered, what reads everything is of them, as
        they are now."""
        with self.memory._all_at_once() as followers:
            yield [follower.head.partition for follower in followers]

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self.memory._log.partitions


def _shown(place: int | Position) -> str:
    return str(place) if isinstance(place, Position) else f"offset {place}"
