"""The request and response of an endpoint.

Rules of this file
1. An endpoint is a function with a `Call` as its argument. It returns a value (200, as JSON), None (204) or a `Reply`.
   To reject a request, it raises a `RestError`, which contains the status, or an error of the broker.
2. The parts of a path are percent-encoded, as sent; `topic` and `namespace` decode them. An invalid name results in a
   412, as on the real broker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.policies.errors import unexpected_error
from pcli.minibroker.policies.java_types import JavaType
from pcli.minibroker.policies.policy_store import Cluster, Namespace

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}")

NAMED: Final = re.compile(r"[-=:.\w]+", re.ASCII)


VARIANTS: Final = {
    "domain": ("persistent", "non-persistent"),
    "scalable_domain": ("topic", "segment"),
    "component": ("functions", "sinks", "sources", "sink", "source"),
}
"""The values of the parameters in the paths of `Endpoint` that do not match other text."""


class RestError(Exception):
    """The status and reason of a rejected request."""

    def __init__(self, status: int, reason: str, media: str = "application/json") -> None:
        """``media`` is the media type; ``application/json`` means that the response is an object with the reason."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.media = media


class RedirectionError(Exception):
    """A request that another cluster processes (307). The text is the URL."""


class PageError(Exception):
    """A request that the real broker's HTTP server rejects with an HTML page.

    The text is the phrase of the status if ``text`` is empty.
    """

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.text = text


def unexpected(message: str, exception: str = "java.lang.NullPointerException") -> RestError:
    """Return the error for a value that makes the real broker fail."""
    return RestError(500, unexpected_error(message, exception))


def check_persistent(topic: Topic) -> None:
    """Raise the error of a cast in PersistentTopicsBase if the topic is non-persistent."""
    if topic.ledger is None:
        package = "org.apache.pulsar.broker.service"
        given, wanted = f"{package}.nonpersistent.NonPersistentTopic", f"{package}.persistent.PersistentTopic"
        why = f"({given} and {wanted} are in unnamed module of loader 'app')"
        raise unexpected(f"class {given} cannot be cast to class {wanted} {why}", "java.lang.ClassCastException")


def _number(text: str, bits: int) -> int | None:
    """Return an integer of a number of bits, or None for other text."""
    limit = 1 << (bits - 1)
    return int(text) if _NUMBER.fullmatch(text) and -limit <= int(text) < limit else None


