"""A consumer without a queue: it asks for each message when the application wants it.

Rules of this file (ZeroQueueConsumerImpl, 4.2.4)
1. Each receive that finds nothing asks for one message, and so does each connection while one is waited for. With a
   listener the first connection asks, and then each return of the listener.
2. A message that waited unasked (its receive was given up) is dropped when the next receive asks.
3. A batch has more messages than were asked for: the consumer closes itself, and whoever waits is told.
"""

from __future__ import annotations

from typing import ClassVar

from pcli.codec.errors import LocalError
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.consumer import Consumer, Listener
from pcli.replay.client.consumer.incoming_entry import IncomingMessage
from pcli.replay.client.message_ids import ClientMessageId

__all__ = ["ZeroQueueConsumer"]


class ZeroQueueConsumer(Consumer):
    """Receives one message at a time."""

    takes_batches: ClassVar[bool] = False
    _asked = False
    _begun = False

    def begin(self, *, first: bool, waited: int) -> None:
        """Ask if somebody waits."""
        del first
        self._begun = True
        if self._asked or waited or self._listener is not None:
            self.queue.increase()

    def receive(self) -> IncomingMessage | None:
        """The message that was asked for; None: it is asked for now, and `on_message` will tell."""
        if self._listener is not None:
            raise LocalError("a consumer with a listener has no receive")
        messages = self.queue.messages
        if messages:
            message = self.last_taken = messages.popleft()
            self._asked = False
            self.track(message.id, message.redelivery_count)
            return message
        if not self._asked:
            self._asked = True
            if self.connected is not None:
                self.queue.increase()
        return None

    def listen(self, listener: Listener) -> None:
        """Let a function have each message, one at a time."""
        self._listener = listener
        if self._begun:
            self.queue.increase()

    def _call_listener(self) -> None:
        while self.queue.messages and self._listener is not None and self.lives:
            message = self.last_taken = self.queue.messages.popleft()
            self.unacked.add(message.id.whole, message.redelivery_count)
            self._listener(message)
            self.queue.increase()

    def reject_batch(self, id_: ClientMessageId) -> None:
        """A batch came: close."""
        failure = ClientFailure("InvalidMessage", f"{id_} is a batch, which a receiverQueueSize of 0 can't hold")

        def closed(_: ClientFailure | None) -> None:
            if self.on_fault is not None:
                self.on_fault(failure)

        self.close(closed)
