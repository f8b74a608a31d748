"""How commands tell what they have in common: a receipt, beliefs, and that there was nothing to tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import click

from projectors.surfaces.params import Settings

if TYPE_CHECKING:
    from streams import Belief, Memory, Receipt

_NOT_BELIEVED = ("blocked", "conflict", "quarantined")


def tell(settings: Settings, memory: Memory, receipt: Receipt, wait: bool, **beside: object) -> None:
    """The receipt: status, position and event id. `beside` is told in JSON alone. Code 1 when it is not believed."""
    from projectors.surfaces import output
    from streams.wire import plain

    if wait:
        receipt = memory.wait(receipt)
    if settings.json:
        output.document({**plain(receipt), **beside})
    else:
        reason = "" if receipt.reason is None else f"  {output.printable(receipt.reason)}"
        output.line(f"{receipt.status}  {receipt.position}  {receipt.event_id}{reason}")
    if receipt.status in _NOT_BELIEVED:
        raise click.exceptions.Exit(1)


def nothing(settings: Settings, text: str) -> NoReturn:
    """End with code 1. With --json the answer has been printed already, and says the same."""
    from projectors.surfaces.output import note

    if not settings.json:
        note(text)
    raise click.exceptions.Exit(1)


def show_beliefs(beliefs: Iterable[Belief]) -> None:
    """Each belief as a person reads it."""
    from projectors.surfaces.output import line
    from projectors.surfaces.render import belief_lines

    for belief in beliefs:
        for text in belief_lines(belief):
            line(text)


def show_slots(found: dict[str, Belief | list[Belief]]) -> None:
    """A table of an entity's slots; nothing where there are none."""
    from projectors.surfaces.output import table
    from projectors.surfaces.render import slot_rows

    rows = list(slot_rows(found))
    if rows:
        table(("SLOT", "VALUE", "FROM", "TO", "ACTOR"), rows)
