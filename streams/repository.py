"""A repository of code, read through git: its name, its commits, and which of them lead to which.

It knows nothing of spaces or events. Commits are named by their full ids in lower-case hexadecimal digits, 40 of them
or, where the repository uses SHA-256, 64.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from schemas.errors import InvalidInput
from schemas.times import LATEST, Micros
from streams.git_client import Git, failure
from streams.reachable import AncestryFiles, Ids, ReachableSet, ids_of

if TYPE_CHECKING:
    from streams.git_hooks import Hook

HELD_MAX = 16
"""Commits whose ancestors are kept at hand in this process."""

_FULL = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SCHEME = re.compile(r"(?:[a-z0-9+-]+::)?[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HELPER = re.compile(r"[a-z0-9+-]+::", re.IGNORECASE)
_PORT = re.compile(r":\d*$")
_SCP = re.compile(r"(\[[^/]+\]|[^/:]+):(.*)", re.DOTALL)
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f]")
_NAME_CHARACTERS_MAX = 512
_BASES_TRIED = 4
_QUICK_WALK = 50_000
"""So few commits are walked as quickly as it is found out which of the stored ones lead to one."""
_EXTRA_MIN, _EXTRA_MAX = 64, 10_000


class Commit(NamedTuple):
    """A commit as it is stored: its parents in order, and the committer's time."""

    sha: str
    parents: tuple[str, ...]
    committed_at: Micros


