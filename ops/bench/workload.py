"""Events like a fleet's: facts over many slots of many spaces, in sessions, with ends, retractions and observations.

The same seed gives the same events but for ids and recorded_at, which are fresh.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Any

from schemas import events as ev
from streams import clock

SPACES = 50
SESSION_EVENTS = 50
SHARES = {"FactAsserted": 85, "FactEnded": 5, "FactRetracted": 2, "Observed": 8}
MINUTE_US = 60_000_000
BEGIN_US = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z

_SLOTS = (
    "employer", "title", "city", "timezone", "language", "plan", "owner", "status", "deadline", "priority", "budget",
    "contact", "repository", "branch", "environment", "region", "framework", "database", "on_call", "preference",
)  # fmt: skip
_SENTENCE = (
    "the deploy to staging failed because its migration was locked by an older session so I asked the owner to end it "
    "and ran the checks again with the new limits before telling the customer that the invoice will be corrected"
)
_WORDS = _SENTENCE.split()


class Fleet:
    """Makes events without end. `slots` is how many entity:slot pairs there are over all spaces."""

    def __init__(self, seed: int, slots: int = 100_000) -> None:
        self._random = random.Random(seed)
        self._spaces = [f"acme/team-{number:02}" for number in range(SPACES)]
        self._entities = max(1, slots // SPACES // len(_SLOTS))
        self._facts: dict[str, deque[bytes]] = {space: deque(maxlen=200) for space in self._spaces}
        self._sessions = dict.fromkeys(self._spaces, 0)
        self._at = BEGIN_US

    def events(self, count: int) -> Iterator[ev.Event]:
        """The next `count` events."""
        for kind in self._random.choices(list(SHARES), list(SHARES.values()), k=count):
            self._at += self._random.randrange(2 * MINUTE_US // 60)
            space = self._random.choice(self._spaces)
            if kind == "FactRetracted" and not self._facts[space]:
                kind = "FactAsserted"
            yield getattr(self, f"_{kind}")(space)

    def _common(self, space: str) -> dict[str, Any]:
        self._sessions[space] += 1
        return {
            "event_id": clock.new_event_id(),
            "space": space,
            "session": f"run-{self._sessions[space] // SESSION_EVENTS:06}",
            "actor": f"agent:worker-{self._random.randrange(200):03}",
            "recorded_at": clock.now_micros(),
        }

    def _named(self) -> dict[str, Any]:
        # The square makes some entities much busier than others, as they are.
        entity = int(self._random.random() ** 2 * self._entities)
        return {"entity": f"user:{entity:05}", "slot": self._random.choice(_SLOTS)}

    def _text(self, words: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=words))

    def _value(self) -> ev.Value:
        kind = self._random.random()
        if kind < 0.7:
            return self._text(self._random.randrange(1, 5))
        if kind < 0.85:
            return self._random.randrange(100_000)
        return round(self._random.random() * 1000, 3) if kind < 0.95 else self._random.random() < 0.5

    def _FactAsserted(self, space: str) -> ev.Event:
        event = ev.FactAsserted(
            **self._common(space),
            **self._named(),
            value=self._value(),
            valid_from=self._at if self._random.random() < 0.4 else None,
            confidence=round(self._random.random(), 2) if self._random.random() < 0.5 else None,
            origin=self._random.choice(("stated", "observed", "extracted")),
            source=f"chat/{self._random.randrange(10_000)}" if self._random.random() < 0.3 else None,
        )
        self._facts[space].append(event.event_id)
        return event

    def _FactEnded(self, space: str) -> ev.Event:
        return ev.FactEnded(**self._common(space), **self._named(), reason="no longer so")

    def _FactRetracted(self, space: str) -> ev.Event:
        return ev.FactRetracted(
            **self._common(space), target=self._random.choice(self._facts[space]), reason="was misheard"
        )

    def _Observed(self, space: str) -> ev.Event:
        role = self._random.choice(("user", "assistant", "tool"))
        attributes = {"tool": "shell", "exit": "0"} if role == "tool" else {}
        return ev.Observed(
            **self._common(space), role=role, text=self._text(self._random.randrange(10, 60)), attributes=attributes
        )
