"""Messages that the application has taken and not acknowledged: after the ack time-out they are asked for again.

Rules of this file (UnAckedMessageTracker, UnAckedMessageRedeliveryTracker; 4.2.4)
1. Time goes in ticks, counted from the beginning of the consumer. What is taken within one tick lies in one bucket,
   and a bucket falls due at the tick that is ``ackTimeout / tick`` (rounded up) ticks later and one more. So a message
   comes back between one ack time-out and one tick more after it was taken.
2. A message that is tracked already keeps its place; what is nacked or acknowledged is forgotten; a cumulative ack
   forgets all up to it.
3. With a redelivery back-off the bucket that is due only begins the wait of that back-off, by how often each message
   came; at each tick those whose wait is over are asked for.
4. All subscription types are tracked. The client 2.3.2 did not do so for Exclusive and Failover; 4.2.4 does, and asks
   there for everything that is not acknowledged.
5. Java's timer runs at every tick. Here one is set only where a bucket or a wait falls due, at the same tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from pcli.replay.client.message_ids import ClientMessageId

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.consumer_settings import ConsumerSettings

__all__ = ["Clock", "UnackedMessageTracker"]


class Clock(Protocol):
    """Whoever has the time: the engine."""

    now: int
    """Milliseconds since 1970."""

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """Run ``action`` at a time."""


class UnackedMessageTracker:
    """The messages of one consumer that may be timed out. An ``ackTimeoutMillis`` of 0 tracks nothing."""

    def __init__(
        self, clock: Clock, settings: ConsumerSettings, redeliver: Callable[[set[ClientMessageId]], None]
    ) -> None:
        timeout = settings.ackTimeoutMillis
        self.enabled = timeout > 0
        self._clock = clock
        self._redeliver = redeliver
        self._tick = min(settings.tickDurationMillis, timeout)
        self._buckets = -(-timeout // self._tick) + 1 if self.enabled else 0
        self._backoff = settings.ackTimeoutRedeliveryBackoff
        self._start = clock.now
        self._places: dict[ClientMessageId, int] = {}
        self._counts: dict[ClientMessageId, int] = {}
        self._waiting: dict[ClientMessageId, int] = {}
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._places) + len(self._waiting)

    def add(self, id_: ClientMessageId, redelivery_count: int = 0) -> None:
        """The application has it now. ``id``: of an entry, or of a message of chunks."""
        if not self.enabled or id_ in self._places:
            return
        self._places[id_] = (self._clock.now - self._start) // self._tick
        if self._backoff is not None:
            self._counts[id_] = redelivery_count
        self._arm()

    def remove(self, id_: ClientMessageId) -> None:
        """It was acknowledged, or is asked for already."""
        if self.enabled:
            self._places.pop(id_, None)
            self._waiting.pop(id_, None)
            self._counts.pop(id_, None)

    def remove_till(self, last: ClientMessageId) -> None:
        """This and all before it are acknowledged (removeMessagesTill)."""
        for id_ in [*self._places, *self._waiting] if self.enabled else ():
            if id_ <= last:
                self.remove(id_)

    def remove_topic(self, topic: str) -> None:
        """Nothing is consumed of this topic any more (removeTopicMessages)."""
        for id_ in [*self._places, *self._waiting]:
            if id_.topic == topic:
                self.remove(id_)

    def clear(self) -> None:
        """Forget all."""
        self._places.clear()
        self._waiting.clear()
        self._counts.clear()

    def close(self) -> None:
        """Forget all, and what was to come."""
        self.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        """Wait for the next tick at which something is due."""
        if self._timer is not None and self._timer.active:
            return
        due = min(self._due_ticks(), default=None)
        if due is not None:
            self._timer = self._clock.call_at(self._start + due * self._tick, self._run)

    def _due_ticks(self) -> Iterable[int]:
        """The numbers of the ticks at which the first of each kind falls due. Places are in the order of their age."""
        if self._places:
            yield next(iter(self._places.values())) + self._buckets
        if self._waiting:
            first = min(self._waiting.values()) - self._start
            yield max(-(-first // self._tick), (self._clock.now - self._start) // self._tick + 1)

    def _run(self) -> None:
        self._timer = None
        now = self._clock.now
        bucket = (now - self._start) // self._tick - self._buckets
        due = self._take(bucket)
        if self._backoff is not None:
            for id_ in due:
                self._waiting[id_] = now + self._backoff.next(self._counts.pop(id_, 0))
            due = {id_ for id_, time in self._waiting.items() if time <= now}
            for id_ in due:
                del self._waiting[id_]
        self._arm()
        if due:
            self._redeliver(due)

    def _take(self, bucket: int) -> set[ClientMessageId]:
        due = set()
        for id_, place in self._places.items():
            if place > bucket:
                break
            due.add(id_)
        for id_ in due:
            del self._places[id_]
        return due
