"""Answers as a person reads them: a belief in a few lines, an event in one, a history as lanes along valid time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from projectors.surfaces.output import cells, counted, cut, exact, printable, quoted, seconds, value, word
from schemas import events as ev
from schemas.jsonform import id_text, to_json
from schemas.times import Micros, micros
from streams import Belief, Change, Claimed, Recorded
from streams.answers import beliefs_of
from streams.branching import BRANCHING

_LANE_CELLS_MIN, _LANE_CELLS_MAX = 20, 64
_LABEL_CELLS = 27
_CELL_CELLS = 40
_BESIDE_LANES = 7 + _LABEL_CELLS
_SHA_CHARACTERS = 12
_COMMON_FIELDS = frozenset({"type", *ev.Event.__struct_fields__})


def belief_lines(belief: Belief) -> Iterator[str]:
    """The value, and below it since when, who says so and what speaks against it."""
    yield value(belief.value)
    yield f"  {held(belief)}"
    actors = f", {belief.corroborations} actors say so" if belief.corroborations > 1 else ""
    yield f"  by {word(belief.actor)}, {belief.trust}{actors}, event {belief.event_id} at {belief.position}"
    if belief.contested is not None:
        yield f"  contested by {claim(belief.contested)}"


def held(belief: Belief) -> str:
    """The run in which it is believed."""
    return f"from {exact(belief.valid_from)} " + ("on" if belief.valid_to is None else f"to {exact(belief.valid_to)}")


def claim(named: Claimed) -> str:
    """A claim that another answer refers to, so that it can be found."""
    return f"{what_claimed(named)}, by {word(named.actor)}, event {named.event_id} at {named.position}"


def what_claimed(named: Claimed) -> str:
    """The value that it claims, or what it ends."""
    what = "an end" if named.value is None else cut(value(named.value), _LABEL_CELLS)
    return f"the end of {what}" if named.ended and named.value is not None else what


SlotRow = tuple[str, str, str, str, str]


def slot_rows(found: Mapping[str, Belief | list[Belief]]) -> Iterator[SlotRow]:
    """The table of `slotlog entity`. Slots whose names have slashes stand below their common beginnings, each with the
    number of slots in it."""
    yield from _rows_below(sorted(((slot.split("/"), found[slot]) for slot in found), key=lambda one: one[0]), 0)


def _rows_below(slots: Sequence[tuple[list[str], Belief | list[Belief]]], depth: int) -> Iterator[SlotRow]:
    indent = "  " * depth
    for name, group in groupby(slots, key=lambda one: one[0][depth]):
        listed = list(group)
        for path, answer in listed:
            if len(path) == depth + 1:
                yield from (_slot_row(indent + word(name), belief) for belief in beliefs_of(answer))
        below = [one for one in listed if len(one[0]) > depth + 1]
        if below:
            yield (f"{indent}{word(name)}/", counted(len(below), "slot"), "", "", "")
            yield from _rows_below(below, depth + 1)


def _slot_row(name: str, belief: Belief) -> SlotRow:
    return (
        name,
        cut(value(belief.value), _CELL_CELLS),
        exact(belief.valid_from),
        exact(belief.valid_to),
        word(belief.actor),
    )


# -- events


def event_line(recorded: Recorded) -> str:
    """Offset, append time to the second, actor, and what the event says; in one line whatever its texts hold."""
    place = f"{recorded.position.offset:>4}  {seconds(recorded.append_time)}"
    actor = word(recorded.event.actor)
    return f"{place}  {actor}{' ' * max(0, 12 - cells(actor))}  {event_text(recorded.event)}{_where(recorded.event)}"


def _where(event: ev.Event) -> str:
    """The branch and the commit that it is on, where it is on any but main."""
    branch = [] if event.branch == "main" or isinstance(event, BRANCHING) else [f"on {word(event.branch)}"]
    found = [*branch, *([] if event.code is None else [f"at {short_sha(event.code.sha)}"])]
    return f"  [{', '.join(found)}]" if found else ""


def short_sha(sha: str) -> str:
    """The beginning of a commit's id, enough to tell it apart."""
    return word(sha[:_SHA_CHARACTERS])


