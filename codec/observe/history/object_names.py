"""The names by which `pcli why` finds an object of a capture.

Rules of this file
1. A topic has its full name, its name without the domain, its short name and its local name. Objects of a topic have
   their own name and their name after one of the topic's names: ``orders/billing/worker`` is a consumer, ``orders/web``
   is a producer. A consumer is also found by ``billing/worker``.
2. A producer or consumer without a name is found by connection and id: ``3#0``.
3. The name of a partitioned topic finds its partitions, unless another object has exactly this name.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from pcli.codec.errors import LocalError
from pcli.codec.observe.rules.connection_text import place
from pcli.codec.observe.text_format import short_topic
from pcli.codec.wire.message_id import MessageId
from pcli.codec.wire.topic_name import split_partition

KINDS: Final = ("consumer", "subscription", "producer", "topic", "connection", "message")
"""The kinds of objects."""

EXACT: Final = 2
"""The rank of an object whose name is exactly the wanted name."""

_PARTITION: Final = 1
"""The rank of a partition, or of an object of a partition, if the wanted name contains the partitioned topic."""


def subscription_name(topic: str, subscription: str) -> str:
    """Return the name under which a subscription is listed: ``orders/billing``."""
    return f"{short_topic(topic)}/{subscription}"


def consumer_name(topic: str, subscription: str, consumer: str) -> str:
    """Return the name under which a consumer is listed: ``orders/billing/worker``, or only the consumer's name."""
    return f"{subscription_name(topic, subscription)}/{consumer}" if topic else consumer


def producer_name(topic: str, producer: str) -> str:
    """Return the name under which a producer is listed: ``orders/web``, or only the producer's name."""
    return f"{short_topic(topic)}/{producer}" if topic else producer


class NameMatcher:
    """A comparison of objects with a wanted name. Each function returns a rank, or 0 if the name differs."""

    def __init__(self, name: str, kind: str = "") -> None:
        """``kind`` is one of KINDS, or empty for all kinds."""
        self.name = name
        self.kind = kind
        self.message_id = _message_id(name) if self._wants("message") else None
        """The wanted name as a message id; None if it is no message id."""
        self.topic = lru_cache(4096)(self._topic)
        self.subscription = lru_cache(4096)(self._subscription)
        self.consumer = lru_cache(4096)(self._consumer)
        self.producer = lru_cache(4096)(self._producer)

    def _wants(self, kind: str) -> bool:
        return self.kind in ("", kind)

    def connection(self, stream: int, client: tuple[str, int], server: tuple[str, int]) -> int:
        """Compare a connection by ``tcp.stream``, or by the address and port of its client or server."""
        names = (str(stream), place(client), place(server))
        return EXACT if self._wants("connection") and self.name in names else 0

    def _topic(self, topic: str) -> int:
        return self._rank(topic, "") if self._wants("topic") else 0

    def _subscription(self, topic: str, subscription: str) -> int:
        if not self._wants("subscription"):
            return 0
        return EXACT if self.name == subscription else self._rank(topic, f"/{subscription}")

    def _consumer(self, topic: str, subscription: str, consumer: str, stream: int, number: int) -> int:
        if not self._wants("consumer"):
            return 0
        names = [one for one in (consumer, f"{stream}#{number}") if one]
        if self.name in names or (subscription and self.name in [f"{subscription}/{one}" for one in names]):
            return EXACT
        return max(self._rank(topic, f"/{subscription}/{one}") for one in names)

    def _producer(self, topic: str, producer: str, stream: int, number: int) -> int:
        if not self._wants("producer"):
            return 0
        names = [one for one in (producer, f"{stream}#{number}") if one]
        return EXACT if self.name in names else max(self._rank(topic, f"/{one}") for one in names)

    def _rank(self, topic: str, rest: str) -> int:
        """Compare the names of a topic, each followed by ``rest``."""
        if not topic:
            return 0
        if any(self.name == f"{one}{rest}" for one in _topic_names(topic)):
            return EXACT
        whole, partition = split_partition(topic)
        return _PARTITION * (partition >= 0 and any(self.name == f"{one}{rest}" for one in _topic_names(whole)))


def _topic_names(topic: str) -> Iterator[str]:
    yield topic
    yield topic.partition("://")[2]
    yield short_topic(topic)
    yield topic.rpartition("/")[2]


def _message_id(name: str) -> MessageId | None:
    try:
        found = MessageId.parse(name)
    except LocalError:
        return None
    return found if min(found.ledger, found.entry) >= 0 else None
