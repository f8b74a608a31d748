"""How fast the codec makes typed events from bytes, beside fastavro's own `schemaless_reader` on the same records.

For each event type, in turn, as pairs: `schemaless_reader` on every record's body, which makes a dict; and
`Codec.decode` on the whole record, which finds the schema by its fingerprint, refuses left-over bytes and makes the
typed, frozen event. `mix` is the fleet of `workload.py`, types in the order they come.

    python ops/bench/decode.py                  20,000 records a type, 9 pairs
    python ops/bench/decode.py --small          200 records a type, 2 pairs
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import fastavro
import harness
from workload import BEGIN_US, Fleet

from schemas import events as ev
from schemas import registry
from schemas.codec import Codec
from streams import clock

HEADER_BYTES = 10
_TEXT = "the owner said that the limit is raised from Monday on"


def common(chance: random.Random) -> dict[str, Any]:
    """What every event has, with the optional fields as often as agents give them."""
    return {
        "event_id": clock.new_event_id(),
        "space": f"acme/team-{chance.randrange(50):02}",
        "session": f"run-{chance.randrange(100_000):06}",
        "actor": f"agent:worker-{chance.randrange(200):03}",
        "recorded_at": BEGIN_US + chance.randrange(10**12),
        "code": ev.Code(repo="shop", sha=f"{chance.getrandbits(160):040x}") if chance.random() < 0.2 else None,
        "cause": clock.new_event_id() if chance.random() < 0.2 else None,
        "seen": clock.new_event_id() if chance.random() < 0.5 else None,
    }


def own(chance: random.Random) -> dict[type[ev.Event], dict[str, Any]]:
    """The fields of its own that an event of each type has."""
    number = chance.randrange(5_000)
    named: dict[str, Any] = {"entity": f"user:{number:05}", "slot": "employer"}
    at, identity = BEGIN_US + number, clock.new_event_id()
    sha = f"{chance.getrandbits(160):040x}"
    rule = ev.PolicyRule(actors="agent:*", starting_trust="candidate", may_verify=False)
    hits = tuple(ev.Hit(event_id=clock.new_event_id(), score=chance.random()) for _ in range(8))
    return {
        ev.FactAsserted: {**named, "value": f"Acme {number}", "valid_from": at, "confidence": 0.8, "source": "chat/7"},
        ev.FactEnded: {**named, "at": at, "reason": "no longer so"},
        ev.FactRetracted: {"target": identity, "reason": "was misheard"},
        ev.FactReviewed: {"target": identity, "verdict": "verified", "reason": "seen in the contract"},
        ev.ValueForbidden: {**named, "value": f"Acme {number}", "reason": "another firm"},
        ev.ValueAllowed: {**named, "value": f"Acme {number}"},
        ev.SlotDeclared: {"slot": "employer", "entity_kind": "user", "cardinality": "one", "value_type": "string"},
        ev.FactPinned: {"target": identity, "pinned": True},
        ev.PolicySet: {"rules": (rule, rule, rule)},
        ev.Observed: {"role": "tool", "text": f"{_TEXT} ({number})", "attributes": {"tool": "shell", "exit": "0"}},
        ev.Recalled: {"query": _TEXT, "view": ev.RecalledView(valid_at=at), "hits": hits, "engine": "words@1"},
        ev.SessionStarted: {"agent": "agent:planner", "attributes": {"host": "worker-7"}},
        ev.SessionEnded: {"outcome": "done"},
        ev.BranchForked: {"parent": "main", "at": identity},
        ev.BranchMerged: {"from_branch": "try-7", "slots": (ev.EntitySlot(entity="user:00007", slot="employer"),)},
        ev.BranchRolledBack: {"to": identity, "reason": "went astray"},
        ev.BranchDeleted: {"reason": "merged"},
        ev.CommitSeen: {"repo": "shop", "sha": sha, "parents": (sha[::-1],), "committed_at": at},
        ev.ActorDistrusted: {"about": "agent:worker-007", "since_event": identity, "reason": "was taken over"},
        ev.ActorTrusted: {"about": "agent:worker-007"},
        ev.SubjectErased: {"subject": f"person-{number}", "reason": "asked for it"},
    }


def records(cls: type[ev.Event], count: int, chance: random.Random) -> list[ev.Event]:
    return [cls(**{**common(chance), **own(chance)[cls]}) for _ in range(count)]


def compare(name: str, events: Sequence[ev.Event], pairs: int) -> harness.Result:
    """Pairs of fastavro and the codec over the encoded events, after a check that they come back as they went in."""
    codec = Codec()
    encoded = [codec.encode(event) for event in events]
    assert [codec.decode(data) for data in encoded] == list(events), f"{name} does not come back as it was"
    schemas = {bytes.fromhex(one.fingerprint): registry.parsed(one) for one in registry.RELEASED}
    bodies = [(data[HEADER_BYTES:], schemas[data[2:HEADER_BYTES]]) for data in encoded]

    def read_fastavro() -> None:
        for body, schema in bodies:
            fastavro.schemaless_reader(BytesIO(body), schema, None)

    def read_codec() -> None:
        for data in encoded:
            codec.decode(data)

    def measured(work: Callable[[], None]) -> Callable[[], harness.Run]:
        return lambda: harness.run_of(len(events), work)

    harness.say(name)
    found = harness.paired(("fastavro", measured(read_fastavro)), ("codec", measured(read_codec)), pairs)
    return {"bytes_per_event": round(sum(map(len, encoded)) / len(encoded), 1), **found}


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--events", type=int, help="records of each type; default: 20,000, or 200 when small")
    parser.add_argument("--pairs", type=int, help="default: 9, or 2 when small")
    given = parser.parse_args()
    given.events = given.events or (200 if given.small else 20_000)
    given.pairs = given.pairs or (2 if given.small else 9)
    return given


def main() -> int:
    given = options()
    result = {"facts": harness.facts(), "seed": given.seed, "events_per_type": given.events}
    chance = random.Random(given.seed)
    types = {"mix": compare("mix", list(Fleet(given.seed).events(given.events)), given.pairs)}
    for cls in ev.EVENT_TYPES.values():
        types[cls.__name__] = compare(cls.__name__, records(cls, given.events, chance), given.pairs)
    result["types"] = types
    ratios = {name: found["median"]["ratio"] for name, found in types.items()}
    result["median_ratio"] = ratios
    harness.say(f"codec / fastavro: {ratios}")
    harness.write_result("decode", given, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
