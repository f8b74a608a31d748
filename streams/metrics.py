"""What a process counts of itself, for Prometheus. The only file that imports prometheus_client.

Names follow Prometheus: units in the name, `_total` for counters, and only labels whose values are few: never a space,
a session or an actor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from streams.status import PartitionStatus

_QUERYABLE_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_ANSWER_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

_OF_A_PARTITION: tuple[tuple[str, str, Callable[[PartitionStatus], float]], ...] = (
    ("slotlog_next_offset", "Offset that is folded next.", lambda one: one.next),
    ("slotlog_lag_events", "Offsets on the log that are not folded yet.", lambda one: one.lag),
    ("slotlog_records_quarantined", "Records that don't count.", lambda one: one.quarantined),
    ("slotlog_partition_ready", "1 where answers are given.", lambda one: one.ready),
    ("slotlog_partition_catching_up", "1 while read in bulk.", lambda one: one.state == "catching up"),
)


class _Partitions(Collector):
    """The partitions as they were told last."""

    def __init__(self) -> None:
        self.now: tuple[PartitionStatus, ...] = ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, text, value in _OF_A_PARTITION:
            family = GaugeMetricFamily(name, text, labels=("partition",))
            for one in self.now:
                family.add_metric((str(one.partition),), value(one))
            yield family


class _Collected(Collector):
    """What was collected at one moment."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> list[Metric]:
        return self._found


class Metrics:
    """The metrics of one process, in a registry of its own. Safe for several threads: an exposition has each update
    whole or not at all, where prometheus_client alone tells a histogram's sum without its count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        own = self._registry = CollectorRegistry()
        self._folded = Counter(
            "slotlog_records_folded", "Records read from the log and folded.", ("partition", "path"), registry=own
        )
        self._partitions = _Partitions()
        own.register(self._partitions)
        self._queryable = Histogram(
            "slotlog_commit_to_queryable_seconds",
            "From a record's append time to when it can be read, by this machine's clock.",
            buckets=_QUERYABLE_BUCKETS,
            registry=own,
        )
        self._rebalances = Counter("slotlog_rebalances", "Assignments of partitions to this worker.", registry=own)
        self._answers = Histogram(
            "slotlog_api_request_seconds",
            "Time to answer a request.",
            ("route", "code"),
            buckets=_ANSWER_BUCKETS,
            registry=own,
        )

    def folded(self, partition: int, path: str, records: int) -> None:
        """`records` were folded, `path` being `live` or `bulk`."""
        with self._lock:
            self._folded.labels(str(partition), path).inc(records)

    def queryable(self, seconds: float) -> None:
        """A record can be read, so long after it was appended."""
        with self._lock:
            self._queryable.observe(max(0.0, seconds))

    def rebalanced(self) -> None:
        """Partitions were assigned to this worker."""
        with self._lock:
            self._rebalances.inc()

    def partitions(self, now: Iterable[PartitionStatus]) -> None:
        """The partitions as they are; those that were there before and are not given are forgotten."""
        with self._lock:
            self._partitions.now = tuple(now)

    def answered(self, route: str, code: int, seconds: float) -> None:
        """A request was answered; `route` is its pattern, never its path."""
        with self._lock:
            self._answers.labels(route, str(code)).observe(seconds)

    def exposition(self) -> tuple[bytes, str]:
        """What Prometheus reads, and its content type."""
        with self._lock:
            found = _Collected(list(self._registry.collect()))
        return generate_latest(found), CONTENT_TYPE_LATEST  # written out without the lock: that takes longer
