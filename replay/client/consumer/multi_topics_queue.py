"""The queue of a consumer of several topics: filled from its children, as far as there is room.

Rules of this file (MultiTopicsConsumerImpl: receiveMessageFromConsumer and what resumes it; 4.2.4)
1. A child is emptied in steps of half its own queue. When the common queue is full after a step, or is above its half
   while other children wait, the child waits too; its own queue then fills, and it asks the broker for no more.
2. Children that wait go on when the common queue is down to its half, in the order in which they stopped.
3. The common queue has the size of one consumer's, at least 2, at least one place for each child.
Java gives a child a millisecond to fill a step; here a step is what is there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.replay.client.consumer.consumer import Consumer
    from pcli.replay.client.consumer.incoming_entry import IncomingMessage

__all__ = ["MultiTopicsQueue"]


class MultiTopicsQueue:
    """What waits for the application, and the children that wait for it."""

    def __init__(self, size: int) -> None:
        self.size = max(2, size)
        self.messages: deque[IncomingMessage] = deque()
        self.held = False
        """Nothing is taken from children (a seek is under way)."""
        self._paused: deque[Consumer] = deque()

    def fill(self, child: Consumer) -> None:
        """A child has messages."""
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
        """There may be room for children that wait."""
        while self._paused and len(self.messages) <= self.size // 2:
            self.fill(self._paused.popleft())

    def forget(self, child: Consumer) -> None:
        """A child is closed."""
        if child in self._paused:
            self._paused.remove(child)
