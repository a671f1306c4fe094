"""The receiver queue: messages that wait for the application, and the permits sent to the broker.

Rules of this file (ConsumerImpl.increaseAvailablePermits, clearReceiverQueue; ZeroQueueConsumerImpl; 4.2.4)
1. A new subscription has no permits; the first FLOW grants permits for the whole queue.
2. A message that is received or skipped returns one permit. Returned permits are sent in one FLOW as soon as their
   number is half the queue size: for a queue of 10, the FLOWs grant 10, 5, 5, 5 permits. If the queue size is 0 or 1,
   each permit is sent immediately.
3. During a pause, no FLOW is sent. Permits returned during the pause are sent at its end if their number is at least
   half the queue size.
4. A queue of size 0 prefetches nothing: each receive requests one message.
5. After a reconnect, a non-durable subscription starts before the first waiting message. If no message waits, it starts
   after the last received message, or at its original start if no message was received (`start_again`).
6. ``autoScaledReceiverQueueSizeEnabled`` is not implemented.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.replay.client.message_ids import ClientMessageId

if TYPE_CHECKING:
    from pcli.replay.client.consumer.incoming_entry import IncomingMessage


class ReceiverQueue:
    """The waiting messages, and the permits returned since the last FLOW."""

    def __init__(self, size: int, flow: Callable[[int], None], *, paused: bool = False) -> None:
        self.size = size
        """``receiverQueueSize``, in messages."""
        self.messages: deque[IncomingMessage] = deque()
        self.available = 0
        """Returned permits that have not been sent to the broker yet."""
        self.paused = paused
        self._half = size // 2
        self._flow = flow

    def increase(self, permits: int = 1) -> None:
        """Return permits."""
        self.available += permits
        if self.available >= self._half and not self.paused:
            free, self.available = self.available, 0
            if free > 0:
                self._flow(free)

    def subscribed(self) -> None:
        """Reset the permits, because a new subscription has no permits."""
        self.available = 0

    def pause(self) -> None:
        """Stop sending permits."""
        self.paused = True

    def resume(self) -> None:
        """Send permits again, including permits returned during the pause."""
        if self.paused:
            self.paused = False
            self.increase(0)

    def remove(self, ids: set[ClientMessageId]) -> int:
        """Remove the messages of these entries and return their number (removeExpiredMessagesFromQueue)."""
        kept = [message for message in self.messages if message.id.whole not in ids]
        removed = len(self.messages) - len(kept)
        if removed:
            self.messages = deque(kept)
        return removed

    def clear(self) -> int:
        """Remove all messages and return their number."""
        count = len(self.messages)
        self.messages.clear()
        return count


def start_again(
    waiting: ClientMessageId | None, taken: ClientMessageId | None, start: ClientMessageId | None
) -> ClientMessageId | None:
    """Return the id after which a non-durable subscription starts again.

    ``waiting`` is the first waiting message, ``taken`` is the last received message, and ``start`` is the original
    start.
    """
    if waiting is None:
        return start if taken is None else taken
    if waiting.is_batch:
        return ClientMessageId(
            waiting.ledger, waiting.entry, waiting.partition, waiting.batch_index - 1, topic=waiting.topic
        )
    return waiting.previous
