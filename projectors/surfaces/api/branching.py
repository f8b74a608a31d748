"""Handlers of branches, of commits of the code, and of the tree of entities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aiohttp import web

from projectors.surfaces.api.calls import Call
from projectors.surfaces.api.paging import listed
from projectors.surfaces.api.reading import plainly, through_view
from streams.answers import Branch, KnownCommit
from streams.tree import Node


async def branches(call: Call) -> web.StreamResponse:
    def found(names: Mapping[str, str]) -> Iterator[tuple[int, Branch]]:
        for one in call.api.memory.branches(call.space, deleted="deleted" in names):
            yield (0 if one.forked_at is None else one.forked_at.offset + 1), one

    return await listed(call, found, names={"deleted": ""} if call.given.get("deleted") else {})


async def log(call: Call) -> web.StreamResponse:
    memory, branch = call.api.memory, call.names["branch"]
    return await listed(
        call, lambda _: ((one.recorded.position.offset, one) for one in memory.branch_log(call.space, branch))
    )


async def merge_plan(call: Call) -> web.StreamResponse:
    given = call.given
    return await plainly(
        call,
        lambda memory: memory.merge_plan(
            call.space,
            call.names["branch"],
            into=given.get("into", "main"),
            take=given.get("take"),
            only=given.get("only"),
            session=given.get("session"),
            actor=given.get("actor"),
        ),
    )


async def commits(call: Call) -> web.StreamResponse:
    def found(names: Mapping[str, str]) -> Iterator[tuple[str, KnownCommit]]:
        shas = names["shas"].split() if "shas" in names else None
        return ((one.sha, one) for one in call.api.memory.commits(call.space, shas))

    return await listed(call, found, "", {"shas": " ".join(call.given["sha"])} if "sha" in call.given else {})


async def pins(call: Call) -> web.StreamResponse:
    return await listed(
        call,
        lambda _: ((sha, {"sha": sha, "claims": claims}) for sha, claims in call.api.memory.pinned(call.space).items()),
        "",
    )


async def entities(call: Call) -> web.StreamResponse:
    def found(names: Mapping[str, str]) -> Iterator[tuple[str, Node]]:
        return ((f"/{one.name}", one) for one in call.api.memory.ls(call.space, names["prefix"]))

    return await listed(call, found, "", {"prefix": call.given.get("prefix", "")})


async def facts(call: Call) -> web.StreamResponse:
    return await through_view(
        call, lambda memory, view, names: memory.ls(call.space, names["prefix"], view), {"prefix": ""}
    )
