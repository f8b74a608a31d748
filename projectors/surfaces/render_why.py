"""Reasons as a person reads them: why a slot answers as it does, where two views differ, and what slots hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from projectors.surfaces.output import cut, exact, printable, value, word
from projectors.surfaces.render import because, belief_lines, event_text, held, how, short_sha, what_claimed
from schemas import events as ev
from schemas.jsonform import id_text
from streams import Answer, Belief, ResolvedView
from streams.answers import Known, Recorded, beliefs_of
from streams.compare import Difference
from streams.explain import ExplainedClaim, Explanation, Said
from streams.inference import SlotSchema

_VALUE_CELLS = 200
_OUTCOME_CELLS = 16
_HOLDS = {"one": "one value at an instant", "many": "many values at an instant"}


def view_text(view: ResolvedView) -> str:
    """What a view resolved to."""
    trusted = "" if view.trust == "candidate" else f", {view.trust} alone"
    without = f", without {', '.join(map(word, view.without_actors))}" if view.without_actors else ""
    branch = "" if view.branch == "main" else f", on {word(view.branch)}"
    commits = " and ".join(map(short_sha, view.shas))
    known = f", at commit {commits}, as the {view.ancestry} knows it" if commits else ""
    return f"as of {view.as_of}, at {exact(view.valid_at)}{branch}{known}{trusted}{without}"


def explanation_lines(found: Explanation) -> Iterator[str]:
    """The answer, then every claim with its outcome, what decided it, and who said what of it."""
    beliefs = beliefs_of(found.answer)
    for belief in beliefs:
        yield from belief_lines(belief)
    if not beliefs:
        yield f"nothing is believed of {word(found.entity)} {word(found.slot)}"
    yield ""
    count = "1 claim" if len(found.claims) == 1 else f"{len(found.claims):,} claims, highest rank first"
    yield f"{count}; {_HOLDS[found.cardinality]}"
    yield view_text(found.view)
    for one in found.claims:
        yield ""
        yield from _claim_lines(one)


def _claim_lines(one: ExplainedClaim) -> Iterator[str]:
    event = one.recorded.event
    place = str(one.recorded.position)
    yield f"{place:>5}  {one.outcome:<{_OUTCOME_CELLS}}  {_claimed(one)}"
    session = "" if event.session is None else f", session {word(event.session)}"
    yield f"       by {word(event.actor)}, {one.trust}{session}, appended {exact(one.recorded.append_time)}"
    yield f"       event {id_text(event.event_id)}{_where(event)}"
    if event.cause is not None:
        yield f"       follows from {id_text(event.cause)}"
    if isinstance(event, ev.FactAsserted):
        origin = [*how(event), *([] if event.engine is None else [f"by {word(event.engine)}"])]
        origin += [] if event.source is None else [f"from {printable(event.source)}"]
        if origin:
            yield f"       {', '.join(origin)}"
    if one.because is not None:
        other = one.because
        yield f"       {one.outcome} by {what_claimed(other)}, by {word(other.actor)} at {other.position}"
    for said in one.said:
        yield f"       {_said(said)}"
    if one.decided_by is not None and one.outcome in ("forbidden", "distrusted", "rolled back"):
        by = one.decided_by
        reason = because(getattr(by.event, "reason", None))
        yield f"       {one.outcome} by {word(by.event.actor)} at {by.position}{reason}"


def _where(event: ev.Event) -> str:
    """The branch and the commit that an event is on, where it is on any but main."""
    branch = "" if event.branch == "main" else f", on {word(event.branch)}"
    return branch + (
        "" if event.code is None else f", at commit {short_sha(event.code.sha)} of {word(event.code.repo)}"
    )


def _claimed(one: ExplainedClaim) -> str:
    """What the claim says, with the instants that count where it leaves them to its append time."""
    event, appended = one.recorded.event, one.recorded.append_time
    if isinstance(event, ev.FactEnded):
        what = "an end of what holds" if event.value is None else f"the end of {_short(event.value)}"
        return f"{what}, at {exact(appended if event.at is None else event.at)}{because(event.reason)}"
    assert isinstance(event, ev.FactAsserted)
    since = exact(appended if event.valid_from is None else event.valid_from)
    return f"{_short(event.value)}  from {since} " + ("on" if event.valid_to is None else f"to {exact(event.valid_to)}")


def _short(given: ev.Value) -> str:
    return cut(value(given), _VALUE_CELLS)


def _said(said: Said) -> str:
    recorded = said.recorded
    what = "retracted" if said.verdict is None else f"called {said.verdict}"
    counts = "" if said.counts else ", which does not count"
    reason = because(getattr(recorded.event, "reason", None))
    return f"{what} by {word(recorded.event.actor)} at {recorded.position}{counts}{reason}"


def difference_lines(found: Difference, *, but: Collection[ev.Event] = ()) -> Iterator[str]:
    """The slot and what happened to it; `-` for what only the first view believes and `+` for what only the second
    does; and the event that made it so, where that is not the second view's fact, nor one of `but`."""
    yield f"{word(found.entity)} {word(found.slot)}  {_happened(found)}"
    before, after = _by_value(found.before), _by_value(found.after)
    yield from (f"  - {text}" for place, text in before.items() if place not in after)
    yield from (f"  + {text}" for place, text in after.items() if place not in before)
    if found.by is None or found.by.event in but:
        return
    by, event = found.by, found.by.event
    if by.position not in (belief.position for belief in beliefs_of(found.after)):
        yield f"    by {word(event.actor)} at {by.position}, event {id_text(event.event_id)}: {event_text(event)}"
    session = "" if event.session is None else f"in session {word(event.session)}"
    cause = "" if event.cause is None else f"following from {id_text(event.cause)}"
    if session or cause:
        yield f"    {', '.join(part for part in (session, cause) if part)}"


