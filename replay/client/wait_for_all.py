"""Several things at once, and one answer when all are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pcli.replay.client.connection.errors import Refusal

__all__ = ["collect", "gather"]

_T = TypeVar("_T")
_Answer = TypeVar("_Answer")
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


def collect(
    items: Iterable[_T],
    ask: Callable[[_T, Callable[[_Answer | Refusal], None]], None],
    whole: Callable[[list[_Answer]], Any],
    done: Callable[[Any], None],
) -> None:
    """Ask all; ``done`` is told once, after the last answer: what ``whole`` makes of them, or the first Refusal."""
    found: list[_Answer] = []

    def begin(item: _T, told: _Done) -> None:
        def answered(answer: _Answer | Refusal) -> None:
            if isinstance(answer, Refusal):
                told(answer)
            else:
                found.append(answer)
                told(None)

        ask(item, answered)

    gather(items, begin, lambda refusal: done(whole(found) if refusal is None else refusal))
