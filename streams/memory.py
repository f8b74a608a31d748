"""Memory: the one façade. Everything an agent, a command or a server does with slotlog goes through it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from schemas import events as ev
from schemas.checks import DEFAULT_MAX_VALUE_BYTES
from schemas.errors import InvalidEvent, InvalidInput
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
)
from streams.making import Making
from streams.ports import Position
from streams.stores import DEFAULT_STORE
from streams.verbs import appended
from streams.view import ResolvedView, View

if TYPE_CHECKING:
    from streams.compare import Difference
    from streams.explain import Explanation
    from streams.inference import SlotSchema
    from streams.integrity import Problem
    from streams.merging import Merged, MergePlan, Side
    from streams.transfer import Progress, Transferred
    from streams.tree import Node

Point = int | Position | datetime
"""A place in the log of a space: an offset, a Position, or an append time."""


class Memory(ABC):
    """Memory of one store, wherever it is. Safe for several threads; close it, or use it as a context manager.

        with Memory.open("./memory", actor="agent:planner") as memory:
            memory.remember("acme/support", "user:alice", "employer", "Acme")
            memory.get("acme/support", "user:alice", "employer").value

    A write returns once the event is durable on the log and never waits for the tables; a read sees everything
    acknowledged before it was asked, or through an HTTP API everything that this Memory was acknowledged. Times are
    aware datetimes. Where an event id is taken, a UUID or its text will do.

    Any verb may raise StoreClosed after `close`, Unavailable when who has to answer can't at the moment, and
    InvalidInput for a name that is none.
    """

    _making: Making

    @staticmethod
    def open(
        store: str | Path = DEFAULT_STORE,
        *,
        actor: str | None = None,
        hold: bool = True,
        create: bool = True,
        max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES,
        busy_timeout_s: float = 30.0,
        api: str | None = None,
        repository: str | Path | None = None,
    ) -> Memory:
        """Open a store.

        Args:
            store: a folder, `kafka://HOST:PORT/TOPIC`, or the URL of an HTTP API, `http://HOST:PORT`.
            actor: who writes, where a call does not say; default `SLOTLOG_ACTOR`, else `user:` and the login name.
            hold: take the tables for writing at the first read, if nobody has them. A short-lived reader leaves it out.
            create: make an embedded store where there is none.
            max_value_bytes: most bytes of UTF-8 that one value or text may have, up to 950,000.
            busy_timeout_s: most seconds that any call waits for a lock, a broker or a server; the error says for whom.
            api: with `kafka://`, the URL of the API to read through: this process then appends, and keeps no tables.
            repository: a folder in the git repository of the code, for views at its commits. Without one, and through
                an API, they go by the commits that the log tells of.

        Raises:
            InvalidInput: the store's name means nothing, or a setting is out of range.
            NotFound: there is no such store.
            Unavailable: the lock or the broker was not to be had in time.
        """
        if api is not None or str(store).startswith(("http://", "https://")):
            from streams.remote import RemoteMemory  # an HTTP client is imported only by those who use it

            return RemoteMemory(
                str(store), actor=actor, max_value_bytes=max_value_bytes, timeout_s=busy_timeout_s, api=api
            )
        from streams.local import LocalMemory

        clone = None
        if repository is not None:
            from streams.repository import Repository  # git is run only for those who name one

            clone = Repository.find(repository)
            if clone is None:
                raise InvalidInput(f"{repository} is in no git repository", hint="leave repository out")
        return LocalMemory(
            store,
            actor=actor,
            hold=hold,
            create=create,
            max_value_bytes=max_value_bytes,
            timeout_s=busy_timeout_s,
            clone=clone,
        )

    @abstractmethod
    def close(self) -> None:
        """Flush the tables and let go of everything. Twice is harmless; any use afterwards raises StoreClosed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What writes. Each verb is one event; none changes or removes another.

    remember = appended(Making.remember)
    end = appended(Making.end)
    forget = appended(Making.forget)
    observe = appended(Making.observe)
    review = appended(Making.review)
    forbid = appended(Making.forbid)
    allow = appended(Making.allow)
    declare = appended(Making.declare)
    policy = appended(Making.policy)
    distrust = appended(Making.distrust)
    trust = appended(Making.trust)
    fork = appended(Making.fork)
    rollback = appended(Making.rollback)
    delete_branch = appended(Making.delete_branch)

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
    ) -> Merged:
        """Merge a branch into another, whole or in the (entity, slot) pairs `only`, unless slots conflict: both sides
        said something about them, and they believe different things. `take` settles conflicts: with retractions and
        assertions whose cause is the merge, each such slot is made what the one side believes, `ours` (of `into`) or
        `theirs` (of `source`). Nothing is appended where there is nothing to merge.

        Raises:
            MergeConflict: slots conflict, and `take` is not given; nothing was written.
        """
        from streams.merging import Merged, refuse_conflicts

        plan = self.merge_plan(space, source, into=into, take=take, only=only, session=session, actor=actor)
        refuse_conflicts(plan, take)
        return Merged(plan, tuple(self.append(plan.events)))

    @abstractmethod
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
    ) -> MergePlan:
        """What `merge` would meet and do; writes nothing."""

    @abstractmethod
    def preview(
        self, space: str, events: Iterable[ev.Event | Mapping[str, Any]], view: View = View()
    ) -> list[Difference]:
        """What the answers through `view` would be otherwise if these events of the space were appended now; writes
        nothing.

        Raises:
            InvalidEvent: one of them would not count.
        """

    @abstractmethod
    def append(self, events: Iterable[ev.Event | Mapping[str, Any]]) -> list[Receipt]:
        """Append events, or their JSON forms, in order; a receipt for each. Embedded, all of them or none are there.

        What a JSON form leaves out of `event_id`, `recorded_at`, `actor` and `branch` is filled in.

        Raises:
            InvalidEvent: one of them breaks a rule or names nothing known; nothing was written.
        """

    @abstractmethod
    def check(self, events: Iterable[ev.Event | Mapping[str, Any]]) -> list[InvalidEvent | None]:
        """What `append` would refuse: an error per event that breaks a rule, None for the others. Writes nothing."""

    @abstractmethod
    def wait(self, receipt: Receipt, timeout_s: float | None = None) -> Receipt:
        """The receipt as it stands once its event is folded, by whoever folds; at most `timeout_s` later (default: the
        `busy_timeout_s` of this Memory).

        Raises:
            NotReached: it was not folded in time.
        """

    # What reads through a View.

    @abstractmethod
    def get(self, space: str, entity: str, slot: str, view: View = View()) -> Answer:
        """What is believed of entity:slot: a Belief or None; a list for a slot declared to hold many.

        Raises:
            InvalidView: the view can't be answered on this log.
        """

    @abstractmethod
    def entity(self, space: str, entity: str, view: View = View()) -> dict[str, Belief | list[Belief]]:
        """Every slot of the entity of which anything is believed, in the order of their names."""

    @abstractmethod
    def history(self, space: str, entity: str, slot: str, view: View = View()) -> list[Belief]:
        """The slot's beliefs along valid time, ascending, as known at the view's offset; each with what ended it."""

    @abstractmethod
    def changes(self, space: str, entity: str, slot: str, view: View = View()) -> list[Change]:
        """How the answer for the view's instant changed along offsets, ascending, up to the view's offset."""

    @abstractmethod
    def explain(self, space: str, entity: str, slot: str, view: View = View()) -> Explanation:
        """Why the slot answers as it does: every claim about it with its event, what was said of it and its outcome."""

    @abstractmethod
    def diff(self, space: str, view_a: View, view_b: View = View()) -> list[Difference]:
        """Slots whose answers through the two views differ in value or trust, by entity, then slot."""

    @abstractmethod
    def schema(self, space: str, view: View = View()) -> list[SlotSchema]:
        """Every slot by name: inferred types, counts, what is declared, and a suggested cardinality with evidence."""

    @abstractmethod
    def policy_in_force(self, space: str, view: View = View()) -> tuple[ev.PolicyRule, ...]:
        """The rules of the trust policy that counts through the view, in order; empty when there is none."""

    @abstractmethod
    def declarations(self, space: str, view: View = View()) -> list[ev.SlotDeclared]:
        """Every declaration of a slot that counts through the view, in the order they were made."""

    @abstractmethod
    def timeline(
        self, space: str, entity: str | None = None, slot: str | None = None, view: View = View()
    ) -> Iterator[Recorded]:
        """Every event of the space that counts through the view, ascending; of one entity or slot if named."""

    @abstractmethod
    def resolve(self, space: str, view: View = View()) -> ResolvedView:
        """What `view` means for the space now; asking through it gives the same answers for ever."""

    # What reads the log, and what is counted of it. No View plays a part.

    @abstractmethod
    def event(self, space: str, event_id: UUID | str) -> Recorded:
        """The event with this id, with its place and append time.

        Raises:
            NotFound: the space has none that counts.
        """

    @abstractmethod
    def known_at(self, space: str, event_id: UUID | str) -> Known:
        """What whoever wrote this event could know: the view up to the newest event they had been shown (`seen`), at
        the event's own append time. Where `seen` is missing, up to the event before it, marked as assumed.

        Raises:
            NotFound: the space has no such event.
        """

    @abstractmethod
    def replay(
        self, space: str, session: str | None = None, start: Point | None = None, end: Point | None = None
    ) -> Iterator[Recorded]:
        """Events of the space, or of one session, read again from the log in order.

        Args:
            start: where to begin, inclusive: an offset, a Position, or a time (the first event from then on).
            end: where to stop, exclusive, likewise. Default: the end of the log as of this call.

        Raises:
            NotFound: the space knows no such session.
            InvalidView: a point names another partition.
        """

    @abstractmethod
    def branches(self, space: str, *, deleted: bool = False) -> list[Branch]:
        """The branches of the space, main first, then as they were forked; with those that were deleted, if asked."""

    @abstractmethod
    def branch_log(self, space: str, branch: str) -> list[BranchChange]:
        """What made the branch, was merged into it, rolled it back and deleted it, ascending; and whether it counts."""

    @abstractmethod
    def ls(self, space: str, prefix: str = "", view: View | None = None) -> list[Node]:
        """The tree of entities one step below `prefix`, by the segments of their names between slashes. With a view,
        only slots of which it believes something are counted, and each is asked; without, all that were ever named."""

    @abstractmethod
    def commits(self, space: str, shas: Iterable[str] | None = None) -> list[KnownCommit]:
        """What the log tells of these commits of the code, or of all, by id."""

    @abstractmethod
    def pinned(self, space: str) -> dict[str, int]:
        """Commit of the code to the number of facts and ends that are pinned to it."""

    @abstractmethod
    def sessions(self, space: str) -> list[Session]:
        """Every session of the space, in the order of their first events."""

    @abstractmethod
    def reached(self, space: str) -> Position:
        """The last offset of the space's partition that is folded, -1 for none: an answer that is asked for from now on
        is at least of that moment."""

    @abstractmethod
    def quarantined(self) -> list[Quarantined]:
        """Every record of the log that does not count, with the reason; by position."""

    # What looks after a store. The verbs below `info` work on the log itself: through an API they are refused.

    @abstractmethod
    def digest(self) -> tuple[str, dict[str, str]]:
        """(one hash over everything, space to hash): equal for equal memory, wherever it was folded."""

    @abstractmethod
    def info(self) -> Info:
        """What the store holds, as of now."""

    @abstractmethod
    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Fold the whole log again into fresh tables and put them in the place of the old ones.

        Args:
            progress: called with the next offset and the end, after each batch of each partition.

        Raises:
            StoreBusy: another process holds the tables.
        """

    @abstractmethod
    def copy(self, target: Memory, progress: Progress | None = None) -> Transferred:
        """Copy every event to another store, which may have events already and another number of partitions.

        Append times and what is quarantined stay as they are. Doing it twice changes nothing, so after an interruption
        it may simply be done again.
        """

    @abstractmethod
    def export(self, path: str | Path, progress: Progress | None = None) -> int:
        """Write every event to an archive, an Avro container file with a checksum chain; returns how many there were.

        The file is there whole or not at all.
        """

    @abstractmethod
    def import_(self, path: str | Path, progress: Progress | None = None) -> Transferred:
        """Append what an archive holds and this store does not. Importing twice changes nothing.

        Raises:
            StoreDamaged: the archive is damaged or cut off; nothing of it was appended.
        """

    @abstractmethod
    def verify(self) -> list[Problem]:
        """Read the whole log again and compare it with what was folded, byte for byte; what differs is named.

        Finds an edit, a gap, a change of order, an insertion and a cut, and tables that were altered by hand.
        """

    @abstractmethod
    def vouched(self) -> tuple[int, int]:
        """(offsets that an earlier fold vouches for, offsets in all). `verify` can't find an edit of a record that
        nobody had folded into tables before; asked first, this says how much of the log that is."""

    @abstractmethod
    def flaws(self) -> list[str]:
        """What the log's own storage finds wrong: a damaged file, a folder open to others, a setting of the topic."""

    @property
    @abstractmethod
    def tables_folder(self) -> Path:
        """Where the tables are kept. They are derived: deleting it costs a rebuild and loses nothing."""
