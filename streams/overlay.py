"""Writes laid over rows: what a fold is about to write, or the log's tail over tables that were opened to read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from streams.rows import Rows


class Empty:
    """Rows of which there are none."""

    def get(self, key: bytes) -> bytes | None:
        return None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [None] * len(keys)

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return iter(())


class Remembered:
    """Rows of `base`, with those of some families kept in memory once they were read or written.

    For one writer over tables that nobody else writes: what was written is told with `keep`.
    """

    def __init__(self, base: Rows, families: bytes, rows_max: int) -> None:
        self._base = base
        self._families = families
        self._rows_max = rows_max
        self._rows: dict[bytes, bytes] = {}

    def keep(self, writes: Mapping[bytes, bytes]) -> None:
        """Take over rows that were written to the base."""
        families = self._families
        if len(self._rows) > self._rows_max:
            self._rows.clear()
        self._rows.update((key, row) for key, row in writes.items() if key[0] in families)

    def get(self, key: bytes) -> bytes | None:
        found = self._rows.get(key)
        return self._base.get(key) if found is None else found

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = [self._rows.get(key) for key in keys]
        missing = [number for number, row in enumerate(found) if row is None]
        for number, row in zip(missing, self._base.get_many([keys[number] for number in missing]), strict=True):
            found[number] = row
        return found

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self._base.scan(start, stop, reverse=reverse)


class Overlay:
    """Rows made of `base` and of `writes`, which win. Nothing is ever written to `base`."""

    def __init__(self, base: Rows) -> None:
        self.base = base
        self.writes: dict[bytes, bytes] = {}
        self._fetched: dict[bytes, bytes | None] = {}
        self._sorted: list[bytes] | None = None

    def put(self, key: bytes, row: bytes) -> None:
        if self._sorted is not None and key not in self.writes:
            self._sorted = None
        self.writes[key] = row

    def update(self, rows: Mapping[bytes, bytes]) -> None:
        """Put all of `rows`."""
        self._sorted = None
        self.writes.update(rows)

    def prefetch(self, keys: Iterable[bytes]) -> None:
        """Read rows of the base at once, so that `get` finds them here. Forgotten at the next `prefetch`."""
        wanted = [key for key in keys if key not in self.writes]
        self._fetched = dict(zip(wanted, self.base.get_many(wanted), strict=True))

    def get(self, key: bytes) -> bytes | None:
        found = self.writes.get(key)
        if found is not None:
            return found
        if key in self._fetched:
            return self._fetched[key]
        return self.base.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        missing = [key for key in keys if key not in self.writes]
        below = dict(zip(missing, self.base.get_many(missing), strict=True)) if missing else {}
        return [self.writes[key] if key in self.writes else below[key] for key in keys]

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        if self._sorted is None:
            self._sorted = sorted(self.writes)
        keys = self._sorted[bisect_left(self._sorted, start) : bisect_left(self._sorted, stop)]
        below = self.base.scan(start, stop, reverse=reverse)
        if not keys:
            return below
        return self._merge(reversed(keys) if reverse else iter(keys), below, reverse)

    def _merge(
        self, keys: Iterator[bytes], below: Iterator[tuple[bytes, bytes]], reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        above = next(keys, None)
        for key, row in below:
            while above is not None and (above > key if reverse else above < key):
                yield above, self.writes[above]
                above = next(keys, None)
            if above == key:
                yield key, self.writes[key]
                above = next(keys, None)
            else:
                yield key, row
        while above is not None:
            yield above, self.writes[above]
            above = next(keys, None)
