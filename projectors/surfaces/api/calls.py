"""One route of the API, one call of it, and the application that they belong to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from aiohttp import web

from projectors.surfaces.api.asking import Asked, Limits, Seen
from projectors.surfaces.api.params import TIMEOUT_S, Parameter
from schemas.errors import NotServing
from schemas.jsonform import id_text
from streams.local import LocalMemory
from streams.metrics import Metrics
from streams.ports import Fleet, Position
from streams.wire import JSON

if TYPE_CHECKING:
    from projectors.surfaces.api.proxying import Proxy

HOP = "Slotlog-Hop"
POSITION_HEADER, SEEN_HEADER, PARTITIONS_HEADER = "Slotlog-Position", "Slotlog-Seen", "Slotlog-Partitions"
EVENT_STREAM = "text/event-stream"

Scope = Literal["here", "owner", "anywhere", "everywhere"]
"""Who answers: this process, the worker that has the space, whoever the handler finds, or all workers together."""


@dataclass(eq=False)
class Api:
    """What every handler needs. `closing`: streams are to end."""

    memory: LocalMemory
    fleet: Fleet
    metrics: Metrics
    limits: Limits
    asked: Asked
    proxy: Proxy
    document: bytes = b""
    closing: bool = False


@dataclass(eq=False)
class Call:
    """One request, understood: the names in its path, the parameters of its query, and its body, where it has one."""

    api: Api
    route: Route
    request: web.Request
    names: Mapping[str, str]
    given: Mapping[str, Any]
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def space(self) -> str:
        return self.names["space"]

    @property
    def is_hop(self) -> bool:
        """Whether another worker has passed this on, so that it must not be passed on again."""
        return self.request.headers.get(HOP) == "1"

    @property
    def needed(self) -> int | Position | None:
        """What the tables must have folded before they are asked."""
        found: int | Position | None = self.given.get("min_offset")
        return found

    @property
    def timeout_s(self) -> float:
        found: float = self.given.get("timeout", TIMEOUT_S)
        return found

    def elsewhere(self) -> str | None:
        """Base URL of the worker that has the space; None: it is this one.

        Raises:
            NotServing: nobody is known to have it, or somebody else thinks that it is this one.
        """
        url = self.api.fleet.elsewhere(self.space)
        if url is not None and self.is_hop:
            raise NotServing(f"{self.space} is not answered for here any more", hint="ask again: it is routed anew")
        return url

    async def pass_on(self, url: str) -> web.StreamResponse:
        """The answer of the worker at `url`, which has the space."""
        api, space = self.api, self.space

        def still_there() -> bool:
            try:
                return not api.closing and api.fleet.elsewhere(space) == url
            except NotServing:
                return False

        return await api.proxy.pass_on(self.request, url, self.body if self.route.body else None, still_there)

    async def ask(self, needed: int | Position | None, look: Callable[[], bytes]) -> web.Response:
        """The JSON that `look` makes of the space's tables, once they have folded what is `needed`. It is called in a
        thread, and may set headers."""
        return self.answer(await self.api.asked.ask(self.space, needed, self.timeout_s, look))

    def answer(self, body: bytes, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
        """JSON as it was made."""
        return web.Response(status=status, body=body, content_type=JSON, headers=self.headers)

    def saw(self, seen: Seen) -> None:
        """Say in the headers what the answer was of."""
        self.at(seen.reached)
        if seen.event_id is not None:
            self.headers[SEEN_HEADER] = id_text(seen.event_id)

    def at(self, reached: Position) -> None:
        """Say in the headers what the tables had reached."""
        self.headers[POSITION_HEADER] = str(reached)


Handler = Callable[[Call], Awaitable[web.StreamResponse]]


class Route(NamedTuple):
    """What is registered, and what the OpenAPI document says of it. `answer` describes the JSON of a good answer: a
    type, or field names to types; `body` names what is taken."""

    method: str
    path: str
    handler: Handler
    scope: Scope
    text: str
    parameters: tuple[Parameter, ...] = ()
    answer: Any = None
    media: str = JSON
    body: bool = False
    statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)

    @property
    def pattern(self) -> str:
        """As aiohttp's router takes it: any text is a name, braces too."""
        return self.path.replace("}", ":[^/]+}")


def encoded(found: Any) -> bytes:
    """JSON values as JSON."""
    return msgspec.json.encode(found)
