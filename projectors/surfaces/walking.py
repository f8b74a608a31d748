"""`slotlog ls`: the entities of a space as a tree, one step at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from projectors.surfaces.params import Settings, common, named, space_argument
from projectors.surfaces.telling import nothing
from projectors.surfaces.viewing import looking, view_is_given, viewing

if TYPE_CHECKING:
    from streams import View
    from streams.tree import Node


@click.command(short_help="Entities as a tree, a step at a time.")
@space_argument
@click.argument("prefix", required=False, callback=named("prefix"))
@click.option("--believed", is_flag=True, help="Count only slots of which something is believed; each is asked.")
@viewing
@common
@click.pass_obj
def ls(settings: Settings, space: str, prefix: str | None, believed: bool, view: View) -> None:
    """The entities of SPACE one step below PREFIX, by the parts of their names between slashes, with the number of
    entities and slots under each. A name with a slash at its end has more below it.

    Every entity of which anything was ever said is counted, on any branch; with --believed, or any option of a view,
    only those of which something is believed.

    \b
    Examples:
      slotlog ls acme/shop
      slotlog ls acme/shop repo/api
      slotlog ls acme/shop repo/api --believed --branch idea
    """
    from projectors.surfaces import output

    seen = view if believed or view_is_given(click.get_current_context()) else None
    with looking(settings, space, *([] if seen is None else [seen])) as memory:
        found = memory.ls(space, prefix or "", seen)
    if settings.json:
        output.document(found)
    elif found:
        output.table(("NAME", "IS AN ENTITY", "ENTITIES", "SLOTS"), map(_row, found))
    if not found:
        nothing(settings, "no entity" if prefix is None else f"no entity is below {output.word(prefix)}")


def _row(node: Node) -> tuple[str, str, str, str]:
    from projectors.surfaces.output import word

    below = "/" if node.entities > node.is_entity else ""
    return word(node.name) + below, "yes" if node.is_entity else "", f"{node.entities:,}", f"{node.slots:,}"