def event_text(event: ev.Event) -> str:
    """What the event says."""
    match event:
        case ev.FactAsserted():
            return f"{_slot(event)} = {value(event.value)}{_span(event)}{_bracketed(event)}"
        case ev.FactEnded(value=ended, at=at):
            what = f"{_slot(event)} ends" if ended is None else f"{_slot(event)} = {value(ended)} ends"
            return what + ("" if at is None else f" at {exact(at)}") + because(event.reason)
        case ev.FactRetracted(target=None, value=named):
            carrying = "" if named is None else f" = {value(named)}"
            return f"retracts {word(event.entity or '')} {word(event.slot or '')}{carrying}{because(event.reason)}"
        case ev.FactRetracted(target=target) if target is not None:
            return f"retracts {id_text(target)}{because(event.reason)}"
        case ev.FactReviewed():
            return f"{event.verdict} {id_text(event.target)}{because(event.reason)}"
        case ev.Observed():
            return f"{word(event.role)}: {quoted(event.text)}"
        case ev.SessionStarted():
            return f"session {word(event.session or '')} starts: {word(event.agent)}"
        case ev.SessionEnded():
            return f"session {word(event.session or '')} ends{because(event.outcome)}"
    return _rule_text(event) or _own_fields(event)


def _rule_text(event: ev.Event) -> str | None:
    """What an event says that rules what counts; None for every other."""
    match event:
        case ev.ValueForbidden() | ev.ValueAllowed():
            verb = "forbids" if isinstance(event, ev.ValueForbidden) else "allows"
            what = "a value by its hash" if event.value is None else value(event.value)
            return f"{verb} {word(event.entity)} {word(event.slot)} = {what}{because(event.reason)}"
        case ev.ActorDistrusted(since_event=None, since_time=None):
            return f"distrusts {_about(event)}{because(event.reason)}"
        case ev.ActorDistrusted():
            since = exact(event.since_time) if event.since_event is None else id_text(event.since_event)
            return f"distrusts {_about(event)} since {since}{because(event.reason)}"
        case ev.ActorTrusted():
            return f"trusts {_about(event)} again{because(event.reason)}"
        case ev.SlotDeclared():
            kind = "" if event.entity_kind is None else f" of {word(event.entity_kind)}"
            return f"declares {word(event.slot)}{kind} to hold {event.cardinality}"
        case ev.PolicySet():
            rules = ", ".join(f"{word(rule.actors)} {rule.starting_trust}" for rule in event.rules)
            return f"sets the trust policy: {rules or 'no rules'}"
        case ev.FactPinned():
            return f"{'pins' if event.pinned else 'unpins'} {id_text(event.target)}"
        case ev.CommitSeen():
            became = "" if event.rewritten_from is None else f", which {short_sha(event.rewritten_from)} became"
            return f"commit {short_sha(event.sha)} of {word(event.repo)}{became}"
        case _:
            return _branch_text(event)


def _branch_text(event: ev.Event) -> str | None:
    """What an event says that makes or changes a branch; None for every other."""
    branch = word(event.branch)
    match event:
        case ev.BranchForked(at=at):
            return f"forks {branch} from {word(event.parent)}" + ("" if at is None else f" as of {id_text(at)}")
        case ev.BranchMerged(slots=slots):
            only = "" if slots is None else " only " + ", ".join(f"{word(o.entity)} {word(o.slot)}" for o in slots)
            return f"merges {word(event.from_branch)} into {branch}{only}"
        case ev.BranchRolledBack():
            return f"rolls {branch} back to {id_text(event.to)}{because(event.reason)}"
        case ev.BranchDeleted():
            return f"deletes {branch}{because(event.reason)}"
        case _:
            return None


def _about(event: ev.ActorDistrusted | ev.ActorTrusted) -> str:
    return word(event.about) if event.about_kind == "actor" else f"{event.about_kind} {word(event.about)}"


