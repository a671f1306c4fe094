"""Updates of a connection's state from commands other than the five frequent commands: names, closes, system traffic.

A table at the end maps commands to functions. Ids, topics and responses are handled the same way for all commands, as
defined in COMMANDS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from pcli.codec.observe.observer_state import Connection, Consumer, Facts, Producer, Request
from pcli.codec.observe.request_pairing import KEY_FIELDS, find_request
from pcli.codec.observe.system_topics import (
    COORDINATOR_COMMANDS,
    is_neutral_topic,
    is_system_name,
    is_system_subscription,
    is_system_topic,
)
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.topic_name import full_name

__all__ = ["EndedPeers", "answer", "apply_command", "put_peer", "request_of"]

Peer = TypeVar("Peer", Producer, Consumer)

_ANSWERS: Final = frozenset(answer for row in COMMANDS.values() for answer in row.answers)

# Field names by command number and meaning or key: {4: {"topic": "pulsar.subscribe.topic", …}}
_KEYS: Final[dict[int, dict[str, str]]] = {
    number: {
        **{name: f"pulsar.{row.field}.{name}" for name in KEY_FIELDS},
        **{meaning: f"pulsar.{row.field}.{path}" for meaning, path in row.ids.items()},
    }
    for number, row in COMMANDS.items()
}


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
    values, keys = facts.command, _KEYS[row.number]
    ids = {name: values[keys[name]] for name in KEY_FIELDS if keys[name] in values}
    request = facts.request = find_request(connection, frame.from_client, row.number, ids)
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
    values, keys = facts.command, _KEYS[row.number]
    number = values.get(keys[row.paired_by]) if row.paired_by in KEY_FIELDS else -1
    if number is None:
        return None
    request = Request(frame.number, frame.time_ns, row.number, connection.stream, number)
    request.peer, request.system = facts.peer, facts.system
    request.topic = _topics(values, row.number)
    request.subscription = _words(values, row.number, "subscription")
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
    values, keys = facts.command, _KEYS[facts.frame.type]
    if "producer_id" in keys:
        return connection.producers.get(values.get(keys["producer_id"], -1))
    if "consumer_id" in keys:
        return connection.consumers.get(values.get(keys["consumer_id"], -1))
    return None


def _words(values: dict[str, Any], number: int, meaning: str) -> Any:
    """Return the string, or list of strings, that a command's fields contain for a meaning; empty if absent."""
    key = _KEYS[number].get(meaning)
    if key is None:
        return ""
    if key in values:
        return values[key]
    # The objects of a repeated message (ADD_SUBSCRIPTION_TO_TXN) have the last part of the name as their key.
    above, _, last = key.rpartition(".")
    objects = values.get(above)
    return [one[last] for one in objects if last in one] if isinstance(objects, list) else ""


def _topics(values: dict[str, Any], number: int) -> str | list[str]:
    """Return the full name of the topic or topics of a command; clients may send short names."""
    found = _words(values, number, "topic")
    if not found:
        return ""
    return full_name(found) if isinstance(found, str) else [full_name(topic) for topic in found]


def _update_system(facts: Facts, connection: Connection, name: str) -> None:
    """Set whether the frame is system traffic (system_topics.py), and update the connection."""
    peer = facts.peer
    topics = _topics(facts.command, facts.frame.type)
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
    consumer = _consumer_of(facts, "pulsar.subscribe.", "subType")
    facts.peer = consumer
    return NO_ENDED_PEERS if consumer is None else put_peer(connection.consumers, consumer, limit)


def _scalable_subscribe(facts: Facts, connection: Connection, limit: int) -> EndedPeers:
    consumer = _consumer_of(facts, "pulsar.scalableTopicSubscribe.", "consumer_type")
    facts.peer = consumer
    return NO_ENDED_PEERS if consumer is None else put_peer(connection.scalable, consumer, limit)


def _consumer_of(facts: Facts, prefix: str, type_field: str) -> Consumer | None:
    get = facts.command.get
    number = get(f"{prefix}consumer_id")
    if number is None:
        return None
    topic, subscription = full_name(get(f"{prefix}topic", "")), get(f"{prefix}subscription", "")
    system = is_system_topic(topic) or is_system_subscription(subscription)
    name, type_ = get(f"{prefix}consumer_name", ""), get(f"{prefix}{type_field}", "")
    return Consumer(number, topic, subscription, name, type_, system=system)


def _assignment(facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    number = facts.command.get("pulsar.scalableTopicAssignmentUpdate.consumer_id", -1)
    facts.peer = connection.scalable.get(number)
    return NO_ENDED_PEERS


def _producer(facts: Facts, connection: Connection, limit: int) -> EndedPeers:
    get = facts.command.get
    number = get("pulsar.producer.producer_id")
    if number is None:
        facts.peer = None
        return NO_ENDED_PEERS
    topic, name = full_name(get("pulsar.producer.topic", "")), get("pulsar.producer.producer_name", "")
    producer = Producer(number, topic, name, system=is_system_topic(topic) or is_system_name(name))
    facts.peer = producer
    return put_peer(connection.producers, producer, limit)


def _producer_success(facts: Facts, connection: Connection, _limit: int) -> EndedPeers:
    values, peer, request = facts.command, facts.peer, facts.request
    if isinstance(peer, Producer):
        peer.name = values.get("pulsar.producer_success.producer_name", peer.name)
    if request is not None and values.get("pulsar.producer_success.producer_ready") is False:
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
    values = facts.command
    number = values.get("pulsar.topicMigrated.resource_id", -1)
    if values.get("pulsar.topicMigrated.resource_type") == "Producer":
        facts.peer = connection.producers.get(number)
    else:
        facts.peer = connection.consumers.get(number)
    return NO_ENDED_PEERS


_ENDS: Final = frozenset(BY_NAME[name].number for name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "UNSUBSCRIBE"))
_BEGINNINGS: Final = frozenset(BY_NAME[name].number for name in ("PRODUCER", "SUBSCRIBE", "SCALABLE_TOPIC_SUBSCRIBE"))

_STEPS: Final[dict[str, Callable[[Facts, Connection, int], EndedPeers]]] = {
    "CLOSE_CONSUMER": _close,
    "CLOSE_PRODUCER": _close,
    "CONNECT": _connect,
    "CONNECTED": _connected,
    "ERROR": _error,
    "PRODUCER": _producer,
    "PRODUCER_SUCCESS": _producer_success,
    "SCALABLE_TOPIC_ASSIGNMENT_UPDATE": _assignment,
    "SCALABLE_TOPIC_SUBSCRIBE": _scalable_subscribe,
    "SUBSCRIBE": _subscribe,
    "SUCCESS": _success,
    "TOPIC_MIGRATED": _migrated,
}
"""Commands that change the state, or that identify their peer differently."""
