"""The commands that move all events elsewhere: copy, export and import. Doing one twice changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from projectors.surfaces.params import Settings, common, json_option, timeout_option

if TYPE_CHECKING:
    from streams.transfer import Transferred

    _Move = Callable[[Callable[[int], None]], Transferred]


def _moved(settings: Settings, what: str, total: int | None, move: _Move) -> None:
    """Run `move` with a bar, and tell how many records it appended and how many were there already."""
    from projectors.surfaces import output

    read = 0
    progress = output.Progress("records")

    def update(done: int) -> None:
        nonlocal read
        read = done
        progress.update(done, None if not total else done / total)

    try:
        with progress:
            moved = move(update)
    except BaseException:
        if read:
            output.note(f"{read:,} records had been read by then; the same command goes on with the rest")
        raise
    if settings.json:
        output.document(moved)
    else:
        too_large = f", {moved.left_out:,} left out that never counted and are too large" if moved.left_out else ""
        output.line(f"{moved.appended:,} {what}, {moved.known:,} there already{too_large}")


@click.command(short_help="Copy every event to another store.")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@timeout_option()
@json_option()
@click.pass_obj
def copy(settings: Settings, source: str, target: str) -> None:
    """Copy every event of the store SRC to the store DST, byte for byte and in each space's order.

    DST may have events already and another number of partitions. Append times stay as they are, so as-of by time does
    too, and what is quarantined stays so. What DST has already is left out: after an interruption, do it again.

    \b
    Examples:
      slotlog copy ./memory ./backup
      slotlog copy ./memory kafka://127.0.0.1:9092/slotlog.memory
    """
    with settings.open(create=False, name=source) as sending, settings.open(create=True, name=target) as taking:
        partitions = sending.info().partitions
        total = sum(one.applied + one.quarantined for one in partitions)
        _moved(settings, "copied", total, lambda update: sending.copy(taking, update))


@click.command(short_help="Write every event to an archive.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE when it exists.")
@common
@click.pass_obj
def export(settings: Settings, file: str, force: bool) -> None:
    """Write every event to FILE, an Avro container file with a checksum chain that `slotlog import` takes.

    FILE is there whole or not at all. One that exists is left alone, unless --force is given.

    \b
    Examples:
      slotlog export memory.avro
      slotlog --store kafka://127.0.0.1:9092/slotlog.memory export --force nightly.avro
    """
    from projectors.surfaces import output
    from schemas.errors import InvalidInput

    _no_stream(file)
    if not force and Path(file).exists():
        raise InvalidInput(f"there is a file {file} already", hint="name another, or replace it with --force")
    with settings.open(create=False) as memory:
        count = memory.export(file)
    if settings.json:
        output.document({"file": file, "exported": count})
    else:
        output.line(f"{count:,} exported to {output.word(file)}")


@click.command("import", short_help="Append what an archive holds.")
@click.argument("file", type=click.Path(dir_okay=False))
@common
@click.pass_obj
def import_(settings: Settings, file: str) -> None:
    """Append the events of FILE, an archive that `slotlog export` made, which the store does not have.

    The whole file is checked first: of one that is damaged or cut off nothing is appended. Code 4 means the file.

    \b
    Examples:
      slotlog import memory.avro
      slotlog --store ./other import memory.avro
    """
    from schemas.archive import read_archive

    _no_stream(file)
    next(read_archive(Path(file)), None)  # what is no archive of ours is told before a store is made for it
    with settings.open(create=True) as memory:
        _moved(settings, "imported", None, lambda update: memory.import_(file, update))


def _no_stream(file: str) -> None:
    if file == "-":
        raise click.UsageError("an archive is read twice and written whole, so it is a file and no pipe")
