"""Mutation testing of the pure core: each small change to it makes a quick test fail, or is shown to change nothing.

cosmic-ray changes one place of one module at a time, in a copy of the checkout, and runs the tests against it. What
survives is written down with its reason: EQUIVALENT holds the changes that no input can tell from the original. One
survivor that is not among them makes the exit code 1, and so does a reason that no survivor needs any more.

    python ops/bench/mutants.py                             all modules: about half an hour of one core
    python ops/bench/mutants.py --modules streams/values.py
    python ops/bench/mutants.py --small                     streams/values.py with the unit tests alone
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import harness

VERSION = "8.7.0"
MODULES = ("streams/belief.py", "streams/view.py", "streams/values.py")
UNIT_TESTS = (
    "tests/unit/test_values.py", "tests/unit/test_belief.py", "tests/unit/test_belief_mutants.py",
    "tests/unit/test_view.py",
)  # fmt: skip
PROPERTY_TESTS = ("tests/property/test_belief.py", "tests/property/test_reads.py")
PROPERTY_EXAMPLES = "0.3"
TIMEOUT_S = 60.0
_JOINT = "if following is not None and following[0] == stop and same(following[2].claim.row.value, value):"
_OUTRANKED = "outranked = following is not None and following[0] == stop < top.stop"
_MERGE = "if segments and segments[-1][2] is top and segments[-1][1] == start:"
_BEGUN = "while self._begun < len(self.spans) and self.spans[self._begun].start < stop:"
_HEAP = "heappush(heap, ((not verified, -at, -offset), upcoming))"
_ASCEND = "segments ascend and do not overlap, so the next one never begins before this one stops"
_ELEMENT = "both come from one element of `boundaries`, so they are equal exactly when they are the same object"
_SHIFT = "~x is -x - 1: every key of the heap moves by one, and their order stays"
_FILLED = "an interval has no gap: the top of the last stretch is top again only where that stretch stopped"
_SAME_LINES: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "streams/belief.py": (
        ('if cardinality == "one":', "==", ">=", "a cardinality is `one` or `many`, and `many` sorts first"),
        ("value = facts[0].row.value", "[0]", "[ -1]", "all facts of a group carry the same value"),
        ("following = segments[last + 1] if last + 1 < len(segments) else None", "<", "!=", "it is never greater"),
        (_JOINT, "==", "<=", _ASCEND),
        (_JOINT, "==", "is", _ELEMENT),
        (_OUTRANKED, "==", "<=", _ASCEND),
        (_OUTRANKED, "==", "is", _ELEMENT),
        (_OUTRANKED, "==", ">=", "a top that goes on past `stop` leaves no gap, so what follows begins at `stop`"),
        (_OUTRANKED, "<", "!=", "a stretch never stops after its top does"),
        (_BEGUN, "<", "!=", "it counts up by one from 0 and stops at the length"),
        ("while upcoming is not None and upcoming.start == start:", "==", "<=", "each start is a boundary, in order"),
        (_HEAP, "-at", "~at", _SHIFT),
        (_HEAP, "-offset", "~offset", _SHIFT),
        (_MERGE, "is", "==", "two spans never have the same claim, and a claim has one offset"),
        (_MERGE, "==", "<=", _FILLED),
        (_MERGE, "==", ">=", _FILLED),
        (_MERGE, "==", "is", f"{_FILLED}; {_ELEMENT}"),
    ),
    "streams/values.py": (
        ("return type(left) is type(right) and left == right", "is", "==", "types have no equality but identity"),
    ),
    "streams/view.py": (
        ('self._least_is_verified = resolved.trust == "verified"', "==", ">=", "of the two, `candidate` sorts first"),
        (
            'rule.starting_trust == "verified" and any(fnmatchcase(actor, rule.actors) for actor in actors)',
            "==",
            ">=",
            "of the three, `verified` sorts last",
        ),
        ('if trust == "candidate" and self._least_is_verified:', "==", "<=", "of the three, `candidate` sorts first"),
    ),
}
EQUIVALENT = {
    (module, before, before.replace(old, new, 1)): reason
    for module, lines in _SAME_LINES.items()
    for before, old, new, reason in lines
}
"""(module, line, line as changed) to the reason why no input can tell the two apart."""

_PROFILE = '''"""Properties stop at the first failure: no shrinking, and the same examples for every mutant."""

from pathlib import Path

from hypothesis import Phase, settings

import streams

assert Path(streams.__file__).is_relative_to(Path.cwd()), f"{streams.__file__} is not the copy's"
settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate), derandomize=True)
settings.load_profile("mutants")
'''
_SQL = (
    "SELECT job_id, module_path, operator_name, start_pos_row, start_pos_col, definition_name FROM mutation_specs "
    "ORDER BY module_path, start_pos_row, start_pos_col, operator_name, occurrence"
)


class Mutant(NamedTuple):
    """One change: the lines as they are and as they become, and what the tests made of it."""

    module: str
    line: int
    function: str | None
    operator: str
    before: str
    after: str
    outcome: str

    @property
    def reason(self) -> str | None:
        """Why nothing can tell it from the original, None when that isn't known."""
        return EQUIVALENT.get((self.module, self.before, self.after))


