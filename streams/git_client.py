"""The only file that runs git: argument lists and no shell, settings that start no other program, and time limits.

What git is told through the environment about *which* repository to use is left out, since slotlog runs inside hooks of
one repository and may be asked about another; how it is configured stays. Nothing here fetches: a partial clone answers
with what it has.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

from schemas.errors import InvalidInput, SlotlogError, Unavailable

ANSWER_S = 60.0
"""The longest that one question may take, in seconds."""

SILENCE_S = 600.0
"""The longest that a walk through the history may say nothing, in seconds."""

_BLOCK_BYTES = 1 << 20
_KEPT = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_EXEC_PATH")
_SETTINGS = (
    "core.fsmonitor=false",
    "core.warnAmbiguousRefs=true",
    "core.disambiguate=committish",
    "log.showSignature=false",
    "protocol.allow=never",
)
_AS_STORED = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}


class Answer(NamedTuple):
    """What one run of git said, and its exit code. `told` is its stderr, without translation."""

    code: int
    out: bytes
    told: str

    @property
    def line(self) -> str:
        """Its only line, without the end of it."""
        return os.fsdecode(self.out.removesuffix(b"\n"))


class Git:
    """git, run in one folder. Safe for several threads."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @staticmethod
    def is_there() -> bool:
        """Whether git is installed."""
        return shutil.which("git") is not None

    def ask(self, *words: str, given: bytes = b"", as_stored: bool = False) -> Answer:
        """Run git to its end. `given` is its stdin. `as_stored`: objects as they are, without replacements and grafts.

        Raises:
            Unavailable: it took too long.
        """
        try:
            done = subprocess.run(
                self._command(words),
                input=given,
                capture_output=True,
                timeout=ANSWER_S,
                env=_environment(as_stored),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"git {words[0]} took longer than {ANSWER_S:g} s in {self.folder}") from error
        return Answer(done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    def read(self, *words: str, given: bytes = b"", as_stored: bool = False) -> bytes:
        """`ask`, where only an answer will do.

        Raises:
            SlotlogError: git says that something is wrong.
        """
        answer = self.ask(*words, given=given, as_stored=as_stored)
        if answer.code:
            raise failure(words, answer.told)
        return answer.out

    @contextmanager
    def walk(self, *words: str, given: Iterable[str] = (), as_stored: bool = False) -> Iterator[Iterator[bytes]]:
        """Run git and read what it says in blocks of whole lines, while it works. `given` are the lines of its stdin.
        Leaving early stops it.

        Raises:
            SlotlogError: while the blocks are read: git says that something is wrong, or nothing for too long.
        """
        with _lines_file(given) as source, tempfile.TemporaryFile() as told:
            process = subprocess.Popen(
                self._command(words), stdin=source, stdout=subprocess.PIPE, stderr=told, env=_environment(as_stored)
            )
            try:
                yield self._blocks(process, words, told)
            finally:
                _stop(process)

    def pipe(self, first: Sequence[str], second: Sequence[str], *, given: Iterable[str]) -> bytes | None:
        """What the second git says of what the first one says of the lines `given`; None when either fails or they
        take too long."""
        environment = _environment(as_stored=False)
        with _lines_file(given) as source:
            one = subprocess.Popen(
                self._command(first),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            assert one.stdout is not None
            two = subprocess.Popen(
                self._command(second),
                stdin=one.stdout,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            try:
                one.stdout.close()  # so that the first ends when the second does
                out, _ = two.communicate(timeout=ANSWER_S)
                is_whole = one.wait(timeout=ANSWER_S) == 0 and two.returncode == 0
                return out if is_whole else None
            except subprocess.TimeoutExpired:
                return None
            finally:
                _stop(one)
                _stop(two)

    def _command(self, words: Sequence[str]) -> list[str]:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        return ["git", "-C", self.folder, "--no-pager", "--literal-pathspecs", *settings, *words]

    def _blocks(self, process: subprocess.Popen[bytes], words: Sequence[str], told: IO[bytes]) -> Iterator[bytes]:
        assert process.stdout is not None
        source, rest = process.stdout.fileno(), b""
        while True:
            if not select.select([source], [], [], SILENCE_S)[0]:
                raise Unavailable(f"git {words[0]} said nothing for {SILENCE_S:g} s in {self.folder}")
            block = os.read(source, _BLOCK_BYTES)
            if not block:
                break
            whole, end, rest_of_block = block.rpartition(b"\n")
            if end:
                yield rest + whole + end
                rest = rest_of_block
            else:
                rest += block
        if rest:
            yield rest
        if process.wait():
            told.seek(0)
            raise failure(words, told.read().decode(errors="replace"))


def failure(words: Sequence[str], told: str) -> SlotlogError:
    """git's own complaint, as an error of ours."""
    lines = [line for line in told.splitlines() if line and not line.startswith(("hint:", "warning:"))]
    problem = lines[0].removeprefix("fatal: ").removeprefix("error: ") if lines else "it failed and said nothing"
    if "dubious ownership" in told:
        return InvalidInput(
            problem.removesuffix(":"),
            hint="if you trust it: git config --global --add safe.directory FOLDER, with the folder named above",
        )
    return SlotlogError(f"git {words[0]}: {problem}", hint="git fsck tells what is wrong with a repository")


def _environment(as_stored: bool) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith("GIT_CONFIG_")
    }
    kept |= {"LC_ALL": "C", "LANGUAGE": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    return kept | {"GIT_NO_LAZY_FETCH": "1"} | (_AS_STORED if as_stored else {})


@contextmanager
def _lines_file(lines: Iterable[str]) -> Iterator[IO[bytes]]:
    """The lines in a file at its beginning: however many there are, nobody has to write while another reads."""
    with tempfile.TemporaryFile() as source:
        source.writelines(line.encode() + b"\n" for line in lines)
        source.seek(0)
        yield source


def _stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
