"""Whether a worker is a member of its consumer group, and why it can't be one any more. No I/O."""

from __future__ import annotations

import time

from schemas.errors import SlotlogError, StoreBusy


def boot_time() -> float:
    """Seconds that pass in suspension too, unlike those of `time.monotonic`: a worker that slept must know it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Membership:
    """When the broker last confirmed that this worker is a member of its group."""

    def __init__(self, session_timeout_s: float, worker_id: str = "", left_url: str | None = None) -> None:
        """`left_url`: where this worker was a member last, when it was somewhere else."""
        self._session_timeout_s = session_timeout_s
        self._worker_id = worker_id
        self._left_url = left_url
        self._confirmed_at: float | None = None
        self.refusal: SlotlogError | None = None
        """Why this worker can't be a member, when that is for good."""

    def confirmed(self, asked_at: float) -> None:
        """A request sent at `asked_at`, by `boot_time`, was answered well."""
        self._confirmed_at = asked_at

    def refused(self, error: SlotlogError) -> None:
        """It can't be a member, because of `error`; the first one counts."""
        if self.refusal is None:
            self.refusal = error

    def is_own_place(self, url: str) -> bool:
        """Whether the place of whoever was at `url` is this worker's own, from before it moved; asked once, as that
        place is given up then. If not, somebody else has this worker's id, and it is refused."""
        if url == self._left_url:
            self._left_url = None
            return True
        self.refused(
            StoreBusy(
                f"a worker at {url} has the id of this one, {self._worker_id}",
                hint="give each worker an id and a state folder of its own; if that one is gone, start again",
            )
        )
        return False

    def check(self) -> None:
        """
        Raises:
            SlotlogError: this worker can't be a member.
        """
        if self.refusal is not None:
            raise self.refusal

    @property
    def holds(self) -> bool:
        """Whether nobody else can have been given this worker's partitions yet. Counted from when the question was
        sent, which is before the broker began to count. False for good once it was refused."""
        confirmed_at = self._confirmed_at
        if confirmed_at is None or self.refusal is not None:
            return False
        return boot_time() - confirmed_at < self._session_timeout_s
