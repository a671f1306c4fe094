"""The operations of MiniBroker as functions that run in the broker's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pcli.codec.errors import LocalError
from pcli.codec.wire.constants import FRAME_OVERHEAD
from pcli.codec.wire.near import near
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused
from pcli.minibroker.topic_names import is_system

if TYPE_CHECKING:
    from pcli.codec.observe.live_frames import LiveFrames
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.connection import Connection
    from pcli.minibroker.embedded.conversation_log import Frames
    from pcli.minibroker.embedded.snapshots import StoredMessage, TopicState
    from pcli.minibroker.server.intercepting_server import InterceptingServer
    from pcli.minibroker.topics.topic import Topic

    _Reader = Callable[[Callable[[], list[StoredMessage]]], list[StoredMessage]]


def partitioned_name(text: str) -> tuple[TopicName, int]:
    """Parse ``orders`` or ``jobs:4``. Return the topic name and the number of partitions or 0. Raises LocalError."""
    name, colon, count = text.rpartition(":")
    if not colon or not name or "/" in count:
        return TopicName.parse(text), 0
    if not (count.isascii() and count.isdigit() and int(count) > 0):
        raise LocalError(f"topic {text}: the number of partitions after the colon must be 1 or more")
    return TopicName.parse(name), int(count)


def client(connection: Connection) -> str:
    """Return ``address:port`` of a client."""
    address, port = connection.peer
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def topic_names(broker: Broker) -> list[str]:
    """Return the full names of the existing topics, without system topics."""
    names = {*broker.stored, *broker.topics}
    return sorted(name for name in names if not is_system(TopicName.parse(name)))


def state(broker: Broker, name: TopicName, run_in_broker: _Reader) -> TopicState:
    """Return the state of a topic or a partitioned topic. Raises LocalError if it does not exist."""
    from pcli.minibroker.embedded.snapshots import TopicState, partitioned_state, topic_state

    count = broker.topic_registry.partitions(name)
    if count:
        partitions = [state(broker, name.with_partition(index), run_in_broker) for index in range(count)]
        return partitioned_state(str(name), partitions)
    topic = broker.topic_registry.load(name)
    if topic is None:
        if name.partition >= 0 and broker.topic_registry.partitions(name.base):  # non-persistent and without clients
            return TopicState(str(name), read=list)
        known = {TopicName.parse(one).local: one for one in topic_names(broker)}
        raise LocalError(f"there is no topic {name}{near(name.local, known)}")
    return topic_state(topic, run_in_broker)


@contextmanager
def turn(server: InterceptingServer) -> Iterator[Broker]:
    """Execute the block in a turn of the broker, and write the output. Yields the broker."""
    server.broker.begin_turn(server.now())
    try:
        yield server.broker
    finally:
        server.broker.finish_turn()
        server.flush()


def create_topic(server: InterceptingServer, name: TopicName, partitions: int) -> None:
    """Create a topic unless it exists. Raises LocalError if creation is not allowed or a different kind exists."""
    with turn(server) as broker:
        registry = broker.topic_registry
        try:
            registry.check_namespace(name)
            if partitions < 0:
                raise LocalError(
                    f"topic {name}: {partitions} partitions: must be 1 or more, or 0 for a non-partitioned topic"
                )
            if partitions:
                if str(name) in broker.topics or registry.partitions(name) > partitions:
                    raise LocalError(f"topic {name} exists, but its number of partitions is not {partitions}")
                broker.create_partitioned(name, partitions)
            elif not registry.exists(name):
                registry.create(name)
        except Refused as refused:
            raise LocalError(f"topic {name}: {refused.text}") from None


def unload(server: InterceptingServer, name: TopicName) -> None:
    """Close the clients of a topic or of all its partitions, and roll the ledgers."""
    with turn(server) as broker:
        count = broker.topic_registry.partitions(name)
        names = [name.with_partition(index) for index in range(count)] if count else [name]
        topics = [topic for one in names if (topic := broker.topic_registry.load(one)) is not None]
        if not topics:
            raise LocalError(f"there is no topic {name}")
        for topic in topics:
            broker.unload(topic)


def disconnect(server: InterceptingServer, kind: str, wanted: str | int) -> int:
    """Close connections, producers or consumers by name, or all of them if the name is empty.

    Returns how many were closed. Raises LocalError if a name is unknown.
    """
    with turn(server) as broker:
        closed = _cut(broker, wanted) if kind == "client" else _close(list(broker.topics.values()), kind, wanted)
    if not closed and wanted != "":
        raise LocalError(f"there is no {kind} {wanted}")
    return closed


def _cut(broker: Broker, wanted: str | int) -> int:
    found = [
        one
        for one in broker.connections
        if wanted == "" or wanted in (client(one), getattr(one.client_socket, "number", None))
    ]
    for connection in found:
        connection.close("disconnected by the test")
    return len(found)


def _close(topics: list[Topic], kind: str, wanted: str | int) -> int:
    found = [
        one
        for topic in topics
        for one in (topic.producers.values() if kind == "producer" else topic.consumers)
        if one.name == wanted
    ]
    for one in found:
        one.disconnect()
    return len(found)


def describe(broker: Broker) -> list[str]:
    """Return a readable description of the clients and topics."""
    from pcli.minibroker.embedded.snapshots import topic_state

    topics = [broker.topics[name] for name in topic_names(broker) if name in broker.topics]
    lines = [f"{len(broker.connections)} clients are connected, {len(topics)} topics are loaded"]
    for topic in topics:
        entries = topic.ledger.next if topic.ledger is not None else 0
        head, *rest = repr(topic_state(topic, lambda read: read())).splitlines()
        lines += [f"{head}, {entries} entries published", *rest]
    return lines


def live_frames(server: InterceptingServer, frames: Frames | None) -> LiveFrames:
    """Return the decoder state of the existing connections, for faults."""
    if frames is not None:
        return frames.fork()
    from pcli.codec.observe.live_frames import LiveFrames

    return LiveFrames(max_frame_size=server.settings.maxMessageSize + FRAME_OVERHEAD)
