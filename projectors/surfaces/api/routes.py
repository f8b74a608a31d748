"""The table of routes: what is registered, and what the OpenAPI document is made of."""

from __future__ import annotations

from http import HTTPStatus

from projectors.surfaces.api import branching, following, reading, whole, writing
from projectors.surfaces.api.calls import EVENT_STREAM, Handler, Route, Scope
from projectors.surfaces.api.params import (
    ACTOR,
    CURSOR,
    END,
    ENTITY,
    INTO,
    LIMIT,
    MIN_OFFSET,
    ONLY,
    PAGING,
    POSITION,
    PREFIX,
    SESSION,
    SHA,
    SINCE,
    SLOT,
    START,
    TAKE,
    TIMEOUT,
    WAIT,
    WAITING,
    WITH_DELETED,
    Parameter,
    view_parameters,
)
from projectors.surfaces.api.problems import Problem
from schemas import events as ev
from streams.answers import (
    Answer,
    Belief,
    Branch,
    BranchChange,
    Change,
    Info,
    Known,
    KnownCommit,
    Quarantined,
    Receipt,
    Recorded,
    Session,
    SpaceInfo,
)
from streams.compare import Difference
from streams.explain import Explanation
from streams.inference import SlotSchema
from streams.merging import MergePlan
from streams.status import WorkerStatus
from streams.tree import Node
from streams.view import ResolvedView
from streams.wire import JSON, JSON_LINES

SPACE = "/v1/spaces/{space}"
FACTS = SPACE + "/facts/{entity}"
VIEW = (*view_parameters(), *WAITING)
VIEW_PAGED = (*VIEW, *PAGING)
TWO_VIEWS = (*view_parameters("a."), *view_parameters("b."), *WAITING, *PAGING)
FOLLOWED = (
    ENTITY,
    SLOT,
    SINCE,
    *(one for one in view_parameters() if one.name not in ("as_of", "valid_at")),
    *WAITING,
)


def _get(
    path: str,
    handler: Handler,
    text: str,
    answer: object,
    parameters: tuple[Parameter, ...] = (),
    scope: Scope = "owner",
    media: str = JSON,
) -> Route:
    return Route("GET", path, handler, scope, text, parameters, answer, media)


