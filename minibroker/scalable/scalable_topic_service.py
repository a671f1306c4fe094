"""The scalable topics of a broker: creation, lookups, changes of layouts, subscriptions and registered consumers.

Rules of this file (measured on 5.0.1)
1. The segments are topics of the broker. They exist before a layout names them: the new segments of a split have the
   subscriptions that the controller knows (created by REST, or with registered consumers), and not those that consumers
   of the parent created. A parent is terminated before the layout changes.
2. A session shows a client each layout. It also gets the same layout again after the election of a controller,
   after each registration of a consumer or a subscription, and when the topic is deleted.
3. A session can be opened for a name without a scalable topic: it shows a classic topic, or a topic that does not
   exist, as one segment per partition, and later the topic that is created or migrated.
4. The controller is elected by the first registration of a consumer and by most requests of the REST API. Automatic
   changes begin with it (`automatic_changes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pcli.codec.errors import LocalError, RemoteError
from pcli.codec.proto import pb
from pcli.codec.scalable import Layout, Segment, scalable_topic
from pcli.codec.scalable.segment_name import classic_namesake, scalable_namesake
from pcli.codec.wire.topic_name import TopicName, split_partition
from pcli.minibroker.errors import Refused
from pcli.minibroker.scalable import layout_changes
from pcli.minibroker.scalable.automatic_changes import AutomaticChanges
from pcli.minibroker.scalable.layout_changes import LayoutError
from pcli.minibroker.scalable.scalable_topic import LayoutOperation, ScalableTopic, dag_message
from pcli.minibroker.scalable.scalable_topic_watchers import ScalableTopicWatchers
from pcli.minibroker.scalable.subscription_coordinator import Client, RegisteredConsumer, SubscriptionCoordinator
from pcli.minibroker.topic_names import invalid_segment_name

if TYPE_CHECKING:
    from pcli.minibroker.policies.auto_scale_policy import AutoScalePolicy
    from pcli.minibroker.scalable.scalable_broker import ScalableBroker
    from pcli.minibroker.topics.topic import Topic

_NOT_FOUND: Final = "org.apache.pulsar.client.admin.PulsarAdminException$NotFoundException"


class _Session(NamedTuple):
    client: Client
    id: int


class ScalableTopicService:
    """All scalable topics of one broker."""

    def __init__(self, broker: ScalableBroker) -> None:
        self._broker = broker
        self.topics: dict[str, ScalableTopic] = {}
        """The topics by name, ``topic://tenant/namespace/name``."""
        self.watchers = ScalableTopicWatchers(self.topics)
        self._sessions: dict[str, list[_Session]] = {}
        """The open sessions by the name of their scalable topic. A client can open two with the same id."""
        self._registrations: dict[tuple[Client, int], tuple[ScalableTopic, SubscriptionCoordinator, str]] = {}
        """The coordinators and names of the consumers that each client registered, by its consumer id."""
        self.on_change: Callable[[str], None] | None = None
        """Called with the name of a topic whose stored state changes."""
        self._automatic = AutomaticChanges(self, broker)
        broker.topic_registry.segment_exists = self._segment_exists

    # -- topics --------------------------------------------------------------------------------------------------------

    def find(self, name: str) -> ScalableTopic:
        """Return a topic. Raises Refused (TopicNotFound)."""
        topic = self.topics.get(name)
        if topic is None:
            raise Refused(pb.TopicNotFound, f"Scalable topic not found: {name}")
        return topic

    def policy(self, topic: ScalableTopic) -> AutoScalePolicy:
        """Return the effective policy of the automatic changes of a topic."""
        return self._automatic.policy(topic)

    def names(self, namespace: str) -> list[str]:
        """Return the sorted names of the topics of a namespace (``tenant/namespace``)."""
        return sorted(name for name in self.topics if name.startswith(f"topic://{namespace}/"))

    def create(self, name: str, segments: int = 1, properties: dict[str, str] | None = None) -> ScalableTopic:
        """Create a topic. Raises Refused (NotAllowedError) if it exists; LayoutError for invalid segments."""
        if name in self.topics:
            raise Refused(pb.NotAllowedError, f"Scalable topic already exists: {name}")
        settings = self._broker.settings
        layout = layout_changes.initial(segments, settings.scalableTopicEntryBucketBudget, self._broker.now)
        topic = ScalableTopic(name, layout, properties or {})
        self.add(topic)
        return topic

    def add(self, topic: ScalableTopic) -> None:
        """Add a new topic and create its active segments. Raises LayoutError if the name is that of a partition."""
        base, partition = split_partition(topic.name)
        if partition >= 0:
            raise LayoutError(invalid_segment_name(f"segment://{_place(base)}"))
        self.topics[topic.name] = topic
        self._broker.topic_registry.taken.add(classic_namesake(topic.name))
        for segment in topic.layout.active:
            self.open_segment(topic.segment_name(segment), ())
        self.publish(topic)
        self.watchers.changed(topic.name, topic.properties)

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a topic with its segments. Raises Refused (TopicNotFound).

        ``force`` closes the clients of segments. Otherwise segments with clients remain, without a scalable topic.
        """
        topic = self.find(name)
        self._close_controller(topic)
        self.publish(topic)
        for segment in topic.layout.segments.values():
            self._delete_segment(topic, segment, force=force)
        self._broker.schemas.forget(TopicName.parse(name).schema_id)
        del self.topics[name]
        self.changed(topic)
        self._broker.policies.topic_permissions.pop(name, None)
        self._broker.policies.on_change(name)
        self._broker.topic_registry.taken.discard(classic_namesake(name))
        self.watchers.changed(name, topic.properties, deleted=True)

    def _delete_segment(self, topic: ScalableTopic, segment: Segment, *, force: bool = True) -> None:
        with suppress(Refused):  # REST can have deleted it, or it has clients
            self._broker.delete_topic(TopicName.parse(topic.segment_name(segment)), force=force)
        classic = TopicName.parse(segment.legacy_topic or topic.segment_name(segment)).base
        registry = self._broker.topic_registry
        count = registry.partitions(classic)
        if count and not any(registry.exists(classic.with_partition(index)) for index in range(count)):
            self._broker.policies.set_partitions(str(classic), 0)

    def _segment_exists(self, name: TopicName) -> bool:
        """Return whether a layout has the segment with this id. The real broker does not compare the range."""
        parent, _, descriptor = name.local.rpartition("/")
        topic = self.topics.get(f"topic://{name.tenant}/{name.namespace}/{parent}")
        return topic is not None and int(descriptor.rpartition("-")[2]) in topic.layout.segments

    def segment_topic(self, topic: ScalableTopic, segment: Segment) -> Topic | None:
        """Return the topic that stores a segment, or None if it was deleted."""
        return self._broker.topic_registry.load(TopicName.parse(topic.segment_name(segment)))

    def existing_segment_topic(self, topic: ScalableTopic, segment: Segment) -> Topic:
        """Return the topic that stores a segment. Raises Refused (TopicNotFound) if it was deleted."""
        stored = self.segment_topic(topic, segment)
        if stored is None:
            raise Refused(pb.TopicNotFound, f"Segment topic not found: {topic.segment_name(segment)}")
        return stored

    def open_segment(self, name: str, subscriptions: Iterable[str]) -> None:
        """Create the topic of a segment, and subscriptions that begin with its first message, unless they exist."""
        registry, parsed = self._broker.topic_registry, TopicName.parse(name)
        topic = registry.load(parsed) or registry.create(parsed)
        for one in subscriptions:
            if one not in topic.subscriptions and topic.ledger is not None:
                topic.create_subscription(one, topic.ledger.first)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def look_up(self, client: Client, session_id: int, text: str, *, create: bool) -> None:
        """Open a session and send the layout of the topic with this name. Raises Refused."""
        asked, name = self._resolve(text)
        if name not in self.topics and asked.domain != "persistent":
            auto = asked.domain == "topic" and self._broker.policies.effective(asked, "allowAutoTopicCreation")
            if not (create and auto):
                raise Refused(pb.TopicNotFound, f"Scalable topic not found: {asked}")
            self.create(name)
        session = _Session(client, session_id)
        self._sessions.setdefault(name, []).append(session)
        self._send_layout(session, name)

    def _resolve(self, text: str) -> tuple[TopicName, str]:
        """Return the name in a lookup, and the scalable topic with this name. Raises RemoteError or Refused."""
        try:
            parsed = TopicName.parse(text)
        except LocalError as error:
            raise RemoteError(error.text) from None
        if not parsed.persistent:
            raise Refused(pb.NotAllowedError, "Scalable topics do not support non-persistent:// topics")
        if parsed.partition >= 0:
            hint = f"an individual partition: {parsed}; use the base topic name {parsed.base}"
            raise Refused(pb.TopicNotFound, f"Cannot open a scalable-topic lookup for {hint}")
        name = scalable_topic(str(parsed)) or scalable_namesake(str(parsed))
        if not name:
            raise RemoteError(f"{text!r} is no name of a segment")
        return parsed, name

    def close_session(self, client: Client, session_id: int) -> None:
        """Close a session. An unknown id has no effect."""
        for sessions in self._sessions.values():
            if _Session(client, session_id) in sessions:
                sessions.remove(_Session(client, session_id))
                return

    def layout_message(self, name: str) -> pb.ScalableTopicDAG:
        """Return the message of the layout that a session shows of the topic with this name."""
        url, topic = self._broker.service_url, self.topics.get(name)
        if topic is None:
            layout = layout_changes.of_classic_topic(self.classic_topics(name), self._broker.now)
            return dag_message(layout, url, "")
        return dag_message(topic.layout, url, url if topic.controlled else "")

    def classic_topics(self, name: str) -> list[str]:
        """Return the partitions of the classic topic with the name of a scalable topic, or the topic itself."""
        classic = TopicName.parse(classic_namesake(name))
        count = self._broker.topic_registry.partitions(classic)
        return [str(classic.with_partition(index)) for index in range(count)] or [str(classic)]

    def _send_layout(self, session: _Session, name: str) -> None:
        session.client.send_command(
            pb.CommandScalableTopicUpdate(
                session_id=session.id, dag=self.layout_message(name), resolved_topic_name=name
            )
        )

    def changed(self, topic: ScalableTopic) -> None:
        """Record that the stored state of a topic has changed."""
        if self.on_change is not None:
            self.on_change(topic.name)

    def publish(self, topic: ScalableTopic) -> None:
        """Store a topic, and send its layout to all sessions."""
        self.changed(topic)
        for session in self._sessions.get(topic.name, ()):
            self._send_layout(session, topic.name)

    def connection_closed(self, client: Client) -> None:
        """Close the sessions and watchers of a connection. Its consumers stay registered for the grace period."""
        for name, sessions in list(self._sessions.items()):
            left = [one for one in sessions if one.client is not client]
            if left:
                self._sessions[name] = left
            else:
                del self._sessions[name]
        self.watchers.connection_closed(client)
        for key, (topic, coordinator, name) in list(self._registrations.items()):
            if key[0] is client:
                del self._registrations[key]
                self._wait_for_client(topic, coordinator, name)

    def _wait_for_client(self, topic: ScalableTopic, coordinator: SubscriptionCoordinator, name: str) -> None:
        """Remove a consumer without connection after the grace period."""
        grace = self._broker.settings.scalableTopicConsumerSessionGracePeriodSeconds * 1000
        if name in coordinator.consumers:
            coordinator.disconnected(name, grace, partial(self._remove, topic, coordinator, name, lost=True))

    def restore(self, topic: ScalableTopic, consumers: Mapping[str, Mapping[str, int]]) -> None:
        """Add a topic that was stored before the broker started.

        ``consumers`` has the names and types of the registered consumers of each subscription.
        """
        self.topics[topic.name] = topic
        self._broker.topic_registry.taken.add(classic_namesake(topic.name))
        for subscription, kinds in consumers.items():
            coordinator = self._coordinator(topic, subscription)
            for name, kind in kinds.items():
                coordinator.register(RegisteredConsumer(name, None, 0, kind))
                self._wait_for_client(topic, coordinator, name)

    # -- registered consumers ------------------------------------------------------------------------------------------

    def register(self, client: Client, command: pb.CommandScalableTopicSubscribe) -> None:
        """Register a stream or checkpoint consumer, and respond with its segments. Raises Refused."""
        try:
            name = str(TopicName.parse(command.topic))
        except LocalError:
            raise Refused(pb.InvalidTopicName, f"Invalid topic name: {command.topic}") from None
        topic = self.controlled(name)
        if not command.consumer_name:
            path = f"/topics/{_place(topic.name)}/subscriptions/{command.subscription}/consumers/"
            raise Refused(pb.UnknownError, f"Path({path}) is invalid")
        coordinator = self._coordinator(topic, command.subscription)
        consumer = RegisteredConsumer(command.consumer_name, client, command.consumer_id, command.consumer_type)
        self._registrations[client, consumer.id] = topic, coordinator, consumer.name
        assignment = coordinator.register(consumer)
        client.send_command(
            pb.CommandScalableTopicSubscribeResponse(request_id=command.request_id, assignment=assignment)
        )
        self.publish(topic)
        self._automatic.consumer_registered(topic, coordinator)

    def _coordinator(self, topic: ScalableTopic, subscription: str) -> SubscriptionCoordinator:
        found = topic.coordinators.get(subscription)
        if found is None:
            drained = partial(self._drained, topic, subscription)
            found = topic.coordinators[subscription] = SubscriptionCoordinator(
                topic, subscription, self._broker, drained
            )
        return found

    def unregister(self, client: Client, consumer_id: int) -> None:
        """Remove a consumer, unless its id is unknown or its name was registered again with another id.

        The real broker compares only the ids: a former client with the same id removes the consumer of the new one.
        """
        found = self._registrations.pop((client, consumer_id), None)
        if found is not None:
            topic, coordinator, name = found
            consumer = coordinator.consumers.get(name)
            if consumer is not None and consumer.id == consumer_id:
                self._remove(topic, coordinator, name)

    def unregister_all(self, topic: ScalableTopic, subscription: str) -> None:
        """Remove the registered consumers of a subscription, one after the other."""
        coordinator = topic.coordinators.get(subscription)
        if coordinator is not None:
            for key in [key for key, found in self._registrations.items() if found[1] is coordinator]:
                del self._registrations[key]
            for name in list(coordinator.consumers):
                self._remove(topic, coordinator, name)
            topic.coordinators.pop(subscription, None)

    def _remove(
        self, topic: ScalableTopic, coordinator: SubscriptionCoordinator, name: str, *, lost: bool = False
    ) -> None:
        """Remove a consumer. The coordinator is removed with the last one, unless its connection was lost."""
        if name not in coordinator.consumers:
            return
        coordinator.remove(name)
        if not coordinator.consumers and not lost:
            coordinator.close()
            del topic.coordinators[coordinator.subscription]
        self.publish(topic)

    def _drained(self, topic: ScalableTopic, subscription: str, segment: Segment) -> bool:
        """Return whether a subscription has acknowledged all messages of a sealed segment."""
        stored = self.segment_topic(topic, segment)
        if stored is None:
            return True
        found = stored.subscriptions.get(subscription)
        return found is not None and stored.terminated and found.backlog == 0

    # -- the controller ------------------------------------------------------------------------------------------------

    def controlled(self, name: str) -> ScalableTopic:
        """Return a topic with a controller; elect one if there is none. Raises Refused (UnknownError)."""
        topic = self.topics.get(name)
        if topic is None:
            raise Refused(pb.UnknownError, f"Failed to initialize controller for {name}")
        if not topic.controlled:
            topic.controlled = True
            topic.last_by_kind = layout_changes.times_of_changes(topic.layout)
            self._automatic.controller_elected(topic)
            self.publish(topic)
        return topic

    def _close_controller(self, topic: ScalableTopic) -> None:
        topic.controlled = False
        for tick in topic.ticks:
            tick.cancel()
        topic.ticks.clear()
        for coordinator in topic.coordinators.values():
            coordinator.close()
        self._registrations = {key: found for key, found in self._registrations.items() if found[0] is not topic}
        topic.coordinators.clear()

    # -- changes of the layout -----------------------------------------------------------------------------------------

    def split(self, topic: ScalableTopic, number: int, *, automatic: bool = False) -> None:
        """Split a segment. Raises LayoutError, or Refused (TopicNotFound) if REST has deleted the segment's topic."""
        change = partial(layout_changes.split, topic.layout, number, self._broker.now)
        self._change(topic, "split", (number,), change, automatic)

    def merge(self, topic: ScalableTopic, first: int, second: int, *, automatic: bool = False) -> None:
        """Merge two segments. Raises LayoutError or Refused, as `split` does."""
        most = self._broker.settings.scalableTopicEntryBucketMaxPerSegment
        change = partial(layout_changes.merge, topic.layout, first, second, most, self._broker.now)
        self._change(topic, "merge", (first, second), change, automatic)

    def rebucket(self, topic: ScalableTopic, number: int, count: int, *, automatic: bool = False) -> None:
        """Give a segment another number of entry buckets. Raises LayoutError or Refused, as `split` does."""
        most = self._broker.settings.scalableTopicEntryBucketMaxPerSegment
        change = partial(layout_changes.rebucket, topic.layout, number, count, most, self._broker.now)
        self._change(topic, "rebucket", (number,), change, automatic)

    def _change(
        self, topic: ScalableTopic, kind: str, replaced: tuple[int, ...], change: Callable[[], Layout], automatic: bool
    ) -> None:
        """Create the new segments, seal the replaced ones, and publish the layout; or record why it is impossible."""
        operation = LayoutOperation(kind, automatic, replaced, self._broker.now)
        try:
            layout = change()
            parents = [self.existing_segment_topic(topic, topic.layout.segments[one]) for one in replaced]
        except LayoutError as error:
            topic.last = operation._replace(error=f"java.lang.IllegalArgumentException: {error}")
            raise
        except Refused as error:
            topic.last = operation._replace(error=f"{_NOT_FOUND}: {error.text}")
            raise
        subscriptions = sorted({*topic.subscription_types, *topic.coordinators})
        for one in layout.segments.values():
            if one.id not in topic.layout.segments:
                self.open_segment(topic.segment_name(one), subscriptions)
        for parent in parents:
            self._broker.terminate(parent)
        self._record(topic, operation)
        topic.layout = layout
        self._layout_changed(topic)

    def prune(self, topic: ScalableTopic, numbers: Sequence[int]) -> None:
        """Remove sealed segments and their topics. Each is an epoch of its own, but clients see only the last one."""
        segments = [topic.layout.segments[number] for number in numbers]
        for number in numbers:
            self._record(topic, LayoutOperation("prune", automatic=True, segments=(number,), at=self._broker.now))
            topic.layout = layout_changes.prune(topic.layout, number)
        self._layout_changed(topic)
        for segment in segments:
            self._delete_segment(topic, segment)

    def _record(self, topic: ScalableTopic, operation: LayoutOperation) -> None:
        topic.last = operation
        topic.last_by_kind[operation.kind] = operation.at

    def _layout_changed(self, topic: ScalableTopic) -> None:
        self.publish(topic)
        for coordinator in topic.coordinators.values():
            coordinator.layout_changed()


def _place(name: str) -> str:
    return name.removeprefix("topic://")
