"""Messages that the application has refused: after a delay they are asked for again, together.

Rules of this file (NegativeAcksTracker; 4.2.4)
1. Entries are refused, not messages: the index in the batch is dropped, and with it the partition, which becomes -2.
   So neither the queue nor the dead letters, which go by the whole id, find a refused entry (seen: a message over its
   ``maxRedeliverCount`` comes once more before it goes to the dead letters).
2. The time at which an entry is due loses its lowest ``negativeAckPrecisionBitCnt`` bits: what is due about the same
   time is asked for together, and up to 2^bits ms too early.
3. The first refusal sets a timer to its full delay; from then on it goes by the earliest time that is left. A refusal
   with a shorter delay does not bring it forward.
4. A delay is at least 100 ms. With a back-off it is what that says for how often the message came, without a least.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pcli.replay.client.consumer.unacked_message_tracker import Clock
from pcli.replay.client.message_ids import ClientMessageId

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.consumer_settings import ConsumerSettings

__all__ = ["NO_PARTITION", "NegativeAcksTracker"]

NO_PARTITION: Final = -2
"""The partition of a refused entry (DUMMY_PARTITION_INDEX)."""

_LEAST: Final = 100


class NegativeAcksTracker:
    """The refused entries of one consumer."""

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
        """Refuse a message. ``redelivery_count``: how often it came; 0 where only its id is known."""
        delay = self._delay if self._backoff is None else self._backoff.next(redelivery_count)
        time = self._clock.now + delay & self._mask
        self._due.setdefault(time, set()).add((id_.ledger, id_.entry))
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.now + delay, self._run)

    def close(self) -> None:
        """Forget all."""
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
