"""Nothing shared moves: each process looks at its own branches and commits, per call, while others look elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import process_worker as workers
import pytest
from process_worker import ALICE, SPACE, Worker
from quick_folder import quick_folder

from schemas import events as ev
from streams import Memory, View

SLOT = "city"
SHAS = ("a" * 40, "b" * 40)
ROUNDS = 60


@pytest.fixture
def folder() -> Iterator[Path]:
    """Two branches and two commits that each believe something else of one slot, and main, which believes a third."""
    with quick_folder() as made, Memory.open(made, actor="agent:x") as memory:
        memory.append(
            {
                "type": "CommitSeen", "space": SPACE, "repo": "app", "sha": sha, "parents": [],
                "committed_at": "2026-01-01T00:00:00Z",
            }
            for sha in SHAS
        )  # fmt: skip
        memory.remember(SPACE, ALICE, SLOT, "Bern")
        for branch in ("left", "right"):
            memory.fork(SPACE, branch)
            memory.remember(SPACE, ALICE, SLOT, branch, branch=branch)
        for sha in SHAS:
            memory.remember(SPACE, ALICE, "port", sha[0], code=ev.Code(repo="app", sha=sha))
        memory.remember(SPACE, ALICE, SLOT, "main 0")
        yield made


def asked_while_main_moves(side: Worker) -> list[list[str]]:
    """All answers of a process, until main has moved between two of them."""
    answers: list[list[str]] = []
    while len({main for _, main, _ in answers}) < 3:
        answers += side.ask((ALICE, SLOT, ROUNDS))
        assert len(answers) < 1_000 * ROUNDS, "main does not move"
    return answers


@pytest.mark.parametrize("hold", [(True, False), (False, False)])
def test_two_processes_read_two_branches_at_once(folder: Path, hold: tuple[bool, bool]) -> None:
    """Each sees its own branch and its own commit all along, and what a third one writes to main meanwhile, where it
    looks at main, never going back."""
    sides = [
        Worker(workers.views_reader, folder, holds, [View(branch=branch), View(), View(at_sha=sha)])
        for holds, branch, sha in zip(hold, ("left", "right"), SHAS, strict=True)
    ]
    assert [side.hear() for side in sides] == ["ready", "ready"]
    with Memory.open(folder, actor="agent:y", hold=False) as writer, ThreadPoolExecutor(2) as asking:
        found = [asking.submit(asked_while_main_moves, side) for side in sides]
        number = 0
        while not all(one.done() for one in found):
            number += 1
            writer.remember(SPACE, ALICE, SLOT, f"main {number}")
            assert str(getattr(writer.get(SPACE, ALICE, SLOT), "value", "")) == f"main {number}"
    for branch, answers in zip(("left", "right"), (one.result() for one in found), strict=True):
        assert {own for own, _, _ in answers} == {branch}
        seen = [int(str(main).removeprefix("main ")) for _, main, _ in answers]
        assert seen == sorted(seen)
    ports = [{at for _, _, at in side.ask((ALICE, "port", 3))} for side in sides]
    assert ports == [{"a"}, {"b"}]
    for side in sides:
        side.stop()
