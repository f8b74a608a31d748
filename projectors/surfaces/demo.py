"""`slotlog demo`: two sessions of an on-call agent, and what can be asked of them. Every answer is a command's own."""

from __future__ import annotations

import pkgutil
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from projectors.surfaces.params import Settings, json_option

SPACE = "acme/oncall"
DATA = "demo_session.jsonl"
_COLUMNS = 100
_OWNER = (SPACE, "svc:checkout", "owner")

ASKED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Who owns checkout? What the catalog said was corrected two days later:", ("history", *_OWNER)),
    (
        "What the agent believed during the first incident, and what it believes since offset 11:",
        ("get", *_OWNER, "--as-of", "8", "--value-only"),
    ),
    ("", ("get", *_OWNER, "--as-of", "11", "--value-only")),
    (
        "The pool was enlarged for two days. Its size on 4 March, and now that this has ended:",
        ("get", SPACE, "svc:checkout", "pool", "--valid-at", "2025-03-04T00:00:00Z", "--value-only"),
    ),
    ("", ("get", SPACE, "svc:checkout", "pool", "--value-only")),
    ("The second session, read again from the log:", ("replay", SPACE, "--session", "incident-4219")),
)
"""What is shown: a heading, empty where the answer above belongs to it too, and a command."""


@click.command(short_help="See it at work on a store of its own.")
@click.option("--keep", metavar="DIR", help="Make the store in DIR, and keep it. Default: a folder that is removed.")
@json_option()
@click.pass_obj
def demo(settings: Settings, keep: str | None) -> None:
    """Show slotlog at work on a store of its own: a correction, answers as of two offsets, valid time, a replay.

    The 17 events are shipped with the program. --json prints the answers alone, as the commands give them with --json.

    \b
    Examples:
      slotlog demo
      slotlog demo --keep ./demo && slotlog --store ./demo timeline acme/oncall
    """
    with _folder(keep) as folder:
        appended = _fill(folder)
        _say(
            settings,
            f"{appended} events of an on-call agent, appended to {'a new store' if keep else 'a throw-away store'}.",
        )
        for heading, command in ASKED:
            if heading:
                _say(settings, "")
                _say(settings, heading)
            _say(settings, f"$ slotlog {shlex.join(command)}")
            _answer(settings, folder, command)
        _say(settings, "")
        if keep is None:
            _say(settings, "To ask more: slotlog demo --keep ./demo; export SLOTLOG_STORE=./demo")
        else:
            _say(settings, f"To ask more: export SLOTLOG_STORE={shlex.quote(keep)}")


def _fill(folder: str) -> int:
    import msgspec

    from streams import Memory

    data = pkgutil.get_data("projectors.surfaces", DATA)
    assert data is not None
    events: list[dict[str, Any]] = [msgspec.json.decode(line) for line in data.splitlines()]
    with Memory.open(folder, hold=False) as memory:
        return len(memory.append(events))


def _answer(settings: Settings, folder: str, command: tuple[str, ...]) -> None:
    """Run the command as it stands, on the demo's store."""
    from projectors.surfaces.cli import main

    main.main(
        ["--store", folder, *command],  # given outright, it goes before SLOTLOG_STORE
        prog_name="slotlog",
        standalone_mode=False,
        obj=Settings(json=settings.json, width=_COLUMNS, branch="main", isolates=False),
    )


@contextmanager
def _folder(keep: str | None) -> Iterator[str]:
    """Where the store is made: `keep`, which must hold no log yet, or a folder that is gone afterwards."""
    import tempfile

    from schemas.errors import InvalidInput
    from streams.sqlite_log import exists

    if keep is None:
        with tempfile.TemporaryDirectory(prefix="slotlog-demo-") as folder:
            yield folder
    elif exists(Path(keep)):
        raise InvalidInput(f"there is a log in {keep} already", hint="give --keep a folder of its own")
    else:
        yield keep


def _say(settings: Settings, text: str) -> None:
    from projectors.surfaces import output

    if not settings.json:
        output.line(text)
