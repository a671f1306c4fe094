"""What an endpoint gets and gives.

Rules of this file
1. An endpoint is a function of one `Call`; it returns a value (200, as JSON), None (204) or a `Reply`. What it refuses
   it raises: a `RestError` with its status, or what the core raises.
2. The parts of a path come percent-encoded, as they were sent; `topic` and `namespace` read them. A name that is none
   is a 412, as on the real broker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.policies.policy_store import Namespace

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

__all__ = ["Call", "Endpoint", "Reply", "RestError"]

_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_LIMIT: Final = 1 << 63

_NAMED: Final = re.compile(r"[-=:.\w]+", re.ASCII)


class RestError(Exception):
    """A request that is not granted: a status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is not just a value."""

    status: int
    value: Any = None
    """JSON; None: no body. Text and bytes go as they are when ``media`` is not JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = "application/json"


@dataclass(slots=True)
class Call:
    """One request."""

    broker: Broker
    path: Mapping[str, str]
    """The named parts of the path, percent-encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """The JSON of the body; None: there was none, or null."""
    media: str = "application/json"
    """Its content type."""

    def path_text(self, name: str) -> str:
        """A part of the path, decoded."""
        return unquote(self.path[name])

    def path_number(self, name: str) -> int:
        """A part of the path that is a whole number of 64 bits; anything else is no such path."""
        text = self.path[name]
        if not _NUMBER.fullmatch(text) or not -_LIMIT <= int(text) < _LIMIT:
            raise RestError(404, f"{text!r} is no number")
        return int(text)

    def flag(self, name: str) -> bool:
        """A switch of the query."""
        return self.query.get(name, "").lower() == "true"

    # -- namespaces ------------------------------------------------------------------------------------------------

    @property
    def namespace_name(self) -> str:
        """``tenant/namespace`` of the path; 412 when it is no name."""
        tenant, name = self.path_text("tenant"), self.path_text("namespace")
        if not (_NAMED.fullmatch(tenant) and _NAMED.fullmatch(name)):
            raise RestError(412, "Namespace name is not valid")
        return f"{tenant}/{name}"

    def namespace(self, reason: str = "Namespace does not exist") -> Namespace:
        """The namespace of the path; 404 when there is none."""
        namespace = self.broker.policies.namespaces.get(self.namespace_name)
        if namespace is None:
            raise RestError(404, reason)
        return namespace

    # -- topics ----------------------------------------------------------------------------------------------------

    @property
    def topic_name(self) -> TopicName:
        """The topic of the path; 412 when it is no name."""
        try:
            name = TopicName.decoded(self.path["domain"], self.namespace_name, self.path["topic"])
        except LocalError:
            raise RestError(412, "Topic name is not valid") from None
        if name.cluster is not None:
            raise RestError(412, "Topic name is not valid")
        return name

    def topic(self) -> Topic:
        """The topic of the path, loaded; 404 when there is none. Its bundle is served from now on."""
        name = self.topic_name
        self.namespace("Namespace not found")
        return self.load(name)

    def load(self, name: TopicName) -> Topic:
        """A topic by its name; 404 when there is none."""
        topic = self.broker.topic_registry.load(name)
        if topic is None:
            raise RestError(404, f"Topic {name} not found")
        self.broker.topic_registry.look_up(name)
        return topic

    def topics(self) -> list[Topic]:
        """The topic of the path, or all partitions of it that are there; 404 when there is none."""
        name = self.topic_name
        count = self.broker.topic_registry.partitions(name)
        if not count:
            return [self.topic()]
        parts = (self.broker.topic_registry.load(name.with_partition(index)) for index in range(count))
        return [part for part in parts if part is not None]

    def unpartitioned_topic(self, operation: str) -> Topic:
        """The topic of the path; 405 when it is partitioned. ``operation`` is what is not allowed then."""
        if self.broker.topic_registry.partitions(self.topic_name):
            raise RestError(405, f"{operation} on a partitioned topic is not allowed")
        return self.topic()

    def persistent_topic(self, operation: str) -> Topic:
        """The same for what only a persistent topic has."""
        if not self.topic_name.persistent:
            raise RestError(405, f"{operation} on a non-persistent topic is not allowed")
        return self.unpartitioned_topic(operation)

    def subscription(self, topic: Topic) -> Subscription:
        """The subscription of the path; 404 when the topic has none of that name."""
        name = self.path_text("subscription")
        subscription = topic.subscriptions.get(name)
        if subscription is None:
            raise RestError(404, f"Subscription {name} not found for topic {topic.full_name}")
        return subscription


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the table."""

    method: str
    path: str
    """With its parts in braces; ``{domain}`` is persistent or non-persistent."""
    function: Callable[[Call], Any]
    text: str
    """What it does."""
