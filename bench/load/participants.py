"""The participants: connections in groups of eight, with topics, producers, subscriptions and consumers.

Rules of this file
1. The first connections of a group have producers, the others have consumers. The first connection also has a consumer.
2. Producers and consumers have numbers over all connections, which index their columns, and ids per connection.
3. The consumers of a topic's subscription have consecutive numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from load.settings import Load
from pcli.codec.wire.hashes import SLOTS, sticky_hash

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
    ack_receipts: bool
    """Whether it requests responses to its acks."""


@dataclass(slots=True)
class Participants:
    """All participants."""

    connections: int = 0
    topics: list[str] = field(default_factory=list)
    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    producers_of: list[list[int]] = field(default_factory=list)
    """Producers by topic."""
    first: dict[tuple[int, int], int] = field(default_factory=dict)
    """First consumer by (topic, subscription)."""
    count: dict[tuple[int, int], int] = field(default_factory=dict)
    """Number of consumers by (topic, subscription)."""
    ids: dict[tuple[int, str], int] = field(default_factory=dict)

    def id(self, connection: int, kind: str) -> int:
        """Return the next free id of a connection."""
        self.ids[connection, kind] = self.ids.get((connection, kind), -1) + 1
        return self.ids[connection, kind]

    def table(self, which: dict[tuple[int, int], int], subscription: int) -> np.ndarray:
        """Return a column of ``first`` or ``count``, by topic."""
        return np.array([which[topic, subscription] for topic in range(len(self.topics))], np.int64)


def participants_of(load: Load) -> Participants:
    participants = Participants(load.connections)
    groups = max(1, load.connections // GROUP)
    for group in range(groups):
        last = load.connections if group == groups - 1 else (group + 1) * GROUP
        _group(load, participants, list(range(group * GROUP, last)))
    return participants


def _group(load: Load, participants: Participants, members: list[int]) -> None:
    producer_hosts = members[: 2 if len(members) > 3 else 1]
    consumer_hosts = members[len(producer_hosts) :] + members[:1]
    for _ in range(load.topics):
        topic = len(participants.topics)
        participants.topics.append(f"persistent://public/default/load-{topic}")
        participants.producers_of.append([])
        for connection in producer_hosts:
            participants.producers_of[topic].append(len(participants.producers))
            name = f"standalone-0-{len(participants.producers)}"
            participants.producers.append(Producer(connection, participants.id(connection, "producer"), topic, name))
        for subscription, kind in enumerate(load.subscriptions):
            _subscription(load, participants, topic, subscription, _hosts(kind, consumer_hosts))


def _hosts(kind: str, consumer_hosts: list[int]) -> list[int]:
    """Return the connections of a subscription's consumers."""
    others = [consumer_hosts[index % len(consumer_hosts)] for index in range(3, 6)]
    match kind:
        case "Shared":
            return consumer_hosts[:3] + consumer_hosts[6:]
        case "Failover":
            return others[:2]
        case "Exclusive":
            return others[2:]
        case _:
            return others


def _subscription(load: Load, participants: Participants, topic: int, subscription: int, hosts: list[int]) -> None:
    participants.first[topic, subscription] = len(participants.consumers)
    participants.count[topic, subscription] = len(hosts)
    shared = load.subscriptions[subscription] == "Shared"
    for connection in hosts:
        number = len(participants.consumers)
        ack_receipts = shared and load.wanted > 0 and number % load.wanted == 0
        one = Consumer(
            connection, participants.id(connection, "consumer"), topic, subscription, f"c{number:05}", ack_receipts
        )
        participants.consumers.append(one)


def key_hosts(load: Load, consumers: int) -> np.ndarray:
    """Return the consumer of each key, if this number of consumers divides the slots equally."""
    return np.array([sticky_hash(key_of(key)) * consumers // SLOTS for key in range(load.keys)], np.int64)


def key_of(number: int) -> bytes:
    return b"key-%d" % number
