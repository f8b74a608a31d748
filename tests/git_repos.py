"""Git repositories for tests: real ones in a folder of their own, graphs of many commits that are made at once, and a
log that takes their commits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from schemas import events as ev
from schemas.checks import check_given
from streams.answers import KnownCommit
from streams.ports import Position

SPACE = "acme/shop"
ACTOR = "hook:git"

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "Ana",
    "GIT_AUTHOR_EMAIL": "ana@example.org",
    "GIT_COMMITTER_NAME": "Ana",
    "GIT_COMMITTER_EMAIL": "ana@example.org",
    "LC_ALL": "C",
}
START = 1_700_000_000


class Repo:
    """One work tree, or a bare repository. Every commit is a minute after the one before."""

    def __init__(self, folder: Path, clock: list[int] | None = None) -> None:
        self.folder = folder
        self._clock = [START] if clock is None else clock

    @classmethod
    def init(cls, folder: Path, *options: str) -> Repo:
        folder.mkdir(parents=True)
        made = cls(folder)
        made.git("init", "--quiet", "--initial-branch=main", *options)
        return made

    def git(self, *words: str, given: bytes | None = None, code: int = 0, **env: str) -> str:
        """What git says, once it ended with `code`."""
        done = self.run(*words, given=given, **env)
        assert done.returncode == code, done.stderr.decode()
        return done.stdout.decode().strip()

    def run(self, *words: str, given: bytes | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
        self._clock[0] += 60
        at = f"{self._clock[0]} +0000"
        environment = {**os.environ, **ENVIRONMENT, "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at, **env}
        return subprocess.run(
            ["git", "-C", str(self.folder), *words], input=given, capture_output=True, env=environment, check=False
        )

    def commit(self, text: str = "change", **files: str) -> str:
        """A commit that writes these files, or none; its id. `a__b` names the file `a.b`."""
        for name, content in files.items():
            (self.folder / name.replace("__", ".")).write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", text)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def worktree(self, folder: Path, *words: str) -> Repo:
        self.git("worktree", "add", "--quiet", str(folder), *words)
        return Repo(folder, self._clock)

    def clone(self, folder: Path, *options: str) -> Repo:
        self.git("clone", "--quiet", *options, self.folder.as_uri(), str(folder))
        return Repo(folder, self._clock)


def graph(repo: Repo, parents: Sequence[Sequence[int]], times: Sequence[int] | None = None) -> list[str]:
    """Commits with these parents, each a list of places of earlier ones; their ids, in the same order. No branch leads
    to all of them."""
    lines = []
    for place, listed in enumerate(parents):
        at = START + place if times is None else times[place]
        lines.append("reset refs/heads/graph\ncommit refs/heads/graph\n")  # without the reset each had a parent
        lines.append(f"mark :{place + 1}\ncommitter Ana <a@b> {at} +0000\ndata <<E\n{place}\nE\n")
        words = [f"from :{listed[0] + 1}\n", *(f"merge :{one + 1}\n" for one in listed[1:])] if listed else []
        lines += [*words, "\n"]
    marks = repo.folder / ".marks"
    repo.git("fast-import", "--quiet", "--force", f"--export-marks={marks}", given="".join(lines).encode())
    named = dict(line.split() for line in marks.read_text().splitlines())
    return [named[f":{place + 1}"] for place in range(len(parents))]


class FakeLog:
    """What `sync` asks of a Memory: equal events count once, and other bytes under one id are an error."""

    def __init__(self) -> None:
        self.events: dict[bytes, ev.CommitSeen] = {}
        self.pins: dict[str, int] = {}
        self.duplicates = 0
        self.largest = 0
        self.asked_for_all = 0

    def append(self, events: Iterable[ev.Event | Mapping[str, object]]) -> None:
        batch = list(events)
        self.largest = max(self.largest, len(batch))
        for event in batch:
            assert isinstance(event, ev.CommitSeen)
            check_given(event)
            if event.event_id in self.events:
                assert self.events[event.event_id] == event
                self.duplicates += 1
            self.events[event.event_id] = event

    def commits(self, space: str, shas: Iterable[str] | None = None) -> list[KnownCommit]:
        assert space == SPACE
        self.asked_for_all += shas is None
        wanted = None if shas is None else set(shas)
        found: dict[str, list[ev.CommitSeen]] = {}
        for event in self.events.values():
            if wanted is None or event.sha in wanted:
                found.setdefault(event.sha, []).append(event)
        return [
            KnownCommit(
                sha,
                told[-1].repo,
                told[-1].parents,
                tuple(one.rewritten_from for one in told if one.rewritten_from is not None),
                Position(0, 0),
            )
            for sha, told in found.items()
        ]

    def pinned(self, space: str) -> dict[str, int]:
        assert space == SPACE
        return self.pins

    def pin(self, *shas: str) -> None:
        self.pins.update(dict.fromkeys(shas, 1))

    def __enter__(self) -> FakeLog:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def plain(self) -> list[str]:
        return [one.sha for one in self.events.values() if one.rewritten_from is None]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(one.rewritten_from, one.sha) for one in self.events.values() if one.rewritten_from is not None]
