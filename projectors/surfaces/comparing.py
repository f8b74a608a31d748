"""`slotlog diff`: what two views of a space answer differently, each with who made it so and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from projectors.surfaces.params import Settings, as_point, as_time, common, named, space_argument, trust_choice
from projectors.surfaces.telling import nothing
from projectors.surfaces.viewing import looking, view_of

if TYPE_CHECKING:
    from streams import View

_OF_EACH: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("valid_at", {"callback": as_time, "metavar": "TIME"}, "the instant asked about"),
    ("branch", {"callback": named("branch"), "metavar": "NAME"}, "the branch of memory"),
    ("at_sha", {"metavar": "REV"}, "only what was known at this commit of the code"),
    ("include_branch", {"multiple": True, "metavar": "NAME"}, "and what was known at this git branch"),
    ("trust", {"type": trust_choice}, "the least trust that counts"),
    ("without_actor", {"multiple": True, "metavar": "NAME"}, "leave out what NAME wrote"),
)


def _comparing(command: Any) -> Any:
    """The options of the two views: of both, and of each."""
    options = [
        click.option("--before", callback=as_point, metavar="POINT", help="The first view's --as-of. Default: now."),
        click.option("--after", callback=as_point, metavar="POINT", help="The second view's --as-of. Default: now."),
        click.option(
            "--isolate/--no-isolate", default=None, help="Views that name no commit look at the one checked out."
        ),
    ]
    for side, which in (("", "both views"), ("before_", "the first view"), ("after_", "the second view")):
        for name, kind, text in _OF_EACH:
            flag = f"--{side}{name}".replace("_", "-")
            told = f"Of {which}: {text}." + (" Repeatable." if "multiple" in kind else "")
            options.append(click.option(flag, f"{side}{name}", help=told, **kind))
    for option in reversed(options):
        command = option(command)
    return command


@click.command(short_help="What two views answer differently.")
@space_argument
@_comparing
@common
@click.pass_obj
def diff(settings: Settings, /, space: str, **given: Any) -> None:
    """The slots of SPACE whose value, or its trust, differs between two views, the first `-` and the second `+`.

    Each view is of the present of the branch in use, unless an option says otherwise: --before and --after name points
    of the log, --before-branch and --after-branch branches, --before-at-sha and --after-at-sha commits of the code, in
    any mixture. A view as of an offset asks about the append time there, so that facts that began or ended since then
    differ too; --valid-at asks both about one instant.

    Behind each slot stands what happened: added, changed, trust, or what became of what was believed (ended,
    retracted, forbidden …), and below it the event that made it so. As with every read, code 0 means that there was
    something to tell, and 1 that nothing differs: the other way round from diff(1).

    \b
    Examples:
      slotlog diff acme/support --before 120
      slotlog diff acme/support --before 2026-03-01T00:00:00Z --after 2026-04-01T00:00:00Z
      slotlog diff acme/support --after-branch idea
      slotlog diff acme/support --before-at-sha v1.0 --after-at-sha HEAD
      slotlog diff acme/support --after-without-actor agent:intern
      slotlog diff acme/support --after-trust verified --json | jq -r '.[].slot'
    """
    first, second = (_view_of(settings, side, given) for side in ("before", "after"))
    if first == second:
        raise click.UsageError("the two views are the same: --before, --after or an option of one of them is missing")
    compare(settings, space, first, second)


def compare(settings: Settings, space: str, first: View, second: View) -> None:
    """Print what differs between two views; code 1 when nothing does."""
    from projectors.surfaces import output
    from projectors.surfaces.render_why import difference_lines

    with looking(settings, space, first, second) as memory:
        found = memory.diff(space, first, second)
    if settings.json:
        output.document(found)
    else:
        for one in found:
            for text in difference_lines(one):
                output.line(text)
    if not found:
        nothing(settings, "nothing differs")


def _view_of(settings: Settings, side: str, given: Mapping[str, Any]) -> View:
    """The view of one side: what is given for it, else for both; actors left out of both are left out of each, and a
    git branch that is included in both is included in each."""
    asked: dict[str, Any] = {"as_of": given[side]}
    for name, kind, _ in _OF_EACH:
        of_both, own = given[name], given[f"{side}_{name}"]
        asked[name] = tuple(sorted({*of_both, *own})) if "multiple" in kind else own or of_both
    asked["isolate"] = None if asked["at_sha"] and given["isolate"] else given["isolate"]
    return view_of(settings, asked)
