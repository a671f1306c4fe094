"""TopicRegistry: the existing topics, the served bundles, and topic creation.

Rules of this file (NamespaceService, BrokerService.getTopic, isAllowAutoTopicCreation; 4.2.4)
1. A bundle is served after the first lookup of any topic in it. Before that, the response to PRODUCER and SUBSCRIBE is
   an error that makes the client repeat the lookup. When the first bundle of a namespace is served, the bundle of the
   namespace's ``__change_events`` is also served and created, because the broker reads the policies of topics from it.
   The first topic with transactions creates ``__transaction_buffer_snapshot``. Nothing is published on these topics.
2. A topic exists if it is stored (persistent), loaded (non-persistent), or has partitions.
3. Before the partition of a missing topic is checked, the broker checks whether the topic may be created. A partition
   beyond the count results in TopicNotFound. A partition without a partitioned topic, and the bare name of a
   partitioned topic, result in NotAllowedError.
4. Loaded topics remain in memory: an unload only closes their clients.
5. With durable storage, a stored topic has a document with its ledgers. That of a topic that was never loaded is empty.
   A topic that was stored before the broker started is loaded at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused
from pcli.minibroker.topic_names import (
    CHANGE_EVENTS,
    INVALID_NAME,
    SNAPSHOT,
    document_path,
    is_internal,
    is_system,
    namespace_of,
    pending_ack_topic,
    topic_name,
    topic_of_path,
)
from pcli.minibroker.topics.shadow_replicators import shadow_source
from pcli.minibroker.topics.topic import Topic
from pcli.minibroker.topics.topic_documents import LEDGERS

if TYPE_CHECKING:
    from pcli.minibroker.policies.policy_store import Namespace
    from pcli.minibroker.topics.broker_service import BrokerService
    from pcli.minibroker.topics.dispatcher import DispatcherFactory

_WHOLE: Final = "0x00000000_0xffffffff"
"""The bundle of a namespace that does not exist."""

_MAX_PARTITIONS: Final = 100_000
"""Maximum number of partitions that one request creates."""
_NOT_PARTITIONED: Final = ("-RETRY", "-DLQ")
"""Endings of topics that are not created with partitions."""

_SNAPSHOT_SCHEMA: Final = (
    b'{"type":"record","name":"TransactionBufferSnapshot","namespace":"org.apache.pulsar.broker.transactio'
    b'n.buffer.metadata","fields":[{"name":"aborts","type":["null",{"type":"array","items":{"type":"record'
    b'","name":"AbortTxnMetadata","fields":[{"name":"entryId","type":"long"},{"name":"ledgerId","type":"lo'
    b'ng"},{"name":"txnIdLeastBits","type":"long"},{"name":"txnIdMostBits","type":"long"}]},"java-class":"'
    b'java.util.List"}],"default":null},{"name":"maxReadPositionEntryId","type":"long"},{"name":"maxReadPo'
    b'sitionLedgerId","type":"long"},{"name":"topicName","type":["null","string"],"default":null}]}'
)
"""The schema of the topics of snapshots, as a real broker stores it."""


class TopicRegistry:
    """All topics of a broker (class Documented)."""

    def __init__(self, broker: BrokerService, make_dispatcher: DispatcherFactory) -> None:
        self._broker = broker
        self._make_dispatcher = make_dispatcher
        self.topics: dict[str, Topic] = {}
        """Loaded topics by full name."""
        self.stored: set[str] = set()
        """Full names of the existing persistent topics, loaded or not. A partitioned topic is listed by partition."""
        self.taken: set[str] = set()
        """Names of persistent topics that cannot be created, because a scalable topic has the name."""
        self.segment_exists: Callable[[TopicName], bool] = lambda _: False
        """Returns whether a scalable topic has the segment with this name."""
        self.on_load_failure: Callable[[str, str], None] | None = None
        """Called with the full name and the reason if a topic cannot be loaded."""
        self._unloaded: set[str] = set()
        """The names of topics that were stored before the broker started and are not loaded yet."""
        self._changed: set[str] = set()
        """The names that were added or removed in the current batch of the storage."""
        self._served: set[tuple[str, str]] = set()
        """Served bundles, each as namespace and range."""
        self.lookups = 0
        """Number of successful lookups."""

    def topic_name(self, text: str, prefix: str = INVALID_NAME) -> TopicName:
        """Parse the topic name in a request. Raises Refused (InvalidTopicName); the message begins with ``prefix``."""
        return topic_name(text, scalable=self._broker.settings.scalableTopicsEnabled, prefix=prefix)

    # -- bundles -------------------------------------------------------------------------------------------------------

    def look_up(self, name: TopicName) -> None:
        """Start serving the bundle of a topic. Raises Refused (TopicNotFound) if its namespace does not exist."""
        namespace = self.check_namespace(name)
        self.lookups += 1
        self._served.add((namespace.name, namespace.bundle(str(name))))
        settings = self._broker.settings
        if settings.topicLevelPoliciesEnabled and settings.systemTopicEnabled:
            self._served.add((namespace.name, namespace.bundle(f"persistent://{namespace.name}/{CHANGE_EVENTS}")))
            self._add_system_topic(namespace.name, CHANGE_EVENTS)

    def serve(self, namespace: str, bundles: Iterable[str]) -> None:
        """Start serving bundles of a namespace, for example the parts of a split bundle."""
        self._served.update((namespace, bundle) for bundle in bundles)

    @property
    def served_bundles(self) -> list[str]:
        """The served bundles as ``tenant/namespace/range``, sorted."""
        return sorted(f"{namespace}/{bundle}" for namespace, bundle in self._served)

    def check_namespace(self, name: TopicName) -> Namespace:
        """Return the namespace of a topic. Raises Refused (TopicNotFound) if the namespace does not exist."""
        namespace = self._broker.policies.namespaces.get(namespace_of(name))
        if namespace is None:
            raise Refused(pb.TopicNotFound, "Namespace not found")
        return namespace

    def check_owned(self, name: TopicName) -> None:
        """Raise Refused (ServiceNotReady) if the bundle of a topic is not served, or its namespace does not exist."""
        namespace = self._broker.policies.namespaces.get(namespace_of(name))
        bundle = _WHOLE if namespace is None else namespace.bundle(str(name))
        if namespace is not None and (namespace.name, bundle) in self._served:
            return
        raise Refused(
            pb.ServiceNotReady,
            f"Namespace bundle ({namespace_of(name)}/{bundle}) for topic ({name}) not served by this instance:"
            f"{self._broker.address}. Please redo the lookup.",
        )

    def forget_namespace(self, name: str, bundle: str = "") -> None:
        """Stop serving the bundles of a namespace, or one of them."""
        self._served = {one for one in self._served if one != (name, bundle or one[1])}

    # -- existing topics -----------------------------------------------------------------------------------------------

    def partitions(self, name: TopicName) -> int:
        """Return the number of partitions of a topic by its base name, or 0."""
        return self._broker.policies.partitioned.get(str(name), 0)

    def loaded_in_namespace(self, namespace: str) -> list[Topic]:
        """Return the loaded topics of a namespace (``tenant/namespace``)."""
        return [topic for topic in self.topics.values() if namespace_of(topic.name) == namespace]

    def loaded_with_base(self, base: str) -> list[Topic]:
        """Return the loaded topic with a full name, and its loaded partitions."""
        name = TopicName.parse(base)
        names = [name, *map(name.with_partition, range(self.partitions(name)))]
        return [topic for one in names if (topic := self.topics.get(str(one))) is not None]

    def exists(self, name: TopicName) -> bool:
        """Return whether a topic or a partitioned topic exists."""
        full = str(name)
        if full in self._broker.policies.partitioned:
            return True
        if name.persistent:
            return full in self.stored
        if name.partition >= 0 and self.partitions(name.base):
            return name.partition < self.partitions(name.base)
        return full in self.topics

    def names(self, namespace: str, *, persistent: bool = True, system: bool = False) -> list[str]:
        """Return the sorted full names of the topics of a namespace: partitions individually, without system topics.

        A non-persistent topic is listed while it has clients.
        """
        loaded = self.loaded_in_namespace(namespace)
        if persistent:
            prefix = f"persistent://{namespace}/"
            found = [name for name in self.stored if name.startswith(prefix)]
            subscriptions = (one for topic in loaded for one in topic.subscriptions.values())
            used = (one for one in subscriptions if one.pending_ack_handle is not None)
            found += [pending_ack_topic(one.topic.name, one.name) for one in used]
        else:
            found = [one.full_name for one in loaded if not one.persistent and (one.subscriptions or one.producers)]
        return sorted(name for name in found if system or not is_system(TopicName.parse(name)))

    def may_create(self, name: TopicName) -> bool:
        """Return whether PRODUCER, SUBSCRIBE or PARTITIONED_METADATA may create a missing topic."""
        if is_system(name):
            return True
        if name.domain == "segment":
            return self.segment_exists(name)
        if str(name) in self.taken:
            return False
        count = self.partitions(name.base) if name.partition >= 0 else 0
        if count:
            return name.partition < count
        return bool(self._broker.policies.effective(name, "allowAutoTopicCreation"))

    # -- creation ------------------------------------------------------------------------------------------------------

    def load(self, name: TopicName) -> Topic | None:
        """Return the topic, or None. If it is stored but not loaded, it is loaded."""
        topic = self.topics.get(str(name))
        if topic is None and str(name) in self.stored:
            topic = self._open(name)
        return topic

    def _open(self, name: TopicName) -> Topic:
        full = str(name)
        source = shadow_source(name, self._broker.policies.properties.get(str(name.base), {}))
        if source is not None and self.load(source) is not None and full in self.topics:
            return self.topics[full]  # the replicator of the source has loaded the shadow topic
        try:
            topic = Topic(self._broker, name, self._make_dispatcher, self.load, stored=full in self._unloaded)
        except Refused as refused:
            if self.on_load_failure is not None:
                self.on_load_failure(full, refused.text)
            raise
        self.topics[full] = topic
        self._unloaded.discard(full)
        topic.shadow_replicators.check()
        if topic.transactions_enabled and self._broker.settings.systemTopicEnabled:
            self._add_system_topic(namespace_of(name), SNAPSHOT)
        return topic

    def get_or_create(self, name: TopicName, *, create: bool = True, missing: str = "") -> Topic:
        """Return the topic for a producer or consumer; create it if allowed. Raises Refused.

        ``missing`` is the message for a topic that may not be created, if it differs from the one for producers.
        """
        self.check_owned(name)
        topic = self.topics.get(str(name))
        if topic is not None:
            return topic
        self._check_enabled(name)
        if name.persistent and is_internal(name):
            raise Refused(pb.NotAllowedError, f"Can not create transaction system topic {name}")
        if str(name) not in self.stored and not (create and self.may_create(name)):
            raise Refused(pb.TopicNotFound, missing or f"Topic not found {name}")
        self._check_kind(name)
        return self.load(name) or self.create(name)

    def create(self, name: TopicName) -> Topic:
        """Create a missing topic. Raises Refused (NotAllowedError) if a setting or the limit of topics forbids it."""
        self._check_enabled(name)
        self.check_topic_limit(name, 1)
        full = str(name)
        topic = self._open(name)
        if name.persistent:
            self._add(full)
            self._broker.watchers.changed(name, new=self._shown(full))
        return topic

    def _check_enabled(self, name: TopicName) -> None:
        """Raise Refused (NotAllowedError) if topics of this domain cannot be loaded. The text is that of 4.2.4."""
        settings = self._broker.settings
        if not (settings.enablePersistentTopics if name.persistent else settings.enableNonPersistentTopics):
            raise Refused(pb.NotAllowedError, "Broker is unable to load persistent topic")

    def _check_kind(self, name: TopicName) -> None:
        """Check that a name matches the existing partitions (BrokerService.validateTopicConsistency)."""
        if self.partitions(name):
            raise Refused(pb.NotAllowedError, f"Found partitioned metadata for non-partitioned topic: {name}")
        if name.partition >= 0 and not self.partitions(name.base):
            raise Refused(pb.NotAllowedError, f"Partition metadata not found for the partitioned topic: {name}")

    def check_topic_limit(self, name: TopicName, count: int) -> None:
        """Raise Refused (NotAllowedError) if ``count`` more topics would exceed the limit of the namespace.

        More than _MAX_PARTITIONS partitions are always refused, because a request could exhaust the memory.
        """
        if count > _MAX_PARTITIONS:
            raise Refused(
                pb.NotAllowedError, f"The mini-broker creates at most {_MAX_PARTITIONS} partitions at a time."
            )
        limit = int(self._broker.policies.effective(name, "maxTopicsPerNamespace"))
        if limit <= 0 or is_system(name) or name.domain == "segment":
            return
        namespace = namespace_of(name)
        if len(self.names(namespace)) + len(self.names(namespace, persistent=False)) + count > limit:
            raise Refused(pb.NotAllowedError, "Exceed maximum number of topics in namespace.")

    def find_or_create_partitions(self, name: TopicName, *, create: bool) -> int:
        """Return the number of partitions of a topic; 0 if it is not partitioned or is still to be created.

        If ``create`` is set, a missing topic is created if the default type of topics is partitioned and the name is
        neither a partition nor a retry or dead letter topic. Its partitions are created when a client uses them. A
        non-partitioned topic is never created. Raises Refused: TopicNotFound if the topic is missing and may not be
        created, and NotAllowedError if the limit of topics is reached.
        """
        if self.exists(name):
            return self.partitions(name)
        if not (create and self.may_create(name)):
            raise Refused(pb.TopicNotFound, "")
        effective = self._broker.policies.effective
        partitioned = effective(name, "allowAutoTopicCreationType") == "partitioned"
        if not partitioned or name.partition >= 0 or name.local.endswith(_NOT_PARTITIONED):
            return 0
        count = int(effective(name, "defaultNumPartitions"))
        self.check_topic_limit(name, count)
        self._broker.policies.set_partitions(str(name), count)
        return count

    def set_partitions(self, name: TopicName, count: int) -> None:
        """Create a partitioned topic, or add partitions to it."""
        self._broker.policies.set_partitions(str(name), count)
        if not name.persistent:
            return
        names = {str(name.with_partition(index)) for index in range(count)}
        new = names - self.stored
        self._add(*new)
        self._broker.watchers.changed(name, new=self._shown(*new))

    def _add_system_topic(self, namespace: str, local: str) -> None:
        """Create a system topic unless it exists, with partitions if topics are created with partitions."""
        name = TopicName.parse(f"persistent://{namespace}/{local}")
        if not self.exists(name):
            count = self.find_or_create_partitions(name, create=True)
            self._add(*(str(name.with_partition(index)) for index in range(count)) if count else [str(name)])
            if local == SNAPSHOT:
                properties = [
                    pb.KeyValue(key="__jsr310ConversionEnabled", value="false"),
                    pb.KeyValue(key="__alwaysAllowNull", value="true"),
                ]
                schema = pb.Schema(name=local, type=pb.Schema.Avro, schema_data=_SNAPSHOT_SCHEMA, properties=properties)
                self._broker.schemas.put(name.schema_id, schema, lambda _: "ALWAYS_COMPATIBLE", self._broker.now)

    # -- deletion ------------------------------------------------------------------------------------------------------

    def forget(self, name: TopicName) -> None:
        """Remove a deleted topic and notify the watchers."""
        full = str(name)
        self.topics.pop(full, None)
        if full in self.stored:
            self._remove(full)
            self._broker.watchers.changed(name, deleted=self._shown(full))

    # -- documents -----------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Add the topics that were stored before the broker started."""
        for path in self._broker.storage.paths(LEDGERS):
            self.stored.add(str(topic_of_path(path.removeprefix(LEDGERS))))
        self._unloaded = set(self.stored)

    def _add(self, *names: str) -> None:
        """Add stored topics."""
        new = [name for name in names if name not in self.stored]
        self.stored.update(new)
        self._record(new)

    def _remove(self, name: str) -> None:
        """Remove a stored topic."""
        self.stored.discard(name)
        self._unloaded.discard(name)
        self._record([name])

    def _record(self, names: list[str]) -> None:
        storage = self._broker.storage
        if storage.durable and names:
            self._changed.update(names)
            storage.changed(self)

    def changed_documents(self) -> Iterator[tuple[str, Any]]:
        """Return the documents of removed topics and of topics that are not loaded, as defined in Documented."""
        changed, self._changed = self._changed, set()
        for name in changed:
            if name not in self.stored or name not in self.topics:
                path = LEDGERS + document_path(TopicName.parse(name))
                yield path, {} if name in self.stored else None

    @staticmethod
    def _shown(*names: str) -> list[str]:
        """Return the names that lists of topics contain."""
        return [name for name in names if name.startswith("persistent:") and not is_system(TopicName.parse(name))]
