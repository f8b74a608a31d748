"""`slotlog distrust` and `slotlog trust`: the clean-up after an actor, a branch or a commit, and taking it back."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from projectors.surfaces.confirming import asking_options, making, shown_and_written
from projectors.surfaces.params import (
    Settings,
    as_event_or_time,
    named,
    reason_option,
    session_option,
    space_argument,
    wait_option,
    writing,
)

if TYPE_CHECKING:
    from streams import Memory

_about_argument = click.argument("about", metavar="ABOUT", callback=named("about"))
_kind_option = click.option(
    "--kind",
    type=click.Choice(("actor", "branch", "commit")),
    default="actor",
    help="What ABOUT is: an actor (default), a branch of memory, or a commit of the code, as git names it.",
)


@click.command(short_help="Let nothing of an actor, a branch or a commit count.")
@space_argument
@_about_argument
@_kind_option
@click.option(
    "--since",
    callback=as_event_or_time,
    metavar="EVENT_ID|TIME",
    help="Only what was written from this event, or from this append time on, inclusive. Default: everything.",
)
@reason_option
@asking_options
@session_option
@wait_option
@writing
@click.pass_obj
def distrust(
    settings: Settings,
    /,
    space: str,
    about: str,
    kind: str,
    since: str | datetime | None,
    yes: bool,
    dry_run: bool,
    wait: bool,
    **fields: Any,
) -> None:
    """Let nothing that ABOUT stands for count: all that an actor wrote, that is on a branch wherever it was merged, or
    that is pinned to just that commit. Facts, ends, retractions, verdicts and rules alike; the log keeps all of it.

    It shows what it would change, and asks. The newest word about an actor, a branch or a commit wins, so that a later
    --since narrows it, and `slotlog trust` takes it back.

    \b
    Examples:
      slotlog distrust acme/support agent:intern --reason "prompt injection"
      slotlog distrust acme/support agent:intern --since 2026-03-01T09:00:00Z --yes
      slotlog distrust acme/support experiment-3 --kind branch --dry-run
      slotlog distrust acme/support HEAD~2 --kind commit --reason "the test was wrong"
    """
    if kind == "commit":
        about = _commit(about)
    with settings.open(create=yes and not isinstance(since, str)) as memory:
        branches = _branches(settings, memory, space, about, kind)
        event = making(settings).distrust(space, about, kind=kind, since=since, **fields)  # type: ignore[arg-type]
        question = f"Distrust {_named(about, kind)}?"
        shown_and_written(settings, memory, event, branches, question, yes=yes, dry_run=dry_run, wait=wait)


@click.command(short_help="Take distrust back.")
@space_argument
@_about_argument
@_kind_option
@reason_option
@asking_options
@session_option
@wait_option
@writing
@click.pass_obj
def trust(
    settings: Settings, /, space: str, about: str, kind: str, yes: bool, dry_run: bool, wait: bool, **fields: Any
) -> None:
    """Let all that ABOUT stands for count again. It shows what that would change, and asks.

    \b
    Examples:
      slotlog trust acme/support agent:intern --reason "it was the tool, not the agent"
      slotlog trust acme/support experiment-3 --kind branch --yes
    """
    if kind == "commit":
        about = _commit(about)
    with settings.open(create=False) as memory:  # nobody is distrusted where nothing is
        branches = _branches(settings, memory, space, about, kind)
        event = making(settings).trust(space, about, kind=kind, **fields)  # type: ignore[arg-type]
        question = f"Trust {_named(about, kind)} again?"
        shown_and_written(settings, memory, event, branches, question, yes=yes, dry_run=dry_run, wait=wait)


def _commit(rev: str) -> str:
    from projectors.surfaces.coding import commit_of

    return commit_of(rev, "--kind commit")


def _branches(settings: Settings, memory: Memory, space: str, about: str, kind: str) -> list[str]:
    """The branches on which to show what it would change: the one in use, and the one that it is about."""
    from schemas.errors import NotFound

    if kind != "branch":
        return [settings.branch]
    known = {one.name: one for one in memory.branches(space, deleted=True)}
    if about not in known:
        raise NotFound(f"space {space!r} has no branch {about!r}", hint=f"it has {', '.join(known)}")
    deleted = known[about].deleted_at is not None
    return [settings.branch, *([] if deleted or about == settings.branch else [about])]


def _named(about: str, kind: str) -> str:
    from projectors.surfaces.output import word

    return word(about) if kind == "actor" else f"{kind} {word(about)}"
