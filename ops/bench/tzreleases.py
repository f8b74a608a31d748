"""Releases of the tz database as PyPI's `tzdata` ships them, and what each says about its zones.

The standard library's zoneinfo, reading a release's own files, is the truth. `steps` finds the instants at which its
answers change; it trusts no file format for that: TZif only names candidates.
"""

from __future__ import annotations

import hashlib
import random
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from harness import CACHE, made_whole

BEGIN = 0
END = int(datetime(2038, 1, 1, tzinfo=UTC).timestamp())
DAY = 86_400
PROBES = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_HEADER = struct.Struct(">4sc15x6I")

Answer = tuple[int, str]
"""(seconds east of UTC, abbreviation)."""


class Step(NamedTuple):
    """From `at` on, in seconds since 1970, the zone has this offset and abbreviation."""

    at: int
    offset: int
    abbreviation: str


class Release:
    """One release's files in a folder of the cache."""

    def __init__(self, version: str, folder: Path) -> None:
        self.version = version
        self.folder = folder
        self.wheel_sha256 = (folder / "wheel.sha256").read_text().strip()
        self.zones = (folder / "tzdata" / "zones").read_text().split()

    def data(self, zone: str) -> bytes:
        return self.folder.joinpath("tzdata", "zoneinfo", *zone.split("/")).read_bytes()

    def steps(self, zone: str) -> tuple[Step, ...]:
        """What the release says of the zone from 1970 up to 2038; the first step is at 1970-01-01T00:00:00Z."""
        return steps(self.data(zone))

    def answer(self, zone: str, at: int) -> Answer:
        """What zoneinfo answers from the release's file at `at`, seconds since 1970."""
        return answer(zone_info(self.data(zone)), at)


def fetch(version: str) -> Release:
    """The release, downloaded once into the cache. It appears there whole or not at all."""

    def download(part: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "-d", str(part), f"tzdata=={version}"]
        subprocess.run(command, check=True)
        (wheel,) = part.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(part)
        (part / "wheel.sha256").write_text(hashlib.sha256(wheel.read_bytes()).hexdigest() + "\n")
        wheel.unlink()

    return Release(version, made_whole(CACHE / "tzdata" / version, download))


@cache
def zone_info(data: bytes) -> ZoneInfo:
    return ZoneInfo.from_file(BytesIO(data))


def answer(zone: ZoneInfo, at: int) -> Answer:
    local = datetime.fromtimestamp(at, zone)
    offset, abbreviation = local.utcoffset(), local.tzname()
    assert offset is not None
    assert abbreviation is not None
    assert offset % _SECOND == timedelta(0), f"{offset} is no whole number of seconds"
    return offset // _SECOND, abbreviation


@cache
def steps(data: bytes) -> tuple[Step, ...]:
    """Every change of zoneinfo's answers from this file, found at candidates and proved constant between them."""
    zone = zone_info(data)
    times, footer = transitions(data)
    candidates = {at for at in times if BEGIN < at < END}
    if "," in footer:  # a rule for ever; without one nothing changes after the last transition
        after = max([*times, BEGIN])
        candidates.update(_changes_by_day(zone, max(after, BEGIN)))
    instants = [BEGIN, *sorted(candidates), END]
    found: list[Step] = []
    chance = random.Random(len(data))
    for start, stop in pairwise(instants):
        said = answer(zone, start)
        for probe in (stop - 1, *(chance.randrange(start, stop) for _ in range(PROBES))):
            assert answer(zone, probe) == said, f"the answer changes between {start} and {stop}, at or before {probe}"
        if not found or (found[-1].offset, found[-1].abbreviation) != said:
            found.append(Step(start, *said))
    return tuple(found)


def _changes_by_day(zone: ZoneInfo, after: int) -> Iterator[int]:
    """Instants from `after` on at which the answer differs from the one a second before, a day apart at least."""
    known, low = answer(zone, after), after
    while low < END:
        high = min(low + DAY, END)
        said = answer(zone, high)
        if said != known:
            before = low
            while high - before > 1:
                middle = (before + high) // 2
                if answer(zone, middle) == known:
                    before = middle
                else:
                    high = middle
            yield high
            known = answer(zone, high)
        low = high


def transitions(data: bytes) -> tuple[list[int], str]:
    """Transition times and footer of a TZif file (RFC 8536), from the 64-bit block where there is one."""
    version, counts = _header(data, 0)
    start, time_format = _HEADER.size, ">%dl"
    if version >= b"2":
        start += _block_bytes(counts, 4)
        version, counts = _header(data, start)
        start, time_format = start + _HEADER.size, ">%dq"
    times = list(struct.unpack_from(time_format % counts[3], data, start))
    if version < b"2":
        return times, ""
    return times, data[start + _block_bytes(counts, 8) :].decode("ascii").strip("\n")


def _header(data: bytes, start: int) -> tuple[bytes, tuple[int, ...]]:
    magic, version, *counts = _HEADER.unpack_from(data, start)
    assert magic == b"TZif", "no TZif file"
    return version, tuple(counts)


def _block_bytes(counts: tuple[int, ...], time_bytes: int) -> int:
    is_utc, is_standard, leaps, times, types, characters = counts
    return times * (time_bytes + 1) + types * 6 + characters + leaps * (time_bytes + 4) + is_standard + is_utc


def instant(at: int) -> datetime:
    """The UTC datetime of `at`, seconds since 1970."""
    return _EPOCH + at * _SECOND
