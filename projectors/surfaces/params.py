"""What the commands take: the options they share, and how text becomes times, points of the log and values.

`streams` is imported where it is needed, so that `slotlog --help` and shell completion come up at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from datetime import datetime

    from schemas.events import Value
    from streams import Memory, Position

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

DEFAULT_TIMEOUT_S = 30.0
_DATE = re.compile(r"\d{4}-\d\d(-\d\d)?")
_EVENT_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(slots=True)
class Settings:
    """What holds for one run of the program. `width` is set where the terminal is not to be asked."""

    store: str | None = None
    actor: str | None = None
    json: bool = False
    timeout: float = DEFAULT_TIMEOUT_S
    width: int | None = None

    @property
    def store_name(self) -> str:
        from streams.stores import DEFAULT_STORE

        return self.store or DEFAULT_STORE

    def open(self, *, create: bool, name: str | None = None, hold: bool = False) -> Memory:
        """The memory of the store, or of another by its name. Without `hold` it folds nothing that a reader does not
        need folded, and leaves the tables to others."""
        from schemas.errors import NotFound
        from streams import Memory

        name = self.store_name if name is None else name
        try:
            return Memory.open(name, actor=self.actor, hold=hold, create=create, busy_timeout_s=self.timeout)
        except NotFound as error:
            if name.startswith("kafka://"):
                raise
            hint = "name another with --store or SLOTLOG_STORE, or make one: slotlog remember SPACE ENTITY SLOT VALUE"
            raise NotFound(str(error), hint=hint) from error


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


def viewing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a View; the command is given it as `view`."""

    @wraps(command)
    def with_view(
        *given: Any, as_of: Any, valid_at: Any, trust: str, without_actor: tuple[str, ...], **others: Any
    ) -> Any:
        from streams import View

        view = View(as_of=as_of, valid_at=valid_at, trust=trust, without_actors=without_actor)
        return command(*given, view=view, **others)

    options = (
        click.option(
            "--as-of", callback=as_point, metavar="POINT", help="Only what was known at this offset, P:OFFSET or time."
        ),
        click.option(
            "--valid-at", callback=as_time, metavar="TIME", help="The instant asked about. Default: now, or --as-of."
        ),
        click.option(
            "--trust",
            type=trust_choice,
            default="candidate",
            help="The least trust that counts. Default: candidate.",
        ),
        click.option("--without-actor", multiple=True, metavar="NAME", help="Leave out what NAME wrote. Repeatable."),
    )
    for option in reversed(options):
        with_view = option(with_view)
    return with_view


def event_options(command: _Decorated) -> _Decorated:
    """What every written event may carry, and `--wait`."""
    event_id = click.option(
        "--event-id",
        metavar="UUID7",
        help="An id of your own, so that the command may be repeated: --wait tells a duplicate from a conflict.",
    )
    options = (session_option, cause_option, event_id, wait_option)
    for option in reversed(options):
        command = option(command)
    return command
