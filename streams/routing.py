"""Who answers for a space, by what the group's assignor told every worker. Pure.

Faust's own router can't be used: it asks a producer that a worker need not have, and forwards no body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from schemas.errors import NotServing
from streams.partitioner import partition_of

Owners = Mapping[str, Mapping[str, Sequence[int]]]
"""Base URL of a worker to topic to partitions, as the assignor has it."""


class Router:
    """The assignment of one topic's partitions, as of the last rebalance that this worker took part in."""

    def __init__(self, own_url: str, topic: str, partitions: int, owners: Callable[[], Owners]) -> None:
        """`owners` is asked at each call: a rebalance replaces what it answers."""
        self._own_url = own_url
        self._topic = topic
        self._partitions = partitions
        self._owners = owners

    def partition(self, space: str) -> int:
        """The partition that the space is in."""
        return partition_of(space.encode(), self._partitions)

    def url_of(self, partition: int) -> str:
        """Base URL of the worker that has the partition; it may be this one.

        Raises:
            NotServing: the assignment names nobody, or more than one.
        """
        found = [url for url, topics in self._owners().items() if partition in topics.get(self._topic, ())]
        if len(found) != 1:
            raise NotServing(f"no worker is known to answer for partition {partition}", hint="a rebalance is going on")
        return found[0].rstrip("/")

    def others(self) -> list[str]:
        """Base URLs of all other workers of the assignment, in order."""
        return sorted(url for known in self._owners() if (url := known.rstrip("/")) != self._own_url)
