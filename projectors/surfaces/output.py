"""What the program writes: JSON plain text that no stored text can disturb, and progress."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from schemas import events as ev
from schemas.times import Micros, instant, micros, rfc3339
from streams.wire import plain

_CONTROL = re.compile("[\x7f-\x9f]")
_JSON_SCALAR = re.compile(r"true|false|null|-?\d+(\.\d+)?([eE][+-]?\d+)?")
_PROGRESS_CELLS = 30


def line(text: str = "") -> None:
    """One line to stdout. It may stay in the buffer until the program ends, which is what makes long answers quick."""
    sys.stdout.write(text + "\n")


def flush() -> None:
    """Bring what was written so far to whoever reads, where they wait for the next line."""
    sys.stdout.flush()


def note(text: str) -> None:
    """One line to stderr."""
    ask(text + "\n")


def ask(question: str) -> None:
    """A question to stderr; the answer is typed behind it. Where both go to one place it stands below all that was
    written to stdout before."""
    with suppress(OSError, ValueError):  # what can't be written is told when the program ends
        sys.stdout.flush()
    sys.stderr.write(question)
    sys.stderr.flush()


def problem(text: str, hint: str | None = None) -> None:
    """An error as every command tells it, on stderr."""
    note(f"error: {printable(text)}")
    if hint is not None:
        note(f"hint: {printable(hint)}")


def document(found: Any) -> None:
    """One line of JSON to stdout: `plain(found)`."""
    text = msgspec.json.encode(plain(found)).decode()
    line(_CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", text))


def value(found: ev.Value) -> str:
    """A value as one word. Text is in JSON's quotes where it could be taken for anything else."""
    if not isinstance(found, str):
        return json.dumps(found)
    return quoted(found) if _JSON_SCALAR.fullmatch(found) else word(found)


def word(text: str) -> str:
    """A name or other text as one word: in JSON's quotes when it has space, quotes or what does not print."""
    if text and text.isprintable() and not any(sign in text for sign in ' "'):
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """The text as a JSON string, with everything that does not print escaped."""
    return printable(json.dumps(text, ensure_ascii=False))


def printable(text: str) -> str:
    """The text with everything that does not print escaped: no stored text moves a cursor or turns a line round."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def exact(at: datetime | Micros | None) -> str:
    """A time with all it has, RFC 3339; `open` for an end that isn't known."""
    if at is None:
        return "open"
    return rfc3339(at if isinstance(at, int) else micros(at))


def seconds(at: datetime | Micros) -> str:
    """A time to the second, for a line that has no room for more."""
    moment = instant(at) if isinstance(at, int) else at
    return rfc3339(micros(moment.replace(microsecond=0)))


def counted(number: int, what: str) -> str:
    """`1 event`, `2 events`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def width(given: int | None) -> int:
    """Columns to draw in."""
    if given is not None:
        return given
    import shutil

    return shutil.get_terminal_size().columns


def fitted(text: str, columns: int | None) -> str:
    """The line cut to `columns`, where there is a terminal it has to fit."""
    if columns is None and not sys.stdout.isatty():
        return text
    return cut(text, width(columns))


def cut(text: str, room: int) -> str:
    """The text in at most `room` columns, with `…` at its end where something is left out."""
    if cells(text) <= room:
        return text
    kept, used = [], 1
    for sign in text:
        used += cells(sign)
        if used > room:
            break
        kept.append(sign)
    return "".join(kept) + "…"


def cells(text: str) -> int:
    """Columns that the text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows in columns as wide as their widest cell."""
    whole = [heads, *rows]
    widths = [max(cells(row[column]) for row in whole) for column in range(len(heads))]
    for row in whole:
        padded = [text + " " * (room - cells(text)) for text, room in zip(row, widths, strict=True)]
        line("  ".join(padded).rstrip())


class Progress:
    """A bar on stderr, drawn over itself; nothing at all where stderr is no terminal. Use it as a context manager."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._shown = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def update(self, done: int, share: float | None) -> None:
        """`done` things; `share` of all there is to do, when that is known."""
        if not self._shown:
            return
        bar = ""
        if share is not None:
            full = round(min(share, 1.0) * _PROGRESS_CELLS)
            bar = f"[{'#' * full}{'.' * (_PROGRESS_CELLS - full)}] {min(share, 1.0):4.0%}  "
        sys.stderr.write(f"\r\x1b[K{bar}{done:,} {self._what}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Make room for a line of its own."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
