"""A scalable topic as a test changes and inspects it, and the crash of a registered consumer.

Rules of this file
1. A topic is found by its name at each call. The object therefore remains valid after a restart of the broker.
2. A change does what the same request of the REST API does. It is a turn of the broker, whose output is written when
   the call returns.
3. What is impossible raises LocalError with the text of the real broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pcli.codec.errors import LocalError
from pcli.codec.scalable import Layout
from pcli.codec.wire.near import near
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.embedded.operations import turn
from pcli.minibroker.errors import Refused
from pcli.minibroker.scalable.layout_changes import LayoutError

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.embedded.clock_and_faults import RunInBroker
    from pcli.minibroker.scalable.scalable_topic import ScalableTopic
    from pcli.minibroker.scalable.scalable_topic_service import ScalableTopicService
    from pcli.minibroker.server.intercepting_server import InterceptingServer


class BrokerScalableTopic:
    """A scalable topic of a MiniBroker."""

    def __init__(self, name: str, run_in_broker: RunInBroker, query: RunInBroker) -> None:
        """``query`` also runs a function after the broker has stopped."""
        self.name = name
        """The full name, ``topic://tenant/namespace/name``."""
        self._run_in_broker = run_in_broker
        self._query = query

    def __repr__(self) -> str:
        return f"<BrokerScalableTopic {self.name}>"

    @property
    def layout(self) -> Layout:
        """A snapshot of the layout. Raises LocalError if the topic was deleted."""
        found: Layout = self._query(
            lambda server: Layout.of(_find(server.broker, self.name)[0].layout_message(self.name))
        )
        return found

    def assignments(self, subscription: str) -> dict[str, list[int]]:
        """Return the ids of the assigned segments by the name of the stream or checkpoint consumer, by range.

        A consumer without connection is included until its grace period ends. The result is empty if the subscription
        has no such consumer. Raises LocalError if the topic was deleted.
        """

        def read(server: InterceptingServer) -> dict[str, list[int]]:
            coordinator = _find(server.broker, self.name)[1].coordinators.get(subscription)
            assignment = {} if coordinator is None else coordinator.assignment
            return {name: [segment.id for segment, _ in segments] for name, segments in assignment.items()}

        found: dict[str, list[int]] = self._query(read)
        return found

    def split(self, segment: int) -> tuple[int, ...]:
        """Split an active segment. Return the ids of the new segments. Raises LocalError."""
        return self._change(segment, lambda service, topic: service.split(topic, segment))

    def merge(self, first: int, second: int) -> tuple[int, ...]:
        """Merge two active, adjacent segments. Return the id of the new segment as a tuple. Raises LocalError."""
        return self._change(first, lambda service, topic: service.merge(topic, first, second))

    def rebucket(self, segment: int, buckets: int) -> tuple[int, ...]:
        """Replace an active segment by one with ``buckets`` entry buckets. Return its id as a tuple.

        Raises LocalError.
        """
        return self._change(segment, lambda service, topic: service.rebucket(topic, segment, buckets))

    def _change(self, segment: int, change: Callable[[ScalableTopicService, ScalableTopic], None]) -> tuple[int, ...]:
        def do(server: InterceptingServer) -> tuple[int, ...]:
            with turn(server) as broker:
                service, topic = _find(broker, self.name)
                try:
                    change(service, service.controlled(topic.name))
                except (LayoutError, Refused) as error:
                    raise LocalError(f"topic {self.name}: {error}") from None
                return topic.layout.segments[segment].children

        new: tuple[int, ...] = self._run_in_broker(do)
        return new


def _find(broker: Broker, name: str) -> tuple[ScalableTopicService, ScalableTopic]:
    """Return a topic and the service that contains it. Raises LocalError."""
    service = broker.scalable_topics
    try:
        return service, service.find(name)
    except Refused as refused:
        raise LocalError(f"topic {name}: {refused.text}") from None


def find_or_create(server: InterceptingServer, name: TopicName, segments: int) -> str:
    """Create a scalable topic unless it exists. Return its full name. Raises LocalError."""
    if not server.settings.scalableTopicsEnabled:
        raise LocalError(f"topic {name}: scalable topics are disabled; they require version='5.0.1'")
    local = name.local
    possible = name.domain in ("persistent", "topic") and name.cluster is None
    if not possible or local != local.strip() or local in (".", ".."):
        raise LocalError(
            f"topic {name}: not the name of a scalable topic; write topic or topic://tenant/namespace/topic"
        )
    if segments < 1:
        raise LocalError(f"topic {name}: {segments} segments: must be 1 or more")
    full = f"topic://{name.tenant}/{name.namespace}/{local}"
    with turn(server) as broker:
        try:
            broker.topic_registry.check_namespace(name)
            if full not in broker.scalable_topics.topics:
                broker.scalable_topics.create(full, segments)
        except (LayoutError, Refused) as error:
            raise LocalError(f"topic {full}: {error}") from None
    return full


def crash(server: InterceptingServer, name: str) -> None:
    """Cut the connections of the stream and checkpoint consumers with this name. Raises LocalError if there is none."""
    with turn(server) as broker:
        consumers = [
            one
            for topic in broker.scalable_topics.topics.values()
            for coordinator in topic.coordinators.values()
            for one in coordinator.consumers.values()
        ]
        clients: list[Any] = [one.client for one in consumers if one.name == name]
        if not clients:
            raise LocalError(f"there is no registered consumer {name}{near(name, {one.name for one in consumers})}")
        if all(one is None for one in clients):
            raise LocalError(f"consumer {name} is registered, but has no connection")
        for connection in broker.connections:
            if connection in clients:
                connection.close("cut by the test")
