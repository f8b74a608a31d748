"""A repository's history as ground truth: at every commit, memory must say what the files of that commit say.

The history is walked parents first. At each commit, each key of its manifests (a name and a version per line) is
recorded that `--at-sha` would answer otherwise there, pinned to the commit; a key that is gone is ended. Then random
(commit, key) questions must be answered as `git show COMMIT:FILE` reads, by a Memory that has the repository at hand,
and by one that knows only the commits which `sync` put on the log. One answer that differs makes the exit code 1.

    python ops/bench/git_truth.py --repository PATH --file requirements.txt --file other.txt
    python ops/bench/git_truth.py --small       a generated repository of 60 commits, with criss-cross merges
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import harness
from gitmade import Commit, branchy, git, make_repository, times
from writes import latencies

from schemas import events as ev
from streams import Belief, Memory, View, clock
from streams.git_sync import sync
from streams.repository import Repository

SPACE = "code/manifest"
ACTOR = "bench:git"
BATCH = 1_000
COLD = 300
"""So many questions are asked in random order, and the others in that of the history."""
SMALL_COMMITS, SMALL_LINES = 60, 4
SMALL_FILES = ("requirements.txt", "tools/requirements.txt")
_LINE = re.compile(r"([A-Za-z0-9._-]+(?:\[[^\]]*\])?)\s*(.*)")

Key = tuple[str, str]
"""(file, name)."""
Manifest = Mapping[str, str]
"""Name to version."""
Known = dict[Key, tuple[int, str | None]]
"""What a commit's memory knows of each key: how late it was recorded, and the version; None: it has ended."""


class Step(NamedTuple):
    """A commit: its parents, and its manifest of each file, empty where it has no such file."""

    sha: str
    parents: tuple[str, ...]
    manifests: tuple[Manifest, ...]


class Question(NamedTuple):
    sha: str
    file: str
    name: str
    absent: bool


def parsed(text: str) -> Manifest:
    """A manifest, from lines of `name==version` or any other requirement."""
    found = {}
    for line in text.splitlines():
        said = _LINE.fullmatch(line.partition("#")[0].strip())
        if said is not None:
            found[said[1].lower()] = said[2].removeprefix("==").strip() or "any"
    return found


# -- the history


def history(repository: Path, files: Sequence[str]) -> Iterator[Step]:
    """Every commit that leads to the head, parents first."""
    told = git(repository, "log", "--topo-order", "--reverse", "--format=%H %P", "HEAD").decode().splitlines()
    commits = [tuple(line.split()) for line in told]
    asked = "".join(f"{sha}:{file}\n" for sha, *_ in commits for file in files).encode()
    checked = git(repository, "cat-file", "--batch-check=%(objectname) %(objecttype)", given=asked).decode()
    blobs = [line.split()[0] if line.endswith(" blob") else None for line in checked.splitlines()]
    manifests: dict[str | None, Manifest] = {None: {}}
    manifests.update(_contents(repository, sorted({blob for blob in blobs if blob is not None})))
    for place, (sha, *parents) in enumerate(commits):
        mine = blobs[place * len(files) : (place + 1) * len(files)]
        yield Step(sha, tuple(parents), tuple(manifests[blob] for blob in mine))


def _contents(repository: Path, blobs: Sequence[str]) -> Iterator[tuple[str, Manifest]]:
    out = git(repository, "cat-file", "--batch", given="".join(f"{blob}\n" for blob in blobs).encode())
    at = 0
    for blob in blobs:
        end = out.index(b"\n", at)
        size = int(out[at:end].split()[2])
        yield blob, parsed(out[end + 1 : end + 1 + size].decode("utf-8", "replace"))
        at = end + 1 + size + 1