@dataclass(frozen=True, slots=True)
class Reply:
    """A response with a status, headers and a media type."""

    status: int
    value: Any = None
    """A JSON value, or None for no body. Text and bytes are sent unchanged if ``media`` is not JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = "application/json"


@dataclass(slots=True)
class Call:
    """One request."""

    broker: Broker
    path: Mapping[str, str]
    """The named parts of the path, percent-encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    """The last value of each query parameter."""
    body: Any = None
    """The body, converted to the endpoint's type; None if there is no body or if it is null."""
    media: str = "application/json"
    """The content type."""
    method: str = "GET"
    url: str = ""
    """The URL of the request, or its path and query if the request names no host."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers by lower-case name."""

    def query_texts(self, name: str) -> list[str]:
        """Return all values of a query parameter."""
        return parse_qs(urlsplit(self.url).query, keep_blank_values=True).get(name, [])

    def path_text(self, name: str) -> str:
        """Return a decoded part of the path."""
        return unquote(self.path[name])

    def path_number(self, name: str) -> int:
        """Return a part of the path that is in `Endpoint.numbers`."""
        return int(self.path_text(name).strip() or 0)

    def query_number(self, name: str) -> int | None:
        """Return a query parameter that is in `Endpoint.numbers`, or None if it is missing."""
        text = self.query.get(name, "").strip()
        return int(text) if text else None

    def parsed(self, name: str, bits: int = 64, *, page: bool = False) -> int:
        """Return a part of the path that the real broker parses in its own code.

        Raises 500 for other text: with JSON, or with a page if ``page`` is set.
        """
        text = self.path_text(name)
        number = _number(text, bits)
        if number is None and page:
            raise PageError(500)
        if number is None:
            raise unexpected(f'For input string: "{text}"', "java.lang.NumberFormatException")
        return number

    def flag(self, name: str) -> bool:
        """Return whether a query parameter is true."""
        return self.query.get(name, "").lower() == "true"

    # -- namespaces ------------------------------------------------------------------------------------------------

    @property
    def namespace_name(self) -> str:
        """The ``tenant/namespace`` in the path. Raises 412 if it is invalid."""
        tenant, name = self.path_text("tenant"), self.path_text("namespace")
        if not (NAMED.fullmatch(tenant) and NAMED.fullmatch(name)):
            raise RestError(412, "Namespace name is not valid")
        return f"{tenant}/{name}"

    def namespace(self, reason: str = "Namespace does not exist") -> Namespace:
        """Return the namespace in the path. Raises 404 if it does not exist."""
        namespace = self.broker.policies.namespaces.get(self.namespace_name)
        if namespace is None:
            raise RestError(404, reason)
        return namespace

    def owned_namespace(self) -> Namespace:
        """Return the namespace in the path. Raises 404 if it does not exist.

        Raises 307 if a peer cluster serves it, and Refused if neither this cluster nor a peer does.
        """
        namespace = self.namespace("Namespace not found")
        peer = self.broker.policies.peer_of(namespace)
        if peer is not None:
            raise self.redirection(peer)
        return namespace

    def namespace_of_new_topic(self) -> None:
        """Check the namespace of a topic to create, like `owned_namespace`. If a peer cluster serves it, raises 503."""
        try:
            self.owned_namespace()
        except RedirectionError:
            raise RestError(503, "Failed to validate global cluster configuration") from None

    def redirection(self, cluster: Cluster, query: str = "") -> RedirectionError:
        """Return the error that redirects the request to the web service of a cluster, with another query parameter."""
        url = urlsplit(self.url)
        address = cluster.data.get("serviceUrlTls" if url.scheme == "https" else "serviceUrl")
        if not address:
            raise unexpected("null")
        scheme, host, query = url.scheme or "http", urlsplit(address).netloc, "&".join(filter(None, (url.query, query)))
        return RedirectionError(urlunsplit(url._replace(scheme=scheme, netloc=host, query=query)))

    # -- topics ----------------------------------------------------------------------------------------------------

    @property
    def topic_name(self) -> TopicName:
        """The topic name in the path. Raises 412 if it is invalid."""
        try:
            name = TopicName.decoded(self.path["domain"] or "persistent", self.namespace_name, self.path["topic"])
        except (LocalError, RestError):
            raise RestError(412, "Topic name is not valid") from None
        if name.cluster is not None:
            raise RestError(412, "Topic name is not valid")
        return name

    def topic(self) -> Topic:
        """Load and return the topic in the path, and start serving its bundle. Raises 404 if it does not exist."""
        name = self.topic_name
        self.owned_namespace()
        return self.load(name)

    def topic_with_policies(self) -> TopicName:
        """Return the name of the existing topic in the path.

        Raises 405 if topic policies are disabled, 412 for a partition, and 500 for a change without system topics.
        """
        if not self.broker.settings.topicLevelPoliciesEnabled:
            raise RestError(405, "Topic level policies is disabled, to enable the topic level policy and retry.")
        name = self.topic_name
        if name.partition >= 0:
            raise RestError(412, "Not allowed to set/get topic policy for a partition")
        self.owned_namespace()
        if not self.broker.topic_registry.exists(name):
            raise RestError(404, f"Topic {name} not found")
        if self.method != "GET" and not self.broker.settings.systemTopicEnabled:
            raise unexpected("Topic policies service is disabled.", "java.lang.UnsupportedOperationException")
        return name

    def load(self, name: TopicName) -> Topic:
        """Return a topic by name. Raises 404 if it does not exist."""
        registry = self.broker.topic_registry
        topic = registry.load(name)
        if topic is None and not name.persistent and registry.exists(name):
            topic = registry.create(name)  # a partition of a non-persistent topic
        if topic is None:
            raise self._not_found(name)
        registry.look_up(name)
        return topic

    def _not_found(self, name: TopicName) -> RestError:
        """Return the error for a missing topic or partition (PersistentTopicsBase.topicNotFoundReasonAsync)."""
        if name.partition < 0:
            return RestError(404, f"Topic {name} not found")
        count = self.broker.topic_registry.partitions(name.base)
        if count and not name.persistent:
            return RestError(409, f"Illegal topic partition name {name} with max allowed {count} partitions")
        if count:
            return RestError(404, "Topic partitions were not yet created")
        if name.persistent:
            return RestError(404, f"Partitioned Topic not found: {name} has zero partitions")
        return RestError(409, f"Partition metadata not found for the partitioned topic: {name}")

    def topics(self) -> list[Topic]:
        """Return the topic in the path, or all of its existing partitions. Raises 404 if it does not exist."""
        name = self.topic_name
        count = self.broker.topic_registry.partitions(name)
        if not count:
            return [self.topic()]
        parts = (self.broker.topic_registry.load(name.with_partition(index)) for index in range(count))
        return [part for part in parts if part is not None]

    def unpartitioned_topic(self, operation: str) -> Topic:
        """Return the topic in the path. For a partitioned topic, raises 405 with the name of the operation."""
        if self.broker.topic_registry.partitions(self.topic_name):
            raise RestError(405, f"{operation} on a partitioned topic is not allowed")
        return self.topic()

    def loaded_topics(self) -> list[Topic]:
        """Return the loaded topics of the namespace in the path. Raises 404 if the namespace does not exist."""
        name = self.owned_namespace().name
        return self.broker.topic_registry.loaded_in_namespace(name)

    def loaded_non_persistent_topics(self) -> list[str]:
        """Return the names of the non-persistent topics of the namespace in the path, with or without clients."""
        return sorted(topic.full_name for topic in self.loaded_topics() if not topic.persistent)

    def require_persistent(self, operation: str) -> None:
        """Raise 404 if a non-persistent topic in the path does not exist, and 405 if it exists."""
        if not self.topic_name.persistent:
            self.topics()
            raise RestError(405, f"{operation} on a non-persistent topic is not allowed")

    def persistent_topic(self, operation: str) -> Topic:
        """Return the topic in the path. Raises 404 if it does not exist, 405 if it is partitioned or non-persistent."""
        self.require_persistent(operation)
        return self.unpartitioned_topic(operation)

    def subscription(self, topic: Topic) -> Subscription:
        """Return the subscription in the path. Raises 404 if it does not exist."""
        name = self.path_text("subscription")
        subscription = topic.subscriptions.get(name)
        if subscription is None:
            raise RestError(404, f"Subscription {name} not found for topic {topic.full_name}")
        return subscription


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint."""

    method: str
    path: str
    """The path, with its parameters in braces; ``{domain}`` is persistent or non-persistent."""
    function: Callable[[Call], Any]
    text: str
    """Description of the endpoint."""
    body: JavaType | None = None
    """The type of the body; None if a body is ignored."""
    media_body: tuple[str, JavaType] | None = None
    """A media type and the type of a body of this media type."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Parameters of the path and of the query that must be integers, with their numbers of bits."""
    setting: str = ""
    """The setting without which the endpoint does not exist; empty if it always exists."""

    def check_numbers(self, call: Call) -> None:
        """Raise 404 (a page) if a parameter is not an integer. A blank one is 0, and can be missing in the query."""
        for name, bits in self.numbers.items():
            text = call.path_text(name) if name in call.path else call.query.get(name, "")
            if text.strip() and _number(text, bits) is None:
                raise PageError(404)

    def body_type(self, media: str) -> JavaType | None:
        """Return the type of a body with a media type."""
        if self.media_body is not None and media.startswith(self.media_body[0]):
            return self.media_body[1]
        return self.body
