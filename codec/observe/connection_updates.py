"""What the commands beside the hot five teach about a connection: names, ends, whose traffic it is.

One step per command that changes something, in the table at the end; what they have in common (ids, topics, answers)
is read along the columns of COMMANDS.
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

__all__ = ["Gone", "answer", "learn", "put_peer", "request_of"]

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


class Gone:
    """What a command ended: producers that are no more, and how many peers were forgotten for want of room."""

    __slots__ = ("evicted", "producers")

    def __init__(self, producers: tuple[Producer, ...] = (), evicted: int = 0) -> None:
        self.producers = producers
        self.evicted = evicted


NOTHING: Final = Gone()


def put_peer(peers: dict[int, Peer], peer: Peer, limit: int) -> Gone:
    """Put a peer in the place of an older one with its id, or of the first closed one when there is no room."""
    older: list[Producer | Consumer] = [peers.pop(peer.id)] if peer.id in peers else []
    evicted = 0
    if len(peers) >= limit:
        key = next((key for key, one in peers.items() if one.closed), next(iter(peers)))
        older.append(peers.pop(key))
        evicted = 1
    peers[peer.id] = peer
    return Gone(tuple(one for one in older if isinstance(one, Producer)), evicted)


def answer(facts: Facts, connection: Connection) -> None:
    """Find the request that a frame answers, and what is known through it."""
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
    """The request that a frame is; None when nothing answers it or its id is missing."""
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
    request.topic = _words(values, row.number, "topic")
    request.subscription = _words(values, row.number, "subscription")
    return request


def learn(facts: Facts, connection: Connection, limit: int) -> Gone:
    """Take in what a command says; ``limit`` is that of peers. Sets peer and system of the facts."""
    number = facts.frame.type
    row = COMMANDS.get(number)
    if row is None:
        facts.system = connection.system is True
        return NOTHING
    if facts.peer is None:
        facts.peer = _named_peer(facts, connection)
    step = _STEPS.get(row.name)
    gone = step(facts, connection, limit) if step is not None else NOTHING
    _judge(facts, connection, row.name)
    return gone


def _named_peer(facts: Facts, connection: Connection) -> Producer | Consumer | None:
    values, keys = facts.command, _KEYS[facts.frame.type]
    if "producer_id" in keys:
        return connection.producers.get(values.get(keys["producer_id"], -1))
    if "consumer_id" in keys:
        return connection.consumers.get(values.get(keys["consumer_id"], -1))
    return None


def _words(values: dict[str, Any], number: int, meaning: str) -> Any:
    """The text, or list of texts, of a meaning in a command's own fields; empty when it says nothing of it."""
    key = _KEYS[number].get(meaning)
    if key is None:
        return ""
    if key in values:
        return values[key]
    # A repeated message on the way (ADD_SUBSCRIPTION_TO_TXN): its objects hold the rest of the name.
    above, _, last = key.rpartition(".")
    objects = values.get(above)
    return [one[last] for one in objects if last in one] if isinstance(objects, list) else ""


def _judge(facts: Facts, connection: Connection, name: str) -> None:
    """Whose traffic the frame is (rules of system.py), and what that says of the connection."""
    peer = facts.peer
    topics = _words(facts.command, facts.frame.type, "topic")
    known = [topic for topic in ([topics] if isinstance(topics, str) else topics) if not is_neutral_topic(topic)]
    if peer is not None and peer.topic:
        facts.system = peer.system
    elif name in COORDINATOR_COMMANDS:
        facts.system = True
    elif any(known):
        facts.system = any(map(is_system_topic, known))
    elif facts.request is None:
        facts.system = connection.system is True
    if connection.system is None and any(known):
        connection.system = facts.system
    if facts.system and name in _TELLING and connection.system is not True:
        connection.system = True
        for nameless in connection.producers.values():
            nameless.system = nameless.system or not nameless.topic


# An application may ask about a system topic, but only a broker works on one.
_TELLING: Final = frozenset({"PRODUCER", "SUBSCRIBE", *COORDINATOR_COMMANDS})


def _connect(_facts: Facts, connection: Connection, _limit: int) -> Gone:
    connection.connected = False
    return NOTHING


def _connected(_facts: Facts, connection: Connection, _limit: int) -> Gone:
    connection.connected = True
    return NOTHING


