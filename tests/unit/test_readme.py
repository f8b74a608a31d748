"""The README is run: every command and snippet in it works, prints what it says, and no command is left out.

A fenced `bash` or `python` block is run; `no-run` after the language leaves it out. All blocks run one after the other
in one empty folder, as a reader would type them. A `text` block right below one shows its output: `…` stands for
anything that changes from run to run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from projectors.surfaces.cli import main

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCK_TIMEOUT_S = 120
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
ALIASES = {"sh", "shell", "console", "zsh", "py", "python3", "pycon"}  # would be shown and never run


class Block(NamedTuple):
    """A fenced block that is run, the line it starts at, and the output shown for it, if any."""

    line: int
    language: str
    code: str
    shown: str | None


def fences(text: str) -> list[tuple[int, int, list[str], str]]:
    """Start, end, words of the info string and body of every fenced block."""
    return [(m.start(), m.end(), m[1].split(), m[2]) for m in FENCE.finditer(text)]


def blocks(text: str) -> Iterator[Block]:
    found = fences(text)
    for index, (start, end, info, code) in enumerate(found):
        if not info or info[0] not in ("bash", "python") or "no-run" in info:
            continue
        shown = None
        if index + 1 < len(found):
            next_start, _, next_info, next_body = found[index + 1]
            if next_info == ["text"] and not text[end:next_start].strip():
                shown = next_body
        yield Block(text.count("\n", 0, start) + 1, info[0], code, shown)


def matches(shown: str, printed: str) -> bool:
    """Whether the output is what is shown. Space at the ends of lines does not count."""
    want, got = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (shown, printed))
    return re.fullmatch(".*?".join(re.escape(part) for part in want.split("…")), got, re.DOTALL) is not None


def commands(group: click.Group, path: tuple[str, ...] = ("slotlog",)) -> Iterator[str]:
    """`slotlog get`, `slotlog branch fork` and so on, hidden ones aside."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None, name
            if command.hidden:
                continue
            if isinstance(command, click.Group):
                yield from commands(command, (*path, name))
            else:
                yield " ".join((*path, name))


@pytest.fixture(scope="module")
def readme() -> str:
    return README.read_text(encoding="utf-8")


def test_blocks_run_and_print_what_is_shown(readme: str, tmp_path: Path) -> None:
    """Output and errors together, as in a terminal: a warning that the README does not show is a failure too."""
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "PYTHONUTF8": "1",
        "TZ": "UTC",
    }
    here = tmp_path / "here"
    here.mkdir()
    ran = list(blocks(readme))
    assert ran, "the README has nothing to run"
    for block in ran:
        script = tmp_path / "block"
        script.write_text(block.code, encoding="utf-8")
        command = ["bash", "-euo", "pipefail"] if block.language == "bash" else [sys.executable]
        done = subprocess.run(
            [*command, str(script)],
            cwd=here,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=BLOCK_TIMEOUT_S,
            check=False,
        )
        where = f"README.md:{block.line}"
        assert done.returncode == 0, f"{where} ended with {done.returncode}:\n{block.code}\n{done.stdout}"
        if block.shown is not None:
            assert matches(block.shown, done.stdout), f"{where} shows\n{block.shown}\nand prints\n{done.stdout}"


def test_no_block_is_left_out_by_its_language(readme: str) -> None:
    assert not [info for _, _, info, _ in fences(readme) if info and info[0] in ALIASES]


def test_every_command_is_documented(readme: str) -> None:
    assert isinstance(main, click.Group)
    missing = [name for name in commands(main) if not re.search(rf"\b{re.escape(name)}\b(?!-)", readme)]
    assert not missing


def test_every_command_named_in_code_exists(readme: str) -> None:
    assert isinstance(main, click.Group)
    known = {name.split()[1] for name in commands(main)}
    named = set(re.findall(r"`slotlog ([a-z][a-z-]*)", readme))
    for _, _, info, code in fences(readme):
        if info[:1] == ["bash"]:
            named |= set(re.findall(r"(?:^|[|;&(]|\$ )\s*slotlog ([a-z][a-z-]*)", code, re.MULTILINE))
    assert named <= known


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb", "a \nb\n", True),
        ("offset … of …", "offset 3 of 7", True),
        ("first\n…\nlast", "first\n1\n2\nlast", True),
        ("a.c", "abc", False),
        ("a", "a\nb", False),
    ],
)
def test_shown_output_is_compared_whole(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same


def test_blocks_are_found_with_their_output() -> None:
    text = "x\n```bash\nls\n```\n\n```text\nout\n```\n```bash no-run\nrm\n```\n"
    text += "```python\n1\n```\nwords\n```text\nno\n```\n"
    assert list(blocks(text)) == [Block(2, "bash", "ls\n", "out\n"), Block(12, "python", "1\n", None)]
