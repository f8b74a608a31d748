"""The verdict on a fleet: what is in its state folders beside a fresh fold of its topic and an embedded copy of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from fleet import Fleet

from schemas.codec import Codec
from streams import keys
from streams.catchup import Follower
from streams.kafka_log import KafkaLog
from streams.memory import Memory
from streams.rows import Head, Rows, decode_head
from streams.tables import Tables

_PAST_ALL_KEYS = b"\xff" * 8


class Verdict(NamedTuple):
    """What was found in the tables of a fleet. It is only made when nothing is lost, doubled or different."""

    events: int
    lost: int
    doubled: int
    duplicates: int
    quarantined: int
    digest: str
    folders: int


def judge(fleet: Fleet, written: Iterable[tuple[str, bytes]], *, whole: bool = True, copy: bool = True) -> Verdict:
    """End the fleet and compare what is in every state folder with a fresh fold of the topic, row for row, and that
    with an embedded store that the topic is copied to.

    `written`: (space, event id) of what was acknowledged; each must count exactly once. `whole`: nothing else may.
    Every partition must be at the end of the log in some folder, as it was left; what is behind (a standby's, a killed
    worker's) is brought there and must be right too.
    """
    fleet.stop()
    source = f"kafka://{fleet.bootstrap}/{fleet.topic}?state={fleet.folder / 'fresh'}"
    with Memory.open(source) as fresh, Memory.open(fleet.folder / "copy") as embedded:
        digest, by_space = fresh.digest()
        heads = {one.head.partition: one.head for one in fresh._followers}
        rows = {one.head.partition: one.rows for one in fresh._followers}
        counted, lost, doubled = _check_each_once(rows.values(), by_space, set(written), fleet.log, whole=whole)
        folders, reached = 0, set()
        for worker in fleet.workers.values():
            for partition, head in heads.items():
                place = worker.state / f"p{partition}"
                if (place / "CURRENT").exists():
                    folders += 1
                    reached |= {partition} if _left_at(place) == head.next_offset else set()
                    _check_tables(fleet.log, place, head, rows[partition])
        assert reached == set(heads), f"nobody left the tables of {set(heads) - reached} at the end of the log"
        if copy:
            fresh.copy(embedded)
            assert embedded.digest()[0] == digest, "an embedded copy has another digest"
        duplicates = sum(head.duplicates for head in heads.values())
        return Verdict(
            counted, lost, doubled, duplicates, sum(head.quarantined for head in heads.values()), digest, folders
        )


def _check_each_once(
    every: Iterable[Rows], spaces: Iterable[str], written: set[tuple[str, bytes]], log: KafkaLog, *, whole: bool
) -> tuple[int, int, int]:
    """Every event that was acknowledged counts, once; how many count, are lost, and count more than once."""
    rows = list(every)
    there: set[tuple[str, bytes]] = set()
    counted = 0
    for space in spaces:
        own = rows[log.partition_of(space.encode())]
        there.update((space, key[-16:]) for key, _ in own.scan(*keys.ids_of(space)))
        counted += sum(1 for _ in own.scan(*keys.events_of(space)))
    lost, doubled = written - there, counted - len(there)
    assert not lost, f"{len(lost)} of {len(written)} acknowledged events are lost"
    assert doubled == 0, f"{counted} events have {len(there)} ids"
    assert not whole or there == written, f"{len(there - written)} events count that nobody wrote"
    return counted, len(lost), doubled


def _left_at(place: Path) -> int:
    """Where the tables in a folder end, as they were left."""
    tables = Tables.open_to_read(place)
    assert tables is not None
    with closing(tables):
        data = tables.get(keys.HEAD)
        return 0 if data is None else decode_head(data).next_offset


def _check_tables(log: KafkaLog, place: Path, head: Head, fresh: Rows) -> None:
    """The tables in `place`, brought to the end of the log, are those of a fresh fold in every row but the head, and
    that in what it counts."""
    follower = Follower(log, head.partition, place, Codec(), hold=True)
    try:
        follower.refresh()
        assert _counts(follower.head) == _counts(head), f"{place} has counted otherwise"
        left, right = (rows.scan(b"", _PAST_ALL_KEYS) for rows in (follower.rows, fresh))
        for kept, again in zip(left, right, strict=True):
            assert kept == again or kept[0] == again[0] == keys.HEAD, f"{place} differs at {kept[0]!r}"
    finally:
        follower.close()


def _counts(head: Head) -> tuple[Any, ...]:
    return head.chain, head.last_offset, head.applied, head.duplicates, head.quarantined
