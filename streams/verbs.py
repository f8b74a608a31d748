"""How a verb is made: of the function that says what it means, or that makes its event."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from schemas import events as ev
from streams.answers import Receipt
from streams.making import Making

if TYPE_CHECKING:
    from streams.memory import Memory

P = ParamSpec("P")
T = TypeVar("T")


def verb_like(of: Callable[..., Any], answers: str | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Gives a function the name, docstring and signature of the verb `of`; `answers` is what its signature says
    instead of what `of` answers with."""

    def dress(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(of)
        if answers is not None:
            signature = signature.replace(return_annotation=answers)
        dressed = wraps(of, updated=())(function)  # not its __dict__, where it may say that it is abstract
        dressed.__signature__ = signature  # type: ignore[attr-defined]
        return dressed

    return dress


def appended(make: Callable[Concatenate[Making, P], ev.Event]) -> Callable[Concatenate[Memory, P], Receipt]:
    """The verb that appends the one event that `make` makes."""

    @verb_like(make, "Receipt")
    def verb(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        return self.append([make(self._making, *args, **kwargs)])[0]

    return verb
