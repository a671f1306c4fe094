"""Whose traffic it is: the application's, or that of the broker's own client.

A broker is a client too: it connects to itself (and to its peers) for transactions, system topics, compaction and
replication. On the wire that looks like any other client; only names give it away.

Rules of this file
1. A topic, a subscription and a producer name each say enough on their own. A frame that speaks of one of the
   broker's is system traffic; one that speaks of an application's is not, whatever else its connection carries.
2. A connection whose first topic is a system topic is the broker's; frames without a name follow their connection.
3. The topic under which transaction coordinators are found says nothing: applications look it up as well.

Sources: SystemTopicNames, Compactor, AbstractReplicator and SystemTopicClient of the broker; the captures.
"""

from __future__ import annotations

from typing import Final

__all__ = ["COORDINATOR_COMMANDS", "is_neutral_topic", "is_system_name", "is_system_subscription", "is_system_topic"]

COORDINATOR_COMMANDS: Final = ("END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION")
"""Only a transaction coordinator sends these, to the brokers of the topics."""

_NAMESPACE: Final = "pulsar/system"
_COORDINATORS: Final = "transaction_coordinator_assign"
_SUBSCRIPTIONS: Final = ("__compaction", "__system_reader", "pulsar.repl.")
_PRODUCERS: Final = ("pulsar.repl",)


def is_neutral_topic(topic: str) -> bool:
    """Whether applications and brokers both ask for this topic: the one that leads to transaction coordinators."""
    return _local_name(topic).startswith(_COORDINATORS)


def is_system_topic(topic: str) -> bool:
    """Whether a topic is one that brokers keep for themselves."""
    if is_neutral_topic(topic):
        return False
    _, _, place = topic.rpartition("://")
    return _local_name(topic).startswith("__") or place.startswith(f"{_NAMESPACE}/")


def is_system_subscription(name: str) -> bool:
    """Whether a subscription is one of a broker: compaction, a system topic's reader, a replication cursor."""
    return name.startswith(_SUBSCRIPTIONS)


def is_system_name(producer: str) -> bool:
    """Whether a producer name is a replicator's."""
    return producer.startswith(_PRODUCERS)


def _local_name(topic: str) -> str:
    return topic.rpartition("/")[2]
