"""What a repository tells, onto the log: its commits, and which of them became others when history was rewritten.

Every event is a function of what it says: two who tell the same commit at once append one event and its duplicate.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from schemas import events as ev
from streams.repository import Commit, Repository

T = TypeVar("T")

BATCH_EVENTS = 1_000

RECENT_COMMITS = 1_000
"""So many of the newest commits are compared with the log before all that it has is."""


class Known(Protocol):
    """What the log knows of a commit."""

    @property
    def sha(self) -> str: ...
    @property
    def parents(self) -> tuple[str, ...]: ...
    @property
    def rewritten_from(self) -> tuple[str, ...]: ...


class CommitLog(Protocol):
    """What is asked of a Memory."""

    def commits(self, space: str, shas: Iterable[str] | None = None) -> Sequence[Known]:
        """What the log knows of these commits, or of all."""

    def pinned(self, space: str) -> Mapping[str, int]:
        """Each commit that facts and ends are pinned to, and how many."""

    def append(self, events: Iterable[ev.Event | Mapping[str, object]]) -> object:
        """Append events, in order."""


class Synced(NamedTuple):
    """What became of it.

    appended: commits that the log did not have.
    mapped: commits that facts are pinned to, and that are now known to have become others.
    pending: commits of this clone that facts are pinned to, that don't lead to its head and that nothing is known to
        have replaced. They may be on branches that are still to be merged. None where nobody counted: `quick`.
    """

    appended: int
    mapped: int
    pending: int | None


def sync(
    memory: CommitLog,
    space: str,
    repository: Repository,
    *,
    actor: str,
    rewritten: Iterable[tuple[str, str]] = (),
    tips: Sequence[str] | None = None,
    quick: bool = False,
) -> Synced:
    """Bring the log up to the repository: commits that lead to `tips` (default: the head), parents first, and what
    became of commits that facts are pinned to. Again, or twice at once, it changes nothing.

    Args:
        actor: who writes.
        rewritten: (old, new) commits, as git's post-rewrite hook is told. Those whose old one matters are recorded.
        quick: trust that what leads to a known commit was told before, and look for the counterparts of lost commits
            among the new ones alone. For hooks, which tell of one commit after the other.
    """
    session = _Session(memory, space, repository, actor)
    head = repository.head()
    starts = [head] if tips is None and head is not None else list(tips or ())
    fresh = session.tell(_unknown(memory, space, repository, starts, quick))
    mapped = session.map(session.that_matter(rewritten))
    if head is None or (quick and not fresh):
        return Synced(len(fresh), mapped, None if quick else 0)
    lost = session.lost(head, followed=not quick)
    wanted = sorted(set().union(*lost.values()))
    found = repository.counterparts(wanted, head, among=fresh if quick else None) if wanted else {}
    mapped += session.map(sorted(found.items()))
    pending = sum(found.keys().isdisjoint(all_of_it) for all_of_it in lost.values())
    return Synced(len(fresh), mapped, None if quick else pending)


class _Session:
    """One run of `sync`."""

    def __init__(self, memory: CommitLog, space: str, repository: Repository, actor: str) -> None:
        self._memory = memory
        self._space = space
        self._repository = repository
        self._actor = actor
        self._repo = repository.name
        self._pinned = memory.pinned(space)

    def tell(self, commits: Iterable[Commit]) -> list[str]:
        """Append those that the log does not have; returns them."""
        told = []
        for batch in _batches(commits):
            known = {one.sha for one in self._memory.commits(self._space, [commit.sha for commit in batch])}
            new = [commit for commit in batch if commit.sha not in known]
            if new:
                self._memory.append([self._event(commit, None) for commit in new])
                told += [commit.sha for commit in new]
        return told

    def that_matter(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The pairs whose old commit facts are pinned to, or another one became."""
        given = list(dict.fromkeys(pairs))
        others = {old for old, _ in given if old not in self._pinned}
        became = (
            {one.sha for one in self._memory.commits(self._space, others) if one.rewritten_from} if others else set()
        )
        found = []
        for old, new in given:
            if old in self._pinned or old in became:
                became.add(new)
                found.append((old, new))
        return found

    def map(self, pairs: Sequence[tuple[str, str]]) -> int:
        """Append that each old commit became the new one, as far as the log does not say so; returns how many."""
        if not pairs:
            return 0
        news = {new for _, new in pairs}
        said = {(old, one.sha) for one in self._memory.commits(self._space, news) for old in one.rewritten_from}
        commits = self._repository.describe(news)
        events = [self._event(commits[new], old) for old, new in pairs if new in commits and (old, new) not in said]
        for batch in _batches(events):
            self._memory.append(batch)
        return len(events)

    def lost(self, head: str, *, followed: bool) -> dict[str, set[str]]:
        """Commits of this clone that facts are pinned to and that don't lead to `head`, each with itself and all that
        it is known to have become, unless one of those leads there. Only `followed` asks the log what they became."""
        reached = self._repository.reachable(head) if self._pinned else None
        if reached is None:
            return {}
        beside = self._repository.has(sha for sha in self._pinned if sha not in reached)
        if not beside or not followed:
            return {sha: {sha} for sha in beside}
        became: dict[str, list[str]] = {}
        for one in self._memory.commits(self._space):
            for old in one.rewritten_from:
                became.setdefault(old, []).append(one.sha)
        closures = {sha: {sha} | _closure(sha, became) for sha in sorted(beside)}
        return {sha: all_of_it for sha, all_of_it in closures.items() if not any(new in reached for new in all_of_it)}

    def _event(self, commit: Commit, rewritten_from: str | None) -> ev.Event:
        event_id, recorded_at = _identity(self._space, self._repo, commit, rewritten_from, self._actor)
        return ev.CommitSeen(
            event_id=event_id,
            space=self._space,
            actor=self._actor,
            recorded_at=recorded_at,
            repo=self._repo,
            sha=commit.sha,
            parents=commit.parents,
            committed_at=commit.committed_at,
            rewritten_from=rewritten_from,
        )


