"""The check whether a client is alive (ServerCnx.checkConnectionLiveness)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.minibroker.scheduler import Scheduler


class LivenessCheck:
    """The liveness check of one connection. Requests that arrive while a check is pending share its result."""

    __slots__ = ("_callbacks", "_on_timeout", "_scheduler", "_timer")

    def __init__(self, scheduler: Scheduler, on_timeout: Callable[[], None]) -> None:
        """``on_timeout`` closes the connection of a client that does not respond."""
        self._scheduler: Final = scheduler
        self._on_timeout: Final = on_timeout
        self._callbacks: list[Callable[[bool], None]] = []
        self._timer: Timer | None = None

    @property
    def pending(self) -> bool:
        """Whether the client's next frame is awaited."""
        return bool(self._callbacks)

    def start(self, timeout_ms: int, on_answer: Callable[[bool], None]) -> bool:
        """Call ``on_answer`` with the result of the check. Return whether a PING must be sent."""
        self._callbacks.append(on_answer)
        if len(self._callbacks) > 1:
            return False
        self._timer = self._scheduler.call_later(timeout_ms, self._on_timeout)
        return True

    def finish(self, *, alive: bool) -> None:
        """Report the result to all callbacks."""
        if self._timer is not None:
            self._timer.cancel()
        callbacks, self._callbacks = self._callbacks, []
        for on_answer in callbacks:
            on_answer(alive)
