"""Names with slashes as trees: `slotlog ls`, and the slots of `slotlog entity`."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SPACE, Run, document, fact, lines, runner


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = runner(tmp_path)
    made(
        "append",
        stdin=lines(
            fact("go", entity="repo/api", slot="language"),
            fact("3.2", entity="repo/api/deps", slot="redis"),
            fact("1.0", entity="repo/api/deps", slot="http"),
            fact("ana", entity="repo/web", slot="owner"),
            fact("x", entity="repository", slot="owner"),
            fact("y", entity="odd name/a\u202eb", slot="owner"),
        ),
    )
    return made


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def test_ls_goes_one_step_at_a_time(run: Run) -> None:
    assert run("ls", SPACE).stdout.splitlines() == [
        "NAME         IS AN ENTITY  ENTITIES  SLOTS",
        '"odd name"/                1         1',
        "repo/                      3         4",
        "repository   yes           1         1",
    ]
    assert table(run("ls", SPACE, "repo").stdout) == [["api/", "yes", "2", "3"], ["web", "yes", "1", "1"]]
    assert run("ls", SPACE, "repo/").stdout == run("ls", SPACE, "repo").stdout
    assert table(run("ls", SPACE, "repo/api").stdout) == [["deps", "yes", "1", "2"]]
    assert table(run("ls", SPACE, "odd name").stdout) == [['"a\\u202eb"', "yes", "1", "1"]]
    (api, _) = document(run("ls", SPACE, "repo", "--json"))
    assert api == {"path": "repo/api", "name": "api", "is_entity": True, "entities": 2, "slots": 3}


def test_ls_of_what_is_not_there(run: Run) -> None:
    assert run("ls", SPACE, "repo/api/deps", code=1).stderr == "no entity is below repo/api/deps\n"
    assert document(run("ls", SPACE, "rep", "--json", code=1)) == []
    assert run("ls", "acme/other", code=1).stderr == "no entity\n"
    assert "prefix: is empty" in run("ls", SPACE, "", code=2).stderr
    assert "prefix: has U+DCFF" in run("ls", SPACE, "\udcff", code=2).stderr


def test_ls_counts_what_is_believed_when_it_is_asked_through_a_view(run: Run) -> None:
    run("forget", SPACE, "repo/web", "owner")
    run("branch", "create", SPACE, "idea")
    run("remember", SPACE, "repo/cli", "owner", "bo", "--branch", "idea")
    names = {
        words: [row[0] for row in table(run("ls", SPACE, "repo", *words).stdout)]
        for words in ((), ("--believed",), ("--branch", "idea"), ("--as-of", "5"))
    }
    assert list(names.values()) == [["api/", "cli", "web"], ["api/"], ["api/", "cli"], ["api/", "web"]]
    assert [row[0] for row in table(run("ls", SPACE, "repo", SLOTLOG_BRANCH="idea").stdout)] == ["api/", "cli", "web"]
    assert [row[0] for row in table(run("ls", SPACE, "repo", SLOTLOG_AS_OF="5").stdout)] == ["api/", "web"]


def test_slots_with_slashes_are_a_tree_with_counts(run: Run) -> None:
    slots = ("plan", "home", "home/city", "home-page", "home/street/name", "home/street/no", "/x")
    run("append", stdin=lines(*(fact("v", entity="user:bo", slot=slot) for slot in slots)))
    shown = run("entity", SPACE, "user:bo").stdout.splitlines()
    assert [line.partition("  20")[0].rstrip() for line in shown[1:]] == [
        '""/        1 slot',
        "  x        v",
        "home       v",
        "home/      3 slots",
        "  city     v",
        "  street/  2 slots",
        "    name   v",
        "    no     v",
        "home-page  v",
        "plan       v",
    ]
    assert document(run("entity", SPACE, "user:bo", "--json")).keys() == set(slots)


def test_slots_without_slashes_stay_flat(run: Run) -> None:
    assert [line.split()[:2] for line in run("entity", SPACE, "repo/api/deps").stdout.splitlines()] == [
        ["SLOT", "VALUE"], ["http", '"1.0"'], ["redis", '"3.2"']
    ]  # fmt: skip


def test_a_slot_of_very_many_parts(run: Run) -> None:
    run("remember", SPACE, "user:bo", "/" * 512, "v")
    assert len(run("entity", SPACE, "user:bo").stdout.splitlines()) == 514
