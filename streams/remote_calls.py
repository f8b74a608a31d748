"""Every verb of `Memory` as calls to the HTTP API, once for those who block and those who await. No I/O."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar
from uuid import UUID

from schemas import events as ev
from schemas.errors import InvalidEvent, InvalidInput, InvalidView, NotReached, SlotlogError
from schemas.jsonform import id_text, parse_id
from streams import clock
from streams.answers import Answer, Belief, Change, Info, Known, Quarantined, Receipt, Recorded, Session
from streams.door import check_effect, names_known, ready
from streams.memory import Memory, Point
from streams.ports import Position
from streams.remote_branches import AskingBranches
from streams.remote_exchange import Call, Exchange, Replayed, Request, Work, error_of
from streams.remote_horizon import position_of
from streams.remote_params import Params, limit, of_point, of_slot, of_space, part, timeout
from streams.remote_questions import Page, body
from streams.stores import Store, open_store
from streams.view import ResolvedView, View
from streams.wire import PAGE_ITEMS_MAX, WAIT_S_MAX

if TYPE_CHECKING:
    from streams.compare import Difference
    from streams.explain import Explanation
    from streams.inference import SlotSchema

P = ParamSpec("P")
T = TypeVar("T")
PAGE_OF_TIMELINE = 500


class Direct:
    """The log that is appended to past the API. It is opened at its first use."""

    def __init__(self, name: str, timeout_s: float) -> None:
        if not name.startswith("kafka://"):
            raise InvalidInput(f"{name!r} is read through no API", hint="api= goes with kafka://HOST:PORT/TOPIC")
        self._name = name
        self._timeout_s = timeout_s
        self._store: Store | None = None
        self._lock = threading.Lock()

    def open(self) -> Store:
        """
        Raises:
            NotFound: there is no such topic.
            LogUnreachable: no broker answers.
        """
        with self._lock:
            if self._store is None:
                store = open_store(self._name, create=False, timeout_s=self._timeout_s)
                try:
                    _ = store.log.partitions  # the first that a broker is asked
                except BaseException:
                    store.log.close()
                    raise
                self._store = store
            return self._store

    def close(self) -> None:
        """Let go of it, if it was opened."""
        if self._store is not None:
            self._store.log.close()


def on_the_log(verb: Callable[Concatenate[Memory, P], T]) -> Callable[Concatenate[Asking, P], Call[T]]:
    """A verb that works on the log itself, and is refused here."""

    @wraps(verb, updated=())
    def refuse(_: Asking, /, *__: P.args, **___: P.kwargs) -> NoReturn:
        raise log_itself(verb.__name__)

    return refuse


def log_itself(name: str) -> InvalidInput:
    return InvalidInput(f"{name.rstrip('_')} works on the log itself: open kafka://… or the folder")


class Asking(AskingBranches):
    """The verbs. Each returns a Call, or raises at once where what was given can't be asked."""

    def __init__(self, exchange: Exchange, actor: str | None, max_value_bytes: int, direct: Direct | None) -> None:
        """`direct` is the log that events are appended to; None: through the API."""
        super().__init__(exchange, actor, max_value_bytes)
        self._direct = direct

    # What writes.

    def append(self, events: Iterable[ev.Event | Mapping[str, Any]]) -> Call[list[Receipt]]:
        made = [self.making.checked(given) for given in events]
        receipts = (yield from self._straight(made)) if self._direct else (yield from self._posted(made))
        self.horizon.wrote(receipts)
        return receipts

    def check(self, events: Iterable[ev.Event | Mapping[str, Any]]) -> Call[list[InvalidEvent | None]]:
        found: list[InvalidEvent | None] = []
        made: list[tuple[int, ev.Event]] = []
        for number, given in enumerate(events):
            try:
                made.append((number, self.making.checked(given)))
                found.append(None)
            except InvalidEvent as error:
                found.append(error)
        for space in dict.fromkeys(event.space for _, event in made):
            group = [(number, event) for number, event in made if event.space == space]
            problems = yield from self._problems(space, [event for _, event in group])
            for (number, _), problem in zip(group, problems, strict=True):
                if problem is not None and not isinstance(problem, InvalidEvent):
                    raise problem
                found[number] = problem
        return found

    def wait(self, receipt: Receipt, timeout_s: float | None = None) -> Call[Receipt]:
        ends = self.exchange.now() + (self.exchange.timeout_s if timeout_s is None else timeout_s)
        path = f"{of_space(receipt.space)}/receipts/{receipt.event_id}"
        while True:
            left = max(0.0, ends - self.exchange.now())
            params = (("position", str(receipt.position)), timeout(left))
            try:
                reply = yield from self.exchange.ask(Request("GET", path, params), left)
            except NotReached:
                if left <= WAIT_S_MAX:
                    raise
                continue
            return self.exchange.read(Receipt, self.exchange.json(reply))

    def _posted(self, made: list[ev.Event]) -> Call[list[Receipt]]:
        """Appended through the API: at once and whole for each space."""
        spaces = dict.fromkeys(event.space for event in made)
        if len(spaces) > 1:
            yield from self._refuse_wrong(made)
        receipts: dict[tuple[str, bytes], list[Receipt]] = {}
        for space in spaces:
            group = [event for event in made if event.space == space]
            named = any(map(names_known, group))
            reply = yield from self.exchange.ask(
                Request("POST", f"{of_space(space)}/events", self._needed(space) if named else (), body(group))
            )
            found = self.exchange.json(reply)
            one = self.exchange.read(Receipt, found) if len(group) == 1 else None
            several = [one] if one else self.exchange.read(list[Receipt], found, "receipts")
            if len(several) != len(group):
                raise self.exchange.foreign(f"{len(several)} receipts for {len(group)} events")
            for event, receipt in zip(group, several, strict=True):
                receipts.setdefault((space, event.event_id), []).append(receipt)
        return [receipts[event.space, event.event_id].pop(0) for event in made]

    def _straight(self, made: list[ev.Event]) -> Call[list[Receipt]]:
        """Appended to the log itself, once the API knows what they name."""
        assert self._direct is not None
        store: Store = yield Work(self._direct.open)
        for event in made:
            check_effect(event)
        messages = [ready(event, store.codec, clock.now_micros()) for event in made]
        yield from self._refuse_wrong([event for event in made if _names(event, made)])
        positions = yield Work(lambda: store.log.append(messages))
        return [
            Receipt(event.space, UUID(bytes=event.event_id), position, "accepted")
            for event, position in zip(made, positions, strict=True)
        ]

    def _refuse_wrong(self, made: list[ev.Event]) -> Call[None]:
        """
        Raises:
            InvalidEvent: one of them names nothing known.
        """
        for space in dict.fromkeys(event.space for event in made):
            for error in (yield from self._problems(space, [event for event in made if event.space == space])):
                if error is not None:
                    raise error

    def _problems(self, space: str, group: list[ev.Event]) -> Call[list[SlotlogError | None]]:
        request = Request("POST", f"{of_space(space)}/events/check", self._needed(space), body(group))
        reply = yield from self.exchange.ask(request)
        problems = self.exchange.json(reply).get("problems")
        if not isinstance(problems, list) or len(problems) != len(group):
            raise self.exchange.foreign(f"no problem and no null for each of {len(group)} events")
        return [None if one is None else error_of(one, 400, numbered=False) for one in problems]

    # What reads through a View.

    def get(self, space: str, entity: str, slot: str, view: View = View()) -> Call[Answer]:
        found = yield from self._seen(space, of_slot(space, entity, slot), view)
        answer: Answer = self.exchange.read(Answer, found, "answer")  # type: ignore[arg-type]
        return answer

    def entity(self, space: str, entity: str, view: View = View()) -> Call[dict[str, Belief | list[Belief]]]:
        path = f"{of_space(space)}/facts/{part('entity', entity)}"
        slots: dict[str, Belief | list[Belief]] = {}
        cursor: Params = ()
        while True:
            found = yield from self._seen(space, path, view, params=(("limit", str(PAGE_ITEMS_MAX)), *cursor))
            slots.update(self.exchange.read(dict[str, Belief | list[Belief]], found, "slots"))
            if found.get("next") is None:
                return slots
            cursor = (("cursor", str(found["next"])),)

    def history(self, space: str, entity: str, slot: str, view: View = View()) -> Call[list[Belief]]:
        return self._all(Belief, space, f"{of_slot(space, entity, slot)}/history", view)

    def changes(self, space: str, entity: str, slot: str, view: View = View()) -> Call[list[Change]]:
        return self._all(Change, space, f"{of_slot(space, entity, slot)}/changes", view)

    def explain(self, space: str, entity: str, slot: str, view: View = View()) -> Call[Explanation]:
        from streams.explain import Explanation

        found = yield from self._seen(space, f"{of_slot(space, entity, slot)}/explain", view)
        return self.exchange.read(Explanation, found, "explanation")

    def diff(self, space: str, view_a: View, view_b: View = View()) -> Call[list[Difference]]:
        from streams.compare import Difference

        return self._all(Difference, space, f"{of_space(space)}/diff", view_a, view_b)

    def schema(self, space: str, view: View = View()) -> Call[list[SlotSchema]]:
        from streams.inference import SlotSchema

        return self._all(SlotSchema, space, f"{of_space(space)}/schema", view)

    def policy_in_force(self, space: str, view: View = View()) -> Call[tuple[ev.PolicyRule, ...]]:
        return tuple((yield from self._all(ev.PolicyRule, space, f"{of_space(space)}/policy", view)))

    def declarations(self, space: str, view: View = View()) -> Call[list[ev.SlotDeclared]]:
        return self._all(ev.SlotDeclared, space, f"{of_space(space)}/declarations", view)

    def timeline(
        self, space: str, entity: str | None = None, slot: str | None = None, view: View = View()
    ) -> Call[Page[Recorded]]:
        """The first page."""
        named = (("entity", entity), ("slot", slot))
        params = tuple((name, text) for name, text in named if text is not None)
        return self._page(Recorded, space, f"{of_space(space)}/timeline", (view,), (*params, limit(PAGE_OF_TIMELINE)))

    def resolve(self, space: str, view: View = View()) -> Call[ResolvedView]:
        found = yield from self._seen(space, f"{of_space(space)}/resolve", view)
        return self.exchange.read(ResolvedView, found)

    # What reads the log, and what is counted of it.

    def event(self, space: str, event_id: UUID | str) -> Call[Recorded]:
        found = yield from self._found(space, f"{of_space(space)}/events/{id_text(parse_id(event_id))}")
        return self.exchange.read(Recorded, found)

    def known_at(self, space: str, event_id: UUID | str) -> Call[Known]:
        found = yield from self._found(space, f"{of_space(space)}/events/{id_text(parse_id(event_id))}/known")
        return self.exchange.read(Known, found)

    def replay(
        self, space: str, session: str | None = None, start: Point | None = None, end: Point | None = None
    ) -> Call[Replayed]:
        """The opened stream."""
        named = (("session", session), ("start", of_point(start)), ("end", of_point(end)))
        params = tuple((name, text) for name, text in named if text is not None)
        request = Request("GET", f"{of_space(space)}/replay", (*params, *self._needed(space)), stream=True)
        reply = yield from self.exchange.ask(request)
        return Replayed(self.exchange, reply)

    def sessions(self, space: str) -> Call[list[Session]]:
        return self._all(Session, space, f"{of_space(space)}/sessions")

    def reached(self, space: str) -> Call[Position]:
        request = Request("GET", f"{of_space(space)}/resolve", self._needed(space))
        reply = yield from self.exchange.ask(request)
        try:
            return position_of(reply.headers.get("slotlog-position", ""))
        except InvalidView as error:
            raise self.exchange.foreign("no Slotlog-Position") from error

    def quarantined(self) -> Call[list[Quarantined]]:
        yield from self._catch_up()
        return (yield from self._all(Quarantined, None, "/v1/quarantine"))

    def digest(self) -> Call[tuple[str, dict[str, str]]]:
        yield from self._catch_up()
        found = self.exchange.json((yield from self.exchange.ask(Request("GET", "/v1/digest"))))
        return self.exchange.read(str, found, "digest"), self.exchange.read(dict[str, str], found, "spaces")

    def info(self) -> Call[Info]:
        yield from self._catch_up()
        return self.exchange.read(Info, self.exchange.json((yield from self.exchange.ask(Request("GET", "/v1/info")))))

    rebuild = on_the_log(Memory.rebuild)
    copy = on_the_log(Memory.copy)
    export = on_the_log(Memory.export)
    import_ = on_the_log(Memory.import_)
    verify = on_the_log(Memory.verify)
    vouched = on_the_log(Memory.vouched)
    flaws = on_the_log(Memory.flaws)


def _names(event: ev.Event, made: list[ev.Event]) -> bool:
    """Whether the API has to see the event: one of its space names an earlier one, which may come with it."""
    return any(names_known(one) and one.space == event.space for one in made)
