"""Is there another message? The last id of the topic, and what it says (ConsumerImpl.hasMessageAvailableAsync; 4.2.4).

Rules of this file
1. What waits in the queue is available.
2. Something was taken already: there is more when the topic's last id is behind it. The last id is kept, and asked for
   again only when it says no.
3. Nothing was taken: the same with the start id, which itself counts with ``resetIncludeHead``.
4. Nothing was taken, and the start is the end of the topic or a time: the broker's position of the cursor is compared
   with the last id. At the end with ``resetIncludeHead`` the consumer seeks to the last message first.
5. A topic without messages has the entry -1. Batch index 0 or none is the same last id.
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
"""The last id, and the mark-delete position of the consumer if the broker says it."""


class LastMessageId:
    """What one consumer knows of the end of its topic."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._known = EARLIEST

    def ask(self, done: _Last) -> None:
        """Ask the broker for the last id."""
        consumer = self._consumer

        def ask(connection: ClientConnection) -> None:
            connection.request(pb.CommandGetLastMessageId(consumer_id=consumer.number), answered)

        def answered(answer: Any) -> None:
            if isinstance(answer, ClientFailure):
                done(answer, None)
                return
            last = ClientMessageId.of(answer.body.last_message_id, consumer.topic)
            if last.batch_index <= 0:
                last = ClientMessageId(last.ledger, last.entry, last.partition, topic=consumer.topic)
            has = answer.body.HasField("consumer_mark_delete_position")
            done(last, ClientMessageId.of(answer.body.consumer_mark_delete_position) if has else None)

        once_connected(consumer, "last message id", ask, lambda failure: done(failure, None))

    def available(self, done: Callable[[bool | ClientFailure], None]) -> None:
        """Whether there is a message behind what was taken."""
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
        def behind() -> bool:
            known = self._known
            return known.entry != -1 and (known >= place if inclusive else known > place)

        def answered(last: ClientMessageId | ClientFailure, _: ClientMessageId | None) -> None:
            if isinstance(last, ClientFailure):
                done(last)
                return
            self._known = last
            done(behind())

        there = behind()
        if there:
            done(there)
        else:
            self.ask(answered)

    def _compare_cursor(self, done: Callable[[bool | ClientFailure], None]) -> None:
        consumer = self._consumer
        by_time = consumer.seeking.by_time
        inclusive = consumer.settings.resetIncludeHead and not by_time

        def answered(last: ClientMessageId | ClientFailure, mark: ClientMessageId | None) -> None:
            if isinstance(last, ClientFailure):
                done(last)
            elif inclusive:
                consumer.seek(last, lambda failure: done(failure or _is_behind(last, mark, inclusive=True)))
            else:
                done(_is_behind(last, mark, inclusive=False))

        self.ask(answered)


def _is_behind(last: ClientMessageId, mark: ClientMessageId | None, *, inclusive: bool) -> bool:
    """Whether the last message is behind the cursor's position."""
    if last.entry < 0:
        return False
    if mark is None or (mark.entry < 0 and mark.ledger > last.ledger):
        return inclusive
    here, there = (mark.ledger, mark.entry), (last.ledger, last.entry)
    return here <= there if inclusive else here < there
