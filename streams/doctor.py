"""Everything that can be wrong with a store, looked at in order, and what can be mended without touching the log.

Only derived things are mended: tables are folded again, leftovers of an interrupted rebuild removed. The log is
history: what is wrong there is named, never repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from schemas.errors import SlotlogError, StoreBusy, StoreDamaged
from streams import tables
from streams.file_lock import FileLock
from streams.memory import Memory
from streams.memory_admin import LOCK_NAME, VERIFY_PREFIX

Outcome = Literal["well", "noticed", "mended", "wrong"]
LEFTOVERS = (".fresh", ".old")


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at. `noticed` needs somebody's eye and is no fault of the store; `wrong` is one."""

    name: str
    outcome: Outcome
    detail: str


def doctor(store: str | Path, *, repair: bool = True, busy_timeout_s: float = 30.0) -> Iterator[Check]:
    """Look at everything, mending with `repair` what may be; yields each check as it is done.

    A check that fails so that the next ones can't be asked is the last.
    """
    try:
        memory = Memory.open(store, create=False, busy_timeout_s=busy_timeout_s)
    except SlotlogError as error:
        yield Check("store opens", "wrong", _told(error))
        return
    yield Check("store opens", "well", str(store))
    with memory:
        yield _storage(memory)
        yield _leftovers(memory.tables_folder, repair)
        tables_check = _tables(memory, repair)
        yield tables_check
        if tables_check.outcome == "wrong":
            return
        yield from _contents(memory, repair)


def _storage(memory: Memory) -> Check:
    name = "storage of the log"
    try:
        flaws = memory.flaws()
    except SlotlogError as error:
        return Check(name, "wrong", _told(error))
    return Check(name, "wrong" if flaws else "well", "; ".join(flaws) or "no flaw found")


def _leftovers(folder: Path, repair: bool) -> Check:
    """Folders of a rebuild or a verification that was interrupted. One that is going on in another process holds a
    lock, and its folder stays."""
    name = "leftovers"
    locks = {path: path.with_suffix(".lock") for path in folder.glob("*") if path.suffix in LEFTOVERS}
    locks |= {path: path / LOCK_NAME for path in folder.glob(f"{VERIFY_PREFIX}*")}
    if not locks:
        return Check(name, "well", "none")
    names = ", ".join(sorted(path.name for path in locks))
    if not repair:
        return Check(name, "noticed", f"{names}: of an interrupted rebuild or verification, or of one going on")
    kept = [str(error) for path, lock in sorted(locks.items()) if (error := _removed(path, lock)) is not None]
    return Check(name, "noticed", "; ".join(kept)) if kept else Check(name, "mended", f"{names} removed")


def _removed(path: Path, lock_path: Path) -> StoreBusy | None:
    """Remove the folder `path`, unless its lock is held: then the error that says by whom."""
    lock = FileLock(lock_path)
    try:
        lock.acquire(0.0)
        tables.remove(path)
    except StoreBusy as error:
        return error
    finally:
        lock.close()
    return None


def _tables(memory: Memory, repair: bool) -> Check:
    name = "tables open"
    try:
        memory.info()
        return Check(name, "well", "up to the end of the log")
    except StoreDamaged as error:
        if not repair:
            return Check(name, "wrong", _told(error))
        return _mended(name, f"{error}; folded again", memory.rebuild)
    except SlotlogError as error:
        return Check(name, "wrong", _told(error))


def _contents(memory: Memory, repair: bool) -> Iterator[Check]:
    try:
        problems = memory.verify()
        quarantined = memory.quarantined()
    except SlotlogError as error:
        yield Check("log is what was folded", "wrong", _told(error))
        return
    in_log = [
        one.what if one.position is None else f"{one.position}: {one.what}" for one in problems if not one.in_tables
    ]
    yield Check("log is what was folded", *_verdict(in_log))
    in_tables = [problem.what for problem in problems if problem.in_tables]
    if in_tables and repair:
        yield _mended("tables are what the log says", f"{'; '.join(in_tables)}; folded again", memory.rebuild)
    else:
        yield Check("tables are what the log says", *_verdict(in_tables))
    detail = f"records that do not count: {len(quarantined)}; slotlog quarantine lists them" if quarantined else "none"
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
