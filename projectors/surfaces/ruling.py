"""The commands that rule what counts: review, forbid, allow, declare and policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from projectors.surfaces.params import (
    Settings,
    entity_argument,
    json_value_option,
    named,
    reason_option,
    session_option,
    slot_argument,
    space_argument,
    value_of,
    verdict_options,
    wait_option,
    writing,
)
from projectors.surfaces.telling import tell
from projectors.surfaces.viewing import looking, view_is_given, viewing

if TYPE_CHECKING:
    from streams import View

_TRUSTS = ("candidate", "verified", "rejected")
_MAY_VERIFY = "may-verify"


@click.command(short_help="Give a verdict on a fact.")
@space_argument
@click.argument("target", metavar="EVENT_ID")
@click.argument("verdict", type=click.Choice(("verified", "rejected", "candidate")))
@reason_option
@verdict_options
@writing
@click.pass_obj
def review(settings: Settings, /, space: str, target: str, verdict: str, wait: bool, **fields: Any) -> None:
    """Give a verdict on the fact or end EVENT_ID. The last one counts: `candidate` takes a verdict back.

    A verified fact yields only to a verified one, and a rejected one is not believed. Where the policy does not let the
    actor verify, the verdict is kept and counts for nothing, which `slotlog explain` shows.

    \b
    Examples:
      slotlog review acme/support 0195d0a4-7c00-7000-8000-000000000007 verified --reason "seen the contract"
      slotlog review acme/support 0195d0a4-7c00-7000-8000-000000000007 rejected --actor user:ana
    """
    fields["own_id"] = fields.pop("event_id")
    with settings.open(create=False) as memory:  # nothing can be reviewed where nothing is
        tell(settings, memory, memory.review(space, target, verdict, **fields), wait)  # type: ignore[arg-type]


@click.command(short_help="Never believe a value again.")
@space_argument
@entity_argument
@slot_argument
@click.argument("value")
@json_value_option
@reason_option
@session_option
@wait_option
@writing
@click.pass_obj
def forbid(
    settings: Settings, /, space: str, entity: str, slot: str, value: str, json_value: bool, wait: bool, **fields: Any
) -> None:
    """Put a tombstone on VALUE of ENTITY's SLOT: whoever says it, earlier or later, it is not believed.

    It holds in any spelling: case, white space and look-alike characters do not matter. `slotlog allow` lifts it.

    \b
    Examples:
      slotlog forbid acme/support user:alice employer Initech --reason "asked us not to keep it"
      slotlog forbid acme/support user:alice seats --json-value 42
    """
    given = value_of(value, json_value)
    with settings.open(create=True) as memory:
        tell(settings, memory, memory.forbid(space, entity, slot, given, **fields), wait)


@click.command(short_help="Lift what forbid did.")
@space_argument
@entity_argument
@slot_argument
@click.argument("value")
@json_value_option
@reason_option
@session_option
@wait_option
@writing
@click.pass_obj
def allow(
    settings: Settings, /, space: str, entity: str, slot: str, value: str, json_value: bool, wait: bool, **fields: Any
) -> None:
    """Lift the tombstone on VALUE of ENTITY's SLOT, in whatever spelling it was set.

    What was asserted of it in the meantime is believed again.

    \b
    Example:
      slotlog allow acme/support user:alice employer Initech
    """
    given = value_of(value, json_value)
    with settings.open(create=False) as memory:  # nothing is forbidden where nothing is
        tell(settings, memory, memory.allow(space, entity, slot, given, **fields), wait)


@click.command(short_help="Say how a slot is read.")
@space_argument
@slot_argument
@click.option(
    "--cardinality", type=click.Choice(("one", "many")), required=True, help="One value at an instant, or many."
)
@click.option(
    "--value-type",
    type=click.Choice(("boolean", "long", "double", "string", "entity")),
    help="What its values are meant to be. `entity`: names of entities.",
)
@click.option(
    "--entity-kind",
    callback=named("entity_kind"),
    metavar="KIND",
    help="Only for entities with this text before their first colon. It goes before a declaration for all.",
)
@click.option("--description", metavar="TEXT", help="What the slot means.")
@session_option
@wait_option
@writing
@click.pass_obj
def declare(settings: Settings, /, space: str, slot: str, wait: bool, **fields: Any) -> None:
    """Say how SLOT is read from now on. No event changes, and --as-of an earlier offset reads as before.

    What is declared is shown by `slotlog policy` and `slotlog schema`, which suggests a cardinality too.

    \b
    Examples:
      slotlog declare acme/support reads --cardinality many --description "books the user mentioned"
      slotlog declare acme/support owner --cardinality one --value-type entity --entity-kind svc
    """
    with settings.open(create=True) as memory:
        tell(settings, memory, memory.declare(space, slot, **fields), wait)


def _as_rules(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> list[dict[str, Any]]:
    """A callback for rules as they are written, PATTERN=TRUST or PATTERN=TRUST,may-verify."""
    rules = []
    for text in given:
        actors, sign, rest = text.rpartition("=")
        trust, comma, may_verify = rest.partition(",")
        if not sign or not actors:
            raise click.BadParameter(f"{text!r} is not PATTERN=TRUST or PATTERN=TRUST,{_MAY_VERIFY}")
        if trust not in _TRUSTS:
            raise click.BadParameter(f"{text!r}: trust {trust!r} is not one of {', '.join(_TRUSTS)}")
        if comma and may_verify != _MAY_VERIFY:
            raise click.BadParameter(f"{text!r}: {may_verify!r} is not {_MAY_VERIFY}")
        rules.append({"actors": actors, "starting_trust": trust, "may_verify": bool(comma)})
    return rules


@click.command(short_help="Show or set who is trusted with what.")
@space_argument
@click.option(
    "--rule",
    "rules",
    multiple=True,
    callback=_as_rules,
    metavar="PATTERN=TRUST[,may-verify]",
    help="Set the policy to these rules, in this order. Repeatable.",
)
@click.option("--clear", is_flag=True, help="Set the policy to no rules.")
@session_option
@wait_option
@viewing
@writing
@click.pass_obj
def policy(
    settings: Settings,
    /,
    space: str,
    rules: list[dict[str, Any]],
    clear: bool,
    wait: bool,
    session: str | None,
    view: View,
) -> None:
    """Show the trust policy of SPACE and what is declared of its slots, or set the policy with --rule.

    A rule says for the actors that match PATTERN, like user:* or engine:rules@1, what trust their facts start with,
    and whether their verdicts count. The first rule that matches holds. Who matches none starts as a candidate, and
    may verify. A policy replaces the one before, for facts and verdicts that come after it.

    \b
    Examples:
      slotlog policy acme/support
      slotlog policy acme/support --as-of 120 --json
      slotlog policy acme/support --rule 'user:*=verified,may-verify' --rule 'agent:*=candidate'
      slotlog policy acme/support --clear
    """
    if rules or clear:
        if rules and clear:
            raise click.UsageError("--rule sets rules and --clear takes them away: give one of them")
        if view_is_given(click.get_current_context()):
            raise click.UsageError("a policy is set for what comes after it: the options of a view only go with a read")
        with settings.open(create=True) as memory:
            tell(settings, memory, memory.policy(space, rules, session=session), wait)
        return
    if session is not None or wait:
        raise click.UsageError("--session and --wait go with --rule or --clear")
    _show_policy(settings, space, view)


def _show_policy(settings: Settings, space: str, view: View) -> None:
    from projectors.surfaces import output

    with looking(settings, space, view) as memory:
        rules = memory.policy_in_force(space, view)
        made = memory.declarations(space, view)
    newest = {(one.slot, one.entity_kind or ""): one for one in made}
    declared = [newest[place] for place in sorted(newest)]
    if settings.json:
        output.document({"rules": rules, "declarations": declared})
        return
    if rules:
        rows = [(output.word(one.actors), one.starting_trust, "yes" if one.may_verify else "no") for one in rules]
        output.table(("ACTORS", "STARTING TRUST", "MAY VERIFY"), rows)
    else:
        output.line("no policy: every actor's facts start as candidates, and every actor's verdicts count")
    if declared:
        output.line()
        described = [
            (
                output.word(one.slot),
                "every kind" if one.entity_kind is None else output.word(one.entity_kind),
                one.cardinality,
                one.value_type or "",
                output.printable(one.description or ""),
            )
            for one in declared
        ]
        output.table(("SLOT", "OF", "HOLDS", "TYPE", "DESCRIPTION"), described)
