"""Who and what is distrusted: the words about actors, branches and commits that were known by an offset. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schemas import events as ev
from schemas.times import Micros


class Origin(NamedTuple):
    """Where an event stands and what it is from: what distrust goes by."""

    offset: int
    append_time: Micros
    actor: str
    branch: str
    sha: str | None


class Rule(NamedTuple):
    """One event that rules the whole space, and where it stands. `since_offset` belongs to an ActorDistrusted that
    names an event: that event's offset."""

    offset: int
    append_time: Micros
    event: ev.Event
    since_offset: int = 0


class _Word(NamedTuple):
    said_at: int
    since_offset: int
    since_time: Micros | None

    def reaches(self, offset: int, append_time: Micros) -> bool:
        return offset >= self.since_offset if self.since_time is None else append_time >= self.since_time


class Distrust:
    """The newest word about each, where that is distrust. Whoever wrote it: distrust annuls no distrust."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """`rules` ascending by offset, all of them known."""
        kinds: dict[str, dict[str, _Word]] = {"actor": {}, "branch": {}, "commit": {}}
        for rule in rules:
            match rule.event:
                case ev.ActorDistrusted(about=about, about_kind=kind, since_time=since_time):
                    kinds[kind][about] = _Word(rule.offset, rule.since_offset, since_time)
                case ev.ActorTrusted(about=about, about_kind=kind):
                    kinds[kind].pop(about, None)
                case _:
                    pass
        self._actors, self._branches, self._commits = kinds["actor"], kinds["branch"], kinds["commit"]
        self.of_actors_only = not (self._branches or self._commits)
        self._any = bool(self._actors or self._branches or self._commits)

    def __bool__(self) -> bool:
        return self._any

    @property
    def actors(self) -> Iterable[str]:
        """Actors of whom something, or everything, does not count."""
        return self._actors.keys()

    def said_at(self, origin: Origin) -> int | None:
        """Offset of the word because of which an event does not count; None when it counts."""
        for words, name in ((self._actors, origin.actor), (self._branches, origin.branch), (self._commits, origin.sha)):
            word = words.get(name) if name is not None else None
            if word is not None and word.reaches(origin.offset, origin.append_time):
                return word.said_at
        return None

    def hides_all_of(self, actor: str, since: int) -> bool:
        """Whether nothing that the actor wrote from offset `since` on counts."""
        word = self._actors.get(actor)
        return word is not None and word.since_time is None and word.since_offset <= since