class Recorder:
    """Says which events a commit needs. It keeps what each commit's memory would answer: of the events at a commit and
    its ancestors, the latest one about a key counts. Commits that know the same share one dict."""

    def __init__(self, repo: str, files: Sequence[str]) -> None:
        self._repo = repo
        self._files = files
        self._known: dict[str, Known] = {}
        self._recorded = 0
        self.ends = 0
        self.at_merges = 0

    def events(self, step: Step) -> Iterator[ev.Event]:
        known = self._of_parents(step.parents)
        wanted = {(file, name): version for file, one in self._by_file(step) for name, version in one.items()}
        gone = [key for key, (_, version) in known.items() if version is not None and key not in wanted]
        changed: dict[Key, str | None] = {
            key: version for key, version in wanted.items() if known.get(key, (0, None))[1] != version
        }
        changed |= dict.fromkeys(gone)
        if changed:
            known = dict(known)
        for key, version in changed.items():
            self._recorded += 1
            self.ends += version is None
            self.at_merges += len(step.parents) > 1
            known[key] = self._recorded, version
            yield self._event(step.sha, key, version)
        self._known[step.sha] = known

    def _by_file(self, step: Step) -> Iterator[tuple[str, Manifest]]:
        return zip(self._files, step.manifests, strict=True)

    def _of_parents(self, parents: Sequence[str]) -> Known:
        first, *others = [self._known[parent] for parent in parents] or [{}]
        for other in others:
            if other is first:
                continue
            later = {key: said for key, said in other.items() if said[0] > first.get(key, (0, None))[0]}
            first = {**first, **later} if later else first
        return first

    def _event(self, sha: str, key: Key, version: str | None) -> ev.Event:
        common: dict[str, Any] = {
            "event_id": clock.new_event_id(),
            "space": SPACE,
            "actor": ACTOR,
            "recorded_at": clock.now_micros(),
            "code": ev.Code(repo=self._repo, sha=sha),
            "entity": key[0],
            "slot": key[1],
        }
        return ev.FactEnded(**common) if version is None else ev.FactAsserted(**common, value=version)


def record(memory: Memory, recorder: Recorder, steps: Sequence[Step]) -> int:
    """How many events it took."""
    batch: list[ev.Event] = []
    count = 0
    for step in steps:
        batch += recorder.events(step)
        count += len(batch) if len(batch) >= BATCH or step is steps[-1] else 0
        if len(batch) >= BATCH or step is steps[-1]:
            memory.append(batch)
            batch = []
    return count


# -- the questions


def questions(steps: Sequence[Step], files: Sequence[str], count: int, seed: int) -> list[Question]:
    """Random ones, every third of a key that the commit does not have."""
    chance = random.Random(seed)
    names = [sorted({name for step in steps for name in step.manifests[place]}) for place in range(len(files))]
    found: list[Question] = []
    while len(found) < count:
        step, place = chance.choice(steps), chance.randrange(len(files))
        absent = len(found) % 3 == 2
        there = step.manifests[place]
        choice = [name for name in names[place] if name not in there] if absent else sorted(there)
        if choice:
            found.append(Question(step.sha, files[place], chance.choice(choice), absent))
    return found


def shown(repository: Path, asked: Sequence[Question]) -> tuple[list[str | None], list[float]]:
    """What `git show` says, one process a question, and the seconds of each."""
    answers: list[str | None] = []
    seconds = []
    for question in asked:
        call = ["git", "-C", str(repository), "show", f"{question.sha}:{question.file}"]
        started = time.perf_counter()
        done = subprocess.run(call, capture_output=True, check=False)
        seconds.append(time.perf_counter() - started)
        missing = done.returncode == 128 and (b"does not exist in" in done.stderr or b"but not in" in done.stderr)
        assert done.returncode == 0 or missing, done.stderr
        manifest = parsed(done.stdout.decode("utf-8", "replace"))
        answers.append(manifest.get(question.name))
        assert (answers[-1] is None) == question.absent, question
    return answers, seconds


def ask(memory: Memory, asked: Sequence[Question], truth: Sequence[str | None], source: str) -> harness.Result:
    """Every question, and once more: the second time the commit's ancestors are at hand."""
    first: list[float] = []
    again: list[float] = []
    wrong = []
    for question, wanted in zip(asked, truth, strict=True):
        view = View(at_sha=question.sha)
        for seconds in (first, again):
            started = time.perf_counter()
            answer = memory.get(SPACE, question.file, question.name, view)
            seconds.append(time.perf_counter() - started)
            assert not isinstance(answer, list)
            got = None if answer is None else answer.value
            if got != wanted:
                wrong.append(f"{question.sha} {question.file} {question.name}: {got!r}, and git {wanted!r}")
            assert not isinstance(answer, Belief) or (answer.view.ancestry, answer.view.hidden) == (source, 0)
    found = {"wrong": len(wrong), "first_wrong": wrong[:5], "first_random": latencies(first[:COLD])}
    found |= {"first_in_order": latencies(first[COLD:] or first), "again": latencies(again)}
    times = (
        f"{name} p50 {one['p50_ms']} p99 {one['p99_ms']} ms" for name, one in found.items() if isinstance(one, dict)
    )
    harness.say(f"  {source}: {found['wrong']} of {len(asked):,} wrong; {', '.join(times)}")
    return found


# -- the whole


