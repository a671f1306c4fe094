"""Several concurrent operations with one combined result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pcli.replay.client.connection.errors import ClientFailure

__all__ = ["collect", "gather"]

_T = TypeVar("_T")
_Answer = TypeVar("_Answer")
_Done = Callable[[ClientFailure | None], None]


def gather(items: Iterable[_T], begin: Callable[[_T, _Done], None], done: _Done) -> None:
    """Start all operations. ``done`` is called once after the last result, with the first ClientFailure or None."""
    todo = list(items)
    left = len(todo)
    first: ClientFailure | None = None

    def told(failure: ClientFailure | None) -> None:
        nonlocal left, first
        left -= 1
        first = first or failure
        if not left:
            done(first)

    if not todo:
        done(None)
    for item in todo:
        begin(item, told)


def collect(
    items: Iterable[_T],
    ask: Callable[[_T, Callable[[_Answer | ClientFailure], None]], None],
    whole: Callable[[list[_Answer]], Any],
    done: Callable[[Any], None],
) -> None:
    """Start all requests. ``done`` is called once: with ``whole`` of all results, or the first ClientFailure."""
    found: list[_Answer] = []

    def begin(item: _T, told: _Done) -> None:
        def answered(answer: _Answer | ClientFailure) -> None:
            if isinstance(answer, ClientFailure):
                told(answer)
            else:
                found.append(answer)
                told(None)

        ask(item, answered)

    gather(items, begin, lambda failure: done(whole(found) if failure is None else failure))
