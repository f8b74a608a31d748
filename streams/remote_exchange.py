"""One request to the HTTP API and its reply: what is asked again and when, and what a problem means. No I/O.

A `Call` is a generator that yields what is to be done and is sent what came of it, so that every verb is written once
and driven by whoever can wait, in a thread or in an event loop (`remote.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from http import HTTPStatus
from itertools import count
from typing import Any, NamedTuple, TypeVar

import msgspec

from schemas import errors
from schemas.errors import InvalidEvent, InvalidInput, NotReached, SlotlogError, StoreClosed, Unavailable
from streams.answers import Recorded
from streams.wire import JSON, JSON_LINES, PROBLEM, PROBLEM_TYPE, Unreadable, typed

T = TypeVar("T")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
GRACE_S = 5.0
"""A server that was told how long to wait for its tables gets so much longer to say that it did."""

_AGAIN = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


class Request(NamedTuple):
    """To be sent; what comes of it is a Reply or Broken. `path` is percent-encoded, from the API's base on; `body` is
    JSON. `timeout_s` is the longest silence. With `stream`, the body of a good reply is left to be read."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    timeout_s: float = 0.0
    stream: bool = False


class Reply(NamedTuple):
    """What the server said. Names of headers are in lower case; `stream` is what the body is still to be read from."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    stream: Any = None

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Broken(NamedTuple):
    """No reply came: the connection failed, or nothing was said for too long."""

    error: Exception


class Pause(NamedTuple):
    """To be waited for."""

    seconds: float


class Work(NamedTuple):
    """To be called, though it blocks; what comes of it is what it returns."""

    do: Callable[[], Any]


Call = Generator[Request | Pause | Work, Any, T]


class Exchange:
    """Requests to one server. Every one may be repeated: what reads changes nothing, and an event has had its id from
    before the first attempt on."""

    def __init__(self, url: str, timeout_s: float, now: Callable[[], float], chance: Callable[[], float]) -> None:
        """
        Args:
            url: the API's base.
            timeout_s: most seconds that one request takes with all its repetitions, GRACE_S aside.
            now: seconds, never going back.
            chance: from 0 to 1; pauses are between half of what is due and all of it.
        """
        self.url = url
        self.timeout_s = timeout_s
        self.now = now
        self._chance = chance

    def ask(self, request: Request, timeout_s: float | None = None) -> Call[Reply]:
        """The good reply to `request`.

        Raises:
            SlotlogError: the server's problem, as the class that it was there.
            Unavailable: nobody answered in time.
            InvalidInput: who answers is not slotlog.
        """
        ends = self.now() + (self.timeout_s if timeout_s is None else timeout_s)
        for attempt in count():
            got: Reply | Broken = yield request._replace(timeout_s=max(0.0, ends - self.now()) + GRACE_S)
            if isinstance(got, Reply) and not _may_help_to_repeat(got):
                if got.status in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
                    return got
                raise self.problem(got)
            pause = min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S) * (1 + self._chance()) / 2
            if isinstance(got, Reply):
                pause = max(pause, _retry_after_s(got))
            if self.now() + pause > ends:
                raise self.problem(got) if isinstance(got, Reply) else self.broken(got)
            yield Pause(pause)
        raise AssertionError("count() has no end")

    def json(self, reply: Reply) -> Any:
        """The JSON object of a good reply."""
        try:
            if reply.media_type != JSON:
                raise Unreadable(f"a body of type {reply.media_type or 'nothing'}")
            return msgspec.json.decode(reply.body, type=dict[str, Any])
        except (msgspec.DecodeError, Unreadable) as error:
            raise self.foreign(str(error)) from error

    def read(self, cls: type[T], found: Any, field: str | None = None) -> T:
        """The answer of class `cls` in JSON values, or in a field of theirs."""
        try:
            if field is not None and field not in found:
                raise Unreadable(f"{field} is missing")
            return typed(cls, found if field is None else found[field])
        except Unreadable as error:
            raise self.foreign(str(error)) from error

    def problem(self, reply: Reply) -> SlotlogError:
        """The error that a bad reply tells."""
        found = problem_of(reply)
        if found is not None:
            return error_of(found, reply.status)
        said = f"{self.url} answered {reply.status} {_phrase(reply.status)}"
        if reply.status in _AGAIN:
            return Unavailable(said, hint="try again")
        if reply.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return InvalidInput(f"{said}: it takes no request of that size", hint="append fewer events at a time")
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return SlotlogError(f"{said}, and not why")
        return self.foreign(f"{reply.status} {_phrase(reply.status)}")

    def foreign(self, what: str) -> InvalidInput:
        """Who answers is not slotlog, or not one that this one understands."""
        return InvalidInput(
            f"{self.url} does not answer as slotlog does: {what[:200]}",
            hint="is it the URL of slotlog serve, or of a worker?",
        )

    def broken(self, got: Broken) -> Unavailable:
        """Nobody answered."""
        error = got.error
        found = Unavailable(f"{self.url} does not answer: {str(error) or type(error).__name__}", hint="try again")
        found.__cause__ = error
        return found


class Replayed:
    """Events of a stream that was opened, from its pieces as they come. `stream` is what to read them from."""

    def __init__(self, exchange: Exchange, reply: Reply) -> None:
        self.stream = reply.stream
        self._exchange = exchange
        self._rest = b""
        self._count = 0
        self._problem = None if reply.media_type == JSON_LINES else f"a body of type {reply.media_type or 'nothing'}"
        if "chunked" not in reply.headers.get("transfer-encoding", "") and "content-length" not in reply.headers:
            self._problem = "a stream without an end that could be told from breaking off"

    def read(self, piece: bytes) -> Iterator[Recorded]:
        """Events that are complete with this piece."""
        if self._problem is not None:
            raise self._exchange.foreign(self._problem)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            try:
                found = msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise self._exchange.foreign(str(error)) from error
            self._count += 1
            yield self._exchange.read(Recorded, found)

    def end(self, error: Exception | None = None) -> None:
        """Nothing more comes: as it ought to, or because of `error`.

        Raises:
            Unavailable: what came is not all of it.
        """
        if error is not None or self._rest:
            raise Unavailable(
                f"the replay from {self._exchange.url} broke off after {self._count:,} events",
                hint="begin again, after the last one that came",
            ) from error


def problem_of(reply: Reply) -> Mapping[str, Any] | None:
    """The problem that a reply of slotlog's tells; None where it is not one."""
    if reply.media_type != PROBLEM:
        return None
    try:
        found = msgspec.json.decode(reply.body, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    return found if str(found.get("type")).startswith(PROBLEM_TYPE) else None


def error_of(problem: Mapping[str, Any], status: int, *, numbered: bool = True) -> SlotlogError:
    """The error of a problem+json object; `numbered`: with the number of the event that it is about, if there is one.

    A class that is not known here becomes its nearest by the status.
    """
    name = str(problem["type"]).removeprefix(PROBLEM_TYPE)
    text, hint = str(problem.get("detail") or problem.get("title") or name), problem.get("hint")
    hint = None if hint is None else str(hint)
    known = getattr(errors, name, None)
    cls = known if isinstance(known, type) and issubclass(known, SlotlogError) else _class_of(status)
    if cls is StoreClosed:  # the server's, not ours
        cls = Unavailable
    if numbered and problem.get("event") is not None:
        text = f"{text} (event {problem['event']} of those given, from 0)"
    if issubclass(cls, InvalidEvent):
        field = str(problem.get("field", "event"))
        return cls(field, text.removeprefix(f"{field}: "), hint=hint)
    if issubclass(cls, NotReached):
        return cls(text, reached=str(problem.get("reached", "")), hint=hint)
    return cls(text, hint=hint)


def _class_of(status: int) -> type[SlotlogError]:
    if status in _AGAIN:
        return Unavailable
    return SlotlogError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else InvalidInput


def _may_help_to_repeat(reply: Reply) -> bool:
    """Whether the server, or a proxy before it, can't answer just now. Tables that did not get there in time were
    waited for already."""
    return reply.status in _AGAIN and "reached" not in (problem_of(reply) or ())


def _retry_after_s(reply: Reply) -> float:
    after = reply.headers.get("retry-after", "")
    return float(after) if after.isascii() and after.isdigit() else 0.0


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
