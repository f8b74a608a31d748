"""The commands that write one event each: remember, end, forget and observe."""

from __future__ import annotations

from typing import Any

import click

from projectors.surfaces.params import (
    Settings,
    as_time,
    entity_argument,
    event_options,
    json_value_option,
    named,
    reason_option,
    slot_argument,
    space_argument,
    stdin,
    value_of,
    verdict_options,
    writing,
)
from projectors.surfaces.telling import tell

_subject = click.option("--subject", metavar="NAME", help="Pseudonym of the person it is about.")


@click.command(short_help="Assert a fact.")
@space_argument
@entity_argument
@slot_argument
@click.argument("value")
@json_value_option
@click.option("--valid-from", callback=as_time, metavar="TIME", help="Since when, inclusive. Default: its append time.")
@click.option("--valid-to", callback=as_time, metavar="TIME", help="Until when, exclusive. Default: for ever.")
@click.option("--confidence", type=float, metavar="0..1", help="How sure its origin is.")
@click.option(
    "--origin",
    type=click.Choice(("stated", "observed", "extracted", "imported")),
    default="stated",
    help="How it is known. Default: stated.",
)
@click.option("--engine", metavar="NAME", help="What derived it: kind and version.")
@click.option("--source", metavar="TEXT", help="Where it is from: a link, a file, a quotation.")
@_subject
@event_options
@writing
@click.pass_obj
def remember(
    settings: Settings, /, space: str, entity: str, slot: str, value: str, json_value: bool, wait: bool, **fields: Any
) -> None:
    """Assert that ENTITY's SLOT has VALUE.

    VALUE is text, whatever it looks like: 42 is the text "42". With --json-value it is the JSON scalar it spells, so
    that 42 is a long, 42.0 a double and true a boolean. The command ends once the event is durable, and prints its
    status, position and event id.

    \b
    Examples:
      slotlog remember acme/support user:alice employer "Acme Corp"
      slotlog remember acme/support user:alice seats --json-value 42
      slotlog remember acme/support sensor:3 offset --json-value -- -5
      slotlog remember acme/support user:alice employer Globex --valid-from 2026-03-01T00:00:00Z --session run-7
    """
    given = value_of(value, json_value)
    with settings.open(create=True) as memory:
        tell(settings, memory, memory.remember(space, entity, slot, given, **fields), wait)


@click.command(short_help="Say that a fact no longer holds.")
@space_argument
@entity_argument
@slot_argument
@click.option("--value", metavar="VALUE", help="Only this value ends. Default: whatever holds.")
@json_value_option
@click.option(
    "--at", callback=as_time, metavar="TIME", help="From when on it no longer holds. Default: the append time."
)
@reason_option
@_subject
@event_options
@writing
@click.pass_obj
def end(
    settings: Settings,
    /,
    space: str,
    entity: str,
    slot: str,
    value: str | None,
    json_value: bool,
    wait: bool,
    **fields: Any,
) -> None:
    """Say that ENTITY's SLOT no longer holds: a change in the world. What held before stays believed for its time.

    \b
    Examples:
      slotlog end acme/support user:alice employer --at 2026-05-31T00:00:00Z --reason "left the company"
      slotlog end acme/support user:alice reads --value Dune
    """
    given = None if value is None else value_of(value, json_value, "--value")
    with settings.open(create=True) as memory:
        tell(settings, memory, memory.end(space, entity, slot, value=given, **fields), wait)


@click.command(short_help="Retract what was never so.")
@space_argument
@click.argument("entity", callback=named("entity"), required=False)
@click.argument("slot", callback=named("slot"), required=False)
@click.argument("value", required=False)
@json_value_option
@click.option("--target", metavar="EVENT_ID", help="Retract this one fact or end.")
@reason_option
@verdict_options
@writing
@click.pass_obj
def forget(
    settings: Settings,
    /,
    space: str,
    entity: str | None,
    slot: str | None,
    value: str | None,
    json_value: bool,
    wait: bool,
    **fields: Any,
) -> None:
    """Retract what was never so: one event, or all of ENTITY's SLOT, or only where it has VALUE.

    A correction, where `slotlog end` is a change. What is retracted counts at no time; the log keeps it, and answers as
    of an earlier offset still show it.

    \b
    Examples:
      slotlog forget acme/support user:alice employer --reason "another Alice"
      slotlog forget acme/support user:alice employer Globex
      slotlog forget acme/support --target 0195d0a4-7c00-7000-8000-000000000007
    """
    given = None if value is None else value_of(value, json_value)
    fields["event_id"], fields["own_id"] = fields.pop("target"), fields.pop("event_id")
    with settings.open(create=False) as memory:  # nothing can be retracted where nothing is
        tell(settings, memory, memory.forget(space, entity, slot, given, **fields), wait)


@click.command(short_help="Record what was said or done.")
@space_argument
@click.argument("role", callback=named("role"))
@click.argument("text")
@click.option("--content-type", default="text/plain", metavar="TYPE", help="Media type. Default: text/plain.")
@click.option("--attribute", "attributes", multiple=True, metavar="KEY=TEXT", help="More about it. Repeatable.")
@_subject
@event_options
@writing
@click.pass_obj
def observe(
    settings: Settings, /, space: str, role: str, text: str, attributes: tuple[str, ...], wait: bool, **fields: Any
) -> None:
    """Record what was said or done: a turn, a tool call, a hook's payload.

    TEXT of - is read from stdin, as UTF-8; one line end at its very end is left out.

    \b
    Examples:
      slotlog observe acme/support user "My order is late" --session run-7
      make test 2>&1 | slotlog observe acme/ci tool - --attribute command="make test"
    """
    given = _from_stdin() if text == "-" else text
    named = dict(_attribute(one) for one in attributes)
    with settings.open(create=True) as memory:
        tell(settings, memory, memory.observe(space, role, given, attributes=named, **fields), wait)


def _from_stdin() -> str:
    from schemas.errors import InvalidInput

    try:
        text = stdin().read().decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"stdin is not UTF-8 from byte {error.start} on") from error
    return text.removesuffix("\n").removesuffix("\r")


def _attribute(given: str) -> tuple[str, str]:
    key, sign, text = given.partition("=")
    if not sign or not key:
        raise click.BadParameter(f"{given!r} is not KEY=TEXT", param_hint="--attribute")
    return key, text
