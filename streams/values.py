"""When two values are the same, and when a tombstone covers a value that is spelled another way."""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata

import msgspec

from schemas.events import Value

_SPACE = re.compile(r"[\s\u2800]+")
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
"""What Unicode calls default ignorable and does not put in category Cf."""


def same(left: Value | None, right: Value | None) -> bool:
    """Equal in type and content: `1`, `1.0`, `True` and `"1"` are four values."""
    return type(left) is type(right) and left == right


def identity(value: Value | None) -> tuple[type, Value | None]:
    """What `same` values have in common, to group by."""
    return type(value), value


def normal_form(value: Value) -> str:
    """The text that all spellings of a value share.

    Its text (JSON for what is no text); white space aside, without what is invisible
    (categories Cc and Cf, and what else Unicode calls default ignorable); NFKC, casefolded, NFKC again; white space
    folded to single blanks and trimmed. Letters that merely look alike stay different.
    """
    if isinstance(value, float):
        value += 0.0  # -0.0 is 0.0
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = _INVISIBLE.sub("", _SPACE.sub(" ", text))
    text = "".join(character for character in text if unicodedata.category(character) not in ("Cc", "Cf"))
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _SPACE.sub(" ", text).strip()


def digest_of(slot: bytes, value: Value) -> bytes:
    """HMAC-SHA-256 of the normal form, keyed by the slot (`keys.slot_part`): 32 bytes that say nothing elsewhere."""
    return hmac.digest(slot, normal_form(value).encode(), hashlib.sha256)
