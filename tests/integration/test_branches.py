"""Branches of memory through the façade: what each rule of a branch means, by an example, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from quick_folder import quick_folder

from schemas.errors import InvalidEvent, InvalidInput, InvalidView, MergeConflict, NotFound
from streams import Belief, Memory, Receipt
from streams.view import View

SPACE, ALICE = "acme/support", "user:alice"
PLANNER = "agent:planner"


@pytest.fixture
def memory() -> Iterator[Memory]:
    with quick_folder() as folder, Memory.open(folder, actor=PLANNER) as opened:
        opened.info()  # takes the tables, so that receipts say what became of an event
        yield opened


def say(memory: Memory, value: Any, branch: str = "main", slot: str = "employer", **fields: Any) -> Receipt:
    return memory.remember(SPACE, ALICE, slot, value, branch=branch, **fields)


def value(memory: Memory, branch: str = "main", slot: str = "employer", as_of: Receipt | None = None) -> Any:
    view = View(branch=branch, as_of=None if as_of is None else as_of.position, valid_at=datetime.now(UTC))
    answer = memory.get(SPACE, ALICE, slot, view)
    assert not isinstance(answer, list)
    return None if answer is None else answer.value


# -- what a branch shows


def test_a_branch_shows_its_own_and_what_its_parent_showed_at_the_fork(memory: Memory) -> None:
    say(memory, "Acme")
    memory.fork(SPACE, "idea")
    say(memory, "Globex")
    assert (value(memory), value(memory, "idea")) == ("Globex", "Acme")
    say(memory, "Initech", "idea")
    assert (value(memory), value(memory, "idea")) == ("Globex", "Initech")


def test_a_fork_at_an_earlier_event(memory: Memory) -> None:
    first = say(memory, "Acme")
    say(memory, "Globex")
    memory.fork(SPACE, "idea", at=first.event_id)
    assert value(memory, "idea") == "Acme"


def test_a_branch_of_a_branch(memory: Memory) -> None:
    say(memory, "Acme")
    memory.fork(SPACE, "idea")
    say(memory, "Globex", "idea")
    memory.fork(SPACE, "idea/deep", parent="idea")
    say(memory, "Initech", "idea")
    say(memory, 7, "idea/deep", "seats")
    assert [value(memory, one) for one in ("main", "idea", "idea/deep")] == ["Acme", "Initech", "Globex"]
    assert [value(memory, one, "seats") for one in ("main", "idea", "idea/deep")] == [None, None, 7]


def test_a_sibling_hides_nothing_though_it_is_newer(memory: Memory) -> None:
    say(memory, "Acme", valid_from=datetime(2026, 1, 1, tzinfo=UTC))
    memory.fork(SPACE, "idea")
    say(memory, "Globex", "idea", valid_from=datetime(2026, 2, 1, tzinfo=UTC))
    assert value(memory) == "Acme"


def test_a_parent_rolled_back_after_the_fork_changes_nothing_in_the_child(memory: Memory) -> None:
    first = say(memory, "Acme")
    say(memory, "Globex")
    memory.fork(SPACE, "idea")
    before = memory.resolve(SPACE).view()
    rolled = memory.rollback(SPACE, "main", first.event_id, actor="user:ana")
    assert (value(memory), value(memory, "idea")) == ("Acme", "Globex")
    (told,) = memory.diff(SPACE, before)
    assert (told.kind, told.outcome) == ("changed", "rolled back")
    assert told.by is not None
    assert (told.by.position, told.by.event.actor) == (rolled.position, "user:ana")


def test_a_retraction_on_a_branch_is_of_the_branch_until_it_is_merged(memory: Memory) -> None:
    say(memory, "Acme")
    memory.fork(SPACE, "idea")
    memory.forget(SPACE, ALICE, "employer", branch="idea")
    later = say(memory, "Globex")
    assert (value(memory), value(memory, "idea")) == ("Globex", None)
    memory.merge(SPACE, "idea", take="theirs")
    assert value(memory) is None
    assert value(memory, as_of=later) == "Globex"


def test_a_retraction_by_name_reaches_only_what_its_branch_showed(memory: Memory) -> None:
    memory.fork(SPACE, "idea")
    say(memory, "Acme")
    with pytest.raises(InvalidEvent, match="no fact or end of user:alice employer is known on branch idea"):
        memory.forget(SPACE, ALICE, "employer", branch="idea")
    say(memory, "Globex", "idea")
    memory.forget(SPACE, ALICE, "employer", branch="idea")
    assert (value(memory), value(memory, "idea")) == ("Acme", None)
    memory.merge(SPACE, "idea", only=[(ALICE, "seats")])
    assert [one.outcome for one in memory.explain(SPACE, ALICE, "employer").claims] == ["other branch", "believed"]


# -- merging


def test_a_merge_brings_what_the_branch_said(memory: Memory) -> None:
    say(memory, "Acme")
    memory.fork(SPACE, "idea")
    say(memory, "Globex", "idea")
    before = memory.resolve(SPACE)
    merged = memory.merge(SPACE, "idea")
    assert [receipt.status for receipt in merged.receipts] == ["applied"]
    assert [(one.slot, one.kind) for one in merged.plan.changes] == [("employer", "changed")]
    assert value(memory) == "Globex"
    as_of_before = memory.get(SPACE, ALICE, "employer", before.view())
    assert isinstance(as_of_before, Belief)
    assert as_of_before.value == "Acme"
    assert memory.merge(SPACE, "idea").receipts == ()


def test_a_merge_into_a_third_brings_nothing_that_was_inherited(memory: Memory) -> None:
    memory.fork(SPACE, "fix")
    say(memory, "Acme")
    memory.fork(SPACE, "idea")
    say(memory, 7, "idea", "seats")
    memory.merge(SPACE, "idea", into="fix")
    assert (value(memory, "fix"), value(memory, "fix", "seats")) == (None, 7)


def test_conflicts_are_shown_with_both_sides_and_nothing_is_written(memory: Memory) -> None:
    base = say(memory, "Acme")
    memory.fork(SPACE, "idea")
    ours, theirs = say(memory, "Globex"), say(memory, "Initech", "idea", actor="agent:other")
    end = memory.info().partitions[0].next
    with pytest.raises(MergeConflict, match="idea and main both changed user:alice employer") as caught:
        memory.merge(SPACE, "idea")
    assert caught.value.slots == ((ALICE, "employer"),)
    (conflict,) = memory.merge_plan(SPACE, "idea").conflicts
    sides = (conflict.base, conflict.ours, conflict.theirs)
    assert [(one.value, one.event_id, one.actor) for one in sides if isinstance(one, Belief)] == [
        ("Acme", base.event_id, PLANNER),
        ("Globex", ours.event_id, PLANNER),
        ("Initech", theirs.event_id, "agent:other"),
    ]
    assert memory.info().partitions[0].next == end


@pytest.mark.parametrize(("take", "kept"), [("ours", "Globex"), ("theirs", "Initech")])
def test_a_side_taken_is_said_by_events_whose_cause_is_the_merge(memory: Memory, take: Any, kept: str) -> None:
    say(memory, "Acme")
    memory.fork(SPACE, "idea")
    say(memory, "Globex")
    say(memory, "Initech", "idea")
    say(memory, 7, "idea", "seats")
    merged = memory.merge(SPACE, "idea", take=take)
    assert (value(memory), value(memory, slot="seats")) == (kept, 7)
    merge, *settling = merged.plan.events
    assert settling
    assert {one.cause for one in settling} == {merge.event_id}
    assert value(memory, "idea") == "Initech"


def test_both_said_the_same_is_no_conflict(memory: Memory) -> None:
    memory.fork(SPACE, "idea")
    say(memory, "Acme")
    say(memory, "Acme", "idea")
    assert memory.merge_plan(SPACE, "idea").conflicts == ()


def test_of_many_values_only_those_that_both_touched_conflict(memory: Memory) -> None:
    memory.declare(SPACE, "reads", cardinality="many")
    say(memory, "Dune", slot="reads")
    memory.fork(SPACE, "idea")
    say(memory, "Emma", slot="reads")
    say(memory, "Ulysses", "idea", slot="reads")
    assert memory.merge_plan(SPACE, "idea").conflicts == ()
    memory.end(SPACE, ALICE, "reads", value="Dune")
    say(memory, "Dune", "idea", slot="reads")
    assert [one.slot for one in memory.merge_plan(SPACE, "idea").conflicts] == ["reads"]


def test_only_some_slots_are_merged(memory: Memory) -> None:
    memory.fork(SPACE, "idea")
    say(memory, "Globex", "idea")
    say(memory, 7, "idea", "seats")
    memory.merge(SPACE, "idea", only=[(ALICE, "seats")])
    assert (value(memory), value(memory, slot="seats")) == (None, 7)
    memory.merge(SPACE, "idea")
    assert value(memory) == "Globex"


# -- rolling back


def test_a_rollback_hides_later_own_events_as_of_the_rollback(memory: Memory) -> None:
    first, second = say(memory, "Acme"), say(memory, "Globex")
    rolled = memory.rollback(SPACE, "main", first.event_id, reason="poisoned")
    assert (value(memory), value(memory, as_of=second)) == ("Acme", "Globex")
    say(memory, 7, slot="seats")
    assert value(memory, slot="seats") == 7
    claims = memory.explain(SPACE, ALICE, "employer").claims
    assert [one.outcome for one in claims] == ["rolled back", "believed"]
    assert claims[0].decided_by is not None
    assert claims[0].decided_by.position == rolled.position


def test_a_rollback_is_rolled_back(memory: Memory) -> None:
    first, second = say(memory, "Acme"), say(memory, "Globex")
    memory.rollback(SPACE, "main", first.event_id)
    memory.rollback(SPACE, "main", second.event_id)
    assert value(memory) == "Globex"
    assert [one.counts for one in memory.branch_log(SPACE, "main")] == [False, True]


def test_a_rollback_across_a_merge_takes_back_what_it_brought(memory: Memory) -> None:
    first = say(memory, "Acme")
    memory.fork(SPACE, "idea")
    say(memory, "Globex", "idea")
    memory.merge(SPACE, "idea")
    assert value(memory) == "Globex"
    memory.rollback(SPACE, "main", first.event_id)
    assert (value(memory), value(memory, "idea")) == ("Acme", "Globex")
    memory.merge(SPACE, "idea")
    assert value(memory) == "Globex"


def test_what_a_distrusted_actor_merged_or_rolled_back_is_as_if_it_had_not(memory: Memory) -> None:
    first = say(memory, "Acme")
    say(memory, "Globex")
    memory.rollback(SPACE, "main", first.event_id, actor="agent:bad")
    assert value(memory) == "Acme"
    memory.distrust(SPACE, "agent:bad")
    assert value(memory) == "Globex"


# -- deleting, and names


def test_a_deleted_branch_is_hidden_and_keeps_its_audit(memory: Memory) -> None:
    memory.fork(SPACE, "idea")
    said = say(memory, "Globex", "idea")
    memory.fork(SPACE, "idea/deep", parent="idea")
    memory.delete_branch(SPACE, "idea", reason="done with")
    with pytest.raises(InvalidView, match="branch 'idea' was deleted at offset 3"):
        value(memory, "idea")
    with pytest.raises(InvalidEvent, match="branch 'idea' was deleted"):
        say(memory, "Acme", "idea")
    with pytest.raises(InvalidEvent, match="names are never used again"):
        memory.fork(SPACE, "idea")
    assert (value(memory, "idea", as_of=said), value(memory, "idea/deep")) == ("Globex", "Globex")
    assert [one.name for one in memory.branches(SPACE)] == ["main", "idea/deep"]
    assert [one.name for one in memory.branches(SPACE, deleted=True)] == ["main", "idea", "idea/deep"]


@pytest.mark.parametrize(
    ("write", "complaint"),
    [
        (lambda m: m.fork(SPACE, "main"), "the name 'main' is taken"),
        (lambda m: m.fork(SPACE, "idea"), "the name 'idea' is taken"),
        (lambda m: m.fork(SPACE, "new", parent="nowhere"), "parent: the space has no branch 'nowhere'"),
        (lambda m: m.fork(SPACE, "new", at="0195d0a4-7c00-7000-8000-000000000007"), "at: no event .* is known"),
        (lambda m: m.rollback(SPACE, "idea", "0195d0a4-7c00-7000-8000-000000000007"), "to: no event .* is known"),
        (lambda m: m.rollback(SPACE, "nowhere", "0195d0a4-7c00-7000-8000-000000000007"), "no branch 'nowhere'"),
        (lambda m: m.delete_branch(SPACE, "main"), "main can't be deleted"),
        (lambda m: say(m, "Acme", "nowhere"), "branch: the space has no branch 'nowhere'"),
        (lambda m: m.merge(SPACE, "idea", into="idea"), "can't be merged into itself"),
        (lambda m: m.merge(SPACE, "idea", take="mine"), "take 'mine' is no side"),
    ],
)
def test_what_can_not_be_is_refused_and_not_written(memory: Memory, write: Any, complaint: str) -> None:
    memory.fork(SPACE, "idea")
    end = memory.info().partitions[0].next
    with pytest.raises(InvalidInput, match=complaint):
        write(memory)
    assert memory.info().partitions[0].next == end


def test_a_branch_that_never_was_has_no_log(memory: Memory) -> None:
    with pytest.raises(NotFound, match="has no branch 'idea'"):
        memory.branch_log(SPACE, "idea")
    with pytest.raises(InvalidView, match="has no branch 'idea'"):
        memory.resolve(SPACE, View(branch="idea"))


# -- what is told


def test_a_fork_its_facts_and_their_retraction_in_one_append(memory: Memory) -> None:
    events = [
        {"type": "BranchForked", "space": SPACE, "branch": "idea", "parent": "main"},
        {
            "type": "FactAsserted",
            "space": SPACE,
            "branch": "idea",
            "entity": ALICE,
            "slot": "employer",
            "value": "Acme",
        },
        {"type": "FactRetracted", "space": SPACE, "branch": "idea", "entity": ALICE, "slot": "employer"},
    ]
    assert [receipt.status for receipt in memory.append(events)] == ["applied"] * 3
    assert value(memory, "idea") is None


def test_a_preview_of_distrust_is_what_it_does(memory: Memory) -> None:
    say(memory, "Acme")
    say(memory, "Globex", actor="agent:bad")
    event = {"type": "ActorDistrusted", "space": SPACE, "about": "agent:bad"}
    (told,) = memory.preview(SPACE, [event])
    assert (told.slot, told.kind, told.outcome) == ("employer", "changed", "distrusted")
    assert value(memory) == "Globex"
    memory.append([event])
    assert value(memory) == "Acme"
    memory.trust(SPACE, "agent:bad")
    assert value(memory) == "Globex"


def test_a_branch_is_distrusted_wherever_it_was_merged(memory: Memory) -> None:
    say(memory, "Acme")
    memory.fork(SPACE, "idea")
    say(memory, "Globex", "idea")
    memory.merge(SPACE, "idea")
    assert value(memory) == "Globex"
    memory.distrust(SPACE, "idea", kind="branch")
    assert value(memory) == "Acme"
    memory.trust(SPACE, "idea", kind="branch")
    assert value(memory) == "Globex"


def test_a_diff_says_what_became_of_it_and_who_did_it(memory: Memory) -> None:
    say(memory, "Acme")
    say(memory, 7, slot="seats")
    say(memory, "red", slot="colour")
    say(memory, "pro", slot="plan")
    said = say(memory, "Lund", slot="city")
    then = memory.resolve(SPACE).view()
    say(memory, "Globex", actor="agent:b")
    memory.end(SPACE, ALICE, "seats", actor="agent:c")
    memory.forbid(SPACE, ALICE, "colour", "RED", actor="user:ana")
    memory.forget(SPACE, ALICE, "plan", actor="agent:d")
    memory.review(SPACE, said.event_id, "verified", actor="user:bo")
    say(memory, 3, slot="floor", actor="agent:e")
    told = {one.slot: one for one in memory.diff(SPACE, then)}
    assert {slot: (one.kind, one.outcome, one.by and one.by.event.actor) for slot, one in told.items()} == {
        "employer": ("changed", "outranked", "agent:b"),
        "seats": ("gone", "ended", "agent:c"),
        "colour": ("gone", "forbidden", "user:ana"),
        "plan": ("gone", "retracted", "agent:d"),
        "city": ("trust", "believed", "user:bo"),
        "floor": ("added", None, "agent:e"),
    }


def test_who_wrote_on_a_branch_knew_the_branch(memory: Memory) -> None:
    say(memory, "Acme")
    memory.fork(SPACE, "idea")
    say(memory, "Globex", "idea")
    assert value(memory, "idea") == "Globex"
    decided = say(memory, 7, "idea", "seats")
    known = memory.known_at(SPACE, decided.event_id)
    assert (known.view.branch, known.assumed) == ("idea", False)
    answer = memory.get(SPACE, ALICE, "employer", known.view.view())
    assert isinstance(answer, Belief)
    assert answer.value == "Globex"


def test_who_had_seen_nothing_since_before_the_fork_knew_the_parent(memory: Memory) -> None:
    say(memory, "Acme")
    assert value(memory) == "Acme"
    memory.fork(SPACE, "idea")
    decided = say(memory, 7, "idea", "seats")
    assert memory.known_at(SPACE, decided.event_id).view.branch == "main"


def test_a_tree_of_entities(memory: Memory) -> None:
    for entity in ("repo/src/api", "repo/src/api/auth", "repo/docs", "repo", "repository"):
        memory.remember(SPACE, entity, "owner", "ana")
    memory.remember(SPACE, "repo/docs", "state", "draft")
    memory.forget(SPACE, "repo/docs", "state")
    assert [(one.name, one.is_entity, one.entities, one.slots) for one in memory.ls(SPACE)] == [
        ("repo", True, 4, 5),
        ("repository", True, 1, 1),
    ]
    assert [(one.path, one.is_entity, one.entities, one.slots) for one in memory.ls(SPACE, "repo", View())] == [
        ("repo/docs", True, 1, 1),
        ("repo/src", False, 2, 2),
    ]
    assert memory.ls(SPACE, "rep") == []
