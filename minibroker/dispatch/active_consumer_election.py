"""The election of the active consumer (AbstractDispatcherSingleActiveConsumer.pickAndScheduleActiveConsumer).

Only consumers with the best priority level take part. On a partition, they are sorted by name, and the partition index
modulo the number of these consumers selects one. On a topic without partitions, a hash ring of their names selects one.
A new consumer can replace the active consumer.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from pcli.codec.wire.hashes import murmur3_31

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer

__all__ = ["by_index", "by_ring", "candidates"]

RING_POINTS: Final = 100
"""Number of points per consumer (AbstractDispatcherSingleActiveConsumer.CONSUMER_CONSISTENT_HASH_REPLICAS)."""


def candidates(consumers: list[Consumer]) -> list[Consumer]:
    """Return the consumers of the best level, sorted by name. Consumers with equal names keep their order."""
    best = min(consumer.priority for consumer in consumers)
    return sorted((one for one in consumers if one.priority == best), key=lambda one: one.name)


def by_index(found: list[Consumer], index: int) -> Consumer:
    """Return the consumer selected by the index of the partition."""
    return found[index % len(found)]


def by_ring(found: list[Consumer], topic: str) -> Consumer:
    """Return the consumer of the first point on the ring at or above the hash of the full topic name.

    If two consumers have the same point, the consumer that is later in the list owns it.
    """
    points: dict[int, Consumer] = {}
    for consumer in found:
        for replica in range(RING_POINTS):
            points[murmur3_31(f"{consumer.name}{replica}".encode())] = consumer
    ring = sorted(points)
    place = bisect_left(ring, murmur3_31(topic.encode()))
    return points[ring[place % len(ring)]]
