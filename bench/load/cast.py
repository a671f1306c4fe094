"""Who takes part: connections in groups of eight, topics, producers, subscriptions, consumers, and who meets whom.

Rules of this file
1. The first connections of a group have producers, the others consumers; the very first has a consumer, too.
2. Producers and consumers are numbered over all (their columns are indexed by that); their ids count per connection.
3. The consumers of a topic's subscription have consecutive numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from load.settings import Load
from pcli.codec.wire.hashes import SLOTS, sticky_hash

__all__ = ["Cast", "Consumer", "Producer", "cast_of"]

GROUP = 8


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer."""

    connection: int
    id: int
    topic: int
    name: str


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer."""

    connection: int
    id: int
    topic: int
    subscription: int
    """Index into `Load.subscriptions`."""
    name: str
    wants: bool
    """Whether it asks for answers to its acks."""


@dataclass(slots=True)
class Cast:
    """All of them."""

    connections: int = 0
    topics: list[str] = field(default_factory=list)
    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    producers_of: list[list[int]] = field(default_factory=list)
    """Topic to its producers."""
    first: dict[tuple[int, int], int] = field(default_factory=dict)
    """(topic, subscription) to its first consumer."""
    count: dict[tuple[int, int], int] = field(default_factory=dict)
    """(topic, subscription) to how many consumers it has."""
    ids: dict[tuple[int, str], int] = field(default_factory=dict)

    def id(self, connection: int, kind: str) -> int:
        """The next free id of a connection."""
        self.ids[connection, kind] = self.ids.get((connection, kind), -1) + 1
        return self.ids[connection, kind]

    def table(self, which: dict[tuple[int, int], int], subscription: int) -> np.ndarray:
        """A column of ``first`` or ``count``, by topic."""
        return np.array([which[topic, subscription] for topic in range(len(self.topics))], np.int64)


def cast_of(load: Load) -> Cast:
    cast = Cast(load.connections)
    groups = max(1, load.connections // GROUP)
    for group in range(groups):
        last = load.connections if group == groups - 1 else (group + 1) * GROUP
        _group(load, cast, list(range(group * GROUP, last)))
    return cast


def _group(load: Load, cast: Cast, members: list[int]) -> None:
    makers = members[: 2 if len(members) > 3 else 1]
    takers = members[len(makers) :] + members[:1]
    for _ in range(load.topics):
        topic = len(cast.topics)
        cast.topics.append(f"persistent://public/default/load-{topic}")
        cast.producers_of.append([])
        for connection in makers:
            cast.producers_of[topic].append(len(cast.producers))
            name = f"standalone-0-{len(cast.producers)}"
            cast.producers.append(Producer(connection, cast.id(connection, "producer"), topic, name))
        for subscription, kind in enumerate(load.subscriptions):
            _subscription(load, cast, topic, subscription, _hosts(kind, takers))


def _hosts(kind: str, takers: list[int]) -> list[int]:
    """The connections of a subscription's consumers."""
    others = [takers[index % len(takers)] for index in range(3, 6)]
    match kind:
        case "Shared":
            return takers[:3] + takers[6:]
        case "Failover":
            return others[:2]
        case "Exclusive":
            return others[2:]
        case _:
            return others


def _subscription(load: Load, cast: Cast, topic: int, subscription: int, hosts: list[int]) -> None:
    cast.first[topic, subscription] = len(cast.consumers)
    cast.count[topic, subscription] = len(hosts)
    shared = load.subscriptions[subscription] == "Shared"
    for connection in hosts:
        number = len(cast.consumers)
        wants = shared and load.wanted > 0 and number % load.wanted == 0
        one = Consumer(connection, cast.id(connection, "consumer"), topic, subscription, f"c{number:05}", wants)
        cast.consumers.append(one)


def key_hosts(load: Load, consumers: int) -> np.ndarray:
    """For each key the consumer, of that many, whose equal part of the slots has the key's."""
    return np.array([sticky_hash(key_of(key)) * consumers // SLOTS for key in range(load.keys)], np.int64)


def key_of(number: int) -> bytes:
    return b"key-%d" % number
