"""Distinction between traffic of applications and of the broker's own client.

A broker is also a client: it connects to itself and to other brokers for transactions, system topics, compaction and
replication. Only names distinguish these connections from other clients.

Rules of this file
1. Each topic, subscription and producer name is sufficient evidence. A frame with a name of the broker is system
   traffic. A frame with a name of an application is not, even if its connection also carries system traffic.
2. A connection whose first topic is a system topic is the broker's. Frames without a name follow their connection.
3. The topic for the lookup of transaction coordinators proves nothing, because applications look it up too.

Sources: SystemTopicNames, Compactor, AbstractReplicator and SystemTopicClient of the broker; the captures.
"""

from __future__ import annotations

from typing import Final

__all__ = ["COORDINATOR_COMMANDS", "is_neutral_topic", "is_system_name", "is_system_subscription", "is_system_topic"]

COORDINATOR_COMMANDS: Final = ("END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION")
"""Commands that only a transaction coordinator sends, to the brokers of the topics."""

_NAMESPACE: Final = "pulsar/system"
_COORDINATORS: Final = "transaction_coordinator_assign"
_SUBSCRIPTIONS: Final = ("__compaction", "__system_reader", "pulsar.repl.")
_PRODUCERS: Final = ("pulsar.repl",)


def is_neutral_topic(topic: str) -> bool:
    """Whether both applications and brokers look up this topic: the topic of the transaction coordinators."""
    return _local_name(topic).startswith(_COORDINATORS)


def is_system_topic(topic: str) -> bool:
    """Whether a topic belongs to the broker."""
    if is_neutral_topic(topic):
        return False
    _, _, place = topic.rpartition("://")
    return _local_name(topic).startswith("__") or place.startswith(f"{_NAMESPACE}/")


def is_system_subscription(name: str) -> bool:
    """Whether a subscription belongs to the broker: compaction, a reader of a system topic, a replication cursor."""
    return name.startswith(_SUBSCRIPTIONS)


def is_system_name(producer: str) -> bool:
    """Whether a producer name belongs to a replicator."""
    return producer.startswith(_PRODUCERS)


def _local_name(topic: str) -> str:
    return topic.rpartition("/")[2]
