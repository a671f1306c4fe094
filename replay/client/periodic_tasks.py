"""Periodic tasks that run until their owner stops them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext


class PeriodicTasks:
    """The periodic tasks of one owner."""

    def __init__(self, engine: ClientContext) -> None:
        self._engine = engine
        self._timers: dict[Callable[[], int], Timer] = {}
        self._stopped = False

    def begin(self, delay: int, task: Callable[[], int]) -> None:
        """Run a task after ``delay`` milliseconds, then repeatedly after the delay that the task returns."""

        def run() -> None:
            again = task()
            if not self._stopped:  # the task itself may have called `stop`
                self.begin(again, task)

        self._timers[task] = self._engine.call_at(self._engine.now + delay, run)

    def stop(self) -> None:
        """Cancel all tasks permanently."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