def tool(given: argparse.Namespace) -> Path:
    """The command `cosmic-ray` of an environment of its own, made once in the cache."""
    folder: Path = given.tool or harness.CACHE / f"cosmic-ray-{VERSION}"
    command = folder / "bin" / "cosmic-ray"
    if not command.exists():
        harness.say(f"installing cosmic-ray {VERSION} into {folder}")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", f"cosmic-ray=={VERSION}"]
        subprocess.run(pip, check=True)
    return command


def copy_checkout(target: Path, modules: list[str]) -> None:
    """What the tests need, compiled, but for the modules that change: a stale .pyc would hide a mutant."""
    for name in ("schemas", "streams", "tests"):
        shutil.copytree(harness.ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(harness.ROOT / "pyproject.toml", target)
    (target / "mutation_profile.py").write_text(_PROFILE)
    compileall.compile_dir(target, quiet=1)
    for module in modules:
        for stale in (target / module).parent.glob(f"__pycache__/{Path(module).stem}.*.pyc"):
            stale.unlink()


def annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations begin and end, (line, column). `from __future__ import annotations` leaves them unevaluated."""
    assert "from __future__ import annotations" in source
    found = []
    for node in ast.walk(ast.parse(source)):
        parts = [getattr(node, "returns", None)] + ([node.annotation] if hasattr(node, "annotation") else [])
        found += [((p.lineno, p.col_offset), (p.end_lineno, p.end_col_offset)) for p in parts if p is not None]
    return found


def without_annotations(session: Path, copy: Path) -> int:
    """Take the changes inside annotations out of the session; how many there were."""
    database = sqlite3.connect(session)
    gone = []
    spans: dict[str, Any] = {}
    for job, module, _, row, column, _ in database.execute(_SQL).fetchall():
        known = spans.setdefault(module, annotations((copy / module).read_text()))
        if any(start <= (row, column) < stop for start, stop in known):
            gone.append((job,))
    for table in ("work_items", "mutation_specs"):
        database.executemany(f"DELETE FROM {table} WHERE job_id = ?", gone)
    database.commit()
    database.close()
    return len(gone)


def outcomes(session: Path) -> Iterator[Mutant]:
    """Every mutant of a finished session, by module and line."""
    database = sqlite3.connect(session)
    results = {job: rest for job, *rest in database.execute("SELECT job_id, test_outcome, diff FROM work_results")}
    for job, module, operator, row, _, function in database.execute(_SQL).fetchall():
        outcome, diff = results.get(job, ("missing", ""))
        lines = [line for line in (diff or "").splitlines() if not line.startswith(("---", "+++"))]
        before, after = (" ".join(one[1:].strip() for one in lines if one.startswith(sign)) for sign in "-+")
        name = operator.removeprefix("core/")
        yield Mutant(module, row, function, name, before, after, str(outcome).rpartition(".")[2].lower())
    database.close()


def run(given: argparse.Namespace, command: Path, work: Path) -> tuple[list[Mutant], int, str]:
    """Mutate, test; the mutants, how many were in annotations, and the command that tests one."""
    copy = work / "checkout"
    copy_checkout(copy, given.modules)
    tests = [test for test in given.tests if (copy / test).exists()]
    call = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "mutation_profile"]
    test_command = shlex.join([*call, *tests])
    config, session = copy / "mutants.toml", work / "session.sqlite"
    names = json.dumps(list(given.modules))
    config.write_text(
        f"[cosmic-ray]\nmodule-path = {names}\ntimeout = {TIMEOUT_S}\nexcluded-modules = []\n"
        f"test-command = {json.dumps(test_command)}\n\n[cosmic-ray.distributor]\nname = 'local'\n"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "SLOTLOG_PROPERTY_EXAMPLES": PROPERTY_EXAMPLES}
    environment.pop("PYTHONPATH", None)

    def call_tool(*arguments: str) -> None:
        subprocess.run([str(command), *arguments], cwd=copy, env=environment, check=True)

    call_tool("init", str(config), str(session))
    skipped = without_annotations(session, copy)
    call_tool("baseline", str(config))
    call_tool("exec", str(config), str(session))
    shown = shlex.join(["python", *call[1:], *tests])
    return list(outcomes(session)), skipped, f"SLOTLOG_PROPERTY_EXAMPLES={PROPERTY_EXAMPLES} {shown}"


def options() -> argparse.Namespace:
    parser = harness.arguments(__doc__)
    parser.add_argument("--tool", type=Path, help="environment with cosmic-ray (default: one in the cache, made once)")
    parser.add_argument("--modules", nargs="+", default=list(MODULES), help="default: %(default)s")
    given = parser.parse_args()
    given.tests = [*UNIT_TESTS, *PROPERTY_TESTS]
    if given.small:
        given.modules, given.tests = ["streams/values.py"], [UNIT_TESTS[0]]
    return given


def main() -> int:
    given = options()
    command = tool(given)
    facts = harness.facts()
    version = subprocess.run([str(command), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with harness.work_folder(given) as work, harness.timed() as seconds:
        mutants, skipped, test_command = run(given, command, work)
    survivors = [mutant for mutant in mutants if mutant.outcome != "killed"]
    unexplained = [mutant for mutant in survivors if mutant.reason is None]
    used = {(mutant.module, mutant.before, mutant.after) for mutant in survivors}
    stale = [key for key in EQUIVALENT if key[0] in given.modules and key not in used]
    result = {
        "facts": facts,
        "tool": f"cosmic-ray {version.split()[-1]}",
        "test_command": test_command,
        "seconds": round(seconds(), 1),
        "in_annotations": skipped,
        "modules": {
            module: dict(Counter(mutant.outcome for mutant in mutants if mutant.module == module))
            for module in given.modules
        },
        "survivors": [{**mutant._asdict(), "equivalent": mutant.reason} for mutant in survivors],
        "reasons_without_survivor": stale,
    }
    harness.write_result("mutants", given, result)
    for mutant in unexplained:
        harness.say(f"  {mutant.outcome}: {mutant.module}:{mutant.line} {mutant.function}: {mutant.operator}")
        harness.say(f"    - {mutant.before}\n    + {mutant.after}")
    for key in stale:
        harness.say(f"  killed, and yet said to be equivalent: {key}")
    harness.say(f"{len(mutants)} mutants, {len(survivors)} survive, {len(unexplained)} of them unexplained")
    return 1 if unexplained or stale else 0


if __name__ == "__main__":
    sys.exit(main())
