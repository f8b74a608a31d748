"""What both logs refuse before anything is written, so that an event that fits one fits the other."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.errors import InvalidInput
from streams.ports import MAX_MESSAGE_BYTES, Message

MAX_ENVELOPE_BYTES = 32_768
"""The most that key and headers of one message may be together, with 10 bytes counted on top for each header."""


def check_limits(messages: Sequence[Message]) -> None:
    """Refuse messages that Kafka would refuse under its default `max.message.bytes` of 1,048,588.

    Raises:
        InvalidInput: a value is over `MAX_MESSAGE_BYTES`, or key and headers are over `MAX_ENVELOPE_BYTES`.
    """
    for number, (key, value, headers) in enumerate(messages):
        if len(value) > MAX_MESSAGE_BYTES:
            raise InvalidInput(
                f"message {number} of {len(messages)} is {len(value):,} bytes; the log takes {MAX_MESSAGE_BYTES:,}",
                hint="keep large content elsewhere and remember where it is",
            )
        size = len(key)
        for name, content in headers:
            size += len(name) + len(content) + 10
        if size > MAX_ENVELOPE_BYTES:
            raise InvalidInput(
                f"key and headers of message {number} of {len(messages)} are {size:,} bytes; "
                f"the log takes {MAX_ENVELOPE_BYTES:,}"
            )
