"""Another process at a log: `python log_worker.py WHERE… append NAME COUNT BATCH` or `… read COUNT`.

WHERE is `sqlite FOLDER` or `kafka BOOTSTRAP TOPIC`. `append` writes COUNT messages `NAME:0`, `NAME:1`, … with the key
NAME, BATCH at a time, and prints `partition offset value` once they are acknowledged. `read` follows the log until it
has seen COUNT records and prints the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from streams.kafka_log import KafkaLog
from streams.ports import Log, Message
from streams.sqlite_log import SqliteLog


def clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def spawn(*arguments: object) -> subprocess.Popen[str]:
    """Start this file as a process of its own."""
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def seen(lines: str) -> list[tuple[int, int, str]]:
    """(partition, offset, value) of every whole line that a worker printed."""
    found = []
    for line in lines.splitlines(keepends=True):
        if line.endswith("\n"):
            partition, offset, value = line.split()
            found.append((int(partition), int(offset), value))
    return found


def append(log: Log, name: str, count: int, batch: int) -> None:
    for first in range(0, count, batch):
        values = [f"{name}:{number}" for number in range(first, min(first + batch, count))]
        positions = log.append([Message(name.encode(), value.encode(), (("n", b"1"),)) for value in values])
        for position, value in zip(positions, values, strict=True):
            sys.stdout.write(f"{position.partition} {position.offset} {value}\n")
        sys.stdout.flush()


def read(log: Log, count: int) -> None:
    following = [log.start(partition) for partition in range(log.partitions)]
    while count > 0:
        for partition, start in enumerate(following):
            for batch in log.read(partition, start):
                for record in batch.records:
                    sys.stdout.write(f"{partition} {record.offset} {(record.value or b'').decode()}\n")
                count -= len(batch.records)
                following[partition] = batch.next_offset


def main(arguments: list[str]) -> None:
    kind, where, *rest = arguments
    log: Log = SqliteLog(Path(where), clock=clock) if kind == "sqlite" else KafkaLog(where, rest.pop(0))
    command, *rest = rest
    if command == "append":
        append(log, rest[0], int(rest[1]), int(rest[2]))
    else:
        read(log, int(rest[0]))
    log.close()


if __name__ == "__main__":
    main(sys.argv[1:])
