"""The replicators of a source topic, which publish its entries with their ids on its shadow topics.

Rules of this file (ShadowReplicator, PersistentTopic.checkShadowReplication, AbstractReplicator; 4.2.4)
1. A replicator starts at the end of the source, when the source is loaded or its list of shadow topics changes. An
   empty list does not end the replicators, as on the real broker; they end when the source is unloaded.
2. Its cursor is not durable: it keeps no ledger of the source.
3. It is a producer of the shadow topic. It sends the metadata of each entry with the id, without the payload, because
   consumers of the shadow topic read the entries of the source.
4. If the shadow topic refuses the producer or a message, the replicator tries again when the source gets an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

import google_crc32c

from pcli.codec.proto import pb
from pcli.codec.session import Offer, ServerSession
from pcli.codec.session.keepalive import KeepAlive
from pcli.codec.wire.constants import CHECKSUM_MAGIC
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.topics.producer import Producer
from pcli.minibroker.topics.publishing import Publication, publish

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from pcli.minibroker.errors import Refused
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.topics.topic import Topic

SHADOW_SOURCE: Final = "PULSAR.SHADOW_SOURCE"
"""The property of a shadow topic that contains the name of its source (PROPERTY_SOURCE_TOPIC_KEY)."""
_POSITION: Final = "__MSG_PROP_REPL_SOURCE_POSITION"
_READ_ENTRIES: Final = 100
_READ_BYTES: Final = 1024 * 1024
_head = Struct(">HII").pack
_size = Struct(">I").pack


def shadow_source(name: TopicName, properties: dict[str, str]) -> TopicName | None:
    """Return the source of a topic, or None. The source of a partition is the partition with its index."""
    source = properties.get(SHADOW_SOURCE)
    if source is None:
        return None
    parsed = TopicName.parse(source)
    return parsed if name.partition < 0 else parsed.base.with_partition(name.partition)


class ShadowReplicators:
    """The replicators of one source, by shadow topic."""

    __slots__ = ("_topic", "by_name")

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.by_name: dict[str, _ShadowReplicator] = {}

    def check(self) -> None:
        """Start and end replicators after the list has changed."""
        topic = self._topic
        values = topic.broker.policies.topic_values.get(str(topic.name.base))
        shadows = None if values is None else values.shadow_topics
        if not shadows or topic.ledger is None:
            return
        for name in [name for name in self.by_name if name not in shadows]:
            self.by_name.pop(name).close()
        for name in shadows:
            if name not in self.by_name:
                self.by_name[name] = _ShadowReplicator(topic, topic.ledger, name)

    def run(self) -> None:
        """Replicate the new entries."""
        for one in self.by_name.values():
            one.replicate()

    def close(self) -> None:
        """End all replicators."""
        for one in self.by_name.values():
            one.close()
        self.by_name.clear()

    @property
    def cursors(self) -> list[ManagedCursor]:
        """The cursors of all replicators."""
        return [one.cursor for one in self.by_name.values()]


class _ShadowReplicator:
    """The replicator of one source for one shadow topic."""

    def __init__(self, source: Topic, ledger: ManagedLedger, shadow: str) -> None:
        self._source = source
        self._ledger = ledger
        name = TopicName.parse(shadow)
        self._shadow = name if source.partition < 0 else name.with_partition(source.partition)
        settings = source.broker.settings
        self._cluster = settings.clusterName
        self._name = f"{settings.replicatorPrefix}-{source.full_name}-->{self._shadow}"
        self.cursor = ManagedCursor(
            ledger, f"{settings.replicatorPrefix}-{quote_plus(shadow)}", ledger.next - 1, durable=False
        )
        self._producer: Producer | None = None
        self._connect()

    def _connect(self) -> None:
        """Open the producer if it is closed."""
        topic = self._source.load_topic(self._shadow)
        if self._producer is not None or topic is None:
            return
        command = pb.CommandProducer(topic=str(self._shadow), producer_id=0, request_id=0)
        self._producer = Producer(topic, _InternalCnx(self._disconnected), command, self._name, b"")
        topic.add_producer(self._producer)

    def _disconnected(self) -> None:
        if self._producer is not None:
            self._producer = None
            self._source.broker.schedule(self)

    def run(self) -> None:
        """Connect again at the end of the turn in which the producer was closed."""
        if self._source.shadow_replicators.by_name.get(str(self._shadow.base)) is self:
            self._connect()

    def close(self) -> None:
        """Close the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.leave()

    def replicate(self) -> None:
        """Publish all entries after the cursor, until one is refused."""
        self._connect()
        seconds = self._source.effective("ttlDurationDefaultInSeconds")
        oldest = self._source.broker.now - seconds * 1000 if seconds else 0
        producer = self._producer
        while producer is not None and producer.ready:
            entries = self._ledger.read(self.cursor.read_position, _READ_ENTRIES, _READ_BYTES)
            if not entries:
                return
            for entry in entries:
                metadata = _metadata(entry)
                expired = metadata is not None and metadata.publish_time < oldest
                if metadata is not None and not expired and not self._sent(producer, entry, metadata):
                    return
                self.cursor.mark_delete_to(entry.offset)

    def _sent(self, producer: Producer, entry: Entry, metadata: pb.MessageMetadata) -> bool:
        """Publish one entry; return whether the shadow topic now contains it."""
        shadow = producer.topic.ledger
        copy = pb.MessageMetadata()
        copy.CopyFrom(metadata)
        copy.properties.add(key=_POSITION, value=f"{entry.ledger_id}:{entry.entry_id}")
        copy.replicated_from = self._cluster
        packed = copy.SerializeToString()
        body = _size(len(packed)) + packed
        block = _head(CHECKSUM_MAGIC, google_crc32c.value(body), len(packed)) + packed
        publication = Publication(metadata.sequence_id, -1, metadata.num_messages_in_batch, block)
        publication.message_id = entry.ledger_id, entry.entry_id
        publish(producer, publication)
        return shadow is not None and shadow.next > entry.offset


def _metadata(entry: Entry) -> pb.MessageMetadata | None:
    """Return the metadata of an entry, or None if it does not parse; such an entry is not replicated."""
    if not entry.parsed:
        entry.parse()
    return entry.metadata


class _InternalCnx:
    """The connection of the client with which the broker publishes on its own topics."""

    peer = "127.0.0.1", 0
    closing = False
    writable = True
    role = ""

    def __init__(self, on_close: Callable[[], None]) -> None:
        self._on_close = on_close
        self.session = ServerSession(Offer("", 0, frozenset()), KeepAlive(0, 0))
        self.session.features = frozenset({"supports_partial_producer"})
        self.session.client_version = "Pulsar-Java-v4.2.4"
        self.session.supports_close = True

    def send(self, data: bytes) -> None: ...

    def send_pieces(self, pieces: Sequence[bytes]) -> None: ...

    def send_command(self, body: Message, entry: bytes = b"") -> None: ...

    def answer_error(self, request_id: int, refused: Refused) -> None: ...

    def close(self, reason: str = "") -> None: ...

    def check_liveness(self, on_answer: Callable[[bool], None]) -> None:
        on_answer(True)  # noqa: FBT003

    def mark_producer_closed(self, producer_id: int) -> None: ...

    def removed_producer(self, producer_id: int, producer: object) -> None:
        self._on_close()

    def removed_consumer(self, consumer_id: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...
