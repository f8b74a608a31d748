"""One benchmark in the reduced form that the tests run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1] / "ops" / "bench"


def run(name: str, out: Path, *arguments: str, timeout_s: float | None = None) -> dict[str, Any]:
    """The result that `ops/bench/NAME.py --small` writes."""
    work = out / "work"
    work.mkdir()
    call = [sys.executable, str(BENCH / f"{name}.py"), "--small", "--out", str(out), "--work", str(work)]
    done = subprocess.run([*call, *arguments], capture_output=True, text=True, check=False, timeout=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    assert list(work.iterdir()) == [], "something was left behind"
    assert result["facts"]["command"].startswith(f"python ops/bench/{name}.py --small")
    return result
