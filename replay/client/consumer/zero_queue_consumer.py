"""A consumer without a receiver queue. It requests each message when the application calls receive.

Rules of this file (ZeroQueueConsumerImpl, 4.2.4)
1. The consumer requests one message when ``receive`` is called and no message is queued, and again on each new
   connection during a receive. If there is a listener, it requests one message on each connection and after each call
   of the listener.
2. If a message arrives after its receive timed out, the next receive returns the message.
3. A batch may contain more messages than requested. If a batch arrives, the consumer closes and reports the failure to
   the caller.
"""

from __future__ import annotations

from typing import ClassVar

from pcli.codec.errors import LocalError
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.consumer import Consumer, Listener
from pcli.replay.client.consumer.incoming_entry import IncomingMessage
from pcli.replay.client.message_ids import ClientMessageId


class ZeroQueueConsumer(Consumer):
    """A consumer that receives one message at a time."""

    takes_batches: ClassVar[bool] = False
    _asked = False
    _begun = False

    def begin(self, *, first: bool, waited: int) -> None:
        """Request a message if a receive is waiting."""
        del first
        self._begun = True
        if self._asked or waited or self._listener is not None:
            self.queue.increase()

    def receive(self) -> IncomingMessage | None:
        """Return the queued message.

        If there is none, request one and return None; `on_message` is called when it arrives.
        """
        if self._listener is not None:
            raise LocalError("a consumer with a listener does not support receive")
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
        """Call a function with each message, one at a time."""
        self._listener = listener
        if self._begun:
            self.queue.increase()

    def _call_listener(self) -> None:
        while self.queue.messages and self._listener is not None and self.may_connect:
            message = self.last_taken = self.queue.messages.popleft()
            self.unacked.add(message.id.whole, message.redelivery_count)
            self._listener(message)
            self.queue.increase()

    def reject_batch(self, id_: ClientMessageId) -> None:
        """Close the consumer, because a batch arrived."""
        failure = ClientFailure("InvalidMessage", f"{id_} is a batch, which a receiverQueueSize of 0 cannot hold")

        def closed(_: ClientFailure | None) -> None:
            if self.on_fault is not None:
                self.on_fault(failure)

        self.close(closed)
