"""Several things at once, and one answer when all are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pcli.replay.client.refusal import Refusal

__all__ = ["gather"]

_T = TypeVar("_T")
_Done = Callable[[Refusal | None], None]


def gather(items: Iterable[_T], begin: Callable[[_T, _Done], None], done: _Done) -> None:
    """Begin all; ``done`` is told once, after the last answer: the first Refusal, or None."""
    todo = list(items)
    left = len(todo)
    first: Refusal | None = None

    def told(refusal: Refusal | None) -> None:
        nonlocal left, first
        left -= 1
        first = first or refusal
        if not left:
            done(first)

    if not todo:
        done(None)
    for item in todo:
        begin(item, told)
