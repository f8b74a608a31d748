"""When two values are the same, and which spellings one tombstone covers."""

from __future__ import annotations

import pytest

from schemas.events import Value
from streams import keys
from streams.values import digest_of, identity, normal_form, same

SLOT = keys.slot_part("acme/support", "user:alice", "employer")
TWINS: tuple[Value, ...] = (1, 1.0, True, "1", 0, 0.0, False, "0", "", "true", "Acme", "acme", "ＡＣＭＥ")


@pytest.mark.parametrize("left", TWINS, ids=repr)
@pytest.mark.parametrize("right", TWINS, ids=repr)
def test_same_is_type_and_content(left: Value, right: Value) -> None:
    equal = repr(left) == repr(right)
    assert same(left, right) == equal
    assert (identity(left) == identity(right)) == equal


@pytest.mark.parametrize(
    "spelling",
    [
        "ACME Corp",
        "acme corp",
        "aCmE cOrP",
        "  Acme   Corp  ",
        "Acme\tCorp",
        "Acme\nCorp",
        "Acme\u00a0Corp",
        "Acme\u3000Corp",
        "Ac\u200bme Corp",
        "Acme\u200d Corp",
        "\ufeffAcme Corp",
        "Acme\u00ad Corp",
        "Acme \u202eCorp",
        "ＡＣＭＥ　ＣＯＲＰ",
        "𝐀𝐜𝐦𝐞 𝐂𝐨𝐫𝐩",
        "Ⓐcme Corp",
    ],
    ids=ascii,
)
def test_spellings_of_one_text(spelling: str) -> None:
    """Case, width, style, white space and invisible format characters make no other value to a tombstone."""
    assert normal_form(spelling) == normal_form("Acme Corp")
    assert digest_of(SLOT, spelling) == digest_of(SLOT, "Acme Corp")
    assert not same(spelling, "Acme Corp")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (42, "42"), (True, "true"), (False, "False"), (1.5, "1.5"), (-7, "-7"), (1.0, "1.0"), ("Straße", "STRASSE"),
        ("ﬁne", "FINE"), ("é", "e\u0301"), ("Σ", "ς"), ("İ", "i̇"),
    ],
    ids=ascii,
)  # fmt: skip
def test_a_number_and_its_text_are_one_to_a_tombstone(one: Value, other: Value) -> None:
    assert normal_form(one) == normal_form(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Docs/", "Docs"), (1, 1.0), (True, 1), ("", "0"), ("a b", "ab"), ("acme", "acmé")], ids=repr
)
def test_other_values_stay_other(one: Value, other: Value) -> None:
    assert normal_form(one) != normal_form(other)


def test_nothing_visible_is_the_empty_text() -> None:
    assert [normal_form(text) for text in ("", "   ", "\u200b", " \ufeff\t")] == [""] * 4


@pytest.mark.parametrize(
    "text", ["\u1e9e", "ŉ", "ǰ", "\u0345", "ΐ", "ſ", "K", "Å", "ﷺ", "\u2126", "a\u0307\u0323"], ids=ascii
)
def test_a_normal_form_is_its_own(text: str) -> None:
    assert normal_form(normal_form(text)) == normal_form(text)


def test_a_hash_says_nothing_in_another_slot() -> None:
    other = keys.slot_part("acme/support", "user:bob", "employer")
    assert digest_of(SLOT, "Acme") != digest_of(other, "Acme")
    assert len(digest_of(SLOT, "Acme")) == 32
