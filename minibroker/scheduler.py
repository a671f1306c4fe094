"""The interface through which topics and dispatchers schedule work in the broker's turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer

__all__ = ["Runnable", "Scheduler"]


class Runnable(Protocol):
    """An object with work to finish at the end of a turn, mainly a dispatcher."""

    def run(self) -> None:
        """Do the work that is possible now."""


class Scheduler(Protocol):
    """The broker's time, its timers, and the queue of work for the end of the turn."""

    now: int
    """Time of the current turn, in milliseconds since 1970."""

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Call a function after a delay of at least one millisecond."""

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """Call a function at a time that is at least one millisecond from now."""

    def schedule(self, runnable: Runnable) -> None:
        """Call an object's `run` once at the end of this turn."""