def _unknown(
    memory: CommitLog, space: str, repository: Repository, tips: Sequence[str], quick: bool
) -> Iterable[Commit]:
    """The commits that lead to `tips` and that the log lacks, parents first; maybe others that it has."""
    if quick:
        nearby = _nearby(memory, space, repository, tips)
        if nearby is not None:
            return nearby
    known = {one.sha: one.parents for one in memory.commits(space)}
    inner = {parent for parents in known.values() for parent in parents}
    gaps = repository.has(inner - known.keys())
    if gaps:  # a clone that had less told of it before
        return repository.commits([*tips, *gaps])
    return repository.commits(tips, known.keys() - inner)


def _nearby(memory: CommitLog, space: str, repository: Repository, tips: Sequence[str]) -> list[Commit] | None:
    """The same where what the log has of it is close to the tips; None where it is not, or the log has none of it."""
    missing = set(tips) - {one.sha for one in memory.commits(space, tips)}
    if not missing:
        return []
    alone = repository.describe(missing)
    if _all_known(memory, space, alone.values()):
        return list(alone.values())
    recent = [commit.sha for commit in repository.commits(list(missing), limit=RECENT_COMMITS)]
    known = [one.sha for one in memory.commits(space, recent)]
    found = list(islice(repository.commits(list(missing), known), RECENT_COMMITS)) if known else []
    return found if found and _all_known(memory, space, found) else None


def _all_known(memory: CommitLog, space: str, commits: Iterable[Commit]) -> bool:
    """Whether the log has every parent that is not among them."""
    listed = list(commits)
    parents = {parent for commit in listed for parent in commit.parents} - {commit.sha for commit in listed}
    return parents == {one.sha for one in memory.commits(space, parents)} if parents else True


def _closure(sha: str, became: Mapping[str, Sequence[str]]) -> set[str]:
    """All that a commit became, and what that became."""
    found: set[str] = set()
    waiting = [sha]
    while waiting:
        for new in became.get(waiting.pop(), ()):
            if new not in found:
                found.add(new)
                waiting.append(new)
    return found


def _batches(things: Iterable[T]) -> Iterator[list[T]]:
    source = iter(things)
    while batch := list(islice(source, BATCH_EVENTS)):
        yield batch


def _identity(space: str, repo: str, commit: Commit, rewritten_from: str | None, actor: str) -> tuple[bytes, int]:
    """(id, recorded_at) of the event that says this: a UUIDv7 of the committer's time, the rest of it a digest."""
    milliseconds = commit.committed_at // 1000
    said = json.dumps([space, repo, commit.sha, rewritten_from, actor]).encode()
    raw = bytearray(milliseconds.to_bytes(6, "big") + hashlib.sha256(said).digest()[:10])
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw), milliseconds * 1000
