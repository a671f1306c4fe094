"""Negatively acknowledged messages, whose redelivery is requested after a delay.

Rules of this file (NegativeAcksTracker; 4.2.4)
1. Negative acks apply to entries: the batch index is dropped, and the partition becomes -2. The receiver queue and the
   dead letter candidates, which compare whole ids, therefore do not find the entry. As a result, a message above
   ``maxRedeliverCount`` is delivered once more before it is sent to the dead letter topic. The Java client was observed
   to do the same.
2. The lowest ``negativeAckPrecisionBitCnt`` bits of the due time are cleared. Entries that are due at about the same
   time are therefore requested together, up to 2^bits ms too early.
3. The first negative ack sets a timer to the whole delay. Afterwards the timer is set to the earliest due time. A
   negative ack with a shorter delay does not advance the timer.
4. A delay is at least 100 ms. If a redelivery back-off is set, it computes the delay from the redelivery count, without
   a minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pcli.replay.client.consumer.unacked_message_tracker import Clock
from pcli.replay.client.message_ids import ClientMessageId

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.settings import ConsumerSettings

NO_PARTITION: Final = -2
"""The partition in ids of negatively acknowledged entries (DUMMY_PARTITION_INDEX)."""

_LEAST: Final = 100


class NegativeAcksTracker:
    """The negatively acknowledged entries of one consumer."""

    def __init__(
        self, clock: Clock, settings: ConsumerSettings, redeliver: Callable[[set[ClientMessageId]], None]
    ) -> None:
        self._clock = clock
        self._redeliver = redeliver
        self._delay = max(settings.negativeAckRedeliveryDelayMicros // 1000, _LEAST)
        self._mask = -1 << settings.negativeAckPrecisionBitCnt
        self._backoff = settings.negativeAckRedeliveryBackoff
        self._due: dict[int, set[tuple[int, int]]] = {}
        self._timer: Timer | None = None

    def add(self, id_: ClientMessageId, redelivery_count: int = 0) -> None:
        """Add a message. ``redelivery_count`` is 0 if only the id is known."""
        delay = self._delay if self._backoff is None else self._backoff.next(redelivery_count)
        time = self._clock.now + delay & self._mask
        self._due.setdefault(time, set()).add((id_.ledger, id_.entry))
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.now + delay, self._run)

    def close(self) -> None:
        """Drop all entries and stop the timer."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        now = self._clock.now
        due: set[ClientMessageId] = set()
        for time in [time for time in self._due if time <= now]:
            due |= {ClientMessageId(ledger, entry, NO_PARTITION) for ledger, entry in self._due.pop(time)}
        self._timer = self._clock.call_at(max(min(self._due), now), self._run) if self._due else None
        if due:
            self._redeliver(due)
