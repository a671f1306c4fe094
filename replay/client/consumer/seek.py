"""SEEK, which moves the cursor of the subscription.

Rules of this file (ConsumerImpl.seekAsync, seekAsyncInternal, clearReceiverQueue; 4.2.4)
1. Only one seek runs at a time. If there is no connection, the seek waits for a connection (`deferred_requests`).
2. For an id within a batch, ``ack_set`` contains the requested messages. For a chunked message, the id of the first
   chunk is sent.
3. The broker closes the consumer first and responds afterwards. When the response arrives, waiting acks are sent, and
   the queue and the last received message are cleared. If there is a connection at that time (always for a child of a
   multi-topics consumer), the seek is then complete. Otherwise it is complete at the next connection.
4. A connection that opens during a seek starts at the seek's target. Earlier messages in the target's entry are
   skipped.
5. A failed seek leaves the target and the start unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from pcli.codec.proto import pb
from pcli.codec.wire.bits import words_of
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.deferred_requests import once_connected
from pcli.replay.client.message_ids import EARLIEST, ClientMessageId

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.consumer.consumer import Consumer

__all__ = ["SeekDone", "SeekOperation"]

SeekDone = Callable[[ClientFailure | None], None]
"""Callback for the result. None means success."""


class _Status(Enum):
    NONE = "none"
    REQUESTED = "asked"
    ANSWERED = "answered"


class SeekOperation:
    """The seeks of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self.by_time = False
        """Whether the last seek was to a time. In this case the start id does not determine the cursor's position."""
        self._consumer = consumer
        self._status = _Status.NONE
        self._target: ClientMessageId | None = None
        self._done: SeekDone = _nobody

    @property
    def under_way(self) -> bool:
        """Whether a seek is not complete yet."""
        return self._status is not _Status.NONE

    def seek(self, target: ClientMessageId | int, done: SeekDone) -> None:
        """Seek to an id or to a publish time (ms since 1970)."""
        if self.under_way:
            done(ClientFailure("NotAllowed", "another seek is in progress"))
            return
        self._status = _Status.REQUESTED
        self._done = done
        body = _seek_command(self._consumer.number, target)
        once_connected(
            self._consumer, f"seek to {target}", lambda connection: self._ask(connection, body, target), self._fail
        )

    def reconnected(self) -> bool:
        """Process a new connection. Return whether it starts at the target of a seek."""
        if not self.under_way:
            return False
        self._consumer.start_id = self._target
        if self._status is _Status.ANSWERED:
            self._finish(None)
        return True

    def _ask(self, connection: ClientConnection, body: pb.CommandSeek, target: ClientMessageId | int) -> None:
        before = self._target, self.by_time
        self._target = target if isinstance(target, ClientMessageId) else EARLIEST
        self.by_time = not isinstance(target, ClientMessageId)

        def on_response(response: Any) -> None:
            if isinstance(response, ClientFailure):
                self._target, self.by_time = before
                self._fail(response)
            else:
                self._on_response()

        connection.request(body, on_response)

    def _on_response(self) -> None:
        consumer = self._consumer
        consumer.acks.flush_and_clean()
        consumer.last_taken = None
        consumer.queue.clear()
        if consumer.connection is None and consumer.parent is None:
            self._status = _Status.ANSWERED
        else:
            consumer.start_id = self._target
            self._finish(None)

    def _fail(self, failure: ClientFailure) -> None:
        if self._status is _Status.REQUESTED:
            self._finish(failure)

    def _finish(self, failure: ClientFailure | None) -> None:
        self._status = _Status.NONE
        done, self._done = self._done, _nobody
        done(failure)


def _seek_command(number: int, target: ClientMessageId | int) -> pb.CommandSeek:
    if isinstance(target, int):
        return pb.CommandSeek(consumer_id=number, message_publish_time=target)
    place = target.first or target
    body = pb.CommandSeek(consumer_id=number)
    body.message_id.ledgerId = place.ledger & (1 << 64) - 1
    body.message_id.entryId = place.entry & (1 << 64) - 1
    if target.first is None and target.is_batch:
        body.message_id.ack_set.extend(words_of((1 << target.batch_size) - (1 << target.batch_index)))
    return body


def _nobody(_: ClientFailure | None) -> None:
    """Ignore the result."""