def _page(item: object, *, views: int = 1) -> dict[str, object]:
    """What a page of a list has, by how many Views the list is seen through."""
    seen: dict[str, object] = (
        {} if views == 0 else {"view": ResolvedView} if views == 1 else {"views": list[ResolvedView]}
    )
    return {**seen, "items": list[item], "next": str | None}  # type: ignore[valid-type]


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        f"{SPACE}/events",
        writing.append,
        "anywhere",
        "Append one event, an array of events, or JSON lines; a receipt for each.",
        (WAIT, MIN_OFFSET, TIMEOUT),
        Receipt | dict[str, list[Receipt]],
        body=True,
        statuses=(HTTPStatus.OK, HTTPStatus.ACCEPTED),
    ),
    Route(
        "POST",
        f"{SPACE}/events/check",
        writing.check,
        "owner",
        "What would be refused: a problem or null for each event. Writes nothing.",
        WAITING,
        {"problems": list[Problem | None]},
        body=True,
    ),
    Route(
        "POST",
        f"{SPACE}/events/preview",
        writing.preview,
        "owner",
        "Slots whose answers would differ if these events were appended. Writes nothing.",
        VIEW,
        {"items": list[Difference]},
        body=True,
    ),
    _get(
        f"{FACTS}/{{slot}}",
        reading.fact,
        "What is believed of a slot: null, a belief, or for a slot that holds many a list.",
        {"view": ResolvedView, "answer": Answer},
        VIEW,
    ),
    _get(
        FACTS,
        reading.entity,
        "Every slot of an entity of which anything is believed.",
        {"view": ResolvedView, "slots": dict[str, Belief | list[Belief]], "next": str | None},
        VIEW_PAGED,
    ),
    _get(
        f"{FACTS}/{{slot}}/history",
        reading.history,
        "A slot's beliefs along valid time.",
        _page(Belief),
        VIEW_PAGED,
    ),
    _get(
        f"{FACTS}/{{slot}}/changes",
        reading.belief_changes,
        "How the answer for one instant changed along offsets.",
        _page(Change),
        VIEW_PAGED,
    ),
    _get(
        f"{FACTS}/{{slot}}/explain",
        reading.explain,
        "Why a slot answers as it does.",
        {"view": ResolvedView, "explanation": Explanation},
        VIEW,
    ),
    _get(
        f"{SPACE}/timeline",
        reading.timeline,
        "Every event that counts, in order.",
        _page(Recorded),
        (ENTITY, SLOT, *VIEW_PAGED),
    ),
    _get(
        f"{SPACE}/diff",
        reading.diff,
        "Slots whose answers through two views differ.",
        _page(Difference, views=2),
        TWO_VIEWS,
    ),
    _get(f"{SPACE}/schema", reading.schema, "Every slot with its types and counts.", _page(SlotSchema), VIEW_PAGED),
    _get(f"{SPACE}/policy", reading.policy, "The rules of trust in force.", _page(ev.PolicyRule), VIEW_PAGED),
    _get(
        f"{SPACE}/declarations",
        reading.declarations,
        "Every declaration of a slot that counts.",
        _page(ev.SlotDeclared),
        VIEW_PAGED,
    ),
    _get(
        f"{SPACE}/sessions",
        reading.sessions,
        "Every session of the space.",
        _page(Session, views=0),
        (*WAITING, *PAGING),
    ),
    _get(
        f"{SPACE}/facts",
        branching.facts,
        "The tree of entities of which anything is believed, one step below a name.",
        _page(Node),
        (PREFIX, *VIEW_PAGED),
    ),
    _get(
        f"{SPACE}/entities",
        branching.entities,
        "The tree of entities of which anything was ever said, one step below a name.",
        _page(Node, views=0),
        (PREFIX, *WAITING, *PAGING),
    ),
    _get(
        f"{SPACE}/branches",
        branching.branches,
        "The branches of the space, main first, then as they were forked.",
        _page(Branch, views=0),
        (WITH_DELETED, *WAITING, *PAGING),
    ),
    _get(
        f"{SPACE}/branches/{{branch}}/log",
        branching.log,
        "What made the branch, was merged into it, rolled it back and deleted it.",
        _page(BranchChange, views=0),
        (*WAITING, *PAGING),
    ),
    _get(
        f"{SPACE}/branches/{{branch}}/merge",
        branching.merge_plan,
        "What merging the branch into another would meet and do. Writes nothing: to merge, append the plan's events.",
        MergePlan,
        (INTO, TAKE, ONLY, ACTOR, SESSION, *WAITING),
    ),
    _get(
        f"{SPACE}/commits",
        branching.commits,
        "What the log tells of commits of the code, by id.",
        _page(KnownCommit, views=0),
        (SHA, *WAITING, *PAGING),
    ),
    _get(
        f"{SPACE}/pins",
        branching.pins,
        "Every commit that facts and ends are pinned to, with their number.",
        _page({"sha": str, "claims": int}, views=0),
        (*WAITING, *PAGING),
    ),
    _get(
        f"{SPACE}/replay",
        following.replay,
        "The log read again: an event a line. An answer without its proper end is not whole.",
        None,
        (SESSION, START, END, *WAITING),
        media=JSON_LINES,
    ),
    _get(f"{SPACE}/events/{{event_id}}", reading.event, "The event with this id.", Recorded, WAITING),
    _get(
        f"{SPACE}/events/{{event_id}}/known",
        reading.known,
        "What whoever wrote this event could know.",
        Known,
        WAITING,
    ),
    _get(f"{SPACE}/resolve", reading.resolve, "What a view means now.", ResolvedView, VIEW),
    _get(
        f"{SPACE}/receipts/{{event_id}}",
        writing.receipt,
        "What became of an event, once it is folded.",
        Receipt,
        (POSITION, TIMEOUT),
    ),
    _get(
        f"{SPACE}/digest",
        reading.digest,
        "One hash over all that is in the space.",
        {"space": str, "digest": str},
        WAITING,
    ),
    _get(
        f"{SPACE}/changes",
        following.changes,
        "Changes of belief as they happen, as server-sent events; Last-Event-ID goes on after it.",
        None,
        FOLLOWED,
        media=EVENT_STREAM,
    ),
    _get(
        "/v1/spaces",
        whole.spaces,
        "Every space, by name.",
        _page(SpaceInfo, views=0),
        (LIMIT, CURSOR),
        scope="everywhere",
    ),
    _get(
        "/v1/quarantine",
        whole.quarantine,
        "Every record of the log that does not count, by position.",
        _page(Quarantined, views=0),
        (LIMIT, CURSOR),
        scope="everywhere",
    ),
    _get(
        "/v1/digest",
        whole.digest,
        "One hash over everything, and one for each space.",
        {"digest": str, "spaces": dict[str, str]},
        scope="everywhere",
    ),
    _get("/v1/info", whole.info, "What the store holds.", Info, scope="everywhere"),
    _get(
        "/v1/workers",
        whole.workers,
        "Every worker and its partitions; one that does not answer says so in its reasons.",
        {"workers": list[WorkerStatus]},
        scope="here",
    ),
    _get("/v1/openapi.json", whole.document, "This document.", dict[str, object], scope="here"),
    _get("/healthz", whole.healthy, "Whether the process is alive.", {"status": str}, scope="here"),
    Route(
        "GET",
        "/readyz",
        whole.ready,
        "here",
        "Whether every partition here is caught up: ready, degraded or not ready, and why.",
        (),
        {"status": str, "reasons": list[str]},
        statuses=(HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE),
    ),
    _get("/metrics", whole.metrics, "For Prometheus.", None, scope="here", media="text/plain"),
)