def _own_fields(event: ev.Event) -> str:
    own = {name: part for name, part in to_json(event).items() if name not in _COMMON_FIELDS}
    return f"{type(event).__name__} {printable(msgspec.json.encode(own).decode())}"


def _slot(event: ev.FactAsserted | ev.FactEnded) -> str:
    return f"{word(event.entity)} {word(event.slot)}"


def _span(event: ev.FactAsserted) -> str:
    since = "" if event.valid_from is None else f" from {exact(event.valid_from)}"
    return since + ("" if event.valid_to is None else f" to {exact(event.valid_to)}")


def how(event: ev.FactAsserted) -> list[str]:
    """How it is known, where that is not simply stated."""
    said: list[str] = [] if event.origin == "stated" else [event.origin]
    if event.confidence is not None:
        said.append(f"confidence {event.confidence:g}")
    return said


def _bracketed(event: ev.FactAsserted) -> str:
    said = how(event)
    return f" ({', '.join(said)})" if said else ""


def because(reason: str | None) -> str:
    """A reason, as it is put behind what it is the reason of."""
    return "" if reason is None else f": {printable(reason)}"


# -- history


def lanes(beliefs: Sequence[Belief], columns: int) -> Iterator[str]:
    """The beliefs along valid time, each in a lane of its own, to scale; then each with what it rests on.

    The scale runs from the earliest start to the latest time that anything here has, or the instant asked about.
    """
    room = max(_LANE_CELLS_MIN, min(_LANE_CELLS_MAX, columns - _BESIDE_LANES))
    asked = beliefs[0].view.valid_at
    starts = [micros(belief.valid_from) for belief in beliefs]
    stops = [None if belief.valid_to is None else micros(belief.valid_to) for belief in beliefs]
    first = min(starts)
    last = max(*starts, asked, *(stop for stop in stops if stop is not None), first + 1)

    def cell(at: Micros) -> int:
        return min(room, (at - first) * room // (last - first))

    yield _axis(first, last, room)
    for number, (belief, start, stop) in enumerate(zip(beliefs, starts, stops, strict=True), 1):
        lane = _lane(cell(start), room if stop is None else cell(stop), room, open_ended=stop is None)
        yield f"{number:>3}  {lane}  {cut(value(belief.value), _LABEL_CELLS)}"
    yield ""
    for number, belief in enumerate(beliefs, 1):
        yield f"{number:>3}  {value(belief.value)}  {held(belief)}"
        yield f"     by {word(belief.actor)}, {belief.trust}, event {belief.event_id} at {belief.position}"
        if belief.contested is not None:
            yield f"     contested by {claim(belief.contested)}"
        if belief.superseded_by is not None:
            yield f"     superseded by {claim(belief.superseded_by)}"


def _axis(first: Micros, last: Micros, room: int) -> str:
    left, right = seconds(first), seconds(last)
    gap = room - len(left) - len(right)
    return f"     {left}{' ' * gap}{right}" if gap > 0 else f"     {left} to {right}"


def _lane(start: int, stop: int, room: int, *, open_ended: bool) -> str:
    """`├──┤` from cell `start`, inclusive, to `stop`, exclusive, at least one cell wide; `├──▶` when it has no end."""
    start = min(start, room - 1)
    stop = max(stop, start + 1)
    tip = "▶" if open_ended else "┤"
    drawn = (
        tip if stop - start == 1 and open_ended else "│" if stop - start == 1 else f"├{'─' * (stop - start - 2)}{tip}"
    )
    return " " * start + drawn + " " * (room - stop)


def change_lines(changes: Sequence[Change]) -> Iterator[str]:
    """Offset by offset what the answer became, and the event that made it so."""
    for change in changes:
        now = ", ".join(value(belief.value) for belief in change.beliefs) or "nothing"
        place = f"{change.position.offset:>4}  {seconds(change.append_time)}"
        yield f"{place}  {now}  since {word(change.event.actor)} wrote {event_text(change.event)}"
