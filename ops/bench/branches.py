"""What branches of memory and commits of the code cost: reads through them, a commit's ancestors, and diffs.

`views`: a store of two spaces alike, half of the facts each. One has neither branches nor commits. In the other each
fact is pinned to a commit, some of main's later facts are on a branch of their own, and another branch was forked when
there was a tenth of it all. `get`, `entity` and `history` through each view are asked in turn with those of the plain
space, each of a random slot, with a clone of the code at hand and without (the log tells of the commits). Reads of a
slot with many versions likewise.
`diff`: in that store, of 10 to 10,000 slots that changed since an offset, on a branch, at a commit. And of two branches
that were forked long ago and said little.
`reachable`: all ancestors of the head of a generated repository, for the first time, again, by another process, and for
the commit after it; by the clone, and by a log; beside `git rev-list --count`, in turn.

Every answer is checked against what it must be.

    python ops/bench/branches.py                      1,000,000 facts; graphs of 100,000 and 1,000,000 commits
    python ops/bench/branches.py --only reachable     or views (with diff)
    python ops/bench/branches.py --small              4,000 facts, a graph of 500 commits
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

import harness
from gitmade import START_S, Commit, branchy, git, make_repository
from twospaces import (
    APPENDED_US,
    BUSY,
    CODE,
    HOT_PLACE,
    LATE,
    OLD,
    OLD_TOO,
    PLAIN,
    REPO,
    SECOND_US,
    SLOTS_AN_ENTITY,
    Place,
    Shows,
    Story,
    fact,
    fill,
    named,
)  # fmt: skip
from workload import BEGIN_US
from writes import latencies

from schemas import events as ev
from schemas.times import instant
from streams import Belief, Memory, View
from streams.git_sync import sync
from streams.repository import Repository

PARTS = ("views", "reachable")
T = TypeVar("T")

ACTOR = "bench:branches"
LINES = 20
SHARES = {"get": 1, "entity": 4, "history": 2, "get, many versions": 40}
"""Of each verb to the part of the questions that are asked of it."""


# -- reads


class Asked(NamedTuple):
    """A way to look: its name, the space, the view, and which facts it shows."""

    name: str
    space: str
    view: View
    shows: Shows


def on_branches(story: Story) -> list[Asked]:
    names = (("main, among branches", "main"), ("forked late", LATE), ("forked long ago", OLD), ("many events", BUSY))
    return [Asked(f"branch: {name}", CODE, View(branch=branch), story.shown_on(branch)) for name, branch in names]


def at_commits(story: Story, parents: Sequence[tuple[int, ...]], shas: Sequence[str], source: str) -> list[Asked]:
    found = []
    for name, place in (("the head", len(shas) - 1), ("an old one", len(shas) // 2)):
        ancestors = {place}
        for at in range(place, -1, -1):  # a parent's place is before its child's
            if at in ancestors:
                ancestors.update(parents[at])
        shows = _pinned_to(story, frozenset(ancestors))
        found.append(Asked(f"at_sha: {name}, {source}", CODE, View(at_sha=shas[place]), shows))
    return found


def _pinned_to(story: Story, commits: frozenset[int]) -> Shows:
    on_main = story.shown_on("main")
    return lambda number: on_main(number) and story.commit(number) in commits


Took = tuple[float, float]
"""Seconds on the wall, and of processor time of this thread, which a busy machine makes no longer."""


class Reader:
    """Asks one kind of question and checks the answers."""

    def __init__(self, memory: Memory, story: Story, seed: int) -> None:
        self._memory = memory
        self._story = story
        self._chance = random.Random(seed)
        self.verbs: dict[str, Callable[[Asked], Took]] = {
            "get": lambda asked: self._get(asked, self._chance.randrange(self._story.slots)),
            "entity": self._entity,
            "history": self._history,
            "get, many versions": lambda asked: self._get(asked, HOT_PLACE),
        }

    def _known(self, asked: Asked, place: Place) -> list[int]:
        return [number for number in self._story.of_place.get(place, ()) if asked.shows(number)]

    def _get(self, asked: Asked, place: Place) -> Took:
        answer, took = _taking(lambda: self._memory.get(asked.space, *named(place), asked.view))
        numbers = reversed(self._story.of_place.get(place, ()))
        wanted = next((number for number in numbers if asked.shows(number)), None)
        got = answer.value if isinstance(answer, Belief) else answer
        assert got == wanted, (asked.name, named(place), got, wanted)
        return took

    def _entity(self, asked: Asked) -> Took:
        first = self._chance.randrange(self._story.slots // SLOTS_AN_ENTITY) * SLOTS_AN_ENTITY
        answer, took = _taking(lambda: self._memory.entity(asked.space, named(first)[0], asked.view))
        known = {named(one)[1]: self._known(asked, one) for one in range(first, first + SLOTS_AN_ENTITY)}
        got = {slot: belief.value for slot, belief in answer.items() if isinstance(belief, Belief)}
        assert got == {slot: numbers[-1] for slot, numbers in known.items() if numbers}, (asked.name, first)
        return took

    def _history(self, asked: Asked) -> Took:
        place = self._chance.randrange(self._story.slots)
        answer, took = _taking(lambda: self._memory.history(asked.space, *named(place), asked.view))
        assert [belief.value for belief in answer] == self._known(asked, place), (asked.name, named(place))
        return took


def _taking(ask: Callable[[], T]) -> tuple[T, Took]:
    cpu, wall = time.thread_time(), time.perf_counter()
    answer = ask()
    return answer, (time.perf_counter() - wall, time.thread_time() - cpu)


def ask(memory: Memory, story: Story, ways: Sequence[Asked], given: argparse.Namespace) -> harness.Result:
    """Every verb through every way, in turn, which is first in turn too; ratios to the plain way of the same run."""
    reader, ways = Reader(memory, story, given.seed), [Asked("plain", PLAIN, View(), lambda _: True), *ways]
    found: harness.Result = {}
    for verb, asks in reader.verbs.items():
        first = {way.name: round(asks(way)[0] * 1e3, 3) for way in ways}
        times: dict[str, list[Took]] = {way.name: [] for way in ways}
        for turn in range(given.questions // SHARES[verb]):
            for place in range(len(ways)):
                way = ways[(turn + place) % len(ways)]
                times[way.name].append(asks(way))
        found[verb] = {
            name: {"first_ms": first[name], "wall": latencies([wall for wall, _ in took])}
            | {"cpu": latencies([cpu for _, cpu in took])}
            for name, took in times.items()
        }
        for name, one in found[verb].items():
            for kind in ("wall", "cpu"):
                own, plain = one[kind], found[verb]["plain"][kind]
                one[f"{kind}_over_plain"] = {q: round(own[q] / plain[q], 3) for q in ("p50_ms", "p99_ms")}
            wall, cpu = ([f"{ratio:.2f}" for ratio in one[f"{kind}_over_plain"].values()] for kind in ("wall", "cpu"))
            times_of = f"p50 {one['wall']['p50_ms']:8.3f}, p99 {one['wall']['p99_ms']:8.3f} ms"
            harness.say(f"  {verb:18} {name:28} {times_of}; of plain {', '.join(wall)}, cpu {', '.join(cpu)}")
    return found


def views(work: Path, given: argparse.Namespace) -> harness.Result:
    sizes = sorted(given.changes)
    story = Story(given.facts // 2, given.pins, given.seed)
    parents = branchy(given.pins, LINES, given.seed)
    parents += [(len(parents) + number - 1,) for number in range(len(sizes))]  # a line of commits, for the diffs
    shas = make_repository(work / "code", bare(parents))
    repository = Repository.find(work / "code")
    assert repository is not None
    folder = work / "store"
    with harness.timed() as filling:
        fill(folder, story.events(shas))
    with Memory.open(folder, actor=ACTOR) as memory, harness.timed() as folding:
        (partition,) = memory.info().partitions
        assert (partition.applied, partition.quarantined) == (2 * story.facts + 4, 0), partition
        sync(memory, CODE, repository, actor=ACTOR)
    harness.say(f"views: {2 * story.facts:,} facts, filled in {filling():.1f} s, folded in {folding():.1f} s")
    result: harness.Result = {
        "facts": 2 * story.facts,
        "slots_of_a_space": story.slots + 1,
        "versions_of_the_hot_slot": len(story.of_place[HOT_PLACE]),
        "commits": len(shas),
        "facts_on": {name: sum(story.branch(n) == name for n in range(story.facts)) for name in ("main", BUSY, OLD)},
        "goal": "3 times a plain read",
    }
    made = parents[: given.pins]
    with Memory.open(folder, repository=work / "code") as memory:
        ways = on_branches(story) + at_commits(story, made, shas[: given.pins], "clone")
        result["with_a_clone"] = ask(memory, story, ways, given)
    with Memory.open(folder) as memory:
        result["by_the_log"] = ask(memory, story, at_commits(story, made, shas[: given.pins], "log"), given)
    with Memory.open(folder, actor=ACTOR, repository=work / "code") as memory:
        result["diff"] = Differ(memory, story, shas[given.pins - 1 :], given).all(sizes)
    return result


# -- diffs


class Differ:
    """Makes changes, each of another slot, and asks for the difference at once."""

    def __init__(self, memory: Memory, story: Story, shas: Sequence[str], given: argparse.Namespace) -> None:
        self._memory = memory
        self._story = story
        self._shas = shas
        self._rounds = given.rounds
        self._next = story.facts

    def all(self, sizes: Sequence[int]) -> harness.Result:
        found: harness.Result = {"slots_of_the_space": self._story.slots + 1}
        for kind in ("offsets", "commits", "branches"):  # main stays as it is from the first of the branches on
            found[kind] = {str(size): self._of(kind, place, size) for place, size in enumerate(sizes)}
            least, most = (found[kind][str(size)] for size in (sizes[0], sizes[-1]))
            ratio = most["ms"]["median"] / least["ms"]["median"]
            found[kind]["most_over_least"] = {"changed": sizes[-1] / sizes[0], "time": round(ratio, 2)}
            harness.say(f"  diff, {kind}: {sizes[-1] / sizes[0]:,.0f} times the changes take {ratio:.1f} times as long")
        found["aged"] = {
            f"{sizes[0]} slots of a branch, {sum(sizes[1:]):,} events of others later": self._timed(
                View(), View(branch=f"diff-{sizes[0]}"), sizes[0]
            ),
            "two branches that were forked long ago and said little": self._timed(
                View(branch=OLD), View(branch=OLD_TOO), None
            ),
        }
        for name, one in found["aged"].items():
            harness.say(f"  diff, {name}: {one['ms']['median']:.1f} ms")
        return found

    def _of(self, kind: str, place: int, size: int) -> harness.Result:
        branch, code = "main", None
        valid_at = instant(APPENDED_US)
        before = self._memory.resolve(CODE).as_of
        views = View(as_of=before, valid_at=valid_at), View(valid_at=valid_at)
        if kind == "branches":
            branch = f"diff-{size}"
            self._memory.fork(CODE, branch)
            views = View(), View(branch=branch)
        elif kind == "commits":
            code = ev.Code(repo=REPO, sha=self._shas[place + 1])
            views = View(at_sha=self._shas[place]), View(at_sha=self._shas[place + 1])
        changes = [
            fact(CODE, *named(slot), self._next + slot, BEGIN_US + self._next * SECOND_US, branch, code)
            for slot in random.Random(size).sample(range(self._story.slots), size)
        ]
        self._next += self._story.slots
        self._memory.append(changes)
        found = self._timed(*views, size)
        found["us_a_slot"] = round(found["ms"]["median"] / size * 1e3, 1)
        harness.say(f"  diff, {kind}: {size:,} changed, {found['ms']['median']:.1f} ms, {found['us_a_slot']} µs a slot")
        return found

    def _timed(self, first: View, second: View, size: int | None) -> harness.Result:
        times = []
        for _ in range(self._rounds):
            with harness.timed() as seconds:
                told = self._memory.diff(CODE, first, second)
            times.append(seconds() * 1e3)
            assert size is None or len(told) == size, (first, second, len(told), size)
        return {"told": len(told), "ms": harness.spread(times)}


# -- ancestors


def bare(parents: Sequence[tuple[int, ...]]) -> Iterator[Commit]:
    return (Commit(of, START_S + place, {}) for place, of in enumerate(parents))


def reachable(work: Path, given: argparse.Namespace) -> harness.Result:
    return {str(size): of_graph(work / f"graph-{size}", size, given) for size in given.graphs}


def of_graph(folder: Path, size: int, given: argparse.Namespace) -> harness.Result:
    parents = branchy(size, LINES, given.seed)
    with harness.timed() as making:
        shas = make_repository(folder, bare([*parents, (size - 1,)]))
    head, after = shas[-2], shas[-1]
    harness.say(f"reachable: {size:,} commits, made in {making():.1f} s")
    ways: dict[str, list[float]] = {}

    def note(name: str, work: Callable[[], object]) -> None:
        started = time.perf_counter()
        work()
        ways.setdefault(name, []).append(time.perf_counter() - started)

    def walk(repository: Repository, sha: str, wanted: int) -> None:
        found = repository.reachable(sha)
        assert found is not None
        assert len(found) == wanted
        assert sha in found
        assert shas[0] in found

    for number in range(given.rounds):
        os.environ["XDG_CACHE_HOME"] = str(folder / f"cache-{number}")
        note("git rev-list --count", lambda: git(folder, "rev-list", "--count", head))
        repository, another = opened(folder), opened(folder)
        note("first", lambda repository=repository: walk(repository, head, size))
        note("again", lambda repository=repository: walk(repository, head, size))
        note("by another process", lambda another=another: walk(another, head, size))
        note("of the commit after it", lambda another=another: walk(another, after, size + 1))
        shutil.rmtree(folder / f"cache-{number}")
    result: harness.Result = {"commits": size, "merges": sum(len(of) > 1 for of in parents), "head": head}
    result |= {name: {"ms": harness.spread(one * 1e3 for one in seconds)} for name, seconds in ways.items()}
    counted = ways["git rev-list --count"]
    for name, seconds in ways.items():
        result[name]["over_rev_list"] = ratio = round(median(a / b for a, b in zip(seconds, counted, strict=True)), 5)
        harness.say(f"  {name:22} {median(seconds) * 1e3:10.3f} ms, {ratio:.5f} of git rev-list --count")
    if size <= given.most_on_the_log:
        result["by_the_log"] = by_the_log(folder, shas[0], head, size)
    return result


def opened(folder: Path) -> Repository:
    found = Repository.find(folder)
    assert found is not None
    return found


def by_the_log(folder: Path, first: str, head: str, size: int) -> harness.Result:
    """A fact at the first commit, asked for at the last one, where only the log knows how one leads to the other."""
    with Memory.open(folder / "store", actor=ACTOR) as memory:
        memory.append([fact(CODE, "app", "port", 80, BEGIN_US, code=ev.Code(repo=REPO, sha=first))])
        with harness.timed() as syncing:
            synced = sync(memory, CODE, opened(folder), actor=ACTOR)
            memory.info()
        assert synced.appended == size + 1, synced
        times = []
        for _ in range(2):
            with harness.timed() as seconds:
                answer = memory.get(CODE, "app", "port", View(at_sha=head))
            assert isinstance(answer, Belief)
            assert (answer.value, answer.view.ancestry, answer.view.hidden) == (80, "log", 0)
            times.append(seconds())
    found = {"sync_s": round(syncing(), 2), "first_ms": round(times[0] * 1e3, 2), "again_ms": round(times[1] * 1e3, 3)}
    harness.say(f"  by the log: {found}")
    return found


# -- the whole


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--facts", type=int, help="in the store; default: 1,000,000, or 4,000 when small")
    parser.add_argument("--pins", type=int, help="commits that they are pinned to; default: 10,000, or 100 when small")
    parser.add_argument("--questions", type=int, help="gets of each kind; default: 4,000, or 40 when small")
    parser.add_argument("--changes", type=int, nargs="+", help="slots that change before each diff")
    parser.add_argument("--graphs", type=int, nargs="+", help="commits in each generated repository")
    parser.add_argument("--most-on-the-log", type=int, default=100_000, help="commits (default: %(default)s)")
    given = parser.parse_args()
    given.facts = given.facts or (4_000 if given.small else 1_000_000)
    given.pins = given.pins or (100 if given.small else 10_000)
    given.questions = given.questions or (40 if given.small else 4_000)
    given.changes = given.changes or ([2, 20] if given.small else [10, 100, 1_000, 10_000])
    given.graphs = given.graphs or ([500] if given.small else [100_000, 1_000_000])
    given.rounds = 2 if given.small else 3
    return given


def main() -> int:
    given = options()
    result = {"facts": harness.facts(), "seed": given.seed}
    parts = {"views": views, "reachable": reachable}
    with harness.work_folder(given) as work:
        os.environ["XDG_CACHE_HOME"] = str(work / "cache")  # what is stored of ancestors goes with the rest
        for name in given.only:
            result[name] = parts[name](work, given)
    harness.write_result("branches", given, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
