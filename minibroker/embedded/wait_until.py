"""The implementation of MiniBroker.wait_until."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Generic, TypeVar

from pcli.codec.errors import LocalError

__all__ = ["Waiter"]

_T = TypeVar("_T")


class Waiter(Generic[_T]):
    """A predicate that is called in the broker's thread until it is true."""

    def __init__(self, predicate: Callable[[], _T]) -> None:
        self.result: Future[_T] = Future()
        self._predicate = predicate
        self._last: object = None
        self._missing: Exception | None = None

    def check(self) -> None:
        """Call the predicate."""
        if self.result.done():
            return
        with suppress(InvalidStateError):  # the caller has stopped waiting
            try:
                value = self._predicate()
            except (LookupError, LocalError) as missing:
                self._missing = missing
            except Exception as fault:
                self.result.set_exception(fault)
            else:
                self._last, self._missing = value, None
                if value:
                    self.result.set_result(value)

    def timed_out(self, timeout: float, seen: list[str]) -> TimeoutError:
        """Return the TimeoutError. ``seen`` contains the state as lines."""
        if self._missing is not None:
            last = f"the predicate failed with {type(self._missing).__name__}: {self._missing}"
        else:
            last = f"the predicate returned {self._last!r}"
        return TimeoutError("\n  ".join([f"not reached in {timeout:g} s: {last}", *seen]))