class Repository:
    """One clone, as seen from one folder: of several work trees each has its own head. Safe for several threads."""

    def __init__(self, git: Git, common_folder: str) -> None:
        """`common_folder`: where git keeps what all work trees share, absolute."""
        self._git = git
        self._common = common_folder
        self._files = AncestryFiles.of_user()
        self._held: dict[str, tuple[object, ReachableSet]] = {}

    @staticmethod
    def find(path: str | os.PathLike[str] = ".") -> Repository | None:
        """The repository that `path` is in: a work tree, linked or not, a submodule, or a bare one. None where there is
        none, or no git.

        Raises:
            InvalidInput: git does not trust who owns it.
            SlotlogError: there is one, and git can't read it.
        """
        try:
            folder = os.path.abspath(os.fspath(path))
        except FileNotFoundError:  # the working directory was removed
            return None
        if not os.path.isdir(folder) or not Git.is_there():
            return None
        git = Git(folder)
        words = ("rev-parse", "--path-format=absolute", "--git-common-dir")
        answer = git.ask(*words)
        if answer.code == 0:
            return Repository(git, answer.line)
        if "not a git repository" in answer.told:
            return None
        raise failure(words, answer.told)

    @property
    def folder(self) -> str:
        """The folder it is seen from, absolute."""
        return self._git.folder

    @property
    def name(self) -> str:
        """What it is called whoever cloned it: host/owner/name of its remote `origin`, without credentials; where that
        is a folder, or there is none, the folder's name."""
        answer = self._git.ask("remote", "get-url", "origin")
        called = name_of_url(answer.line) if answer.code == 0 else ""
        return called or _printable(_folder_name(self._common)) or "repository"

    def head(self) -> str | None:
        """The commit that is checked out; None before the first one."""
        answer = self._git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return answer.line if answer.code == 0 else None

    def resolve(self, rev: str) -> str:
        """The full id of the commit that `rev` names. A full id is taken at its word where the clone lacks it.

        Raises:
            InvalidInput: it names no commit, or more than one thing.
        """
        hint = "give a branch, a tag, or a commit's id in full or its beginning; git log --oneline shows them"
        if not rev or rev.startswith("-") or "\0" in rev:
            raise InvalidInput(f"{rev!r} names no commit", hint=hint)
        full = rev.lower() if _FULL.fullmatch(rev.lower()) else None
        named = self._git.ask("rev-parse", "--verify", full or rev)
        if full is None and "is ambiguous" in named.told:
            hint = "write more of the id, or refs/heads/NAME for a branch and refs/tags/NAME for a tag"
            raise InvalidInput(f"{rev!r} may mean several things in {self.folder}", hint=hint)
        found = named.line
        if named.code == 0 and _FULL.fullmatch(found):
            commit = self._git.ask("rev-parse", "--verify", "--quiet", f"{found}^{{commit}}")
            if commit.code == 0:
                return commit.line
            kind = self._git.ask("cat-file", "-t", found)
            if kind.code == 0:
                raise InvalidInput(f"{rev!r} is a {kind.line} in {self.folder}, and no commit", hint=hint)
        if full is None:
            raise InvalidInput(f"{rev!r} names no commit in {self.folder}", hint=hint)
        return full

    def has(self, shas: Iterable[str]) -> set[str]:
        """Which of these are commits of this clone."""
        asked = {sha for sha in shas if _FULL.fullmatch(sha)}
        if not asked:
            return set()
        words = ("cat-file", "--batch-check=%(objectname) %(objecttype)")
        with self._git.walk(*words, given=asked) as blocks:
            told = [line.split() for block in blocks for line in block.decode("ascii").splitlines()]
        return {sha for sha, kind, *_ in told if kind == "commit"} & asked

    def reachable(self, sha: str) -> ReachableSet | None:
        """The commit with all its ancestors, None when this clone does not have it. Replacements and grafts hold.

        The first question about a commit walks its history, unless an earlier process did so for it or for a recent
        ancestor; what was found is kept in memory and on disk.

        Raises:
            SlotlogError: the clone lacks commits that it should have.
        """
        if not _FULL.fullmatch(sha):
            return None
        state = self._state()
        held = self._held.get(sha)
        if held is not None and held[0] == state:
            return held[1]
        cut = self._shallow()
        prefix = self._prefix(cut)
        ids, extra = self._files.load(prefix, sha), frozenset[bytes]()
        if ids is None:
            if not self.has([sha]):
                return None
            ids, extra = self._close_to(prefix, sha) or (self._walked(prefix, sha), extra)
        found = ReachableSet(ids, extra, self._stored_parents(cut) if cut else {})
        while len(self._held) >= HELD_MAX:
            self._held.pop(next(iter(self._held)), None)
        self._held[sha] = (state, found)
        return found

    def describe(self, shas: Iterable[str]) -> dict[str, Commit]:
        """Those of the commits that the clone has."""
        wanted = sorted(self.has(shas))
        return {one.sha: one for one in self._listed(("--no-walk=unsorted",), wanted)} if wanted else {}

    def commits(self, tips: Sequence[str], known: Iterable[str] = (), *, limit: int | None = None) -> Iterator[Commit]:
        """Every commit that leads to one of `tips`, they included, and to none of `known`; parents before children.
        Commits that the clone lacks are passed over. `limit`: only so many of the newest.

        Raises:
            SlotlogError: the clone lacks commits that it should have.
        """
        starts = sorted(self.has(tips))
        if starts:
            ends = [f"^{sha}" for sha in sorted(self.has(known))]
            at_most = () if limit is None else (f"--max-count={limit}",)
            yield from self._listed(("--topo-order", "--reverse", *at_most), [*starts, *ends])

    def counterparts(self, lost: Sequence[str], head: str, *, among: Iterable[str] | None = None) -> dict[str, str]:
        """For commits that don't lead to `head`: the one that does and makes the same change, alone (a cherry-pick) or
        as all of a branch at once (a squash merge). What can't be decided is left out, and what this clone lacks.

        Args:
            lost: the commits; of very many only the first are looked at.
            among: only these may be the other one. Default: the newest that lead to `head`.
        """
        known = self.has([*lost, head])
        if head not in known:
            return {}
        from streams import counterparts

        return counterparts.find(self._git, [sha for sha in lost if sha in known], head, among)

    def install_hooks(self, command: Sequence[str]) -> list[Hook]:
        """Have git run `command KIND …` after each commit, merge, rewrite and checkout, whatever hooks there are.

        Raises:
            InvalidInput: a hook is there that can't be added to, or the hooks are not this repository's own.
        """
        from streams import git_hooks

        return git_hooks.install(self._own_hooks_folder(), command)

    def uninstall_hooks(self) -> list[Hook]:
        """Take out what `install_hooks` put in, and nothing else."""
        from streams import git_hooks

        return git_hooks.uninstall(self._hooks_folder())

    def hooks_status(self) -> list[Hook]:
        """Each hook as it is."""
        from streams import git_hooks

        return git_hooks.status(self._hooks_folder())

    def hooks_trouble(self) -> str | None:
        """What the last hook of this work tree that did not work said; None once one worked."""
        from streams import git_hooks

        answer = self._git.ask("rev-parse", "--absolute-git-dir")
        return git_hooks.trouble(Path(answer.line)) if answer.code == 0 else None

    def _hooks_folder(self) -> Path:
        top = self._git.ask("rev-parse", "--show-toplevel")
        git = Git(top.line) if top.code == 0 and top.out.strip() else self._git  # what a relative path begins at
        words = ("rev-parse", "--path-format=absolute", "--git-path", "hooks")
        return Path(os.fsdecode(git.read(*words).removesuffix(b"\n")))

    def _own_hooks_folder(self) -> Path:
        scope, _, folder = self._git.ask("config", "--show-scope", "--get", "core.hooksPath").line.partition("\t")
        if scope in ("global", "system"):
            raise InvalidInput(
                f"core.hooksPath is {folder} for every repository, so a hook there would run in all of them",
                hint="give this one its own: git config --local core.hooksPath FOLDER",
            )
        return self._hooks_folder()

    def _listed(self, how: Sequence[str], given: Sequence[str]) -> Iterator[Commit]:
        cut = set(self._shallow())
        stored = self._stored_parents(cut) if cut else {}
        words = ("rev-list", "--parents", "--timestamp", *how, "--stdin")
        with self._git.walk(*words, given=given, as_stored=True) as blocks:
            for block in blocks:
                for line in block.decode("ascii").splitlines():
                    seconds, sha, *parents = line.split()
                    known = stored.get(sha)
                    at = max(0, min(int(seconds) * 1_000_000, LATEST))
                    yield Commit(sha, tuple(parents) if known is None else known, at)

    def _stored_parents(self, shas: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The parents that commits name, also where a shallow clone cuts them off."""
        found = {}
        given = "".join(f"{sha}\n" for sha in shas).encode()
        out, at = self._git.read("cat-file", "--batch", given=given, as_stored=True), 0
        while at < len(out):
            end = out.index(b"\n", at)
            sha, kind, *size = out[at:end].decode("ascii").split()
            at = end + 1
            if kind == "commit":
                head, _, _ = out[at : at + int(size[0])].partition(b"\n\n")
                lines = head.decode("ascii", "replace").splitlines()
                found[sha] = tuple(line.removeprefix("parent ") for line in lines if line.startswith("parent "))
            at += int(size[0]) + 1 if size else 0
        return found

    def _walked(self, prefix: str, sha: str) -> Ids:
        with self._git.walk("rev-list", sha) as blocks:
            ids = ids_of(blocks)
        self._files.store(prefix, sha, ids)
        return ids

    def _close_to(self, prefix: str, sha: str) -> tuple[Ids, frozenset[bytes]] | None:
        """The ancestors of a commit whose own are stored already, and the few that `sha` has beside them."""
        for number, base in enumerate(self._files.stored(prefix)[:_BASES_TRIED]):
            ids = self._files.load(prefix, base)
            if number and ids is not None and len(ids) < _QUICK_WALK:
                return None
            if ids is None or self._git.ask("merge-base", "--is-ancestor", base, sha).code:
                continue
            most = min(_EXTRA_MAX, max(_EXTRA_MIN, len(ids) // 16))
            told = self._git.read("rev-list", f"--max-count={most + 1}", sha, f"^{base}").split()
            if len(told) <= most:
                return ids, frozenset(bytes.fromhex(line.decode("ascii")) for line in told)
        return None

    def _shallow(self) -> list[str]:
        """The commits at which a shallow clone ends."""
        return [line for line in self._content("shallow").decode("ascii", "replace").split() if _FULL.fullmatch(line)]

    def _content(self, name: str) -> bytes:
        try:
            return Path(self._common, name).read_bytes()
        except OSError:
            return b""

    def _state(self) -> tuple[object, ...]:
        """Something that is another one whenever shallow, grafts or replacements may have changed; cheap."""
        found: list[tuple[int, int, int] | None] = []
        for name in ("shallow", "info/grafts", "refs/replace", "packed-refs", "reftable/tables.list"):
            try:
                stat = os.stat(os.path.join(self._common, name))
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
            except OSError:
                found.append(None)
        return tuple(found)

    def _prefix(self, cut: Iterable[str]) -> str:
        """Names the repository and all that changes what git calls an ancestor."""
        replaced = self._git.read("for-each-ref", "--format=%(objectname) %(refname)", "refs/replace/")
        state = (os.path.realpath(self._common), sorted(cut), self._content("info/grafts"), replaced)
        return hashlib.sha256(repr(state).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def rewritten(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of (old, new) commit from the lines that git gives a post-rewrite hook: `OLD NEW[ …]`.

    Raises:
        InvalidInput: a line is none of those.
    """
    pairs = []
    for line in lines:
        if not line.strip():
            continue
        words = line.split()
        if len(words) < 2 or not all(_FULL.fullmatch(word) for word in words[:2]):
            raise InvalidInput(f"{line.strip()!r} is no rewritten commit", hint="two full ids: the old, then the new")
        if words[0] != words[1]:
            pairs.append((words[0], words[1]))
    return pairs


def name_of_url(url: str) -> str:
    """A remote's URL as host/owner/name, however it is reached and by whom; of a folder only its own name. Empty for
    what has no name. All up to the last `@` may be a password, so none of it is used."""
    url = url.partition("?")[0].partition("#")[0]
    scheme = _SCHEME.match(url)
    rest = url.rpartition("@")[2] if scheme is None or "@" in url else url[scheme.end() :]
    if scheme is None:
        if _HELPER.match(url):  # a command, say, in a language of its own
            return ""
        scp = _SCP.fullmatch(rest)
        host, path = scp.groups() if scp is not None else ("", rest)
    elif url.lower().startswith("file://"):
        host, path = "", rest
    else:
        host, _, path = rest.partition("/")
        host = _PORT.sub("", host)
    path = path if scheme is None else unquote(path)
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    if not parts:
        return ""
    parts[-1] = parts[-1].removesuffix(".git") or parts[-1]
    return _printable("/".join([host.lower(), *parts]) if host else parts[-1])


def _folder_name(common_folder: str) -> str:
    """The name of the main work tree's folder, or of the bare repository itself."""
    path = Path(common_folder)
    own = path.name.removesuffix(".git")
    return own if own and not own.startswith(".") else path.parent.name


def _printable(text: str) -> str:
    """The text as a name that an event may carry."""
    valid = os.fsencode(text).decode("utf-8", "replace")
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", valid)[:_NAME_CHARACTERS_MAX]