def generated(folder: Path, seed: int) -> Path:
    """A small repository in which versions change on several lines, files come and go, and merges choose either side,
    or neither."""
    chance = random.Random(seed)
    parents = branchy(SMALL_COMMITS, SMALL_LINES, seed)
    at_s = times(parents, chance)
    contents: list[dict[Key, str]] = []
    for of in parents:
        known = [contents[parent] for parent in of] or [{}]
        keys = sorted({key for one in known for key in one})
        mine = {key: side[key] for key in keys if key in (side := chance.choice(known))}
        for _ in range(chance.randrange(3) if of else 8):
            key = chance.choice(SMALL_FILES), f"package-{chance.randrange(9)}"
            mine[key] = f"{chance.randrange(5)}.{chance.randrange(5)}"
            if chance.random() < 0.3:
                del mine[key]
        if chance.random() < 0.05:
            mine = {key: version for key, version in mine.items() if key[0] == SMALL_FILES[0]}
        contents.append(mine)
    commits = [Commit(of, at, _files(mine)) for of, at, mine in zip(parents, at_s, contents, strict=True)]
    make_repository(folder, commits)
    return folder


def _files(content: Mapping[Key, str]) -> dict[str, str]:
    found = {"README": "made for a benchmark\n"}
    for (file, name), version in sorted(content.items()):
        found[file] = found.get(file, "# what is needed\n") + f"{name}=={version}\n"
    return found


def compare(work: Path, repository: Path, given: argparse.Namespace) -> harness.Result:
    with harness.timed() as reading:
        steps = list(history(repository, given.file))
        place = {step.sha: number for number, step in enumerate(steps)}
        asked = questions(steps, given.file, given.questions, given.seed)
        asked[COLD:] = sorted(asked[COLD:], key=lambda one: place[one.sha])
    result: harness.Result = {
        "repository": given.name or repository.name,
        "head": steps[-1].sha,
        "commits": len(steps),
        "merges": sum(len(step.parents) > 1 for step in steps),
        "files": list(given.file),
        "questions": len(asked),
        "absent": sum(question.absent for question in asked),
    }
    harness.say(f"{result['repository']} at {result['head']}: {len(steps):,} commits, {result['merges']:,} merges")
    truth, seconds = shown(repository, asked)
    merges = {step.sha for step in steps if len(step.parents) > 1}
    result |= {
        "asked_at_merges": sum(question.sha in merges for question in asked),
        "read_s": round(reading(), 2),
        "git_show": latencies(seconds),
    }
    store, recorder = work / "store", Recorder(result["repository"], given.file)
    with harness.timed() as recording, Memory.open(store, actor=ACTOR) as memory:
        result["events"] = record(memory, recorder, steps)
        (partition,) = memory.info().partitions
        assert (partition.applied, partition.quarantined) == (result["events"], 0), partition
        result |= {"ends": recorder.ends, "events_at_merges": recorder.at_merges}
        result["pinned_commits"] = len(memory.pinned(SPACE))
    result["record_s"] = round(recording(), 2)
    harness.say(f"  {result['events']:,} events, {recorder.ends:,} of them ends, {recorder.at_merges:,} at merges")
    with Memory.open(store, actor=ACTOR, repository=repository) as memory:
        clone = ask(memory, asked, truth, "clone")
    with Memory.open(store, actor=ACTOR) as memory:
        found = Repository.find(repository)
        assert found is not None
        with harness.timed() as syncing:
            synced = sync(memory, SPACE, found, actor=ACTOR)
        assert (synced.appended, synced.mapped, synced.pending) == (len(steps), 0, 0), synced
        result["sync_s"] = round(syncing(), 2)
        log = ask(memory, asked, truth, "log")
    return {**result, "wrong": clone["wrong"] + log["wrong"], "clone": clone, "log": log}


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--repository", type=Path, help="of the code; default: a generated one, as when small")
    parser.add_argument("--name", help="what the result calls it (default: the folder's name)")
    parser.add_argument("--file", action="append", help="a manifest in it; may be given several times")
    parser.add_argument("--questions", type=int, help="default: 3,000, or 300 when generated")
    given = parser.parse_args()
    if (given.repository is None) != (given.file is None):
        parser.error("--repository and --file go together")
    given.questions = given.questions or (300 if given.repository is None else 3_000)
    return given


def main() -> int:
    given = options()
    result = {"facts": harness.facts(), "seed": given.seed}
    with harness.work_folder(given) as work:
        os.environ["XDG_CACHE_HOME"] = str(work / "cache")  # what is stored of ancestors goes with the rest
        repository = given.repository
        if repository is None:
            repository, given.file = generated(work / "generated", given.seed), SMALL_FILES
        result |= compare(work, repository.resolve(), given)
    harness.write_result("git_truth", given, result)
    harness.say(f"all answers are those of git: {result['wrong'] == 0}")
    return 0 if result["wrong"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
