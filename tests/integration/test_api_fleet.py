"""The HTTP API of real workers on a real broker: whoever is asked answers as a Memory on the same topic does."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from api_client import ALICE, ask, opened, pages
from fleet import fleet
from kafka_broker import Broker

from streams import Memory
from streams.partitioner import partition_of
from streams.wire import plain

NAMES = [f"acme/{one}" for one in "abcdefgh"]
PARTITIONS = 4


def at(space: str, rest: str) -> str:
    return f"/v1/spaces/{quote(space, safe='')}/{rest}"


def json_of(found: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(plain(found)))


def test_two_workers_answer_as_one(tmp_path: Path, broker: Broker) -> None:
    with fleet(tmp_path / "fleet", broker, partitions=PARTITIONS) as found:
        found.start("w1", "w2")
        found.settle()
        first, second = (f"http://127.0.0.1:{found.workers[name].port}" for name in ("w1", "w2"))
        with Memory.open(first, actor="agent:one") as one, Memory.open(second, actor="agent:two") as two:
            for name in NAMES:
                one.wait(one.remember(name, ALICE, "employer", "Acme"))
                two.forget(name, ALICE, "employer")
                two.remember(name, ALICE, "employer", f"{name}!")
            assert [one.wait(two.end(name, ALICE, "none")).status for name in NAMES] == ["applied"] * len(NAMES)
            for memory in (one, two):
                assert [memory.get(name, ALICE, "employer").value for name in NAMES] == [f"{name}!" for name in NAMES]  # type: ignore[union-attr]
            whole, spaces = one.digest()
            assert (whole, spaces) == two.digest()
        own = f"kafka://{broker.bootstrap}/{found.topic}?state={tmp_path / 'own'}"
        with Memory.open(own) as reference:
            assert reference.digest() == (whole, spaces)
            for url in (first, second):
                assert [one["name"] for page in pages(url, "/v1/spaces", 3) for one in page] == NAMES
                info = ask(url, "/v1/info").json
                assert [one["chain"] for one in info["partitions"]] == [
                    one.chain for one in reference.info().partitions
                ]
                assert ask(url, "/readyz").json == {"status": "ready", "reasons": []}
                for name in NAMES:
                    assert ask(url, at(name, "replay")).lines == json_of(list(reference.replay(name)))
        there = next(name for name in NAMES if found.owner_of(name).name == "w2")
        with opened(first, at(there, "changes?since=-1")) as response:  # followed through the other worker
            lines = (line.decode() for line in iter(response.readline, b""))
            data = [json.loads(line[6:]) for line in islice((one for one in lines if one.startswith("data: ")), 3)]
            assert {one["position"]["partition"] for one in data} == {partition_of(there.encode(), PARTITIONS)}
            assert [one["changes"][0]["after"] != [] for one in data] == [True, False, True]
