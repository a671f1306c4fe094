"""When a batch that is not full is sent.

Rules of this file (ProducerImpl.batchFlushTask, maybeScheduleBatchFlushTask, scheduleBatchFlushTask; 4.2.4)
1. A message that does not fill a batch sets the timer, for one publish delay, unless it is set already or the producer
   is not ready. So does a batch that the timer has sent, also when nothing waits: it then runs once for nothing.
2. A timer that runs sooner than a publish delay after the last batch, however that was sent, is set again for the rest:
   a batch that went because it was full gives the next one its whole delay.
3. The first timer of all is set when the producer is made, with no delay; it only begins the count of rule 2.
4. While the producer is not ready nothing is sent and nothing is set; when it is ready again the timer is set anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

__all__ = ["BatchTimer"]


class BatchTimer:
    """The timer of one producer. ``delay``: milliseconds; ``flush`` sends what waits and says whether anything did."""

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
        """None: it is not set."""

    def sent(self) -> None:
        """A batch is sent now."""
        self._sent = self._engine.now

    def message_waits(self) -> None:
        """There is something that the timer should send."""
        if self.timer is None and self._ready():
            self.set(self._delay)

    def set(self, delay: int) -> None:
        """Run after so many milliseconds."""
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
