"""Requests about the position of a consumer: SEEK and GET_LAST_MESSAGE_ID.

While there is no subscription, a request is retried after 100 ms. The delay doubles with each retry, up to
``operationTimeoutMs`` in total (ConsumerImpl.seekAsyncInternal, internalGetLastMessageIdAsync).

Rules of the last message id (ConsumerImpl.hasMessageAvailableAsync, 4.2.4)
1. A message in the queue is available.
2. After a received message, more messages are available if the topic's last id is after it. The last id is cached and
   is requested again only if the cached id is not after the received message.
3. Before the first message is received, the start id is compared with the last id. If ``resetIncludeHead`` is set, an
   equal id also means that a message is available.
4. If the consumer starts at the end of the topic or at a publish time, the cursor's position at the broker is compared
   with the last id. If it starts at the end and ``resetIncludeHead`` is set, it first seeks to the last message.
5. The last id of an empty topic has entry -1. A last id with batch index 0 is equal to the id without a batch index.

Rules of SEEK (ConsumerImpl.seekAsync, seekAsyncInternal, clearReceiverQueue; 4.2.4)
1. Only one seek runs at a time. If there is no connection, the seek waits for a connection.
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
from pcli.replay.client.backoff import Backoff
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.consumer.consumer import Consumer


def once_connected(
    consumer: Consumer, what: str, action: Callable[[ClientConnection], None], refuse: Callable[[ClientFailure], None]
) -> None:
    """Call ``action`` with the connection, or ``refuse`` after the timeout. ``what`` names the request in errors."""
    engine = consumer.engine
    left = engine.settings.operationTimeoutMs
    backoff = Backoff(100, 2 * left, 0, engine.random)

    def attempt() -> None:
        nonlocal left
        connection = consumer.connected
        if connection is not None:
            action(connection)
            return
        delay = min(backoff.next(engine.now), left)
        if not consumer.may_connect:
            refuse(ClientFailure("Closed", f"{what}: the consumer is closed"))
        elif delay <= 0:
            refuse(ClientFailure("TimeOut", f"{what}: there was no connection"))
        else:
            left -= delay
            engine.call_at(engine.now + delay, attempt)

    attempt()


_Last = Callable[[ClientMessageId | ClientFailure, ClientMessageId | None], None]
"""Callback for the last id, and for the consumer's mark-delete position if the broker sent it."""


class LastMessageId:
    """The cached last message id of one consumer's topic."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._known = EARLIEST

    def request(self, done: _Last) -> None:
        """Request the last id."""
        consumer = self._consumer

        def request(connection: ClientConnection) -> None:
            connection.request(pb.CommandGetLastMessageId(consumer_id=consumer.number), on_response)

        def on_response(response: Any) -> None:
            if isinstance(response, ClientFailure):
                done(response, None)
                return
            last = ClientMessageId.of(response.body.last_message_id, consumer.topic)
            if last.batch_index <= 0:
                last = ClientMessageId(last.ledger, last.entry, last.partition, topic=consumer.topic)
            has = response.body.HasField("consumer_mark_delete_position")
            done(last, ClientMessageId.of(response.body.consumer_mark_delete_position) if has else None)

        once_connected(consumer, "last message id", request, lambda failure: done(failure, None))

    def available(self, done: Callable[[bool | ClientFailure], None]) -> None:
        """Call ``done`` with True if there is a message after the last received message, or else with False."""
        consumer = self._consumer
        taken = consumer.last_taken
        if consumer.queue.messages:
            done(bool(consumer.queue.messages))
        elif taken is not None:
            self._compare(taken.id, done, inclusive=False)
        elif consumer.seeking.by_time or consumer.start_id == LATEST:
            self._compare_cursor(done)
        else:
            start = EARLIEST if consumer.start_id is None else consumer.start_id
            self._compare(start, done, inclusive=consumer.settings.resetIncludeHead)

    def _compare(
        self, place: ClientMessageId, done: Callable[[bool | ClientFailure], None], *, inclusive: bool
    ) -> None:
        def is_behind_last() -> bool:
            known = self._known
            return known.entry != -1 and (known >= place if inclusive else known > place)

        def on_response(last: ClientMessageId | ClientFailure, _: ClientMessageId | None) -> None:
            if isinstance(last, ClientFailure):
                done(last)
                return
            self._known = last
            done(is_behind_last())

        available = is_behind_last()
        if available:
            done(available)
        else:
            self.request(on_response)

    def _compare_cursor(self, done: Callable[[bool | ClientFailure], None]) -> None:
        consumer = self._consumer
        by_time = consumer.seeking.by_time
        inclusive = consumer.settings.resetIncludeHead and not by_time

        def on_response(last: ClientMessageId | ClientFailure, mark: ClientMessageId | None) -> None:
            if isinstance(last, ClientFailure):
                done(last)
            elif inclusive:
                consumer.seek(last, lambda failure: done(failure or _is_behind(last, mark, inclusive=True)))
            else:
                done(_is_behind(last, mark, inclusive=False))

        self.request(on_response)


def _is_behind(last: ClientMessageId, mark: ClientMessageId | None, *, inclusive: bool) -> bool:
    """Return whether the last message is after the cursor's position."""
    if last.entry < 0:
        return False
    if mark is None or (mark.entry < 0 and mark.ledger > last.ledger):
        return inclusive
    position, end = (mark.ledger, mark.entry), (last.ledger, last.entry)
    return position <= end if inclusive else position < end


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
