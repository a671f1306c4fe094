"""Updates of a connection's state from commands other than the five frequent commands: names, closes, system traffic.

A table at the end maps commands to functions. Ids, topics and responses are handled the same way for all commands, as
defined in COMMANDS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pcli.codec.observe.command_ids import KEY_FIELDS, id_of, id_readers
from pcli.codec.observe.observer_state import (
    Connection,
    Consumer,
    Facts,
    LayoutUpdate,
    ObservedFrame,
    Producer,
    Request,
)
from pcli.codec.observe.request_pairing import find_request
from pcli.codec.observe.system_topics import (
    COORDINATOR_COMMANDS,
    is_neutral_topic,
    is_system_name,
    is_system_subscription,
    is_system_topic,
)
from pcli.codec.proto import pb
from pcli.codec.scalable.layout import Layout
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.texts import as_text
from pcli.codec.wire.topic_name import full_name

Peer = TypeVar("Peer", Producer, Consumer)

_ANSWERS: Final = frozenset(answer for row in COMMANDS.values() for answer in row.answers)


class EndedPeers:
    """Results of a command: the producers that have ended, and the number of evicted peers."""

    __slots__ = ("evicted", "producers")

    def __init__(self, producers: tuple[Producer, ...] = (), evicted: int = 0) -> None:
        self.producers = producers
        self.evicted = evicted


NO_ENDED_PEERS: Final = EndedPeers()


def put_peer(peers: dict[int, Peer], peer: Peer, limit: int) -> EndedPeers:
    """Add a peer in place of an older peer with its id. At the limit, evict a peer, closed peers first."""
    older: list[Producer | Consumer] = [peers.pop(peer.id)] if peer.id in peers else []
    evicted = 0
    if len(peers) >= limit:
        key = next((key for key, one in peers.items() if one.closed), next(iter(peers)))
        older.append(peers.pop(key))
        evicted = 1
    peers[peer.id] = peer
    return EndedPeers(tuple(one for one in older if isinstance(one, Producer)), evicted)


def answer(facts: Facts, connection: Connection) -> None:
    """Set the request that a frame answers, and the facts that follow from it."""
    frame = facts.frame
    row = COMMANDS.get(frame.type)
    if row is None or row.name not in _ANSWERS:
        return
    request = facts.request = find_request(connection, frame)
    if request is not None:
        facts.peer, facts.system = request.peer, request.system
        facts.request_number = request.number
        facts.latency_ns = frame.time_ns - request.time_ns


def request_of(facts: Facts, connection: Connection) -> Request | None:
    """Return the request in a frame; None if the frame needs no response or the id is missing."""
    frame = facts.frame
    row = COMMANDS.get(frame.type)
    if row is None or not row.answers:
        return None
    number = id_of(frame, row.paired_by) if row.paired_by in KEY_FIELDS else -1
    if number is None:
        return None
    request = Request(frame.number, frame.time_ns, row.number, connection.stream, number)
    request.peer, request.system = facts.peer, facts.system
    request.topic = _topics(frame)
    request.subscription = id_of(frame, "subscription") or ""
    return request


def apply_command(facts: Facts, connection: Connection, limit: int) -> EndedPeers:
    """Apply a command, and set ``peer`` and ``system`` of the facts. ``limit`` is the maximum number of peers."""
    number = facts.frame.type
    row = COMMANDS.get(number)
    if row is None:
        facts.system = connection.system is True
        return NO_ENDED_PEERS
    if facts.peer is None:
        facts.peer = _named_peer(facts, connection)
    step = _STEPS.get(row.name)
    ended_peers = step(facts, connection, limit) if step is not None else NO_ENDED_PEERS
    _update_system(facts, connection, row.name)
    return ended_peers


def _named_peer(facts: Facts, connection: Connection) -> Producer | Consumer | None:
    readers = id_readers(facts.frame.type)
    if "producer_id" in readers:
        return connection.producers.get(id_of(facts.frame, "producer_id"))
    if "consumer_id" in readers:
        return connection.consumers.get(id_of(facts.frame, "consumer_id"))
    return None


def _topics(frame: ObservedFrame) -> str | list[str]:
    """Return the full name of the topic or topics of a command, empty if none; clients may send short names."""
    found = id_of(frame, "topic")
    if not found:
        return ""
    return full_name(found) if isinstance(found, str) else [full_name(topic) for topic in found]


def _update_system(facts: Facts, connection: Connection, name: str) -> None:
    """Set whether the frame is system traffic (system_topics.py), and update the connection."""
    peer = facts.peer
    topics = _topics(facts.frame)
    known = [one for one in ([topics] if isinstance(topics, str) else topics) if one and not is_neutral_topic(one)]
    if peer is not None and peer.topic:
        facts.system = peer.system
    elif name in COORDINATOR_COMMANDS:
        facts.system = True
    elif known:
        facts.system = any(map(is_system_topic, known))
    elif facts.request is None:
        facts.system = connection.system is True
    if connection.system is None and known:
        connection.system = facts.system
    if facts.system and name in _IDENTIFYING and connection.system is not True:
        connection.system = True
        for nameless in connection.producers.values():
            nameless.system = nameless.system or not nameless.topic


# An application may look up a system topic, but only a broker uses it.
_IDENTIFYING: Final = frozenset({"PRODUCER", "SUBSCRIBE", *COORDINATOR_COMMANDS})


def _connect(_facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    connection.connected = False
    return NO_ENDED_PEERS


def _connected(_facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    connection.connected = True
    return NO_ENDED_PEERS


def _subscribe(facts: Facts, connection: Connection, limit: int) -> EndedPeers:
    subscribe = facts.frame.command.subscribe
    kind = subscribe.SubType.Name(subscribe.subType) if subscribe.HasField("subType") else ""
    consumer = facts.peer = _consumer(subscribe, kind)
    return NO_ENDED_PEERS if consumer is None else put_peer(connection.consumers, consumer, limit)


def _scalable_subscribe(facts: Facts, connection: Connection, limit: int) -> EndedPeers:
    subscribe = facts.frame.command.scalableTopicSubscribe
    kind = pb.ScalableConsumerType.Name(subscribe.consumer_type) if subscribe.HasField("consumer_type") else ""
    consumer = facts.peer = _consumer(subscribe, kind)
    return NO_ENDED_PEERS if consumer is None else put_peer(connection.scalable, consumer, limit)


def _consumer(subscribe: pb.CommandSubscribe | pb.CommandScalableTopicSubscribe, kind: str) -> Consumer | None:
    if not subscribe.HasField("consumer_id"):
        return None  # truncated
    topic, subscription = full_name(as_text(subscribe.topic)), as_text(subscribe.subscription)
    system = is_system_topic(topic) or is_system_subscription(subscription)
    name = as_text(subscribe.consumer_name)
    return Consumer(subscribe.consumer_id, topic, subscription, name, kind, system=system)


def _scalable_consumer(facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    facts.peer = connection.scalable.get(id_of(facts.frame, "consumer_id"))
    return NO_ENDED_PEERS


def _layout(facts: Facts, connection: Connection, limit: int) -> EndedPeers:
    update = facts.frame.command.scalableTopicUpdate
    if update.HasField("dag"):
        older = connection.layouts.pop(update.session_id, None)
        topic = full_name(as_text(update.resolved_topic_name)) or (older.topic if older is not None else "")
        before = older.after if older is not None else None
        if len(connection.layouts) >= limit:
            del connection.layouts[next(iter(connection.layouts))]
        facts.layout = connection.layouts[update.session_id] = LayoutUpdate(topic, before, Layout.of(update.dag))
    return NO_ENDED_PEERS


def _layout_session(facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    """Drop the layout of a session that ends, or of an earlier session with the id of a new session."""
    facts.layout = connection.layouts.pop(id_of(facts.frame, "session_id"), None)
    return NO_ENDED_PEERS


def _producer(facts: Facts, connection: Connection, limit: int) -> EndedPeers:
    command = facts.frame.command.producer
    if not command.HasField("producer_id"):
        facts.peer = None
        return NO_ENDED_PEERS
    topic, name = full_name(as_text(command.topic)), as_text(command.producer_name)
    producer = Producer(command.producer_id, topic, name, system=is_system_topic(topic) or is_system_name(name))
    facts.peer = producer
    return put_peer(connection.producers, producer, limit)


def _producer_success(facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    success, peer, request = facts.frame.command.producer_success, facts.peer, facts.request
    if isinstance(peer, Producer) and success.HasField("producer_name"):
        peer.name = as_text(success.producer_name)
    if request is not None and not success.producer_ready:
        connection.waiting[not facts.frame.from_client, request.id] = request
    return NO_ENDED_PEERS


def _close(facts: Facts, _connection: Connection, _limit: int) -> EndedPeers:
    if facts.peer is not None:
        facts.peer.closed = True
    return NO_ENDED_PEERS


def _success(facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    """Remove a closed peer, so that its id can be used again."""
    request = facts.request
    return _drop(connection, request.peer) if request is not None and request.type in _ENDS else NO_ENDED_PEERS


def _error(facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    """Remove a refused producer or consumer."""
    request = facts.request
    return _drop(connection, request.peer) if request is not None and request.type in _BEGINNINGS else NO_ENDED_PEERS


def _drop(connection: Connection, peer: Producer | Consumer | None) -> EndedPeers:
    """Remove a peer from its connection, unless a different peer has its id."""
    if isinstance(peer, Producer) and connection.producers.get(peer.id) is peer:
        del connection.producers[peer.id]
        return EndedPeers((peer,))
    if isinstance(peer, Consumer):
        for peers in (connection.consumers, connection.scalable):
            if peers.get(peer.id) is peer:
                del peers[peer.id]
    return NO_ENDED_PEERS


def _migrated(facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    migrated = facts.frame.command.topicMigrated
    if migrated.resource_type == migrated.Producer:
        facts.peer = connection.producers.get(migrated.resource_id)
    else:
        facts.peer = connection.consumers.get(migrated.resource_id)
    return NO_ENDED_PEERS


_ENDS: Final = frozenset(
    BY_NAME[name].number for name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "UNSUBSCRIBE", "SCALABLE_TOPIC_UNSUBSCRIBE")
)
_BEGINNINGS: Final = frozenset(BY_NAME[name].number for name in ("PRODUCER", "SUBSCRIBE", "SCALABLE_TOPIC_SUBSCRIBE"))

_STEPS: Final[dict[str, Callable[[Facts, Connection, int], EndedPeers]]] = {
    "CLOSE_CONSUMER": _close,
    "CLOSE_PRODUCER": _close,
    "CONNECT": _connect,
    "CONNECTED": _connected,
    "ERROR": _error,
    "PRODUCER": _producer,
    "PRODUCER_SUCCESS": _producer_success,
    "SCALABLE_TOPIC_ASSIGNMENT_UPDATE": _scalable_consumer,
    "SCALABLE_TOPIC_CLOSE": _layout_session,
    "SCALABLE_TOPIC_LOOKUP": _layout_session,
    "SCALABLE_TOPIC_SUBSCRIBE": _scalable_subscribe,
    "SCALABLE_TOPIC_UNSUBSCRIBE": _scalable_consumer,
    "SCALABLE_TOPIC_UPDATE": _layout,
    "SUBSCRIBE": _subscribe,
    "SUCCESS": _success,
    "TOPIC_MIGRATED": _migrated,
}
"""Commands that change the state, or that identify their peer differently."""
