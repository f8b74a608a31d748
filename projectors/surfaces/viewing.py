"""The options of a View, which every command takes that answers with what is believed, and the View they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from projectors.surfaces.params import Settings, as_point, as_time, named, trust_choice

if TYPE_CHECKING:
    from streams import Memory, View

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "as_of": (
        "Only what was known at this offset, P:OFFSET or time.",
        {"callback": as_point, "metavar": "POINT", "envvar": "SLOTLOG_AS_OF"},
    ),
    "valid_at": (
        "The instant asked about. Default: now, or --as-of.",
        {"callback": as_time, "metavar": "TIME", "envvar": "SLOTLOG_VALID_AT"},
    ),
    "branch": (
        "The branch of memory. Default: SLOTLOG_BRANCH, else main.",
        {"callback": named("branch"), "metavar": "NAME"},
    ),
    "at_sha": ("Only what was known at this commit of the code: a branch, a tag, an id.", {"metavar": "REV"}),
    "isolate": ("At the commit that is checked out. Default: SLOTLOG_BRANCH_ISOLATION, else not.", {"default": None}),
    "include_branch": (
        "And what was known at this git branch; with --at-sha or --isolate. Repeatable.",
        {"multiple": True, "metavar": "NAME"},
    ),
    "trust": ("The least trust that counts. Default: candidate.", {"type": trust_choice}),
    "without_actor": ("Leave out what NAME wrote. Repeatable.", {"multiple": True, "metavar": "NAME"}),
}


def view_options(*left_out: str) -> _Decorator:
    """The options of a View but for some; the command is given it as `view`."""
    names = [name for name in _TEXTS if name not in left_out]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_view(*given: Any, **options: Any) -> Any:
            asked = {name: options.pop(name) for name in names}
            return command(*given, view=view_of(settings_now(), asked), **options)

        for name in reversed(names):
            text, kind = _TEXTS[name]
            flag = "--isolate/--no-isolate" if name == "isolate" else f"--{name.replace('_', '-')}"
            with_view = click.option(flag, name, help=text, **kind)(with_view)
        return with_view

    return decorate


viewing = view_options()
"""All of them."""


def settings_now() -> Settings:
    """The settings of the command that runs."""
    return click.get_current_context().ensure_object(Settings)


def view_is_given(context: click.Context, *, by_environment: bool = True) -> bool:
    """Whether the command line has an option of a View, or the environment stands for one."""
    sources = {context.get_parameter_source(name) for name in _TEXTS}
    wanted = {click.core.ParameterSource.COMMANDLINE}
    return bool(sources & (wanted | {click.core.ParameterSource.ENVIRONMENT} if by_environment else wanted))


def view_of(settings: Settings, asked: Mapping[str, Any]) -> View:
    """The View that these options mean, by their names."""
    from streams import View

    at_sha, also_at = _commits(settings, asked)
    return View(
        as_of=asked.get("as_of"),
        valid_at=asked.get("valid_at"),
        branch=asked.get("branch") or settings.branch,
        at_sha=at_sha,
        trust=asked.get("trust") or "candidate",
        without_actors=asked.get("without_actor", ()),
        also_at=also_at,
    )


def _commits(settings: Settings, asked: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """The commit to look at, and siblings of it. With one, the repository here is asked who leads to whom."""
    rev, isolate, siblings = asked.get("at_sha"), asked.get("isolate"), asked.get("include_branch", ())
    if rev is not None and isolate:
        raise click.UsageError("--isolate means --at-sha HEAD: give one of them")
    if rev is None and not (settings.isolates if isolate is None else isolate):
        if siblings:
            raise click.UsageError("--include-branch adds to --at-sha or --isolate: give one of them too")
        return None, ()
    from projectors.surfaces import coding

    at_sha = coding.head() if rev is None else coding.commit_of(rev, "--at-sha")
    if coding.is_in_repository():
        settings.repository = "."
    return at_sha, tuple(coding.commit_of(name, "--include-branch") for name in siblings)


@contextmanager
def looking(settings: Settings, space: str, *views: View) -> Iterator[Memory]:
    """The memory of the store, to ask through these views. What one of them hides for want of knowledge is told first,
    by the one that hides the most."""
    from projectors.surfaces.output import note

    with settings.open(create=False) as memory:
        found = [memory.resolve(space, view) for view in views if view.at_sha is not None]
        most = max(found, key=lambda one: one.hidden, default=None)
        if most is not None and most.hidden:
            note(hidden_text(most.hidden, most.ancestry))
        yield memory


def hidden_text(count: int, ancestry: str | None) -> str:
    """What can't be told of commits, in words."""
    whom = "this clone" if ancestry == "clone" else "the log"
    facts = "1 fact is pinned to a commit" if count == 1 else f"{count:,} facts are pinned to commits"
    return f"hidden: {facts} unknown to {whom}"
