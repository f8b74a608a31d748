"""Repositories of code that are made for a benchmark, through `git fast-import`, and what git says of any repository.

Nothing of the user's own git settings plays a part.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ENVIRONMENT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "LC_ALL": "C"}
START_S = 1_700_000_000
MINUTE_S = 60

Files = Mapping[str, str]
"""Path to content, of all files of one commit."""


class Commit(NamedTuple):
    """A commit to make: the places of its parents among the commits before it, its time, and all its files."""

    parents: tuple[int, ...]
    at_s: int
    files: Files


def git(folder: Path, *words: str, given: bytes | None = None) -> bytes:
    """What git says. CalledProcessError when it fails."""
    done = subprocess.run(
        ["git", "-C", str(folder), *words], input=given, capture_output=True, check=True, env=os.environ | ENVIRONMENT
    )
    return done.stdout


def make_repository(folder: Path, commits: Iterable[Commit]) -> list[str]:
    """A bare repository with these commits, the last of them its head; their ids, in order."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main")
    marks, count = folder / "marks", 0
    stream = bytearray()
    for count, commit in enumerate(commits, 1):
        stream += b"reset refs/heads/main\n"  # without it the commit before would be a parent
        stream += b"".join(_told(count, commit))
    git(folder, "fast-import", "--quiet", "--force", f"--export-marks={marks}", given=bytes(stream))
    named = dict(line.split() for line in marks.read_text().splitlines())
    marks.unlink()
    return [named[f":{number}"] for number in range(1, count + 1)]


def _told(mark: int, commit: Commit) -> Iterator[bytes]:
    yield b"commit refs/heads/main\nmark :%d\n" % mark
    yield b"committer Ana <ana@example.org> %d +0000\n" % commit.at_s
    yield _data(str(mark))
    for number, parent in enumerate(commit.parents):
        yield b"%s :%d\n" % (b"merge" if number else b"from", parent + 1)
    if commit.files:
        yield b"deleteall\n"
    for path, content in commit.files.items():
        yield b"M 100644 inline %s\n" % path.encode() + _data(content)
    yield b"\n"


def _data(text: str) -> bytes:
    raw = text.encode()
    return b"data %d\n%s\n" % (len(raw), raw)


def branchy(count: int, lines: int, seed: int) -> list[tuple[int, ...]]:
    """Parents of `count` commits of several lines of development: of some, two lines are merged into each other, both
    ways, before either goes on. All lead to the last one."""
    chance = random.Random(seed)
    tips, parents = [0], [()]  # type: list[int], list[tuple[int, ...]]

    def commit(*of: int) -> int:
        parents.append(of)
        return len(parents) - 1

    while len(parents) < count - 1:
        place = chance.randrange(len(tips))
        kind = chance.random()
        if kind < 0.1 and len(tips) < lines:
            tips.append(commit(tips[place]))
        elif kind < 0.2 and len(tips) > 2:
            gone = tips.pop(place)
            other = chance.randrange(len(tips))
            tips[other] = commit(tips[other], gone)
        elif kind < 0.3 and len(tips) > 1 and len(parents) < count - 2:
            other = (place + 1) % len(tips)
            first, second = tips[place], tips[other]
            tips[place], tips[other] = commit(first, second), commit(second, first)
        else:
            tips[place] = commit(tips[place])
    commit(*tips)
    return parents


def times(parents: Sequence[tuple[int, ...]], chance: random.Random) -> list[int]:
    """Seconds for each commit, some of them before those of its parents: clocks differ."""
    return [START_S + (place + chance.randrange(-5, 5)) * MINUTE_S for place in range(len(parents))]
