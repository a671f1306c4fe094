"""The timer that sends batches that are not full.

Rules of this file (ProducerImpl.batchFlushTask, maybeScheduleBatchFlushTask, scheduleBatchFlushTask; 4.2.4)
1. A message that does not fill a batch sets the timer to one publish delay, unless the timer is set or the producer is
   not ready. After the timer has sent a batch, it is set again even if no message waits; it then runs once without
   effect.
2. If the timer expires less than a publish delay after the last batch was sent for any reason, the timer is set to the
   rest of the delay. After a batch was sent because it was full, the next batch therefore has the whole delay.
3. The first timer is set without a delay when the producer is ready. It only starts the delay in rule 2.
4. While the producer is not ready, no batch is sent and the timer is not set. It is set again at the next registration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

__all__ = ["BatchTimer"]


class BatchTimer:
    """The timer of a producer. ``delay`` is in ms. ``flush`` sends the batch, or returns False if it is empty."""

    __slots__ = ("_delay", "_engine", "_flush", "_ready", "_sent", "timer")

    def __init__(
        self, engine: ClientContext, delay: int, *, ready: Callable[[], bool], flush: Callable[[], bool]
    ) -> None:
        self._engine = engine
        self._delay = delay
        self._ready = ready
        self._flush = flush
        self._sent: int | None = None
        self.timer: Timer | None = None
        """The scheduled timer; None if it is not set."""

    def sent(self) -> None:
        """Record that a batch is being sent."""
        self._sent = self._engine.now

    def message_waits(self) -> None:
        """Set the timer for a waiting message, unless it is set."""
        if self.timer is None and self._ready():
            self.set(self._delay)

    def set(self, delay: int) -> None:
        """Set the timer to a delay in milliseconds."""
        self.timer = self._engine.call_at(self._engine.now + delay, self._run)

    def _run(self) -> None:
        self.timer = None
        if not self._ready():
            return
        now = self._engine.now
        if self._sent is None:
            self._sent = now
        since = now - self._sent
        if since < self._delay:
            self.set(self._delay - since)
        elif self._flush():
            self.message_waits()
