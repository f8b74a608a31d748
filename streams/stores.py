"""What a store's name means: a folder, or `kafka://HOST:PORT[,HOST:PORT]/TOPIC?state=DIR&registry=URL&SETTING=VALUE`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from schemas.codec import Codec
from schemas.errors import InvalidInput, LogTruncated
from streams.clock import now_micros
from streams.ports import Log
from streams.sqlite_log import SqliteLog, exists

DEFAULT_STORE = "./.slotlog"
DEFAULT_TOPIC = "slotlog.memory"


class Store(NamedTuple):
    """An opened log, the folder for its tables, and the codec that reads it."""

    name: str
    log: Log
    tables: Path
    codec: Codec


class KafkaAddress(NamedTuple):
    """The parts of a `kafka://` name. `config` holds librdkafka settings, passed through untouched."""

    bootstrap: str
    topic: str
    state: Path
    registry: str | None
    config: dict[str, str]


def open_store(name: str | Path, *, create: bool, timeout_s: float) -> Store:
    """Open the log that `name` means. With `create`, an embedded one is made where there is none.

    Raises:
        InvalidInput: the name means nothing.
        NotFound: there is no such log.
        Unavailable: the broker does not answer.
    """
    text = str(name)
    if text.startswith("kafka://"):
        address = kafka_address(text)
        if address.state.exists() and not address.state.is_dir():
            raise InvalidInput(f"{address.state} is a file, and the state of a store is a folder")
        # librdkafka is imported only by those who use it: it would double the start of every embedded command
        from streams.kafka_log import KafkaLog
        from streams.schema_registry import confluent_schema_resolver

        resolver = None if address.registry is None else confluent_schema_resolver(address.registry)
        log = KafkaLog(address.bootstrap, address.topic, timeout_s=timeout_s, config=address.config)
        return Store(text, log, address.state, Codec(resolver))
    if "://" in text:
        raise InvalidInput(f"{text!r} is no store", hint="a folder, or kafka://HOST:PORT/TOPIC")
    folder = Path(text).expanduser()
    _check_folder(folder)
    return Store(
        text, SqliteLog(folder, busy_timeout_s=timeout_s, clock=now_micros, create=create), folder / "tables", Codec()
    )


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is none, and one whose log is gone: a new log there would not be the one it had."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file, and a store is a folder")
    tables = folder / "tables"
    if tables.is_dir() and any(tables.glob("*/CURRENT")) and not exists(folder):
        raise LogTruncated(
            f"{folder} has tables, and the log they were made from is gone",
            hint=f"bring back log.sqlite from a copy or an archive; to begin anew in this folder, delete {tables}",
        )


def kafka_address(name: str) -> KafkaAddress:
    """The parts of a `kafka://` store's name.

    Raises:
        InvalidInput: it names no broker, or more than one topic.
    """
    parts = urlsplit(name)
    topic = parts.path.strip("/") or DEFAULT_TOPIC
    if not parts.netloc or "/" in topic:
        raise InvalidInput(f"{name!r} is no Kafka store", hint="write it like kafka://127.0.0.1:9092/slotlog.memory")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    state, registry = given.pop("state", None), given.pop("registry", None)
    if state is None:
        home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        folder = home / "slotlog" / parts.netloc.replace(":", "_").replace(",", "+") / topic
    else:
        folder = Path(state).expanduser()
    return KafkaAddress(parts.netloc, topic, folder, registry, given)
