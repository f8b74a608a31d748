"""`slotlog append`: JSON lines onto the log, in batches, with every bad line told by file and number."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

from projectors.surfaces.params import Settings, named, stdin, writing

if TYPE_CHECKING:
    from streams import Memory

BATCH_EVENTS = 1_000
_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line that is a JSON object: where it stands, and what it says."""

    file: str
    line: int
    event: dict[str, Any]


class Refused(NamedTuple):
    """One bad line, and what is wrong with it. `field` is None where the line as a whole is no JSON."""

    file: str
    line: int
    field: str | None
    problem: str
    hint: str | None

    def __str__(self) -> str:
        named = "" if self.field is None else f"{self.field}: "
        return f"{self.file}:{self.line}: {named}{self.problem}"


@click.command(short_help="Append events from JSON lines.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--space", callback=named("space"), metavar="NAME", help="The space of lines that name none.")
@click.option("--atomic", is_flag=True, help="Write nothing unless every line is good.")
@writing
@click.pass_obj
def append(settings: Settings, files: tuple[str, ...], space: str | None, atomic: bool) -> None:
    """Append events, one JSON object a line, from FILES or from stdin.

    A line is an event as `slotlog replay --json` shows it under `event`, with its type; event_id, recorded_at, actor
    and branch are filled in where they are left out. Lines that have an event_id may be given again: they count once.

    Every bad line is told with its file, number and field. The good ones are appended all the same, in batches of
    1,000, and the code is 1; with --atomic nothing is written, and it is 2. Ctrl-C stops after a whole batch.

    \b
    Examples:
      slotlog append events.jsonl
      zcat dump.jsonl.gz | slotlog append --space acme/support --actor import:crm
      echo '{"type": "FactAsserted", "space": "acme/support", "entity": "user:alice",
             "slot": "employer", "value": "Acme"}' | tr -d '\\n' | slotlog append
    """
    from projectors.surfaces import output
    from schemas.errors import SlotlogError

    report = _Report(settings)
    found = chain.from_iterable(_read(name, space, report) for name in files or ("-",))
    try:
        with settings.open(create=True) as memory, _Interrupts() as interrupts, report.progress:
            if atomic:
                report.append_all(memory, list(found))
            else:
                report.append_good(memory, found, interrupts)
    except (KeyboardInterrupt, SlotlogError, OSError):
        if report.appended:
            output.note(f"{report.appended:,} events had been appended by then")
        raise
    report.close(atomic)


class _Report:
    """What became of the lines so far."""

    def __init__(self, settings: Settings) -> None:
        from projectors.surfaces.output import Progress

        self.appended = 0
        self.refused: list[Refused] = []
        self.progress = Progress("events")
        self._told = 0
        self._json = settings.json
        self.bytes_read = 0
        self.bytes_known: int | None = 0

    def append_good(self, memory: Memory, found: Iterator[Line | Refused], interrupts: _Interrupts) -> None:
        """The good lines, batch by batch; the bad ones are told after the batch they were in, in their order."""
        while batch := list(islice(found, BATCH_EVENTS)):
            good = [one for one in batch if isinstance(one, Line)]
            bad = [one for one in batch if isinstance(one, Refused)]
            with interrupts.held():
                self.appended += _append(memory, good, bad)
            self._tell(batch, bad)
            share = None if not self.bytes_known else self.bytes_read / self.bytes_known
            self.progress.update(self.appended, share)

    def append_all(self, memory: Memory, found: list[Line | Refused]) -> None:
        """All of the lines at once, or none when any is bad."""
        from schemas.errors import InvalidEvent

        lines = [one for one in found if isinstance(one, Line)]
        bad = [one for one in found if isinstance(one, Refused)]
        if not bad:
            try:
                self.appended = len(memory.append(line.event for line in lines))
                return
            except InvalidEvent as error:  # it names the first bad line alone
                _checked(memory, lines, bad)
                if not bad:  # what it had missed has just come in
                    raise error from None
        else:
            _checked(memory, lines, bad)
        self._tell(found, bad)

    def close(self, atomic: bool) -> None:
        """The summary, and the code that goes with it."""
        from projectors.surfaces import output

        if self._json:
            output.document({"appended": self.appended, "refused": [one._asdict() for one in self.refused]})
        else:
            output.line(f"{self.appended:,} appended, {len(self.refused):,} refused")
        if self.refused:
            raise click.exceptions.Exit(2 if atomic else 1)

    def _tell(self, found: Sequence[Line | Refused], bad: Sequence[Refused]) -> None:
        """Tell the bad ones in the order in which they were found."""
        from projectors.surfaces import output

        if not bad:
            return
        places = {(one.file, one.line): place for place, one in enumerate(found)}
        self.progress.clear()
        for one in sorted(bad, key=lambda one: places[one.file, one.line]):
            output.problem(str(one), one.hint)
            self.refused.append(one)


class _Interrupts:
    """Ctrl-C as usual, but during a batch not before the batch is done, so that what was appended can be told.

    A second one does not wait.
    """

    def __init__(self) -> None:
        self._holding = False
        self._came = False
        self._before: Any = None

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def held(self) -> Iterator[None]:
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._came:
            raise KeyboardInterrupt

    def _on_interrupt(self, _: int, __: FrameType | None) -> None:
        if not self._holding or self._came:
            raise KeyboardInterrupt
        self._came = True


def _read(name: str, space: str | None, report: _Report) -> Iterator[Line | Refused]:
    """The lines of a file, or of stdin for `-`; blank ones are passed over."""
    import msgspec

    if name == "-":
        report.bytes_known = None
        source: IO[bytes] = stdin()
        called = "stdin"
    else:
        path = Path(name)
        source, called = path.open("rb"), name
        if report.bytes_known is not None:
            report.bytes_known += path.stat().st_size
    decoder = msgspec.json.Decoder()
    with source:
        for number, text in enumerate(source, 1):
            report.bytes_read += len(text)
            text = text.removeprefix(_BOM).strip() if number == 1 else text.strip()
            if not text:
                continue
            try:
                event = decoder.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                yield Refused(called, number, None, f"is not JSON: {_said(error)}", "one JSON object a line")
                continue
            if not isinstance(event, dict):
                yield Refused(called, number, None, "is JSON, but no object", "one JSON object a line")
                continue
            if space is not None and "space" not in event:
                event = {"space": space, **event}
            yield Line(called, number, event)


def _append(memory: Memory, lines: Sequence[Line], bad: list[Refused]) -> int:
    """Append the good ones of `lines` in their order, add the others to `bad`, and return how many were appended."""
    from schemas.errors import InvalidEvent

    try:
        return len(memory.append(line.event for line in lines)) if lines else 0
    except InvalidEvent:
        good = _checked(memory, lines, bad)
    return len(memory.append(line.event for line in good)) if good else 0


def _checked(memory: Memory, lines: Sequence[Line], bad: list[Refused]) -> list[Line]:
    """The lines that would be appended, one after the other; the others are added to `bad`. Writes nothing."""
    good = []
    for line, error in zip(lines, memory.check(line.event for line in lines), strict=True):
        if error is None:
            good.append(line)
        else:
            bad.append(Refused(line.file, line.line, error.field, error.problem, error.hint))
    return good


def _said(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ")
