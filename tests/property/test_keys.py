"""Keys sort as their parts do, and a prefix of whole parts matches those parts only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from streams import keys

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_edges = st.text(st.sampled_from("\x00\x01\x02aA/ÿ\u00ff\ud7ff\uffff\U0010ffff"), max_size=4)
_texts = st.one_of(_edges, st.text(max_size=6))
_ints = st.one_of(st.integers(_LONG_MIN, _LONG_MAX), st.sampled_from((-1, 0, 1, _LONG_MIN, _LONG_MAX)))
_slots = st.tuples(_texts, _texts, _texts)


def _plain(parts: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in parts)


@examples(300)
@given(first=st.tuples(_slots, _ints, _ints), second=st.tuples(_slots, _ints, _ints))
def test_claim_keys_sort_as_their_parts(
    first: tuple[tuple[str, str, str], int, int], second: tuple[tuple[str, str, str], int, int]
) -> None:
    """By space, entity and slot as UTF-8, then by instant, then by offset."""
    one, two = (keys.claim(keys.slot_part(*slot), at, offset) for slot, at, offset in (first, second))
    assert (one < two) == ((_plain(first[0]), first[1:]) < (_plain(second[0]), second[1:]))
    assert (one == two) == (first == second)


@examples(200)
@given(parts=_slots, at=_ints, offset=_ints)
def test_parts_come_back(parts: tuple[str, str, str], at: int, offset: int) -> None:
    """What a key was built from is read from it, whatever bytes are in the labels and the numbers."""
    key = keys.claim(keys.slot_part(*parts), at, offset)
    assert keys.texts(key, 3) == parts
    assert keys.claim_parts(key) == (at, offset)
    assert keys.last_int(key) == offset
    assert keys.texts(keys.session_event(parts[0], parts[1], offset), 2) == parts[:2]


@examples(300)
@given(one=_slots, other=_slots, at=_ints, offset=_ints, identity=st.binary(min_size=16, max_size=16))
def test_a_prefix_matches_its_own_parts_only(
    one: tuple[str, str, str], other: tuple[str, str, str], at: int, offset: int, identity: bytes
) -> None:
    """A scan under a space, an entity or a slot finds what is in it, and nothing of another one."""
    part = keys.slot_part(*other)
    assert _under(keys.claims_of(keys.slot_part(*one)), keys.claim(part, at, offset)) == (one == other)
    assert _under(keys.slots_of(one[0], one[1]), keys.slot(part)) == (one[:2] == other[:2])
    assert _under(keys.slots_of(one[0]), keys.slot(part)) == (one[0] == other[0])
    assert _under(keys.events_of(one[0]), keys.event(other[0], offset)) == (one[0] == other[0])
    assert _under(keys.ids_of(one[0]), keys.event_id(other[0], identity)) == (one[0] == other[0])
    assert _under(keys.rules_of(one[0]), keys.rule(other[0], offset)) == (one[0] == other[0])
    assert _under(keys.session_events_of(*one[:2]), keys.session_event(*other[:2], offset)) == (one[:2] == other[:2])
    tombstone = keys.tombstone(part, identity * 2, offset)
    assert _under(keys.tombstones_of(keys.slot_part(*one)), tombstone) == (one == other)


def _under(span: keys.Span, key: bytes) -> bool:
    return span.start <= key < span.stop


@examples(300)
@given(prefix=st.binary(min_size=1, max_size=5).filter(lambda p: p.strip(b"\xff")), key=st.binary(max_size=8))
def test_under_holds_exactly_what_begins_so(prefix: bytes, key: bytes) -> None:
    """Whatever the bytes; FF at the prefix's end included."""
    assert _under(keys.under(prefix), key) == key.startswith(prefix)
    assert _under(keys.under(prefix), prefix + key)


@examples(100)
@given(name=_texts, other=_texts)
def test_a_space_is_all_in_its_families(name: str, other: str) -> None:
    """What the digest reads of a space are its own keys and no other's."""
    part = keys.slot_part(other, "e", "s")
    of_other = [
        keys.event(other, 1),
        keys.claim(part, 0, 1),
        keys.slot(part),
        keys.session(other, "run"),
        keys.session_event(other, "run", 1),
        keys.rule(other, 1),
        keys.tombstone(part, bytes(32), 1),
    ]
    for key in of_other:
        assert any(_under(span, key) for span in keys.families_of(name)) == (name == other)
