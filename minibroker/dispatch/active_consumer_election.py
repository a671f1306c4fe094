"""Who of several consumers is the active one (AbstractDispatcherSingleActiveConsumer.pickAndScheduleActiveConsumer).

Only the best priority level takes part. On a partition its index decides, modulo their number, in order of names; on
a topic without partitions a hash ring over their names. So a newcomer may take over.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from pcli.codec.wire.hashes import murmur3_31

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer

__all__ = ["by_index", "by_ring", "candidates"]

RING_POINTS: Final = 100
"""Places of each consumer on the ring (AbstractDispatcherSingleActiveConsumer.CONSUMER_CONSISTENT_HASH_REPLICAS)."""


def candidates(consumers: list[Consumer]) -> list[Consumer]:
    """Those of the best level, in order of names; of one name the earlier comes first."""
    best = min(consumer.priority for consumer in consumers)
    return sorted((one for one in consumers if one.priority == best), key=lambda one: one.name)


def by_index(found: list[Consumer], index: int) -> Consumer:
    """By the index of the partition."""
    return found[index % len(found)]


def by_ring(found: list[Consumer], topic: str) -> Consumer:
    """By the first point on the ring at or above the hash of the topic's full name; of equal points the last wins."""
    points: dict[int, Consumer] = {}
    for consumer in found:
        for replica in range(RING_POINTS):
            points[murmur3_31(f"{consumer.name}{replica}".encode())] = consumer
    ring = sorted(points)
    place = bisect_left(ring, murmur3_31(topic.encode()))
    return points[ring[place % len(ring)]]
