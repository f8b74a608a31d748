"""What a remote call asks again, when it stops, and what it makes of a reply. No server, no clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from schemas import errors
from schemas.errors import InvalidEvent, InvalidInput, NotFound, NotReached, NotServing, SlotlogError, Unavailable
from streams import Position, Receipt, View, new_event_id
from streams.remote_exchange import Broken, Exchange, Pause, Reply, Request
from streams.remote_horizon import Horizon, position_of

URL = "http://memory.example"
GET = Request("GET", "/v1/info")
OK = Reply(200, {"content-type": "application/json"}, b"{}")
RESET = Broken(ConnectionResetError("reset"))


class Server:
    """Answers what it is told to, one after the other, the last for ever; pauses take no time but are counted."""

    def __init__(
        self, *replies: Reply | Broken, takes_s: float = 0.0, chance: Callable[[], float] = lambda: 1.0
    ) -> None:
        self._replies: Sequence[Reply | Broken] = replies
        self._takes_s = takes_s
        self.now = 100.0
        self.asked: list[Request] = []
        self.paused: list[float] = []
        self.exchange = Exchange(URL, 10.0, lambda: self.now, chance)

    def ask(self, timeout_s: float | None = None) -> Reply:
        call = self.exchange.ask(GET, timeout_s)
        try:
            step: Any = next(call)
            while True:
                if isinstance(step, Pause):
                    self.now += step.seconds
                    self.paused.append(step.seconds)
                    step = call.send(None)
                else:
                    self.now += self._takes_s
                    self.asked.append(step)
                    step = call.send(self._replies[min(len(self.asked), len(self._replies)) - 1])
        except StopIteration as stop:
            return stop.value


def problem(name: str, status: int, *, after: str | None = None, **more: Any) -> Reply:
    headers = {"content-type": "application/problem+json; charset=utf-8"} | ({"retry-after": after} if after else {})
    body = {"type": f"urn:slotlog:problem:{name}", "title": name, "status": status, "detail": "so it is", **more}
    return Reply(status, headers, msgspec.json.encode(body))


def test_what_may_pass_is_asked_again_with_longer_and_longer_pauses() -> None:
    html = Reply(502, {"content-type": "text/html"}, b"<h1>Bad Gateway")
    server = Server(RESET, html, problem("NotServing", 503), problem("Unavailable", 504), RESET, RESET, RESET, OK)
    assert server.ask() == OK
    assert server.paused == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert len(server.asked) == 8


def test_pauses_are_between_half_and_all_of_what_is_due() -> None:
    server = Server(RESET, RESET, OK, chance=lambda: 0.0)
    server.ask()
    assert server.paused == [0.025, 0.05]


def test_a_server_that_says_when_is_asked_then() -> None:
    server = Server(problem("NotServing", 503, after="3"), problem("NotServing", 503, after="soon"), OK)
    server.ask()
    assert server.paused == [3.0, 0.1]


def test_it_ends_with_the_last_error_before_the_time_is_over() -> None:
    server = Server(problem("NotServing", 503, hint="ask again"))
    with pytest.raises(NotServing, match="so it is") as caught:
        server.ask()
    assert caught.value.hint == "ask again"
    assert 8.0 < sum(server.paused) <= 10.0
    server = Server(RESET, takes_s=4.0)
    with pytest.raises(Unavailable, match=f"{URL} does not answer: reset") as unreached:
        server.ask()
    assert len(server.asked) == 3
    assert [round(one.timeout_s, 2) for one in server.asked] == [15.0, 10.95, 6.85]
    assert isinstance(unreached.value.__cause__, ConnectionResetError)
    server = Server(problem("NotServing", 503, after="11"))
    with pytest.raises(NotServing):
        server.ask()
    assert server.paused == []


def test_even_without_time_it_is_asked_once() -> None:
    server = Server(OK)
    assert server.ask(timeout_s=0.0) == OK


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (problem("NotReached", 504, reached="2:7"), NotReached),
        (problem("NotFound", 404), NotFound),
        (problem("StoreFull", 507), errors.StoreFull),
        (problem("Internal", 500), SlotlogError),
        (problem("OfALaterVersion", 409), InvalidInput),
        (problem("SystemExit", 400), InvalidInput),
        (Reply(413, {"content-type": "text/plain"}, b"too large"), InvalidInput),
        (Reply(500, {"content-type": "text/html"}, b"<h1>Oops"), SlotlogError),
        (Reply(401, {}, b""), InvalidInput),
        (Reply(302, {"location": "/login"}, b""), InvalidInput),
        (Reply(404, {"content-type": "application/problem+json"}, b"{"), InvalidInput),
        (Reply(404, {"content-type": "application/problem+json"}, b'{"type": "about:blank"}'), InvalidInput),
    ],
)
def test_what_will_not_pass_is_an_error_at_once(reply: Reply, error: type[SlotlogError]) -> None:
    server = Server(reply)
    with pytest.raises(error) as caught:
        server.ask()
    assert type(caught.value) is error
    assert len(server.asked) == 1


def test_a_problem_is_told_as_it_was_there() -> None:
    with pytest.raises(NotReached) as late:
        Server(problem("NotReached", 504, reached="2:7")).ask()
    assert late.value.reached == "2:7"
    with pytest.raises(InvalidEvent) as wrong:
        Server(problem("InvalidEvent", 400, field="slot", detail="slot: is missing", event=3, hint="name it")).ask()
    assert (wrong.value.field, wrong.value.hint) == ("slot", "name it")
    assert str(wrong.value) == "slot: is missing (event 3 of those given, from 0)"
    with pytest.raises(Unavailable, match="so it is") as closing:
        Server(problem("StoreClosed", 503)).ask()
    assert type(closing.value) is Unavailable


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (Reply(200, {"content-type": "text/html"}, b"<h1>It works!"), "a body of type text/html"),
        (Reply(200, {}, b""), "a body of type nothing"),
        (Reply(200, {"content-type": "application/json"}, b"{"), "Input data was truncated"),
        (Reply(200, {"content-type": "application/json"}, b"[]"), "Expected `object`"),
    ],
)
def test_another_server_is_told_from_ours(reply: Reply, complaint: str) -> None:
    server = Server(reply)
    with pytest.raises(InvalidInput, match="does not answer as slotlog does") as caught:
        server.exchange.json(server.ask())
    assert complaint in str(caught.value)
    with pytest.raises(InvalidInput, match="answer is missing"):
        server.exchange.read(int, {}, "answer")
    with pytest.raises(InvalidInput, match="'x' is no int"):
        server.exchange.read(int, {"answer": "x"}, "answer")


def receipt(space: str, partition: int, offset: int) -> Receipt:
    return Receipt(space, new_event_id(), Position(partition, offset), "accepted")


def test_reads_need_what_was_written_unless_they_are_of_before() -> None:
    horizon = Horizon()
    assert horizon.needed("a") is None
    horizon.wrote([receipt("a", 2, 7), receipt("a", 2, 9), receipt("a", 2, 8), receipt("b", 2, 20)])
    latest = Position(2, 9)
    assert horizon.needed("a") == latest
    assert horizon.needed("a", View()) == latest
    assert horizon.needed("a", View(as_of=5)) == Position(2, 5)
    assert horizon.needed("a", View(as_of=Position(2, 5))) == Position(2, 5)
    assert horizon.needed("a", View(as_of=12)) == latest
    assert horizon.needed("a", View(as_of=-1)) is None
    assert horizon.needed("a", View(as_of=5), View()) == latest
    assert horizon.needed("a", View(as_of=5), View(as_of=6)) == Position(2, 6)
    assert horizon.needed("c", View()) is None


def test_what_was_written_is_waited_for_in_each_partition() -> None:
    horizon = Horizon()
    horizon.wrote([receipt("a", 2, 7), receipt("b", 2, 9), receipt("c", 0, 3)])
    for _ in range(2):  # each time: the partition may have moved to a worker that is not there yet
        assert horizon.written() == [("c", Position(0, 3)), ("b", Position(2, 9))]


@pytest.mark.parametrize("text", ["", "7", "1:", ":7", "x:7", "1:2:3"])
def test_what_is_no_position(text: str) -> None:
    assert position_of("3:17") == Position(3, 17)
    with pytest.raises(InvalidInput, match="is no position"):
        position_of(text)
