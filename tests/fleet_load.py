"""What is written beside a fleet: events over spaces of very different weight, sent until they are acknowledged."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from fleet import PATIENCE_S, Fleet, until

from schemas import events as ev
from schemas.codec import Codec
from schemas.errors import Unavailable
from streams import clock
from streams.envelope import message
from streams.kafka_log import KafkaLog
from streams.ports import Message

SPACES = tuple(f"acme/team-{number:02}" for number in range(12))
"""Over four partitions each of them has at least one; the first is written to twelve times as often as the last."""

_KINDS = {"fact": 60, "correction": 12, "end": 8, "retraction": 8, "observation": 12}


class Story:
    """Tells messages without end. An event names earlier ones only once those are `acknowledged`: what is sent again in
    parts must not bring a retraction before its fact."""

    def __init__(self, seed: int, spaces: Sequence[str] = SPACES, actor: str = "agent:load") -> None:
        self._chance = random.Random(seed)
        self._spaces = spaces
        self._weights = [1 / (1 + number) for number in range(len(spaces))]
        self._actor = actor
        self._codec = Codec()
        self._known: dict[str, deque[bytes]] = {space: deque(maxlen=100) for space in spaces}
        self._fresh: list[tuple[str, bytes]] = []

    def tell(self, count: int) -> list[Message]:
        """The next messages."""
        return [message(self._event(), self._codec) for _ in range(count)]

    def acknowledged(self) -> None:
        """All that was told is on the log."""
        for space, identity in self._fresh:
            self._known[space].append(identity)
        self._fresh.clear()

    def _event(self) -> ev.Event:
        chance = self._chance
        (space,) = chance.choices(self._spaces, self._weights)
        (kind,) = chance.choices(list(_KINDS), list(_KINDS.values()))
        now = clock.now_micros()
        common: dict[str, Any] = {
            "event_id": clock.new_event_id(),
            "space": space,
            "actor": f"{self._actor}-{chance.randrange(3)}",
            "session": f"run-{chance.randrange(4)}",
            "recorded_at": now,
        }
        named = {"entity": f"user:{chance.randrange(30)}", "slot": f"slot-{chance.randrange(6)}"}
        match kind:
            case "retraction" if self._known[space]:
                return ev.FactRetracted(**common, target=chance.choice(self._known[space]), reason="misheard")
            case "end":
                return ev.FactEnded(**common, **named)
            case "observation":
                return ev.Observed(**common, role="user", text=f"something was said {chance.randrange(1_000_000)}")
            case "correction":
                since = now - chance.randrange(1, 1_000_000_000)
                value = chance.randrange(1000)
                fact = ev.FactAsserted(**common, **named, value=value, valid_from=since)
            case _:
                fact = ev.FactAsserted(**common, **named, value=f"value {chance.randrange(1000)}")
        self._fresh.append((space, fact.event_id))
        return fact


def fact(space: str, entity: str, slot: str, value: ev.Value, *, actor: str = "agent:test") -> Message:
    """One fact's message."""
    event = ev.FactAsserted(
        event_id=clock.new_event_id(), space=space, actor=actor, recorded_at=clock.now_micros(),
        entity=entity, slot=slot, value=value,
    )  # fmt: skip
    return message(event, Codec())


def ids(messages: Sequence[Message]) -> set[tuple[str, bytes]]:
    """(space, event id) of each."""
    codec = Codec()
    return {(one.key.decode(), codec.decode(one.value).event_id) for one in messages}


class Load(threading.Thread):
    """Writes what `story` tells, in batches, each until it is acknowledged, with the same ids: what the
    broker may or may not have taken is sent again. Every `again`-th batch is sent a second time in any case."""

    def __init__(self, log: KafkaLog, story: Story, *, per_second: float, batch: int, again: int) -> None:
        super().__init__(name="load", daemon=True)
        self.acknowledged: list[Message] = []
        self.retries = 0
        self.failure: BaseException | None = None
        self._log, self._story = log, story
        self._pause_s, self._batch, self._again = batch / per_second, batch, again
        self._done, self._abandoned = threading.Event(), threading.Event()

    def run(self) -> None:
        try:
            number = 0
            while not self._done.wait(self._pause_s):
                number += 1
                messages = self._story.tell(self._batch)
                self._append(messages)
                self._story.acknowledged()
                self.acknowledged += messages
                if self._again and number % self._again == 0:
                    self._append(messages)
        except BaseException as error:  # noqa: BLE001  told by `finish`
            self.failure = error

    def _append(self, messages: list[Message]) -> None:
        while True:
            try:
                self._log.append(messages)
                return
            except Unavailable:
                if self._abandoned.is_set():
                    raise
                self.retries += 1
                time.sleep(0.2)

    def go_on(self, events: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.acknowledged) + events
        until(lambda: len(self.acknowledged) >= wanted or self.failure, "the load does not go on")
        assert self.failure is None, repr(self.failure)

    def finish(self) -> set[tuple[str, bytes]]:
        """Stop, and wait for what is under way; (space, event id) of all that was acknowledged."""
        self._done.set()
        self.join(PATIENCE_S)
        assert not self.is_alive(), "the load does not end"
        assert self.failure is None, repr(self.failure)
        return ids(self.acknowledged)

    def abandon(self) -> None:
        """Stop without caring for what is under way."""
        self._abandoned.set()
        self._done.set()
        self.join(PATIENCE_S)


@contextmanager
def load(fleet: Fleet, story: Story, *, per_second: float = 200.0, batch: int = 10, again: int = 0) -> Iterator[Load]:
    """A load on the fleet's topic, through a connection of its own, that does not outlive the block."""
    with closing(KafkaLog(fleet.bootstrap, fleet.topic, timeout_s=5)) as log:
        running = Load(log, story, per_second=per_second, batch=batch, again=again)
        running.start()
        try:
            yield running
        finally:
            running.abandon()