def _subscribe(facts: Facts, connection: Connection, limit: int) -> Gone:
    consumer = _consumer_of(facts, "pulsar.subscribe.", "subType")
    facts.peer = consumer
    return NOTHING if consumer is None else put_peer(connection.consumers, consumer, limit)


def _scalable_subscribe(facts: Facts, connection: Connection, limit: int) -> Gone:
    consumer = _consumer_of(facts, "pulsar.scalableTopicSubscribe.", "consumer_type")
    facts.peer = consumer
    return NOTHING if consumer is None else put_peer(connection.scalable, consumer, limit)


def _consumer_of(facts: Facts, prefix: str, type_field: str) -> Consumer | None:
    get = facts.command.get
    number = get(f"{prefix}consumer_id")
    if number is None:
        return None
    topic, subscription = get(f"{prefix}topic", ""), get(f"{prefix}subscription", "")
    system = is_system_topic(topic) or is_system_subscription(subscription)
    name, type_ = get(f"{prefix}consumer_name", ""), get(f"{prefix}{type_field}", "")
    return Consumer(number, topic, subscription, name, type_, system=system)


def _assignment(facts: Facts, connection: Connection, _limit: int) -> Gone:
    number = facts.command.get("pulsar.scalableTopicAssignmentUpdate.consumer_id", -1)
    facts.peer = connection.scalable.get(number)
    return NOTHING


def _producer(facts: Facts, connection: Connection, limit: int) -> Gone:
    get = facts.command.get
    number = get("pulsar.producer.producer_id")
    if number is None:
        facts.peer = None
        return NOTHING
    topic, name = get("pulsar.producer.topic", ""), get("pulsar.producer.producer_name", "")
    producer = Producer(number, topic, name, system=is_system_topic(topic) or is_system_name(name))
    facts.peer = producer
    return put_peer(connection.producers, producer, limit)


def _producer_success(facts: Facts, connection: Connection, _limit: int) -> Gone:
    values, peer, request = facts.command, facts.peer, facts.request
    if isinstance(peer, Producer):
        peer.name = values.get("pulsar.producer_success.producer_name", peer.name)
    if request is not None and values.get("pulsar.producer_success.producer_ready") is False:
        connection.waiting[not facts.frame.from_client, request.id] = request
    return NOTHING


def _close(facts: Facts, _connection: Connection, _limit: int) -> Gone:
    if facts.peer is not None:
        facts.peer.closed = True
    return NOTHING


def _success(facts: Facts, connection: Connection, _limit: int) -> Gone:
    """The close is done: the id is free again."""
    request = facts.request
    return _drop(connection, request.peer) if request is not None and request.type in _ENDS else NOTHING


def _error(facts: Facts, connection: Connection, _limit: int) -> Gone:
    """A refused producer or consumer never was."""
    request = facts.request
    return _drop(connection, request.peer) if request is not None and request.type in _BEGINNINGS else NOTHING


def _drop(connection: Connection, peer: Producer | Consumer | None) -> Gone:
    """Take a peer off its connection, unless another has taken its id."""
    if isinstance(peer, Producer) and connection.producers.get(peer.id) is peer:
        del connection.producers[peer.id]
        return Gone((peer,))
    if isinstance(peer, Consumer):
        for peers in (connection.consumers, connection.scalable):
            if peers.get(peer.id) is peer:
                del peers[peer.id]
    return NOTHING


def _migrated(facts: Facts, connection: Connection, _limit: int) -> Gone:
    values = facts.command
    number = values.get("pulsar.topicMigrated.resource_id", -1)
    if values.get("pulsar.topicMigrated.resource_type") == "Producer":
        facts.peer = connection.producers.get(number)
    else:
        facts.peer = connection.consumers.get(number)
    return NOTHING


_ENDS: Final = frozenset(BY_NAME[name].number for name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "UNSUBSCRIBE"))
_BEGINNINGS: Final = frozenset(BY_NAME[name].number for name in ("PRODUCER", "SUBSCRIBE", "SCALABLE_TOPIC_SUBSCRIBE"))

_STEPS: Final[dict[str, Callable[[Facts, Connection, int], Gone]]] = {
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
"""The commands that change what is known, or that name their peer in a way of their own."""
