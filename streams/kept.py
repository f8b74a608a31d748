"""What reads make of rows that seldom change, kept from one read to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from streams.ancestry import Ancestry
from streams.branching import Branches
from streams.view import Rules

K = TypeVar("K")
V = TypeVar("V")


class _Newest(Generic[K, V]):
    """One value per key, for as long as what it was made of is the same; the keys asked for last are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[K, tuple[object, V]] = {}

    def of(self, key: K, made_of: object, make: Callable[[], V]) -> V:
        known = self._found.pop(key, None)
        if known is None or known[0] != made_of:
            known = made_of, make()
        self._found[key] = known
        if len(self._found) > self._most:
            del self._found[next(iter(self._found))]
        return known[1]


class Kept:
    """What reads of one partition make of rows that seldom change, kept from one read to the next."""

    def __init__(self) -> None:
        self.rules: _Newest[str, Rules] = _Newest(10_000)
        self.branches: _Newest[str, Branches | None] = _Newest(10_000)
        self.ancestries: _Newest[tuple[str, tuple[str, ...]], Ancestry] = _Newest(32)
