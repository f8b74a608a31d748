"""What the commands take: the options they share, and how text becomes times, points of the log and values.

`streams` is imported where it is needed, so that `slotlog --help` and shell completion come up at once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import cached_property, wraps
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from datetime import datetime

    from projectors.surfaces.settings_file import FileSettings
    from schemas.events import Value
    from streams import Memory, Position

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

DEFAULT_TIMEOUT_S = 30.0
_DATE = re.compile(r"\d{4}-\d\d(-\d\d)?")
_EVENT_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Settings:
    """What holds for one run of the program: what is given, else what the environment says, else `slotlog.toml`.

    `width` is set where the terminal is not to be asked, `repository` where a view looks at commits of the code that
    the repository there may know.
    """

    def __init__(
        self,
        store: str | None = None,
        actor: str | None = None,
        json: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
        width: int | None = None,
        branch: str | None = None,
        isolates: bool | None = None,
    ) -> None:
        self.store = store
        self.json = json
        self.timeout = timeout
        self.width = width
        self.repository: str | None = None
        self._actor = actor
        self._branch = branch
        self._isolates = isolates

    @cached_property
    def file(self) -> FileSettings:
        """What the nearest `slotlog.toml` says; it is read when something is not given otherwise."""
        from projectors.surfaces.settings_file import found

        return found()

    @property
    def store_name(self) -> str:
        from streams.stores import DEFAULT_STORE

        return self.store or self.file.store or DEFAULT_STORE

    @property
    def actor(self) -> str | None:
        return self._actor or self.file.actor

    @actor.setter
    def actor(self, given: str) -> None:
        self._actor = given

    @property
    def branch(self) -> str:
        """The branch of memory that is read and written where a command does not say."""
        return self._branch or os.environ.get("SLOTLOG_BRANCH") or self.file.branch or "main"

    @property
    def isolates(self) -> bool:
        """Whether reads look at the commit that is checked out where a command does not say."""
        if self._isolates is not None:
            return self._isolates
        said = os.environ.get("SLOTLOG_BRANCH_ISOLATION")
        return _yes_or_no("SLOTLOG_BRANCH_ISOLATION", said) if said else bool(self.file.branch_isolation)

    def open(self, *, create: bool, name: str | None = None, hold: bool = False) -> Memory:
        """The memory of the store, or of another by its name. Without `hold` it folds nothing that a reader does not
        need folded, and leaves the tables to others."""
        from schemas.errors import NotFound
        from streams import Memory

        name = self.store_name if name is None else name
        try:
            return Memory.open(
                name,
                actor=self.actor,
                hold=hold,
                create=create,
                busy_timeout_s=self.timeout,
                repository=self.repository,
            )
        except NotFound as error:
            if name.startswith("kafka://"):
                raise
            hint = "name another with --store or SLOTLOG_STORE, or make one: slotlog remember SPACE ENTITY SLOT VALUE"
            raise NotFound(str(error), hint=hint) from error


def _yes_or_no(name: str, text: str) -> bool:
    from schemas.errors import InvalidInput

    words = {**dict.fromkeys(("true", "1", "yes", "on"), True), **dict.fromkeys(("false", "0", "no", "off"), False)}
    if text.lower() not in words:
        raise InvalidInput(f"{name} is {text!r}", hint="true or false")
    return words[text.lower()]


def named(field: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback for a space, an entity, a slot or another name: it holds it to the rules that the events have."""

    def checked(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
        from schemas.checks import check_name, check_space

        if text is not None:
            if field == "space":
                check_space(text)
            else:
                check_name(field, text)
        return text

    return checked


def as_time(_: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    """A callback for RFC 3339 with an offset. A date alone, or a time without an offset, names no instant."""
    return None if text is None else _time(text, parameter.opts[0])


def as_point(_: click.Context, parameter: click.Parameter, text: str | None) -> int | Position | datetime | None:
    """A callback for a point of the log: an offset, PARTITION:OFFSET, or a time."""
    from schemas.errors import InvalidInput
    from streams.ports import place_of

    if text is None:
        return None
    if (place := place_of(text)) is not None:
        return place
    if ":" not in text and "-" not in text:
        raise InvalidInput(
            f"{parameter.opts[0]} {text!r} is no point of the log",
            hint="an offset like 120, PARTITION:OFFSET like 0:120, or a time like 2026-03-01T09:00:00Z",
        )
    return _time(text, parameter.opts[0])


def as_event_or_time(_: click.Context, parameter: click.Parameter, text: str | None) -> str | datetime | None:
    """A callback for an event id or a time. An offset is neither: events name each other by id, whichever log has
    them."""
    from schemas.errors import InvalidInput

    if text is None or _EVENT_ID.fullmatch(text):
        return text
    if ":" not in text and not _DATE.fullmatch(text):
        raise InvalidInput(
            f"{parameter.opts[0]} {text!r} is no event id and no time",
            hint="an event id, as every answer shows it, or a time like 2026-03-01T09:00:00Z",
        )
    return _time(text, parameter.opts[0])


def as_event_or_point(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> str | int | Position | datetime | None:
    """A callback for an event id or a point of the log."""
    return text if text is not None and _EVENT_ID.fullmatch(text) else as_point(context, parameter, text)


def _time(text: str, name: str) -> datetime:
    from schemas.errors import InvalidInput
    from schemas.times import instant, parse_time

    try:
        return instant(parse_time(text, name))
    except InvalidInput as error:
        hint = "write it with a time of day and an offset from UTC, like 2026-03-01T09:00:00Z or …T10:00:00+01:00"
        raise InvalidInput(str(error), hint=hint) from error


space_argument = click.argument("space", callback=named("space"))
entity_argument = click.argument("entity", callback=named("entity"))
slot_argument = click.argument("slot", callback=named("slot"))
json_value_option = click.option(
    "--json-value", is_flag=True, help='Read the value as a JSON scalar: true, 42, 42.0 or "text". Else it is text.'
)
reason_option = click.option("--reason", metavar="TEXT", help="Why.")
session_option = click.option(
    "--session", callback=named("session"), metavar="NAME", help="The agent run this belongs to."
)
cause_option = click.option("--cause", metavar="EVENT_ID", help="The event this follows from.")
event_id_option = click.option(
    "--event-id",
    metavar="UUID7",
    help="An id of your own, so that the command may be repeated: --wait tells a duplicate from a conflict.",
)
branch_option = click.option(
    "--branch",
    callback=named("branch"),
    metavar="NAME",
    help="The branch of memory it is on. Default: SLOTLOG_BRANCH, else main.",
)
wait_option = click.option(
    "--wait", is_flag=True, help="Tell what became of it: applied, blocked, duplicate, conflict …"
)
trust_choice = click.Choice(("candidate", "verified"))


def value_of(text: str, as_json: bool, name: str = "VALUE") -> Value:
    """The argument as the value it stands for: text as it is, or with --json-value the JSON scalar it spells."""
    if not as_json:
        return text
    import msgspec

    from schemas.errors import InvalidInput

    hint = """--json-value takes true, false, 42 (a long), 42.0 (a double) or "text"; without it the argument is text"""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"{name} {text!r} is not JSON", hint=hint) from error
    if found is None:
        raise InvalidInput(f"{name}: null is no value", hint="to say that nothing holds any longer: slotlog end")
    if not isinstance(found, bool | int | float | str):
        raise InvalidInput(f"{name} {text!r} is no JSON scalar", hint=hint)
    return found


def stdin() -> IO[bytes]:
    """The bytes on stdin."""
    from schemas.errors import InvalidInput

    if sys.stdin is None:
        raise InvalidInput("stdin is closed", hint="pipe something in, or name a file")
    return sys.stdin.buffer


def _settle(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that keeps an option's value in the Settings, where the option was given."""

    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        settings = context.ensure_object(Settings)
        if value:
            setattr(settings, name, value)

    return keep


def store_option(**extra: Any) -> Callable[[_Decorated], _Decorated]:
    text = "A folder, kafka://HOST:PORT/TOPIC?state=DIR or http://HOST:PORT. Default: SLOTLOG_STORE, else ./.slotlog."
    return click.option(
        "--store", metavar="NAME", callback=_settle("store"), expose_value=False, is_eager=True, help=text, **extra
    )


def actor_option(**extra: Any) -> Callable[[_Decorated], _Decorated]:
    text = "Who writes, where a line or a command does not say. Default: SLOTLOG_ACTOR, else user:LOGIN."
    return click.option(
        "--actor", metavar="NAME", callback=_settle("actor"), expose_value=False, is_eager=True, help=text, **extra
    )


def json_option() -> Callable[[_Decorated], _Decorated]:
    return click.option(
        "--json", is_flag=True, callback=_settle("json"), expose_value=False, is_eager=True, help="Answer in JSON."
    )


def timeout_option() -> Callable[[_Decorated], _Decorated]:
    return click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        callback=_settle("timeout"),
        expose_value=False,
        is_eager=True,
        help=f"The longest to wait for a lock or a broker. Default: {DEFAULT_TIMEOUT_S:g}.",
    )


def common(command: _Decorated) -> _Decorated:
    """`--store`, `--timeout` and `--json`, which commands take after their name as well as before it."""
    return store_option()(timeout_option()(json_option()(command)))


def writing(command: _Decorated) -> _Decorated:
    """`common`, and `--actor`."""
    return store_option()(actor_option()(timeout_option()(json_option()(command))))


def event_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every event may carry that is about an entity or was said, and `--wait`. It is pinned to the commit that is
    checked out, unless the command line says otherwise."""

    @wraps(command)
    def with_code(*given: Any, sha: str | None, no_code: bool, **others: Any) -> Any:
        from projectors.surfaces.coding import head_code, named_code

        if sha is not None and no_code:
            raise click.UsageError("--sha names a commit and --no-code none: give one of them")
        code = None if no_code else head_code() if sha is None else named_code(sha)
        return command(*given, code=code, **others)

    sha = click.option("--sha", metavar="REV", help="The commit of the code it is pinned to. Default: HEAD, if any.")
    no_code = click.option("--no-code", is_flag=True, help="Pin it to no commit.")
    return _named_event(sha(no_code(with_code)))


def verdict_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for an event about other events: it holds at every commit, unless one is named."""

    @wraps(command)
    def with_code(*given: Any, sha: str | None, **others: Any) -> Any:
        from projectors.surfaces.coding import named_code

        return command(*given, code=None if sha is None else named_code(sha), **others)

    sha = click.option("--sha", metavar="REV", help="Let it hold only at this commit of the code and later ones.")
    return _named_event(sha(with_code))


def _named_event(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def with_branch(*given: Any, branch: str | None, **others: Any) -> Any:
        settings = click.get_current_context().ensure_object(Settings)
        return command(*given, branch=branch or settings.branch, **others)

    options = (session_option, cause_option, branch_option, event_id_option, wait_option)
    for option in reversed(options):
        with_branch = option(with_branch)
    return with_branch
