#!/usr/bin/env python3
"""A small Java program that is a folder of sources and a pom.xml: its jars from Maven, its classes, its command line.

    python ops/bench/peers/jvm.py FOLDER      fetch and compile what is not there yet; prints the class path

Jars and classes are kept beside the broker's jars (`SLOTLOG_CACHE`, default `~/.cache/slotlog`) under a hash of what
they are made from. Needs Java 17 and Maven, no JDK: the compiler is ecj, which the pom names.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import CACHE, made_whole

COMPILER = "org.eclipse.jdt.internal.compiler.batch.Main"


def classpath(folder: Path) -> str:
    """Class path of the program in `folder`: every jar of its pom, and its classes."""
    pom = folder / "pom.xml"
    sources = sorted(folder.glob("*.java"))
    jars = _made(f"jars-{_hash([pom])}", lambda part: _fetch(pom, part))
    classes = _made(f"classes-{_hash([pom, *sources])}", lambda part: _compile(sources, jars, part))
    return f"{classes}{os.pathsep}{jars}/*"


def java(folder: Path, main: str, *arguments: str, heap_mb: int = 256, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs class `main` of the program in `folder`, logging warnings alone."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", f"-Xmx{heap_mb}m", quiet, *options, "-cp", classpath(folder), main, *arguments]


def _hash(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


def _made(name: str, make: Callable[[Path], None]) -> Path:
    return made_whole(CACHE / "java" / name, make)


def _fetch(pom: Path, into: Path) -> None:
    if not shutil.which("mvn"):
        raise SystemExit(f"no `mvn` to fetch the jars of {pom}: install Maven and Java 17")
    call = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    _run([*call, f"-DoutputDirectory={into}"], f"Maven could not fetch the jars of {pom}")


def _compile(sources: list[Path], jars: Path, into: Path) -> None:
    call = ["java", "-cp", f"{jars}/*", COMPILER, "-17", "-encoding", "UTF-8", "-proc:none", "-d", str(into)]
    path = os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))
    _run([*call, "-cp", path, *map(str, sources)], "ecj could not compile")


def _run(call: list[str], problem: str) -> None:
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{problem}: {(done.stdout + done.stderr).strip()[-3000:]}")


if __name__ == "__main__":
    print(classpath(Path(sys.argv[1])))
