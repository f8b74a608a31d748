"""What a worker can be told, and the folder that is its own."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

from schemas.errors import InvalidInput, StoreBusy
from streams import clock
from streams.file_lock import FileLock

WORKER_ID_FILE, WORKER_URL_FILE = "worker.id", "worker.url"
_ID_MAX_CHARACTERS = 128


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one worker of a fleet runs. Times are seconds.

    host, port: where its web server listens; port 0 is none that others could be told of, so it is refused.
    advertise: the base URL at which the other workers reach it; default http://HOST:PORT.
    group: the consumer group that all workers of a topic share; None: the topic's name.
    worker_id: who it is in the group. It keeps its place in it for `session_timeout_s` after a crash, so that a quick
        restart at the same URL moves nothing. None: the one that its state folder remembers.
    behind: a partition that is so many events behind is read in bulk until it has caught up.
    session_timeout_s: so long after the last heartbeat that the broker confirmed, the others may have taken its
        partitions: it then answers for none.
    watchdog_s: it ends itself when the log grows and tables have not moved for so long.
    stay: keep its place in the group when it is told to end, for a restart within `session_timeout_s`.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    advertise: str | None = None
    group: str | None = None
    worker_id: str | None = None
    behind: int = 2_000
    session_timeout_s: float = 10.0
    heartbeat_s: float = 1.0
    watchdog_s: float = 60.0
    flush_s: float = 5.0
    stay: bool = False

    def checked(self) -> WorkerSettings:
        """These settings.

        Raises:
            InvalidInput: one of them is out of its range.
        """
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                shown = f"{value:,}" if isinstance(value, int) else f"{value:g}"
                raise InvalidInput(f"{name} is {shown}, and may be {low:,} to {high:,}")
        if self.heartbeat_s * 3 > self.session_timeout_s:
            raise InvalidInput(
                f"heartbeat_s is {self.heartbeat_s:g}, and may be a third of session_timeout_s, "
                f"{self.session_timeout_s:g}, at most"
            )
        if self.advertise is not None and not self.advertise.startswith(("http://", "https://")):
            raise InvalidInput(f"advertise is {self.advertise!r}, and must be a URL like http://10.0.0.7:8080")
        if self.advertise is None and self.host in ("0.0.0.0", "::"):
            raise InvalidInput(
                f"the other workers can't reach {self.host}",
                hint=f"say how they reach this one: --advertise http://{socket.gethostname()}:{self.port}",
            )
        return self

    @property
    def url(self) -> str:
        """The base URL at which others reach this worker."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.advertise or f"http://{host}:{self.port}").rstrip("/")


_RANGES = (
    ("port", 1, 65_535),
    ("behind", 100, 1_000_000),
    ("session_timeout_s", 3, 1_800),
    ("heartbeat_s", 0.1, 600),
    ("watchdog_s", 1, 86_400),
    ("flush_s", 0.1, 3_600),
)


def worker_id_of(state: Path, given: str | None) -> str:
    """The id given, else the one that the state folder remembers; it remembers a fresh one when it has none.

    Raises:
        InvalidInput: it is empty, too long, or can't be printed.
    """
    remembered = state / WORKER_ID_FILE
    found = given
    if found is None:
        if remembered.exists():
            found = remembered.read_text(encoding="utf-8").strip()
        else:
            found = f"{socket.gethostname()}-{clock.new_event_id().hex()[-8:]}"
            _remember(remembered, found)
    if not found or len(found) > _ID_MAX_CHARACTERS or not found.isprintable() or found.split() != [found]:
        raise InvalidInput(f"{found!r} is no worker's id", hint="up to 128 characters that print, without spaces")
    return found


def left_url(state: Path, url: str) -> str | None:
    """Where the worker of the state folder was a member of its group last, when that was not at `url`."""
    remembered = state / WORKER_URL_FILE
    found = remembered.read_text(encoding="utf-8").strip() if remembered.exists() else url
    return None if found == url else found


def remember_url(state: Path, url: str) -> None:
    """The worker is a member of its group, at `url`."""
    remembered = state / WORKER_URL_FILE
    if not remembered.exists() or left_url(state, url) is not None:
        _remember(remembered, url)


def _remember(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    partial.write_text(f"{text}\n", encoding="utf-8")
    partial.replace(file)


def lock_state(state: Path) -> FileLock:
    """Keep every other worker out of the state folder, until the lock is closed.

    Raises:
        StoreBusy: another worker has it.
        InvalidInput: it is no folder.
    """
    if state.exists() and not state.is_dir():
        raise InvalidInput(f"{state} is a file, and the state of a worker is a folder")
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(state / "worker.lock")
    try:
        lock.acquire(0.0)
    except StoreBusy as error:
        lock.close()
        error.hint = "each worker needs a state folder of its own: kafka://…?state=DIR"
        raise
    return lock
