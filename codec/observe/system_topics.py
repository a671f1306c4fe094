"""Distinction between application traffic and traffic of the broker's own client.

A broker is also a client: it connects to itself and to other brokers for transactions, system topics, compaction and
replication. Only names distinguish these connections from other clients.

Rules of this file
1. A topic, subscription or producer name is sufficient evidence. A frame with a broker's name is system traffic. A
   frame with an application's name is not system traffic, even if its connection also carries system traffic.
2. A connection whose first topic is a system topic belongs to the broker. A frame without a name is classified like its
   connection.
3. The topic of the transaction coordinators is not evidence, because applications also look it up.

Sources: SystemTopicNames, Compactor, AbstractReplicator and SystemTopicClient of the broker; the captures.
"""

from __future__ import annotations

from typing import Final

COORDINATOR_COMMANDS: Final = ("END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION")
"""Commands that only a transaction coordinator sends."""

_NAMESPACE: Final = "pulsar/system"
_COORDINATORS: Final = "transaction_coordinator_assign"
_SUBSCRIPTIONS: Final = ("__compaction", "__system_reader", "pulsar.repl.")
_PRODUCERS: Final = ("pulsar.repl",)


def is_neutral_topic(topic: str) -> bool:
    """Whether this is the topic of the transaction coordinators, which both applications and brokers look up."""
    return _local_name(topic).startswith(_COORDINATORS)


def is_system_topic(topic: str) -> bool:
    """Whether a topic belongs to the broker."""
    if is_neutral_topic(topic):
        return False
    _, _, place = topic.rpartition("://")
    return _local_name(topic).startswith("__") or place.startswith(f"{_NAMESPACE}/")


def is_system_subscription(name: str) -> bool:
    """Whether a subscription belongs to the broker, for compaction, reading a system topic, or replication."""
    return name.startswith(_SUBSCRIPTIONS)


def is_system_name(producer: str) -> bool:
    """Whether a producer name belongs to a replicator."""
    return producer.startswith(_PRODUCERS)


def _local_name(topic: str) -> str:
    return topic.rpartition("/")[2]