_HIDDEN = {
    "other branch": "not on that branch",
    "other commit": "not at that commit",
    "unknown commit": "at a commit that is not known",
    "not known": "not known by then",
}


def _happened(found: Difference) -> str:
    """The kind of the difference; and of what was believed, what became of it, unless it was just outdone."""
    outcome = found.outcome
    if found.kind == "gone":
        return "gone" if outcome is None else _HIDDEN.get(outcome, outcome)
    if found.kind == "trust":
        return "trust moved"
    is_told = found.kind == "changed" and outcome is not None and outcome != "outranked" and outcome not in _HIDDEN
    return f"{found.kind}, {outcome}" if is_told else found.kind


def _by_value(answer: Answer) -> dict[tuple[type, object, str], str]:
    return {(type(one.value), one.value, one.trust): _in_one_line(one) for one in beliefs_of(answer)}


def _in_one_line(belief: Belief) -> str:
    return f"{_short(belief.value)}  {held(belief)}, by {word(belief.actor)}, {belief.trust}, at {belief.position}"


def event_lines(found: Recorded) -> Iterator[str]:
    """An event with who wrote it, when, in which session and why."""
    event = found.event
    yield event_text(event)
    session = "" if event.session is None else f", session {word(event.session)}"
    yield f"by {word(event.actor)}{session}, appended {exact(found.append_time)}"
    yield f"event {id_text(event.event_id)}{_where(event)}"
    if event.cause is not None:
        yield f"follows from {id_text(event.cause)}"


def known_lines(known: Known, branch: str, isolates: bool) -> Iterator[str]:
    """What the writer of an event could know, as the options that ask for it where `branch` is the default, and reads
    look at a commit or not."""
    other = "" if known.view.branch == branch else f" --branch {word(known.view.branch)}"
    whatever = " --no-isolate" if isolates else ""
    yield f"--as-of {known.view.as_of} --valid-at {exact(known.view.valid_at)}{other}{whatever}"
    if known.assumed:
        yield "  assumed: the event does not say what its writer had been shown, so this is all that came before it"
    else:
        yield "  up to the newest event that its writer had been shown"


def schema_row(found: SlotSchema) -> tuple[str, ...]:
    """One line of `slotlog schema`."""
    declared: list[str] = [] if found.declared is None else [found.declared.cardinality]
    declared += [f"{word(kind)}: {one.cardinality}" for kind, one in sorted(found.declared_kinds.items())]
    types = ", ".join(f"{name} {count:,}" if len(found.types) > 1 else name for name, count in found.types.items())
    suggested = found.suggested
    evidence = ""
    if suggested.with_several_values:
        evidence = f"{suggested.with_several_values:,} of {suggested.entities:,} with several values"
        evidence += f", {suggested.with_values_side_by_side:,} side by side"
        evidence += f", {suggested.with_one_of_several_ended:,} with one ended"
    counts = (f"{count:,}" for count in (found.facts, found.entities, found.values))
    return (word(found.slot), *counts, types, ", ".join(declared), suggested.cardinality, evidence)


SCHEMA_HEADS = ("SLOT", "FACTS", "ENTITIES", "VALUES", "TYPES", "DECLARED", "SUGGESTED", "EVIDENCE")
