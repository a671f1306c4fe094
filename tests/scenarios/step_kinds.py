"""The kinds of steps: for each kind, a function that returns the step, or None if the plan has no object for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scenarios.plan_model import Model, Numbers

Step = dict[str, Any]

_SUBSCRIPTIONS = ("s", "s", "s", "r")
_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared", "Shared", "Key_Shared")
_KEYS = (None, None, "k1", "k2", "k3", "k4")
_PERMITS = (10, 100, 1, 2, 3, 1000)
_SCHEMAS = (
    "avro",
    "avro",
    "avro with default",
    "avro without default",
    "avro of another type",
    "json",
    "string",
    "int",
)
_SCHEMA_PATHS = ("schema", "schemas", "schema/0", "schema/1")
_QUERIES = (
    "stats",
    "stats",
    "internalStats",
    "subscriptions",
    "lastMessageId",
    "partitions",
    "compaction",
    "properties",
    "retention?applied=true",
    "backlogQuotaMap?applied=true",
    "maxConsumers?applied=true",
    "schemaCompatibilityStrategy?applied=true",
    "examinemessage?initialPosition=earliest&messagePosition=1",
)
_TOPIC_QUERIES = ("partitioned-stats", "partitions", "partitioned-internalStats")
_TOPIC_POLICIES: tuple[tuple[str, Any], ...] = (
    ("maxConsumers", 1),
    ("maxProducers", 1),
    ("maxUnackedMessagesOnConsumer", 2),
    ("maxUnackedMessagesOnSubscription", 3),
    ("maxSubscriptionsPerTopic", 1),
    ("maxMessageSize", 30),
    ("retention", {"retentionTimeInMinutes": 5, "retentionSizeInMB": 5}),
    ("deduplicationEnabled", True),
    ("delayedDelivery", {"active": False, "tickTime": 1000}),
    ("subscriptionTypesEnabled", ["Shared", "Exclusive"]),
)
_NAMESPACE_POLICIES: tuple[tuple[str, Any], ...] = (
    ("maxConsumersPerTopic", 1),
    ("maxProducersPerTopic", 1),
    ("maxUnackedMessagesPerConsumer", 2),
    ("maxUnackedMessagesPerSubscription", 3),
    ("maxSubscriptionsPerTopic", 1),
    ("deduplication", True),
    ("encryptionRequired", True),
    ("isAllowAutoUpdateSchema", False),
    ("messageTTL", 60),
    ("schemaValidationEnforced", True),
)


def create_producer(model: Model, drawn: Numbers) -> Step:
    """A PRODUCER on a new connection."""
    target = drawn.pick(model.targets())
    model.producers.append({"open": True, "target": target, "sequence": 0})
    name = drawn.pick((None, "p", "p", "q"))
    access = drawn.pick(("Shared",) * 6 + ("Exclusive", "WaitForExclusive", "ExclusiveWithFencing"))
    schema = _schema(drawn)
    return {
        "do": "producer",
        "producer": len(model.producers) - 1,
        "target": target,
        "name": name,
        "access": access,
        "schema": schema,
    }


def _schema(drawn: Numbers) -> str | None:
    return drawn.pick(_SCHEMAS) if drawn.one_in(4) else "broken" if drawn.one_in(30) else None


def send(model: Model, drawn: Numbers) -> Step | None:
    """One or more entries of a producer, single messages or batches."""
    choices = model.open(model.producers)
    if not choices:
        return create_producer(model, drawn)
    number = drawn.pick(choices)
    producer = model.producers[number]
    count, batch = 1 + drawn.below(4), drawn.pick((0, 0, 0, 3, 2, 5))
    chunks = drawn.pick((0,) * 8 + (2, 3)) if not batch else 0
    empty = drawn.one_in(6)
    key = drawn.pick(_KEYS)
    if drawn.one_in(8):
        producer["sequence"] = max(0, producer["sequence"] - 1 - drawn.below(3))
    entries = []
    for _ in range(count):
        model.messages += max(batch, 1)
        entry = {"number": model.messages, "sequence": producer["sequence"], "batch": batch, "key": key}
        entries.append({**entry, "chunks": chunks, "empty": empty})
        empty = False
        producer["sequence"] += max(batch, 1)
        key = key and f"k{model.messages % 5}"
    return {
        "do": "send",
        "producer": number,
        "entries": entries,
        "one_by_one": model.is_consumed(producer["target"]),
        "compression": drawn.pick(("NONE",) * 5 + ("LZ4", "ZLIB")),
        "transaction": open_transaction(model, drawn) if drawn.one_in(4) else None,
        "delay_ms": 2500 if drawn.one_in(12) else 0,
    }


def open_transaction(model: Model, drawn: Numbers) -> int | None:
    """Return the number of an open transaction, or None if there is none."""
    choices = model.open(model.transactions)
    return drawn.pick(choices) if choices else None


def begin_transaction(model: Model, drawn: Numbers) -> Step:
    """A NEW_TXN."""
    model.transactions.append({"open": True})
    return {"do": "begin", "transaction": len(model.transactions) - 1}


def end_transaction(model: Model, drawn: Numbers) -> Step | None:
    """An END_TXN."""
    number = open_transaction(model, drawn)
    if number is None:
        return begin_transaction(model, drawn)
    model.transactions[number]["open"] = False
    return {"do": "end", "transaction": number, "action": drawn.pick(("COMMIT", "COMMIT", "ABORT"))}


def subscribe(model: Model, drawn: Numbers) -> Step:
    """A SUBSCRIBE on a new connection, and a FLOW after its response."""
    target, subscription = drawn.pick(model.targets()), drawn.pick(_SUBSCRIPTIONS)
    others = model.consumers_of(target, subscription)
    types = _TYPES if not others else (*[others[0]["type"]] * 9, *_TYPES)
    kind, permits = drawn.pick(types), drawn.pick((10, 1000, 1, 2, 0))
    position, durable = drawn.pick(("Earliest", "Latest")), not drawn.one_in(6)
    model.consumers.append({"open": True, "target": target, "subscription": subscription, "type": kind})
    return {
        "do": "subscribe",
        "consumer": len(model.consumers) - 1,
        "target": target,
        "subscription": subscription,
        "type": kind,
        "position": position,
        "durable": durable,
        "permits": permits,
        "priority": drawn.pick((0, 0, 0, 1)),
        "compacted": drawn.one_in(6),
        "schema": _schema(drawn),
    }


def _of_consumer(model: Model, drawn: Numbers, **fields: Any) -> Step | None:
    choices = model.open(model.consumers)
    return {"consumer": drawn.pick(choices), **fields} if choices else None


def flow(model: Model, drawn: Numbers) -> Step | None:
    """A FLOW."""
    return _of_consumer(model, drawn, do="flow", permits=drawn.pick(_PERMITS))


def acknowledge(model: Model, drawn: Numbers) -> Step | None:
    """An ACK of entries that the consumer holds."""
    step = _of_consumer(model, drawn, do="ack", which=drawn.below(8), count=1 + drawn.pick((0, 0, 0, 1, 2)))
    if step is not None:
        step["kind"] = drawn.pick(("Individual", "Individual", "Cumulative", "Batch"))
        step["index"] = drawn.below(5)
        step["transaction"] = open_transaction(model, drawn) if drawn.one_in(4) else None
    return step


def redeliver(model: Model, drawn: Numbers) -> Step | None:
    """A REDELIVER of one entry, as after a negative acknowledgement, or of all entries."""
    return _of_consumer(model, drawn, do="redeliver", which=drawn.pick((None, 0, 0, 1, 2)))


def seek(model: Model, drawn: Numbers) -> Step | None:
    """A SEEK to the start, the end, an entry or the time of a message."""
    return _of_consumer(
        model, drawn, do="seek", to=drawn.pick(("earliest", "latest", "entry", "time")), which=drawn.below(8)
    )


def unsubscribe(model: Model, drawn: Numbers) -> Step | None:
    """An UNSUBSCRIBE."""
    return _of_consumer(model, drawn, do="unsubscribe", force=drawn.one_in(4))


def close_consumer(model: Model, drawn: Numbers) -> Step | None:
    """The end of a consumer: CLOSE_CONSUMER, or the end of its connection."""
    step = _of_consumer(model, drawn, do="close_consumer", how=drawn.pick(("command", "command", "socket")))
    if step is not None:
        model.consumers[step["consumer"]]["open"] = False
    return step


def close_producer(model: Model, drawn: Numbers) -> Step | None:
    """The end of a producer: CLOSE_PRODUCER, or the end of its connection."""
    number = model.close_one(drawn, model.producers)
    if number is None:
        return None
    return {"do": "close_producer", "producer": number, "how": drawn.pick(("command", "command", "socket"))}


def last_message_id(model: Model, drawn: Numbers) -> Step | None:
    """A GET_LAST_MESSAGE_ID."""
    return _of_consumer(model, drawn, do="last_message_id")


def consumer_stats(model: Model, drawn: Numbers) -> Step | None:
    """A CONSUMER_STATS."""
    return _of_consumer(model, drawn, do="consumer_stats")


def query(model: Model, drawn: Numbers) -> Step:
    """A GET on a topic."""
    number, partition = drawn.pick(model.targets())
    if partition >= 0 and drawn.one_in(3):
        return {"do": "rest", "method": "GET", "target": (number, -1), "path": drawn.pick(_TOPIC_QUERIES)}
    return {"do": "rest", "method": "GET", "target": (number, partition), "path": drawn.pick(_QUERIES)}


def set_policy(model: Model, drawn: Numbers) -> Step:
    """A policy of the namespace, or of a topic, that is set or removed."""
    method = drawn.pick(("POST", "POST", "DELETE"))
    if drawn.one_in(2):
        name, value = drawn.pick(_TOPIC_POLICIES)
        number, _ = drawn.pick(model.targets())
        body = None if method == "DELETE" else value
        return {"do": "policy", "method": method, "target": (number, -1), "path": name, "body": body}
    name, value = drawn.pick(_NAMESPACE_POLICIES)
    body = None if method == "DELETE" and name.startswith("max") else value
    method = method if body is None else "POST"
    return {"do": "policy", "method": method, "target": None, "path": name, "body": body}


def administer(model: Model, drawn: Numbers) -> Step:
    """An administrative operation on a topic or a subscription."""
    name = drawn.pick(_SUBSCRIPTIONS)
    method, path, body = drawn.pick(
        (
            ("PUT", "unload", None),
            ("POST", f"subscription/{name}/skip/{1 + drawn.below(3)}", None),
            ("POST", f"subscription/{name}/skip_all", None),
            ("POST", f"subscription/{name}/resetcursor/{{time}}", None),
            ("POST", f"subscription/{name}/resetcursor", "{entry}"),
            ("PUT", f"subscription/{name}", "{entry}"),
            ("DELETE", f"subscription/{name}", None),
            ("DELETE", f"subscription/{name}?force=true", None),
            ("GET", f"subscription/{name}/position/{1 + drawn.below(3)}", None),
            ("POST", "terminate", None),
            ("DELETE", "", None),
            ("DELETE", "?force=true", None),
            ("POST", f"subscription/{name}/expireMessages/30", None),
            ("PUT", "compaction", None),
            ("DELETE", "truncate", None),
            ("POST", f"subscription/{name}/expireMessages", "{entry}"),
            ("POST", f"subscription/{name}/analyzeBacklog", None),
            ("PUT", f"subscription/{name}/properties", {"key": "value"}),
            ("GET", f"subscription/{name}/properties", None),
            ("POST", f"subscription/{name}/resetcursor", "{after}"),
            ("PUT", "unload", None),
        )
    )
    step = {"do": "rest", "method": method, "target": drawn.pick(model.targets()), "path": path}
    return {**step, "body": body, "which": drawn.below(8)}


def compact(model: Model, drawn: Numbers) -> Step:
    """A compaction, and a wait for its end."""
    return {"do": "compact", "target": drawn.pick(model.targets())}


def query_schema(model: Model, drawn: Numbers) -> Step:
    """A GET_SCHEMA, or a REST call for schemas."""
    target = drawn.pick(model.targets())
    if drawn.one_in(2):
        return {"do": "get_schema", "target": target, "version": drawn.pick((None, 0, 1))}
    return {
        "do": "schema",
        "method": "DELETE" if drawn.one_in(8) else "GET",
        "target": target,
        "path": drawn.pick(_SCHEMA_PATHS),
    }


def wait(_model: Model, _drawn: Numbers) -> Step:
    """A pause of a second."""
    return {"do": "wait", "seconds": 1.2}


KINDS: tuple[Callable[[Model, Numbers], Step | None], ...] = (
    *[send] * 8,
    *[subscribe] * 6,
    *[create_producer] * 2,
    *[flow] * 5,
    *[acknowledge] * 8,
    *[redeliver] * 3,
    seek,
    unsubscribe,
    *[close_consumer] * 3,
    close_producer,
    last_message_id,
    consumer_stats,
    *[query] * 4,
    begin_transaction,
    *[end_transaction] * 2,
    *[set_policy] * 2,
    *[administer] * 2,
    compact,
    query_schema,
    wait,
)
"""The kinds, repeated by weight."""
