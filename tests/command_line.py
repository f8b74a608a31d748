"""Running slotlog's command line inside this process, for the tests of its commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from projectors.surfaces.cli import main

SPACE = "acme/support"
ALICE = "user:alice"
ID = "0195d0a4-7c00-7000-8000-000000000007"
Run = Callable[..., Result]


def runner(folder: Path) -> Run:
    """Runs a command on a store in `folder`, where it begins too, and asserts its exit code. The folder is otherwise
    empty: no git repository, and no settings but those given."""

    def invoke(*words: str, stdin: bytes | None = None, code: int = 0, **env: str) -> Result:
        settings = {"SLOTLOG_STORE": str(folder / "store"), "SLOTLOG_ACTOR": "agent:test", "COLUMNS": "100", **env}
        with chdir(folder):
            result = CliRunner().invoke(
                main, words, input=stdin, env=settings, prog_name="slotlog", catch_exceptions=False
            )
        assert result.exit_code == code, result.output
        return result

    return invoke


def document(result: Result) -> Any:
    """The one line of JSON that was printed."""
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def documents(result: Result) -> list[Any]:
    """Every line of JSON that was printed."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def fact(value: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "FactAsserted", "space": SPACE, "entity": ALICE, "slot": "employer", "value": value, **fields}


def lines(*events: Any) -> bytes:
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in events)


def forked(run: Run) -> None:
    """Acme on both; then Globex and a city on idea, and Initech on main."""
    run("remember", SPACE, ALICE, "employer", "Acme", "--valid-from", "2026-01-01T00:00:00Z")
    run("branch", "create", SPACE, "idea")
    run("remember", SPACE, ALICE, "employer", "Globex", "--branch", "idea", "--event-id", ID, "--session", "run-7")
    run("remember", SPACE, ALICE, "city", "Bern", "--branch", "idea")
    run("remember", SPACE, ALICE, "employer", "Initech", "--actor", "agent:crm")
