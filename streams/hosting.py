"""The partitions of one worker: their tables, what state they are in, and `Memory` over those that are its own.

Nothing here knows Faust. What folds is handed batches from whatever delivers them; a batch that leaves a gap is
completed from the log, and what was folded before is skipped, so the tables are right whatever is delivered, when, how
often and by which generation of the group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING

from schemas.checks import DEFAULT_MAX_VALUE_BYTES, check_space
from schemas.errors import NotServing
from streams.answers import Receipt
from streams.catchup import Followed, Follower
from streams.kafka_log import KafkaLog
from streams.local import LocalMemory
from streams.ports import Batch, Log, Record
from streams.reads import Reads
from streams.status import PartitionStatus, Role, State

if TYPE_CHECKING:
    from streams.metrics import Metrics

NEARLY_EVENTS = 200
"""A partition that is read in bulk is handed over when so few events are left: live is quick enough then."""

HELD_UP_LOOKS = 60
"""So many looks in a row a fold may wait for those who read the tables before that counts as standing still."""

Stale = Callable[[], bool]
"""Whether what was begun is no longer wanted."""


class Hosted:
    """One partition in this worker. Whoever touches the tables holds `lock`; the rest is set by the event loop alone,
    except `end`, which only grows, and that nothing is answered any more once a fold has failed. `waiting`: others are
    read in bulk before it."""

    def __init__(self, log: Log, follower: Follower, metrics: Metrics) -> None:
        self.follower = follower
        self.lock = threading.RLock()
        self.role: Role | None = None
        self.state: State = "opening"
        self.ready = False
        self.end = 0
        self.first = 0
        self.still = 0
        self.waiting = False
        self._seen_next = -1
        self._held_up = 0
        self._wants_lock = False
        self._log = log
        self._metrics = metrics
        self._partition = follower.head.partition

    @property
    def next_offset(self) -> int:
        """What is folded next. Reading it needs no lock."""
        return self.follower.head.next_offset

    @property
    def lag(self) -> int:
        """Events known to be on the log and not folded yet."""
        return max(0, self.end - self.next_offset)

    def status(self) -> PartitionStatus | None:
        """How it stands; None for a partition that is not of this worker."""
        if self.role is None:
            return None
        head = self.follower.head
        return PartitionStatus(
            head.partition, self.role, self.state, head.next_offset, self.end, head.quarantined, self.ready
        )

    @property
    def has_moved(self) -> bool:
        """Whether something was folded since `has_stood_still` was asked."""
        return self.next_offset != self._seen_next

    def has_stood_still(self, *, known: bool, others_move: bool = False) -> int:
        """How many times in a row this was asked without the tables moving while the log was ahead of them. `known`:
        whether it was possible to ask where the log ends. Counted, not timed: a process may be suspended.

        Not counted is a partition whose turn has not come while the worker moves others (`others_move`), or one whose
        tables are being read, as long as that does not go on for ever.
        """
        moved = self.has_moved
        self._seen_next = self.next_offset
        self._held_up = 0 if moved or not self._wants_lock else self._held_up + 1
        if moved or not known or self.lag == 0:
            self.still = 0
        elif not (self.waiting and others_move) and not 0 < self._held_up <= HELD_UP_LOOKS:
            self.still += 1
        return self.still

    def open(self) -> None:
        """Take the tables and compare them with the log.

        Raises:
            StoreBusy: another process has them.
            LogChanged: they are not this log's.
        """
        with self._locked():
            self.follower.take()
            self.first = self._log.start(self._partition)
            self.end = max(self.end, self.next_offset)

    def catch_up(self, stale: Stale) -> bool:
        """Read in bulk until nearly nothing is left; False when it was `stale` before that. What was folded stays."""
        checked = False
        while not stale():
            self.end = end = self._log.end(self._partition)
            if checked and end - self.next_offset <= NEARLY_EVENTS:
                return True
            for batch in self.follower.batches(end):
                if stale():
                    return False
                self._fold(batch, "bulk")
            checked = True
        return False

    def fold(self, records: Sequence[Record]) -> None:
        """Fold records as they came, ascending; a gap before them is filled from the log."""
        if records[-1].offset < self.next_offset:
            return
        if records[0].offset > self.next_offset:
            for batch in self._log.read(self._partition, self.next_offset, records[0].offset):
                self._fold(batch, "bulk")
        self._fold(Batch(list(records), records[-1].offset + 1), "live")

    def flush(self) -> None:
        """Make what was folded durable when it is time."""
        with self.lock:
            self.follower.flush_when_due()

    def close(self) -> None:
        """Flush and let go of the tables."""
        with self.lock:
            self.follower.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """`lock`, for whoever makes the tables move."""
        self._wants_lock = True
        with self.lock:
            self._wants_lock = False
            yield

    def _fold(self, batch: Batch, path: str) -> None:
        with self._locked():
            before = self.next_offset
            if not self.follower.holding:
                raise NotServing(f"the tables of partition {self._partition} were let go of")
            try:
                self.follower.fold(batch)
            except BaseException:  # the tables were let go of: they would answer as if there were nothing
                self.ready = False
                raise
        if self.next_offset > before:
            self.end = max(self.end, self.next_offset)
            self._metrics.folded(self._partition, path, sum(record.offset >= before for record in batch.records))


class HostedMemory(LocalMemory):
    """`Memory` of a worker: it answers for the partitions that are its own and caught up, as of what is folded, and
    raises NotServing for every other. Appends go to any partition."""

    def __init__(
        self,
        store: str,
        metrics: Metrics,
        *,
        actor: str,
        timeout_s: float,
        flush_s: float,
        flush_events: int,
        answers: Callable[[], bool],
    ) -> None:
        """`answers` is asked before each read: whether this process is a member of its group."""
        super().__init__(
            store,
            actor=actor,
            hold=True,
            create=False,
            max_value_bytes=DEFAULT_MAX_VALUE_BYTES,
            timeout_s=timeout_s,
            flush_events=flush_events,
            flush_interval_s=flush_s,
        )
        assert isinstance(self._log, KafkaLog)
        self.log = self._log
        self._answers = answers
        self.hosted = [Hosted(self._log, follower, metrics) for follower in self._followers]

    def _partition_of(self, space: str) -> int:
        check_space(space)
        return self._log.partition_of(space.encode())

    def _locked(self, space: str) -> AbstractContextManager[object]:
        return self.hosted[self._partition_of(space)].lock

    def _fresh(self, space: str) -> Reads:
        self._check_open()
        partition = self._partition_of(space)
        self._check_serving(partition)
        return self._followers[partition].reads

    def _first(self, partition: int) -> int:
        return self.hosted[partition].first

    def _all_now(self, held: ExitStack) -> Sequence[Followed]:
        self._check_open()
        mine = [one for one in self.hosted if one.role == "active"]
        with ExitStack() as locks:
            for one in mine:
                locks.enter_context(one.lock)
                self._check_serving(one.follower.head.partition)
            return [held.enter_context(one.follower.moment()) for one in mine]

    def _settled(self, receipts: list[Receipt]) -> list[Receipt]:
        return receipts  # what becomes of an event is known once it is folded, and a write waits for no table

    def _check_serving(self, partition: int) -> None:
        one = self.hosted[partition]
        if one.role != "active":
            raise NotServing(f"partition {partition} is not answered for here", hint="ask again: it is routed anew")
        if not one.ready:
            raise NotServing(
                f"partition {partition} is being caught up: {one.next_offset:,} of {one.end:,}", hint="ask again"
            )
        if not self._answers():
            raise NotServing(
                "this worker has not been confirmed as a member of its group for a session timeout",
                hint="others may have taken its partitions; ask again",
            )
