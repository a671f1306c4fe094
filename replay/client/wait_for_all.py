"""Several concurrent operations with one combined result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pcli.replay.client.connection.errors import ClientFailure

_T = TypeVar("_T")
_Response = TypeVar("_Response")
_Done = Callable[[ClientFailure | None], None]


def gather(items: Iterable[_T], begin: Callable[[_T, _Done], None], done: _Done) -> None:
    """Start all operations. ``done`` is called once after the last result, with the first ClientFailure or None."""
    todo = list(items)
    left = len(todo)
    first: ClientFailure | None = None

    def completed(failure: ClientFailure | None) -> None:
        nonlocal left, first
        left -= 1
        first = first or failure
        if not left:
            done(first)

    if not todo:
        done(None)
    for item in todo:
        begin(item, completed)


def collect(
    items: Iterable[_T],
    send_request: Callable[[_T, Callable[[_Response | ClientFailure], None]], None],
    combine: Callable[[list[_Response]], Any],
    done: Callable[[Any], None],
) -> None:
    """Start all requests. ``done`` is called once, with ``combine(results)`` or with the first ClientFailure."""
    found: list[_Response] = []

    def begin(item: _T, completed: _Done) -> None:
        def on_response(response: _Response | ClientFailure) -> None:
            if isinstance(response, ClientFailure):
                completed(response)
            else:
                found.append(response)
                completed(None)

        send_request(item, on_response)

    gather(items, begin, lambda failure: done(combine(found) if failure is None else failure))
