"""The last message id of the topic, and whether more messages are available (ConsumerImpl.hasMessageAvailableAsync).

Rules of this file (4.2.4)
1. A message in the queue is available.
2. After a received message, more messages are available if the topic's last id is after it. The last id is cached and
   is requested again only if the cached id is not after the received message.
3. Before the first message is received, the start id is compared with the last id. If ``resetIncludeHead`` is set, an
   equal id also means that a message is available.
4. If the consumer starts at the end of the topic or at a publish time, the cursor's position at the broker is compared
   with the last id. If it starts at the end and ``resetIncludeHead`` is set, it first seeks to the last message.
5. The last id of an empty topic has entry -1. A last id with batch index 0 is equal to the id without a batch index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pcli.codec.proto import pb
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.deferred_requests import once_connected
from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.consumer.consumer import Consumer

__all__ = ["LastMessageId"]

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
