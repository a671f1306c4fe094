"""Received messages without an ack. Their redelivery is requested after the ack timeout.

Rules of this file (UnAckedMessageTracker, UnAckedMessageRedeliveryTracker; 4.2.4)
1. Time is divided into ticks from the creation of the consumer. Messages received within one tick are in one bucket,
   which is due ``ceil(ackTimeout / tick) + 1`` ticks later. Redelivery is therefore requested no earlier than one ack
   timeout after a message was received, and normally within one more tick.
2. A message that is already tracked keeps its bucket. Acks and negative acks remove the message; a cumulative ack
   removes all messages up to its position.
3. If there is a redelivery back-off, a due bucket only starts the delay of each message, which depends on the message's
   redelivery count. At each tick, redelivery is requested for the messages whose delay has passed.
4. Messages of all subscription types are tracked. Client 2.3.2 did not track messages of Exclusive and Failover
   subscriptions. Client 4.2.4 tracks them, and requests the redelivery of all unacknowledged messages.
5. Java's timer runs at every tick. In this client a timer is set only for ticks at which a bucket or a delay is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from pcli.replay.client.message_ids import ClientMessageId

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.settings import ConsumerSettings


class Clock(Protocol):
    """The source of time: the engine."""

    now: int
    """The time in milliseconds since 1970."""

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """Run ``action`` at the time ``due``."""


class UnackedMessageTracker:
    """The messages of one consumer with an ack timeout. If ``ackTimeoutMillis`` is 0, nothing is tracked."""

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
        """Track a received message. ``id_`` is the id of an entry or of a chunked message."""
        if not self.enabled or id_ in self._places:
            return
        self._places[id_] = (self._clock.now - self._start) // self._tick
        if self._backoff is not None:
            self._counts[id_] = redelivery_count
        self._arm()

    def remove(self, id_: ClientMessageId) -> None:
        """Remove a message that was acknowledged, or whose redelivery was requested."""
        if self.enabled:
            self._places.pop(id_, None)
            self._waiting.pop(id_, None)
            self._counts.pop(id_, None)

    def remove_till(self, last: ClientMessageId) -> None:
        """Remove this message and all messages before it (removeMessagesTill)."""
        for id_ in [*self._places, *self._waiting] if self.enabled else ():
            if id_ <= last:
                self.remove(id_)

    def remove_topic(self, topic: str) -> None:
        """Remove the messages of a topic that is no longer consumed (removeTopicMessages)."""
        for id_ in [*self._places, *self._waiting]:
            if id_.topic == topic:
                self.remove(id_)

    def clear(self) -> None:
        """Remove all messages."""
        self._places.clear()
        self._waiting.clear()
        self._counts.clear()

    def close(self) -> None:
        """Remove all messages and stop the timer."""
        self.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        """Set the timer to the next tick at which messages are due."""
        if self._timer is not None and self._timer.active:
            return
        due = min(self._due_ticks(), default=None)
        if due is not None:
            self._timer = self._clock.call_at(self._start + due * self._tick, self._run)

    def _due_ticks(self) -> Iterable[int]:
        """Return the ticks at which the first bucket and the first delay are due. Buckets are ordered by age."""
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
