"""Nothing that branches share moves: two processes read a branch each, in turn and at once, while a third writes on
main and on both, and at a commit each. A branch's answers are those of its own writes alone, and a view that is held
answers as it did."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from process_worker import ALICE, SPACE, Worker
from quick_folder import quick_folder

from schemas import events as ev
from streams import Belief, Memory, View

BRANCHES = ("idea", "plan")
SHAS = {"idea": "a" * 40, "plan": "b" * 40}
EVERYWHERE = ("main", *BRANCHES)
READS, ROUNDS = 5, 40


@pytest.fixture
def folder() -> Iterator[Path]:
    """Both branches know what main said before, and not what it says after."""
    with quick_folder() as made:
        with Memory.open(made, actor="agent:main") as memory:
            memory.remember(SPACE, ALICE, "plan", "free")
            memory.remember(SPACE, ALICE, "city", "Bern")
            for branch in BRANCHES:
                memory.fork(SPACE, branch)
            for branch in EVERYWHERE:
                memory.remember(SPACE, ALICE, "plan", f"{branch} 0", branch=branch)
            memory.remember(SPACE, ALICE, "city", "Basel")
            for sha in SHAS.values():
                told = {"type": "CommitSeen", "space": SPACE, "repo": "app", "sha": sha, "parents": []}
                memory.append([told | {"committed_at": "2026-01-01T00:00:00Z"}])
                memory.remember(SPACE, ALICE, "commit", sha, code=ev.Code(repo="app", sha=sha))
        yield made


class Told(NamedTuple):
    """What a process was answered: of its branch now and as of before the first question, of main, at its commit."""

    own: tuple[Any, Any]
    held: tuple[Any, Any]
    main: tuple[Any, Any]
    at_commit: Any


def belief(memory: Memory, slot: str, view: View) -> Belief:
    found = memory.get(SPACE, ALICE, slot, view)
    assert isinstance(found, Belief)
    return found


def known(memory: Memory, view: View) -> tuple[Any, Any]:
    return belief(memory, "plan", view).value, belief(memory, "city", view).value


def reading(pipe: Connection, folder: Path, branch: str, hold: bool) -> None:
    """Answer each question, a number, with what is known so many times in turn; until there is none."""
    with Memory.open(folder, hold=hold, create=False) as memory:
        held = memory.resolve(SPACE, View(branch=branch)).view()

        def told() -> Told:
            at_commit = belief(memory, "commit", View(at_sha=SHAS[branch])).value
            return Told(known(memory, View(branch=branch)), known(memory, held), known(memory, View()), at_commit)

        while True:
            try:
                count = pipe.recv()
            except EOFError:
                return
            pipe.send([told() for _ in range(count)])


def writing(pipe: Connection, folder: Path) -> None:
    """For each question, write everywhere in turn and answer once it is acknowledged; until there is none."""
    with Memory.open(folder, hold=False, create=False, actor="agent:writer") as memory:
        while True:
            try:
                number = pipe.recv()
            except EOFError:
                return
            for branch in EVERYWHERE:
                memory.remember(SPACE, ALICE, "plan", f"{branch} {number}", branch=branch)
            pipe.send(number)


def rounds_told(answers: list[Told], branch: str) -> list[int]:
    """The round that each answer of the branch is of, once all answers are what they must be."""
    for one in answers:
        assert one.held == (f"{branch} 0", "Bern"), "a view that is held has moved"
        assert one.at_commit == SHAS[branch]
    assert [one.own[1] for one in answers] == ["Bern"] * len(answers)
    assert [one.main[1] for one in answers] == ["Basel"] * len(answers)
    rounds_of([one.main[0] for one in answers], "main")
    return rounds_of([one.own[0] for one in answers], branch)


def rounds_of(plans: list[str], branch: str) -> list[int]:
    parted = [plan.partition(" ") for plan in plans]
    assert {own for own, _, _ in parted} == {branch}
    found = [int(number) for _, _, number in parted]
    assert found == sorted(found), "a later answer knows no less"
    return found


@pytest.mark.parametrize("holds", [(False, False), (True, False)], ids=["nobody holds", "one holds the tables"])
def test_two_processes_read_two_branches_while_a_third_writes(folder: Path, holds: tuple[bool, bool]) -> None:
    readers = {branch: Worker(reading, folder, branch, hold) for branch, hold in zip(BRANCHES, holds, strict=True)}
    with Memory.open(folder, hold=False, create=False) as memory:
        before = memory.resolve(SPACE, View()).view()
        for branch, reader in readers.items():
            assert rounds_told(reader.ask(1), branch) == [0]
        writer = Worker(writing, folder)
        for number in range(1, ROUNDS + 1):
            for worker, asked in ((writer, number), *((reader, READS) for reader in readers.values())):
                worker.pipe.send(asked)  # all three are asked before any is heard: they work at once
            for branch, reader in readers.items():
                told = rounds_told(reader.hear(), branch)
                assert set(told) <= {number - 1, number}, "all that was acknowledged is known, and no more"
            plan, city = known(memory, View())
            assert (plan in (f"main {number - 1}", f"main {number}"), city) == (True, "Basel")
            assert known(memory, before) == ("main 0", "Basel")
            assert writer.hear() == number
        writer.stop()
        for branch, reader in readers.items():
            assert rounds_told(reader.ask(READS), branch) == [ROUNDS] * READS
        assert known(memory, View()) == (f"main {ROUNDS}", "Basel")
        assert known(memory, before) == ("main 0", "Basel")
    for reader in readers.values():
        reader.stop()


def test_a_process_that_reads_and_writes_one_branch_moves_no_other(folder: Path) -> None:
    """No answer of main or of the other branch changes, whatever is asked for and said on the one."""
    reader = Worker(reading, folder, "plan", False)
    with Memory.open(folder, hold=False, create=False, actor="agent:idea") as memory:
        main = memory.get(SPACE, ALICE, "plan", View(valid_at=memory.resolve(SPACE).view().valid_at))
        for number in range(1, ROUNDS + 1):
            memory.remember(SPACE, ALICE, "plan", f"idea {number}", branch="idea")
            memory.remember(SPACE, ALICE, "city", f"place {number}", branch="idea")
            reader.pipe.send(1)
            assert known(memory, View(branch="idea")) == (f"idea {number}", f"place {number}")
            assert rounds_told(reader.hear(), "plan") == [0]
            assert known(memory, View()) == ("main 0", "Basel")
        now = memory.get(SPACE, ALICE, "plan", View())
        assert isinstance(main, Belief)
        assert isinstance(now, Belief)
        assert (now.event_id, now.position, now.value) == (main.event_id, main.position, main.value)
    reader.stop()
