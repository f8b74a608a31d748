"""The verbs about branches, commits of the code and the tree of entities, as calls to the HTTP API. No I/O."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from schemas import events as ev
from streams.answers import Branch, BranchChange, KnownCommit, Receipt
from streams.remote_exchange import Call
from streams.remote_params import Params, of_space, part
from streams.remote_questions import Questions, body
from streams.view import View

if TYPE_CHECKING:
    from streams.compare import Difference
    from streams.merging import Merged, MergePlan, Side
    from streams.tree import Node

SHAS_AT_ONCE = 200


class AskingBranches(Questions):
    """These verbs. Each returns a Call, or raises at once where what was given can't be asked."""

    @abstractmethod
    def append(self, events: Iterable[ev.Event | Mapping[str, Any]]) -> Call[list[Receipt]]:
        """See `Memory.append`."""

    def merge(
        self,
        space: str,
        source: str,
        *,
        into: str = "main",
        take: Side | None = None,
        only: Iterable[tuple[str, str]] | None = None,
        session: str | None = None,
        actor: str | None = None,
    ) -> Call[Merged]:
        from streams.merging import Merged, refuse_conflicts

        plan = yield from self.merge_plan(space, source, into=into, take=take, only=only, session=session, actor=actor)
        refuse_conflicts(plan, take)
        return Merged(plan, tuple((yield from self.append(plan.events))))

    def merge_plan(
        self,
        space: str,
        source: str,
        *,
        into: str = "main",
        take: Side | None = None,
        only: Iterable[tuple[str, str]] | None = None,
        session: str | None = None,
        actor: str | None = None,
    ) -> Call[MergePlan]:
        from streams.merging import MergePlan

        given = (
            ("into", into),
            ("take", take),
            ("session", session),
            ("actor", self.making.actor if actor is None else actor),
        )
        params: Params = tuple((name, text) for name, text in given if text is not None)
        params += tuple(("only", msgspec.json.encode(slot).decode()) for slot in only or ())
        path = f"{of_space(space)}/branches/{part('branch', source)}/merge"
        return self.exchange.read(MergePlan, (yield from self._found(space, path, params)))

    def preview(
        self, space: str, events: Iterable[ev.Event | Mapping[str, Any]], view: View = View()
    ) -> Call[list[Difference]]:
        from streams.compare import Difference

        made = self.making.checked_of(space, events)
        found = yield from self._seen(space, f"{of_space(space)}/events/preview", view, body=body(made))
        return self.exchange.read(list[Difference], found, "items")

    def branches(self, space: str, *, deleted: bool = False) -> Call[list[Branch]]:
        params = (("deleted", "true"),) if deleted else ()
        return self._all(Branch, space, f"{of_space(space)}/branches", params=params)

    def branch_log(self, space: str, branch: str) -> Call[list[BranchChange]]:
        return self._all(BranchChange, space, f"{of_space(space)}/branches/{part('branch', branch)}/log")

    def ls(self, space: str, prefix: str = "", view: View | None = None) -> Call[list[Node]]:
        from streams.tree import Node

        params = (("prefix", prefix),) if prefix else ()
        if view is None:
            return self._all(Node, space, f"{of_space(space)}/entities", params=params)
        return self._all(Node, space, f"{of_space(space)}/facts", view, params=params)

    def commits(self, space: str, shas: Iterable[str] | None = None) -> Call[list[KnownCommit]]:
        path = f"{of_space(space)}/commits"
        if shas is None:
            return (yield from self._all(KnownCommit, space, path))
        wanted, found = sorted(set(shas)), []
        for start in range(0, len(wanted), SHAS_AT_ONCE):
            params = tuple(("sha", sha) for sha in wanted[start : start + SHAS_AT_ONCE])
            found += yield from self._all(KnownCommit, space, path, params=params)
        return found

    def pinned(self, space: str) -> Call[dict[str, int]]:
        found = yield from self._all(dict[str, str | int], space, f"{of_space(space)}/pins")
        return {self.exchange.read(str, one, "sha"): self.exchange.read(int, one, "claims") for one in found}
