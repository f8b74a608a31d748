"""Which commits lead to another one: yes, no, or nobody knows. Pure but for the clone it may be given.

The graph is that of a clone of the repository, where one is at hand, and of the commits that the log tells of. A commit
that history was rewritten from counts as what it became. `None` means that it can't be told: the commit is known to
neither, or the way to it leads through commits that neither has (a shallow clone).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streams import keys
from streams.distrust import Origin
from streams.ports import Clone, Reachable
from streams.rows import PINNED_CLAIM, CommitRow, PinRow, Rows, decode
from streams.view import AncestrySource, Judge

_ONE_BY_ONE, _AT_ONCE_MAX = 256, 200_000
"""So many commits are looked up by themselves; and of so many at most all parents are held at a time."""


class LogCommits:
    """The commits that the log of a space tells of, as far as their events count. `judge` is of any View of the space
    with the same offset, actors and trust: no branch and no commit plays a part."""

    def __init__(self, rows: Rows, space: str, judge: Judge) -> None:
        self._rows = rows
        self._space = space
        self._judge = judge

    def parents(self, sha: str) -> tuple[str, ...] | None:
        """Parents as last told, None for a commit that is not known."""
        found = None
        for key, data in self._rows.scan(*keys.commits_of(self._space, sha)):
            row = decode(CommitRow, data)
            if self._counts(row, keys.last_int(key)):
                found = row.parents
        return found

    def many_parents(self) -> dict[str, tuple[str, ...]]:
        """`parents` of the commits that are known, read in one go; of very many, only the first."""
        found: dict[str, tuple[str, ...]] = {}
        for key, data in self._rows.scan(*keys.commits_of(self._space)):
            row, sha = decode(CommitRow, data), keys.texts(key, 2)[1]
            if sha not in found and len(found) == _AT_ONCE_MAX:
                break
            if self._counts(row, keys.last_int(key)):
                found[sha] = row.parents
        return found

    def became(self, sha: str) -> set[str]:
        """What the commit was rewritten into."""
        found = set()
        for key, data in self._rows.scan(*keys.rewritten_of(self._space, sha)):
            new, offset = data.decode(), keys.last_int(key)
            told = self._rows.get(keys.commit(self._space, new, offset))
            assert told is not None, "a rewritten commit without its row"
            if self._counts(decode(CommitRow, told), offset):
                found.add(new)
        return found

    def pinned(self) -> Iterator[tuple[str, PinRow]]:
        """Each commit that facts or ends are pinned to, whatever becomes of those."""
        for key, data in self._rows.scan(*keys.pins_of(self._space)):
            yield keys.texts(key, 2)[1], decode(PinRow, data)

    def claims_by(self, sha: str, offset: int) -> int:
        """How many facts and ends up to the offset, inclusive, are pinned to the commit."""
        start = keys.pinned_event(self._space, sha, 0)
        rows = self._rows.scan(start, keys.pinned_event(self._space, sha, offset + 1))
        return sum(kind == PINNED_CLAIM for _, kind in rows)

    def _counts(self, row: CommitRow, offset: int) -> bool:
        return self._judge.counts(Origin(offset, row.append_time, row.actor, row.branch, row.code))


class _Reached:
    """Every ancestor of one commit: from the clone when it has the commit, else from the log, and where the log does
    not know how it goes on, from the clone again. `is_whole`: there are no more."""

    def __init__(self, head: str, log: LogCommits, clone: Clone | None) -> None:
        self._log = log
        self._from_log: set[str] = set()
        self._from_clone: list[Reachable] = []
        whole = None if clone is None else clone.reachable(head)
        edges = [head] if whole is None else self._taken(whole)
        missing = False
        while edges:
            ends, edges = self._walked(edges), []
            known = clone.has(ends) if clone is not None and ends else set()
            for end in known:
                if not self._in_clone(end) and clone is not None and (found := clone.reachable(end)) is not None:
                    edges += self._taken(found)
            missing = missing or not ends <= known
        self.is_whole = not missing

    def __contains__(self, sha: str) -> bool:
        return sha in self._from_log or self._in_clone(sha)

    def _in_clone(self, sha: str) -> bool:
        return any(sha in part for part in self._from_clone)

    def _taken(self, found: Reachable) -> list[str]:
        self._from_clone.append(found)
        return list(found.boundary)

    def _walked(self, edges: list[str]) -> set[str]:
        """Go on from these by the log; the commits whose parents it does not know."""
        ends, asked, known = set(), 0, dict[str, tuple[str, ...]]()
        while edges:
            sha = edges.pop()
            if sha in self:
                continue
            self._from_log.add(sha)
            told = known.get(sha)
            if told is None:
                told = self._log.parents(sha)
                asked += 1
                if asked == _ONE_BY_ONE:  # a long way: in one go each is several times as quick
                    known = self._log.many_parents()
            if told is None:
                ends.add(sha)
            else:
                edges += told
        return ends


class Ancestry:
    """Ancestry of a few heads, each answer remembered."""

    def __init__(self, heads: Iterable[str], log: LogCommits, clone: Clone | None) -> None:
        self._log = log
        self._clone = clone
        self._counted: tuple[object, int] = (None, 0)
        self._heads = [_Reached(head, log, clone) for head in heads]
        self._known: dict[str, bool | None] = {}
        self._asked: set[str] = set()
        self._in_clone: set[str] = set()

    def __call__(self, sha: str) -> bool | None:
        """Whether the commit is one of the heads, leads to one, or became one that does; None: it can't be told."""
        if sha not in self._known:
            found = [self._leads(sha, head, frozenset()) for head in self._heads]
            self._known[sha] = True if True in found else None if None in found else False
        return self._known[sha]

    def over(self, log: LogCommits) -> Ancestry:
        """This, over newer rows that tell of the same commits."""
        self._log = log
        return self

    def hidden(self, limit: int, pins_changed: int) -> int:
        """How many facts and ends up to offset `limit`, inclusive, are pinned to commits that can't be told.
        `pins_changed` is the offset of the newest event that is pinned to any."""
        of_what = min(limit, pins_changed), pins_changed
        if self._counted[0] != of_what:
            self._counted = of_what, self._count(limit)
        return self._counted[1]

    def _count(self, limit: int) -> int:
        unknown = [(sha, row) for sha, row in self._log.pinned() if self(sha) is None]
        return sum(row.claims if row.last_offset <= limit else self._log.claims_by(sha, limit) for sha, row in unknown)

    def _leads(self, sha: str, head: _Reached, tried: frozenset[str]) -> bool | None:
        if sha in head:
            return True
        found = [self._leads(new, head, tried | {sha}) for new in self._log.became(sha)] if sha not in tried else []
        if True in found:
            return True
        return False if head.is_whole and None not in found and self._is_known(sha) else None

    def _is_known(self, sha: str) -> bool:
        if self._log.parents(sha) is not None:
            return True
        if self._clone is None:
            return False
        if sha not in self._asked:  # a question costs a process, so all that may be asked about is asked at once
            wanted = {sha, *(pinned for pinned, _ in self._log.pinned())} - self._asked
            self._in_clone |= self._clone.has(wanted)
            self._asked |= wanted
        return sha in self._in_clone


def source_of(heads: Iterable[str], clone: Clone | None) -> AncestrySource:
    """Who knows the commits: the clone, where it has one of the heads."""
    has_one = clone is not None and any(clone.reachable(head) is not None for head in heads)
    return "clone" if has_one else "log"
