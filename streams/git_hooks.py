"""git's hooks: a block of shell in each, put in and taken out again without touching the rest.

What a block does: it starts `COMMAND KIND ARGUMENTS…` in the background and lets go of it, so that git is neither
delayed nor failed by it. When that ends with a code that is not 0, the last line of its stderr is shown the next time;
until then the file `TROUBLE` in git's own folder has it. While a rebase is under way the hooks of its steps are left
out: the one at its end tells of all of them. SLOTLOG_HOOKS=wait in the environment runs the command before git goes on,
SLOTLOG_HOOKS=off not at all.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from schemas.errors import InvalidInput

KINDS = ("post-commit", "post-merge", "post-rewrite", "post-checkout")
TROUBLE = "slotlog-hook.err"

State = Literal["installed", "absent", "other"]

_BEGIN = "# >>> slotlog >>> slotlog git install-hooks put this in, slotlog git uninstall-hooks takes it out"
_END = "# <<< slotlog <<<"
_BLOCK = re.compile(r"^# >>> slotlog >>>.*?^# <<< slotlog <<<[^\n]*\n?", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^slotlog_hook\(\) \{\n    (.*?) \"\$@\"\n\}$", re.MULTILINE | re.DOTALL)
_SHEBANG = "#!/bin/sh\n"
_SHELL = re.compile(r"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-\S+[ \t]+)*)?(?:sh|bash|dash|ash|ksh|mksh|zsh)(?:[ \t].*)?\n")

_SYNC = """\
slotlog_dir=$(git rev-parse --git-dir 2>/dev/null) || slotlog_dir=
if [ -z "$slotlog_dir" ] || [ "${SLOTLOG_HOOKS:-}" = off ] || UNWANTED; then
    :
elif [ "${SLOTLOG_HOOKS:-}" = wait ]; then
    FEED slotlog_hook KIND "$@" || :
else
    if [ -s "$slotlog_dir/TROUBLE" ]; then tail -n 1 "$slotlog_dir/TROUBLE" >&2 || :; fi
    (
        trap '' HUP INT
        FEED slotlog_hook KIND "$@" && : >"$slotlog_dir/TROUBLE"
    ) </dev/null >/dev/null 2>"$slotlog_dir/TROUBLE" &
fi
"""
_REBASING = '[ -d "$slotlog_dir/rebase-merge" ] || [ -d "$slotlog_dir/rebase-apply" ]'
_UNWANTED = {
    "post-commit": _REBASING,
    "post-merge": _REBASING,
    "post-rewrite": "false",
    "post-checkout": f'[ "${{3:-1}}" = 0 ] || {_REBASING}',  # 0: files alone were checked out
}
_READ_PAIRS = "slotlog_pairs=$(cat)\n"
_GIVE_PAIRS_BACK = "exec <<SLOTLOG_PAIRS\n$slotlog_pairs\nSLOTLOG_PAIRS\n"


class Hook(NamedTuple):
    """One hook. `command`: what it runs when it is installed, without the kind. `other`: there is one, not of ours."""

    kind: str
    path: Path
    state: State
    command: tuple[str, ...] | None


def install(folder: Path, command: Sequence[str]) -> list[Hook]:
    """Put `command` into each hook of the folder, in the place of what was installed before; all of them or none.

    Raises:
        InvalidInput: one of them can't be added to; it says which, and why.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise InvalidInput(
            f"{folder} is no folder, so there can be no hooks", hint="git config core.hooksPath names it"
        )
    texts = {folder / kind: _with_block(folder / kind, _block(kind, command)) for kind in KINDS}
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        _write(path, text)
    return status(folder)


def uninstall(folder: Path) -> list[Hook]:
    """Take the block out of each hook that has it. A hook of which nothing else is left is removed."""
    for hook in status(folder):
        if hook.state == "installed":
            left = _BLOCK.sub("", _read(hook.path))
            if left == _SHEBANG:
                hook.path.unlink()
            else:
                _write(hook.path, left)
    return status(folder)


def status(folder: Path) -> list[Hook]:
    """Each hook as it is."""
    return [_status(kind, folder / kind) for kind in KINDS]


def trouble(git_folder: Path) -> str | None:
    """What the last hook that did not work said; None once one worked."""
    try:
        lines = _read(git_folder / TROUBLE).splitlines()
    except OSError:
        return None
    return lines[-1] if lines else None


def _status(kind: str, path: Path) -> Hook:
    if not path.exists():
        return Hook(kind, path, "absent", None)
    block = _BLOCK.search(_read(path))
    if block is None:
        return Hook(kind, path, "other", None)
    command = _COMMAND.search(block.group())
    return Hook(kind, path, "installed", None if command is None else tuple(shlex.split(command.group(1))))


def _block(kind: str, command: Sequence[str]) -> str:
    given = 'printf "%s\\n" "$slotlog_pairs" |' if kind == "post-rewrite" else ""
    body = _SYNC.replace("UNWANTED", _UNWANTED[kind]).replace("KIND", kind).replace("TROUBLE", TROUBLE)
    body = body.replace("FEED ", f"{given} " if given else "")
    if given:
        body = _READ_PAIRS + body + _GIVE_PAIRS_BACK  # to whatever stands below
    return f'{_BEGIN}\nslotlog_hook() {{\n    {shlex.join(command)} "$@"\n}}\n{body}{_END}\n'


def _with_block(path: Path, block: str) -> str:
    """The text of the hook with the block, which stands first: what is below may end the script."""
    if not os.path.lexists(path):
        return _SHEBANG + block
    text = _BLOCK.sub("", _script(path))
    line = _SHELL.match(text)
    assert line is not None
    return text[: line.end()] + block + text[line.end() :]


def _script(path: Path) -> str:
    """The text of a hook that is there, and that a block can be put into."""
    hint = "have it run what slotlog git status shows for the other hooks, or move it away and install again"
    if path.is_symlink():
        raise InvalidInput(f"{path} is a link to {os.readlink(path)}, and what it leads to is not ours", hint=hint)
    if not path.is_file():
        raise InvalidInput(f"{path} is no file", hint="move it away")
    if not os.access(path, os.X_OK):
        raise InvalidInput(
            f"{path} is not executable, so git does not run it, and would once it is added to",
            hint="make it executable, or move it away",
        )
    text = _read(path)
    if not _SHELL.match(text):
        raise InvalidInput(f"{path} is no shell script, so nothing can be added to it", hint=hint)
    return text


def _read(path: Path) -> str:
    """The text of a file, whatever its bytes: written again, they are the same."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _write(path: Path, text: str) -> None:
    """Put a file in the place of the old one, whole or not at all, with its mode; a new one may be run by all."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o755
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            os.fchmod(file.fileno(), mode)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise
