"""The choice of a message's partition.

Rules of this file (MessageRouterBase and its two subclasses, 4.2.4)
1. The hash of the key determines the partition in all modes. A binary key is hashed as its base64 text.
2. RoundRobinPartition without batching uses the partitions in turn, starting at a random partition.
3. If batching is enabled, the partition changes after ``batchingPartitionSwitchFrequencyByPublishDelay`` publish
   delays. The choice depends on the clock, not on the messages that were sent.
4. SinglePartition uses one random partition.
"""

from __future__ import annotations

from collections.abc import Callable

from pcli.codec.wire.hashes import partition_of
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer_settings import ProducerSettings

__all__ = ["MessageRouter"]


class MessageRouter:
    """The router of one partitioned producer with ``count`` partitions. ``random`` returns numbers in [0, 1)."""

    __slots__ = ("_choose", "_murmur", "_next", "_start", "_switch_ms")

    def __init__(self, settings: ProducerSettings, count: int, random: Callable[[], float]) -> None:
        self._start = self._next = int(random() * count)
        self._murmur = settings.hashingScheme == "Murmur3_32Hash"
        micros = settings.batchingPartitionSwitchFrequencyByPublishDelay * settings.batchingMaxPublishDelayMicros
        self._switch_ms = max(1, micros // 1000)
        if settings.messageRoutingMode == "SinglePartition":
            self._choose = self._single
        elif settings.batchingEnabled:
            self._choose = self._by_time
        else:
            self._choose = self._by_turns

    def choose(self, message: OutgoingMessage, count: int, now: int) -> int:
        """Return the partition of a message, from 0 to ``count`` - 1. ``now`` is in milliseconds since 1970."""
        if message.key is not None:
            return partition_of(message.key, count, murmur=self._murmur)
        return self._choose(count, now)

    def _single(self, count: int, now: int) -> int:
        return self._start

    def _by_time(self, count: int, now: int) -> int:
        return (now // self._switch_ms + self._start) % count

    def _by_turns(self, count: int, now: int) -> int:
        chosen = self._next % count
        self._next += 1
        return chosen
