"""A commit with all its ancestors, as a set that costs nothing to open again: sorted ids in a file, mapped, searched.

A file is `HEADER` (magic and version; bytes an id; how many ids), then the ids, ascending. Its name is that of the
repository as it was (`prefix`), and the commit. It is only a copy of what git would say: one that is missing, damaged
or can't be written is made anew or done without. A later commit needs no file of its own as long as it adds little: its
ancestors are those of an earlier one, and `extra`.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

HEADER = struct.Struct("<8sII")
MAGIC = b"slotanc\x01"
MAX_FILES = 32
MAX_BYTES = 512 * 1024 * 1024
_ABANDONED_S = 3600
_SUFFIX, _UNFINISHED = ".ids", ".unfinished"


class Ids:
    """Ids of `width` bytes each, ascending, in anything that can be sliced into bytes, from `start` on."""

    def __init__(self, buffer: bytes | mmap.mmap, width: int, start: int = 0) -> None:
        self._buffer = buffer
        self.width = width
        self._start = start
        self._count = (len(buffer) - start) // width

    def __len__(self) -> int:
        return self._count

    def __contains__(self, wanted: bytes) -> bool:
        """By halving. `wanted` has `width` bytes."""
        buffer, width, start = self._buffer, self.width, self._start
        low, high = 0, self._count
        while low < high:
            middle = (low + high) >> 1
            at = start + middle * width
            found = buffer[at : at + width]
            if found == wanted:
                return True
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return False

    def written(self) -> bytes:
        """All of them, one after the other."""
        return self._buffer[self._start :]


class ReachableSet:
    """A commit and its ancestors, as far as the clone has them. Safe for several threads."""

    def __init__(self, ids: Ids, extra: frozenset[bytes], cut: Mapping[str, tuple[str, ...]]) -> None:
        """`cut`: the commits at which a shallow clone ends, and the parents that they name."""
        self.ids = ids
        self._extra = extra
        parents = {parent for sha, named in cut.items() if sha in self for parent in named}
        self.boundary: tuple[str, ...] = tuple(sorted(parent for parent in parents if parent not in self))
        """Ancestors that the clone does not have: what leads to them is not in the set either."""

    @property
    def complete(self) -> bool:
        """Whether no ancestor is missing: False where a shallow clone ends before the history does."""
        return not self.boundary

    def __len__(self) -> int:
        return len(self.ids) + len(self._extra)

    def __contains__(self, sha: object) -> bool:
        if not isinstance(sha, str) or len(sha) != 2 * self.ids.width:
            return False
        try:
            wanted = bytes.fromhex(sha)
        except ValueError:
            return False
        return len(wanted) == self.ids.width and (wanted in self._extra or wanted in self.ids)


def ids_of(blocks: Iterable[bytes]) -> Ids:
    """The ids in lines of hexadecimal digits, at least one, none of them twice."""
    found = bytearray()
    width = 0
    for block in blocks:
        width = width or block.index(b"\n") // 2
        found += bytes.fromhex(block.decode("ascii"))
    raw = bytes(found)
    return Ids(b"".join(sorted(raw[at : at + width] for at in range(0, len(raw), width))), width)


class AncestryFiles:
    """The files, of every repository, in one folder. No trouble with them is ever told: they only save time."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @staticmethod
    def of_user() -> AncestryFiles:
        """Those below the user's cache folder; none where there is no such folder."""
        named = os.environ.get("XDG_CACHE_HOME", "")
        if os.path.isabs(named):
            return AncestryFiles(Path(named) / "slotlog" / "ancestry")
        try:
            return AncestryFiles(Path.home() / ".cache" / "slotlog" / "ancestry")
        except RuntimeError:
            return AncestryFiles(None)

    def load(self, prefix: str, sha: str) -> Ids | None:
        """The ids that were stored; None when there is no such file, or it is not whole."""
        if self._folder is None:
            return None
        path = self._folder / f"{prefix}-{sha}{_SUFFIX}"
        try:
            with path.open("rb") as file:
                buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            os.utime(path)
        except (OSError, ValueError):  # ValueError: it is empty
            return None
        if len(buffer) < HEADER.size:
            return None
        magic, width, count = HEADER.unpack_from(buffer)
        if magic != MAGIC or width != len(sha) // 2 or len(buffer) != HEADER.size + width * count:
            return None
        ids = Ids(buffer, width, HEADER.size)
        return ids if bytes.fromhex(sha) in ids else None

    def store(self, prefix: str, sha: str, ids: Ids) -> None:
        """Keep the ids, and no more files than there may be."""
        if self._folder is None:
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(dir=self._folder, suffix=_UNFINISHED)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(HEADER.pack(MAGIC, ids.width, len(ids)) + ids.written())
                os.replace(name, self._folder / f"{prefix}-{sha}{_SUFFIX}")
            except OSError:
                os.unlink(name)
                raise
            self._prune()

    def stored(self, prefix: str) -> list[str]:
        """The commits of that repository whose files are there, the last used one first."""
        names = [path.name for _, path in self._by_use(_SUFFIX)]
        return [name.removesuffix(_SUFFIX).partition("-")[2] for name in names if name.startswith(f"{prefix}-")]

    def _by_use(self, suffix: str) -> list[tuple[os.stat_result, Path]]:
        return sorted(self._listed(suffix), key=lambda one: one[0].st_mtime_ns, reverse=True)

    def _listed(self, suffix: str) -> Iterator[tuple[os.stat_result, Path]]:
        if self._folder is None:
            return
        with suppress(OSError):
            for entry in os.scandir(self._folder):
                if entry.name.endswith(suffix):
                    with suppress(OSError):
                        yield entry.stat(), Path(entry.path)

    def _prune(self) -> None:
        """Remove the files that were used longest ago, and what a process that was killed left behind."""
        files = self._by_use(_SUFFIX)
        total = 0
        for number, (stat, path) in enumerate(files):
            total += stat.st_size
            if number and (number >= MAX_FILES or total > MAX_BYTES):
                path.unlink(missing_ok=True)
        for stat, path in self._listed(_UNFINISHED):
            if files and stat.st_mtime < files[0][0].st_mtime - _ABANDONED_S:
                path.unlink(missing_ok=True)
