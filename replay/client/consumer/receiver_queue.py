"""The receiver queue: messages that wait for the application, and the permits that a broker is given for more.

Rules of this file (ConsumerImpl.increaseAvailablePermits, clearReceiverQueue; ZeroQueueConsumerImpl; 4.2.4)
1. A subscription that succeeded has no permits; the first FLOW asks for the whole queue.
2. A message that the application takes, or that is skipped for it, frees one permit. What is free goes out as one FLOW
   as soon as it is half the queue: 10, then 5, 5, 5. A queue of one or none has half of nothing, so each goes at once.
3. While paused nothing goes out; what became free meanwhile goes when the pause ends, if it is half the queue by then.
4. A queue of size 0 holds nothing in advance: each call of receive asks for one message.
5. Where a non-durable subscription goes on after a reconnect is told by what the application has not seen: before the
   first message that waits, else behind the last that was taken, else where it began (`start_again`).
6. ``autoScaledReceiverQueueSizeEnabled`` is not here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.replay.client.message_ids import ClientMessageId

if TYPE_CHECKING:
    from pcli.replay.client.consumer.incoming_entry import IncomingMessage

__all__ = ["ReceiverQueue", "start_again"]


class ReceiverQueue:
    """What waits, and what has been freed since the last FLOW."""

    __slots__ = ("_flow", "_half", "available", "messages", "paused", "size")

    def __init__(self, size: int, flow: Callable[[int], None], *, paused: bool = False) -> None:
        self.size = size
        """``receiverQueueSize``: messages."""
        self.messages: deque[IncomingMessage] = deque()
        self.available = 0
        """Permits that are free and were not given to the broker yet."""
        self.paused = paused
        self._half = size // 2
        self._flow = flow

    def increase(self, permits: int = 1) -> None:
        """That many are free again."""
        self.available += permits
        if self.available >= self._half and not self.paused:
            free, self.available = self.available, 0
            if free > 0:
                self._flow(free)

    def subscribed(self) -> None:
        """The broker knows of no permits any more."""
        self.available = 0

    def pause(self) -> None:
        """Give no more permits."""
        self.paused = True

    def resume(self) -> None:
        """Give permits again, and those that were kept back."""
        if self.paused:
            self.paused = False
            self.increase(0)

    def remove(self, ids: set[ClientMessageId]) -> int:
        """Take out the messages of these entries; how many there were (removeExpiredMessagesFromQueue)."""
        kept = [message for message in self.messages if message.id.whole not in ids]
        removed = len(self.messages) - len(kept)
        if removed:
            self.messages = deque(kept)
        return removed

    def clear(self) -> int:
        """Forget what waits; how many there were."""
        count = len(self.messages)
        self.messages.clear()
        return count


def start_again(
    waiting: ClientMessageId | None, taken: ClientMessageId | None, start: ClientMessageId | None
) -> ClientMessageId | None:
    """Behind which id a non-durable subscription goes on.

    ``waiting`` is the first message that was not taken, ``taken`` the last that was, ``start`` where it began.
    """
    if waiting is None:
        return start if taken is None else taken
    if waiting.is_batch:
        return ClientMessageId(
            waiting.ledger, waiting.entry, waiting.partition, waiting.batch_index - 1, topic=waiting.topic
        )
    return waiting.previous
