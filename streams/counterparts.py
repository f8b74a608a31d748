"""Which commit carries the change of another one that was left behind: found by patch-id, then checked file by file.

A patch-id is git's digest of a diff without line numbers and white space. Two changes are taken for the same one when
their patch-ids are equal and they touch the same files in the same way, binary ones with the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from streams.git_client import Git

LOST_MAX = 256
"""At most so many commits are looked for at once."""

CANDIDATES_MAX = 2_000
"""Among the newest so many commits since the histories parted."""

_BRANCHES_MAX = 32
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "--full-index", "-r")


class _Carriers:
    """Commits on the line of `head`, parents before children, and the changes that they make alone."""

    def __init__(self, git: Git, candidates: Sequence[str]) -> None:
        self._git = git
        self._by_patch: dict[str, list[str]] = {}
        for patch, sha in _patch_ids(git, candidates):
            self._by_patch.setdefault(patch, []).append(sha)

    def __bool__(self) -> bool:
        return bool(self._by_patch)

    def first(self, patch: str, change: Sequence[str]) -> str | None:
        """The first that makes this change, a commit or a pair of ends. What the change itself builds on is passed
        over: had it been undone since, it would be the wrong one."""
        for sha in self._by_patch.get(patch, ()):
            if not _leads(self._git, sha, change[-1]) and _effect(self._git, (sha,)) == _effect(self._git, change):
                return sha
        return None


def find(git: Git, lost: Sequence[str], head: str, among: Iterable[str] | None) -> dict[str, str]:
    """For each of `lost`, commits of the clone, its counterpart on the line of `head`, where there is one.

    Alone, or as part of its line since the merge base, which may end at the commit itself, at another lost one or at a
    branch. Where several commits carry the same change it is the first of them.
    """
    shared = {sha: _bases(git, sha, head) for sha in lost[:LOST_MAX]}
    bases = {sha: listed for sha, listed in shared.items() if listed and listed != [sha]}
    carriers = _Carriers(git, _candidates(git, list(bases), head, among)) if bases else None
    if not carriers:
        return {}
    found: dict[str, str] = {}
    for patch, sha in _patch_ids(git, list(bases)):
        other = carriers.first(patch, (sha,))
        if other is not None:
            found[sha] = other
    left = {sha: listed for sha, listed in bases.items() if sha not in found}
    return found | _squashed(git, left, head, carriers) if left else found


def _bases(git: Git, sha: str, head: str) -> list[str]:
    return _shas(git.ask("merge-base", "--all", sha, head).out)


def _candidates(git: Git, lost: Sequence[str], head: str, among: Iterable[str] | None) -> list[str]:
    """Commits on the line of `head` and not on all of the lost ones, no merges, parents before children."""
    common = _shas(git.ask("merge-base", "--all", "--octopus", head, *lost).out)
    ends = [f"^{sha}" for sha in common]
    words = ("rev-list", "--no-merges", "--topo-order", "--reverse", f"--max-count={CANDIDATES_MAX}", head, *ends)
    found = _shas(git.ask(*words).out)
    if among is None:
        return found
    wanted = set(among)
    return [sha for sha in found if sha in wanted]


def _squashed(git: Git, lost: dict[str, list[str]], head: str, carriers: _Carriers) -> dict[str, str]:
    """Those on a side line whose whole change is that of one commit. `lost` has the merge bases of each."""
    bases = dict(lost)
    for tip in _branches_beside(git, head):
        bases.setdefault(tip, _bases(git, tip, head))
    whole: dict[str, str] = {}
    ranges = [f"{tip} {base}" for tip, listed in bases.items() for base in listed]  # as if the base were its parent
    for patch, tip in _patch_ids(git, ranges):
        for base in bases[tip]:
            other = carriers.first(patch, (base, tip))
            if other is not None:
                whole.setdefault(tip, other)
    found = {sha: whole[sha] for sha in lost if sha in whole}
    for sha in lost.keys() - found.keys():
        tips = [tip for tip in whole if _leads(git, sha, tip)]
        if tips:
            found[sha] = whole[tips[0]]
    return found


def _branches_beside(git: Git, head: str) -> list[str]:
    """Where branches end that are not part of the line of `head`, the newest first."""
    words = ("--format=%(objectname)", "--no-merged", head, f"--count={_BRANCHES_MAX}", "--sort=-committerdate")
    return _shas(git.ask("for-each-ref", *words, "refs/heads/", "refs/remotes/").out)


def _leads(git: Git, sha: str, tip: str) -> bool:
    return git.ask("merge-base", "--is-ancestor", sha, tip).code == 0


def _patch_ids(git: Git, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(patch-id, commit) of each commit that changes anything and is no merge, in order. A line is a commit, or one and
    what to take for its parent."""
    if not lines:
        return
    diff = ("diff-tree", "--stdin", "-p", "--root", *_DIFF)
    out = git.pipe(diff, ("patch-id", "--stable"), given=lines)
    for line in (out or b"").decode("ascii").splitlines():
        patch, sha = line.split()
        yield patch, sha


def _effect(git: Git, change: Sequence[str]) -> set[tuple[str, ...]]:
    """(path, kind of change, mode before, mode after, content where it is binary) of each file."""
    numbers = git.read("diff-tree", "--no-commit-id", "--root", "--numstat", "-z", *_DIFF, *change).split(b"\0")
    binary = {line.split(b"\t", 2)[2] for line in numbers if line.startswith(b"-\t-\t")}
    raw = git.read("diff-tree", "--no-commit-id", "--root", "--raw", "-z", "--no-abbrev", *_DIFF, *change)
    found: set[tuple[str, ...]] = set()
    fields = raw.split(b"\0")[:-1]
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        before, after, _, content, kind = about.decode("ascii").removeprefix(":").split()
        found.add((repr(path), kind, before, after, content if path in binary else ""))
    return found


def _shas(out: bytes) -> list[str]:
    return out.decode("ascii").split()
