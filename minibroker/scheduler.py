"""How topics and dispatchers schedule work in the broker's turns, and the ticks of delayed delivery."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer


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
        """Call a function at the time ``due``, but at least one millisecond from now."""

    def schedule(self, runnable: Runnable) -> None:
        """Call an object's `run` once at the end of this turn."""


class Interval:
    """Calls a function at an interval until it is cancelled. An interval of 0 or less never calls it."""

    def __init__(self, scheduler: Scheduler, interval_ms: int, action: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._interval = interval_ms
        self._action = action
        self._timer: Timer | None = None
        if interval_ms > 0:
            self._start()

    def _start(self) -> None:
        self._timer = self._scheduler.call_later(self._interval, self._tick)

    def _tick(self) -> None:
        self._start()
        self._action()

    def cancel(self) -> None:
        """Make no further calls."""
        if self._timer is not None:
            self._timer.cancel()


class HashedWheelTimer:
    """The ticks of io.netty.util.HashedWheelTimer. The first tick begins when the timer is first used.

    A timeout expires at the end of the tick that contains its deadline.
    """

    def __init__(self, tick_ms: int) -> None:
        self._tick = max(1, tick_ms)
        self._began = -1

    def expiry(self, now: int, deadline: int) -> int:
        """Return the time at which a timeout that is set now expires, in milliseconds since 1970."""
        if self._began < 0:
            self._began = now
        return self._began + ((max(now, deadline) - self._began) // self._tick + 1) * self._tick
