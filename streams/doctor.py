"""Everything that can be wrong with a store, looked at in order, and what can be mended without touching the log.

Only derived things are mended: tables are folded again, leftovers of an interrupted rebuild removed. The log is
history: what is wrong there is named, never repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas.errors import FormatTooNew, LogChanged, SlotlogError, StoreBusy, StoreDamaged
from streams import tables
from streams.memory import Memory

Outcome = Literal["well", "noticed", "mended", "wrong"]
LEFTOVERS = (".fresh", ".old")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `noticed` needs somebody's eye and is no fault of the store; `wrong` is one."""

    name: str
    outcome: Outcome
    detail: str


def doctor(store: str | Path, *, repair: bool = True, timeout_s: float = 30.0) -> Iterator[Check]:
    """Look at everything, mending with `repair` what may be; yields each check as it is done.

    A check that fails so that the next ones can't be asked is the last.
    """
    try:
        memory = Memory.open(store, create=False, timeout_s=timeout_s)
    except SlotlogError as error:
        yield Check("store opens", "wrong", _told(error))
        return
    yield Check("store opens", "well", str(store))
    with memory:
        flaws = memory.flaws()
        yield Check("storage of the log", "wrong" if flaws else "well", "; ".join(flaws) or "no flaw found")
        yield _leftovers(memory.tables_folder, repair)
        tables_check = _tables(memory, repair)
        yield tables_check
        if tables_check.outcome == "wrong":
            return
        yield from _contents(memory, repair)


def _leftovers(folder: Path, repair: bool) -> Check:
    found = [path for path in folder.glob("*") if path.suffix in LEFTOVERS] if folder.exists() else []
    if not found:
        return Check("leftovers", "well", "none")
    names = ", ".join(path.name for path in found)
    if not repair:
        return Check("leftovers", "noticed", f"{names}: of an interrupted rebuild")
    for path in found:
        tables.remove(path)
    return Check("leftovers", "mended", f"{names} removed")


def _tables(memory: Memory, repair: bool) -> Check:
    name = "tables open"
    try:
        memory.info()
        return Check(name, "well", "up to the end of the log")
    except (LogChanged, FormatTooNew, StoreBusy) as error:
        return Check(name, "wrong", _told(error))
    except StoreDamaged as error:
        if not repair:
            return Check(name, "wrong", _told(error))
        return _mended(name, f"{error}; folded again", memory.rebuild)


def _contents(memory: Memory, repair: bool) -> Iterator[Check]:
    problems = memory.verify()
    in_log = [problem for problem in problems if not problem.in_tables]
    yield Check("log is what was folded", *_verdict([f"{one.position}: {one.what}" for one in in_log]))
    in_tables = [problem.what for problem in problems if problem.in_tables]
    if in_tables and repair:
        yield _mended("tables are what the log says", f"{'; '.join(in_tables)}; folded again", memory.rebuild)
    else:
        yield Check("tables are what the log says", *_verdict(in_tables))
    quarantined = memory.quarantined()
    detail = f"{len(quarantined)} records do not count; slotlog quarantine lists them" if quarantined else "none"
    yield Check("quarantine", "noticed" if quarantined else "well", detail)


def _verdict(problems: list[str]) -> tuple[Outcome, str]:
    return ("wrong", "; ".join(problems)) if problems else ("well", "no difference")


def _mended(name: str, detail: str, mend: Callable[[], None]) -> Check:
    try:
        mend()
    except SlotlogError as error:
        return Check(name, "wrong", f"{detail}, which failed: {_told(error)}")
    return Check(name, "mended", detail)


def _told(error: SlotlogError) -> str:
    return str(error) if error.hint is None else f"{error} ({error.hint})"
