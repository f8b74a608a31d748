"""A lock between processes in which waiters queue, and whose holder can be named."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

from schemas.errors import StoreBusy

_HOLDER_BYTES = 96
_HEAD_POLL_S = 0.000_2
_QUEUE_POLL_S = 0.001


class FileLock:
    """An exclusive `flock` on one file, reached through a second one.

    One lock alone starves waiters: who releases it and wants it again is faster than whoever sleeps. So a process
    first takes the queue's lock and keeps it until it has the lock itself. Never more than one process then waits for
    the lock; it is the next to have it, and the others have the time of that whole turn to be the one after.

    The kernel frees both locks when a process ends, however it ends. Not for several threads at once, and not for use
    after a fork, since a child shares its parent's locks: the caller sees to both.
    """

    def __init__(self, path: Path) -> None:
        """`path` and `path` + `.queue` are made when missing. Raises OSError as `os.open` does."""
        self._path = path
        name = os.path.basename(sys.argv[0] if sys.argv else "") or "python"
        self._me = f"{os.getpid()} {name}".encode()[:_HOLDER_BYTES].ljust(_HOLDER_BYTES)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        try:
            self._queue_fd = os.open(f"{path}.queue", flags, 0o600)
        except OSError:
            os.close(self._fd)
            raise

    def acquire(self, timeout_s: float) -> None:
        """Take the lock, waiting at most `timeout_s` seconds.

        Raises:
            StoreBusy: it was held all that time; the text says by whom.
        """
        deadline = time.monotonic() + timeout_s
        self._take(self._queue_fd, _QUEUE_POLL_S, deadline, timeout_s)
        try:
            self._take(self._fd, _HEAD_POLL_S, deadline, timeout_s)
        finally:
            fcntl.flock(self._queue_fd, fcntl.LOCK_UN)
        try:
            if os.pread(self._fd, _HOLDER_BYTES, 0) != self._me:
                os.pwrite(self._fd, self._me, 0)
        except OSError:
            return  # on a full disk the holder goes unnamed; the lock is held all the same

    def release(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of both files, and of the lock when it is held."""
        os.close(self._fd)
        os.close(self._queue_fd)

    def _take(self, fd: int, poll_s: float, deadline: float, timeout_s: float) -> None:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise self._busy(timeout_s) from None
            time.sleep(poll_s)

    def _busy(self, timeout_s: float) -> StoreBusy:
        pid, _, name = os.pread(self._fd, _HOLDER_BYTES, 0).decode(errors="replace").strip(" \0").partition(" ")
        holder = f"process {pid} ({name})" if pid else "another process"
        return StoreBusy(
            f"{self._path} was held for {timeout_s:.3g} s by {holder}"
            if timeout_s
            else f"{self._path} is held by {holder}",
            hint="wait for that process, or end it if it hangs: the lock goes with it",
        )
