"""The shared queue of a multi-topics consumer, filled from the queues of its children.

Rules of this file (MultiTopicsConsumerImpl: receiveMessageFromConsumer and the methods that resume it; 4.2.4)
1. A child's messages are moved in steps of half the child's queue size. If the shared queue is full after a step, or
   more than half full while other children wait, the child also waits. Its queue then fills, and it sends no more
   permits.
2. Waiting children continue when the shared queue is at most half full, in the order in which they stopped.
3. The shared queue has the size of one consumer's queue, at least 2 and at least the number of children.

Java allows a child one millisecond to fill a step; in this client a step contains the messages that are present.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.replay.client.consumer.consumer import Consumer
    from pcli.replay.client.consumer.incoming_entry import IncomingMessage

__all__ = ["MultiTopicsQueue"]


class MultiTopicsQueue:
    """The messages that wait for the application, and the children that wait for space."""

    def __init__(self, size: int) -> None:
        self.size = max(2, size)
        self.messages: deque[IncomingMessage] = deque()
        self.held = False
        """Whether a seek is in progress. During a seek, no messages are moved from children."""
        self._paused: deque[Consumer] = deque()

    def fill(self, child: Consumer) -> None:
        """Move messages from a child."""
        if self.held or child in self._paused:
            return
        step = max(1, child.queue.size // 2)
        while child.queue.messages:
            for _ in range(step):
                message = child.receive()
                if message is None:
                    break
                self.messages.append(message)
            count = len(self.messages)
            if count >= self.size or (count > self.size // 2 and self._paused):
                self._paused.append(child)
                return

    def go_on(self) -> None:
        """Continue with the waiting children if there is space."""
        while self._paused and len(self.messages) <= self.size // 2:
            self.fill(self._paused.popleft())

    def remove_child(self, child: Consumer) -> None:
        """Remove a closed child."""
        if child in self._paused:
            self._paused.remove(child)
