"""Subscriptions: create, delete, inspect, and move the cursor (PersistentTopics of 4.2.4).

An operation on a partitioned topic applies to all partitions if possible; otherwise the response is a 405.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.wire.bits import ones
from pcli.minibroker.admin.body_types import RESET_CURSOR
from pcli.minibroker.admin.endpoint import Call, Endpoint, RestError, check_persistent, unexpected
from pcli.minibroker.admin.topics.message_responses import message_response
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.java_types import STRING_MAP
from pcli.minibroker.topic_names import check_subscription_name
from pcli.minibroker.topics.topic_compaction import COMPACTION

if TYPE_CHECKING:
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_ONE: Final = f"{_TOPIC}/subscription/{{subscription}}"
_MAX: Final = (1 << 63) - 1
"""Ledger or entry id that means the end of the topic."""
_LARGEST_BATCH: Final = 1 << 16
"""Maximum batch size for a position within a batch. It is limited because the client declares the batch size."""


def _each(operation: Callable[[Call, Topic, Subscription], None]) -> Callable[[Call], None]:
    """Return an endpoint that applies an operation to the topic, or to each partition that has the subscription."""

    def do(call: Call) -> None:
        name = call.path_text("subscription")
        topics = call.topics()
        having = [topic for topic in topics if name in topic.subscriptions]
        if not having:
            if len(topics) == 1:
                call.subscription(topics[0])
            raise RestError(404, "Subscription not found")
        for topic in having:
            operation(call, topic, topic.subscriptions[name])

    return do


def _list(call: Call) -> Any:
    return list(dict.fromkeys(name for topic in call.topics() for name in topic.subscriptions))


# -- creating and deleting ---------------------------------------------------------------------------------------------


def _create(call: Call) -> None:
    name, registry = call.topic_name, call.broker.topic_registry
    if not name.persistent:
        raise RestError(400, "Create subscription on non-persistent topic can only be done through client")
    call.owned_namespace()
    body = _message_id(call, required=False)
    if not registry.exists(name):
        if not registry.may_create(name):
            raise RestError(412, "Topic does not exist and cannot be auto-created")
        registry.create(name)
    subscription = call.path_text("subscription")
    try:
        if call.broker.settings.strictlyVerifySubscriptionName:
            check_subscription_name(subscription)
    except Refused as refused:
        raise RestError(400, refused.text) from None
    topics = call.topics()
    if all(subscription in topic.subscriptions for topic in topics):
        raise RestError(409, "Subscription already exists for topic")
    for topic in topics:
        if subscription not in topic.subscriptions and topic.ledger is not None:
            topic.check_subscription_limit()
            offset, bits = _place(topic.ledger, body)
            made = topic.create_subscription(subscription, offset)
            made.properties = dict(body.get("properties") or {})
            made.replicated = call.flag("replicated")
            if made.cursor is not None:
                # The real broker creates the subscription at the end of the topic and then resets its cursor.
                made.cursor.seek(-1 if body.get("ledgerId", 0) < 0 else offset)
                made.cursor.open_ledger()
                if bits is not None:
                    made.cursor.put_ack_set(offset, bits)


def _message_id(call: Call, *, required: bool = True) -> dict[str, Any]:
    """Return the position in the body. If there is none and it is not required, it is the end of the topic."""
    if call.body is None and required:
        method = "org.apache.pulsar.client.impl.ResetCursorData.getLedgerId()"
        raise unexpected(f'Cannot invoke "{method}" because "resetCursorData" is null')
    return call.body or {"ledgerId": _MAX, "entryId": _MAX}


def _place(ledger: ManagedLedger, body: dict[str, Any]) -> tuple[int, int | None]:
    """Return the offset to read next, and the remaining bits of a batch or None (calculatePositionAckSet)."""
    ledger_id, entry_id = body.get("ledgerId", 0), body.get("entryId", 0)
    if ledger_id < 0:
        return ledger.first, None
    excluded = bool(body.get("excluded"))
    offset, whole = ledger.next_valid(ledger_id, entry_id), ledger.next_valid(ledger_id, entry_id + excluded)
    index = body.get("batchIndex", -1)
    entry = ledger.entry(offset)
    if index < 0 or entry is None or offset != ledger.offset_of(ledger_id, entry_id):
        return whole, None
    if not entry.parsed:
        entry.parse()
    if not 0 < entry.messages <= _LARGEST_BATCH:
        return whole, None
    done = min(index + excluded, entry.messages)
    left = ones(entry.messages) & ~ones(done)
    return (offset, left) if left else (offset + 1, None)


def _delete(call: Call) -> None:
    name = call.path_text("subscription")
    having = [topic for topic in call.topics() if name in topic.subscriptions]
    forced = call.flag("force") or not call.topic_name.persistent
    if any(topic.subscriptions[name].consumers for topic in having) and not forced:
        raise RestError(412, "Subscription has active connected consumers")
    _each(_remove)(call)


def _remove(call: Call, topic: Topic, subscription: Subscription) -> None:
    subscription.disconnect()
    topic.remove_subscription(subscription)


# -- moving the cursor -------------------------------------------------------------------------------------------------


def _reset_to_time(call: Call, topic: Topic, subscription: Subscription) -> None:
    if topic.ledger is not None:
        subscription.reset(subscription.offset_at(call.path_number("timestamp")))


def _reset_to_id(call: Call) -> None:
    if call.broker.topic_registry.partitions(call.topic_name):
        raise RestError(405, "Reset-cursor at position is not allowed for partitioned-topic")
    topic = call.topic()
    check_persistent(topic)
    subscription = call.subscription(topic)
    if topic.ledger is not None:
        body = _message_id(call)
        subscription.reset(*((-1, None) if body.get("ledgerId", 0) < 0 else _place(topic.ledger, body)))


def _skip(call: Call) -> None:
    topic = call.unpartitioned_topic("Skip messages")
    check_persistent(topic)
    call.subscription(topic).skip(call.path_number("count"))


def _skip_all(call: Call) -> None:
    if not call.topic_name.persistent:
        check_persistent(call.topic())
    _each(lambda _call, _topic, subscription: subscription.skip_all())(call)


def _expire_older(call: Call) -> None:
    call.require_persistent("Expire messages")
    _each(_expire)(call)


def _expire(call: Call, topic: Topic, subscription: Subscription) -> None:
    seconds = call.path_number("seconds")
    if not subscription.expire_messages(seconds):
        raise RestError(
            409,
            f"Expire message by timestamp not issued on topic {topic.full_name} for subscription {subscription.name} "
            "due to ongoing message expiration not finished or subscription almost catch  up. If it's performed on a "
            "partitioned topic operation might succeeded on other partitions, please check stats of individual "
            "partition.",
        )


def _expire_to_id(call: Call) -> None:
    topic = call.unpartitioned_topic("Expire messages")
    check_persistent(topic)
    body = _message_id(call)
    if body.get("partitionIndex", -1) != topic.partition:
        text = "partition index of passed in message position doesn't match partition index for the topic"
        raise RestError(412, f"Invalid parameter for expire message by position, {text}")
    subscription = call.subscription(topic)
    if topic.ledger is not None and body.get("ledgerId", 0) >= 0:
        offset = topic.ledger.offset_of(body.get("ledgerId", 0), body.get("entryId", 0))
        if offset is not None:
            subscription.advance_mark_delete(offset)


def _expire_all(call: Call) -> None:
    call.require_persistent("Expire messages for all subscriptions")
    for topic in call.topics():
        for subscription in list(topic.subscriptions.values()):
            if subscription.name != COMPACTION:
                _expire(call, topic, subscription)


# -- inspection --------------------------------------------------------------------------------------------------------


def _peek(call: Call) -> Any:
    topic = call.persistent_topic("Peek messages")
    name, count = call.path_text("subscription"), call.path_number("count")
    if name not in topic.subscriptions and topic.ledger is not None:
        topic.create_subscription(name, topic.ledger.first)  # as PersistentTopicsBase.getSubscriptionReference does
    cursor = topic.subscriptions[name].cursor
    if cursor is None or topic.ledger is None or not 1 <= count <= cursor.backlog:
        raise RestError(404, "Message not found")
    entry = topic.ledger.entry(cursor.nth_unacked(count))
    if entry is None:
        raise RestError(404, "Message not found")
    return message_response(topic, entry)


def _analyze(call: Call) -> Any:
    topic = call.unpartitioned_topic("Analyze backlog")
    subscription = call.subscription(topic)
    if topic.ledger is None:
        why = "Unsupported operation analyzeBacklog for NonPersistentSubscription"
        raise unexpected(why, "java.lang.UnsupportedOperationException")
    found = {"entries": 0, "messages": 0, "markerMessages": 0}
    cursor, ledger = subscription.cursor, topic.ledger
    assert cursor is not None
    assert ledger is not None
    most = call.broker.settings.subscriptionBacklogScanMaxEntries
    places: dict[str, str] = {}
    offset = cursor.next_unacked(cursor.mark_delete + 1)
    while found["entries"] < most and (entry := ledger.entry(offset)) is not None:
        if not entry.parsed:
            entry.parse()
        found["entries"] += 1
        found["messages"] += entry.messages
        found["markerMessages"] += entry.marker
        places["lastMessageId"] = f"{entry.ledger_id}:{entry.entry_id}"
        places.setdefault("firstMessageId", places["lastMessageId"])
        offset = cursor.next_unacked(offset + 1)
    filters = ("Rejected", "Accepted", "Rescheduled")
    zero = {f"filter{verdict}{what}": 0 for what in ("Entries", "Messages") for verdict in filters}
    accepted = {"filterAcceptedEntries": found["entries"], "filterAcceptedMessages": found["messages"]}
    return {**found, **zero, **accepted, "aborted": found["entries"] >= most, **places}


def _properties(call: Call) -> Any:
    return call.subscription(call.topics()[0]).properties


def _set_properties(call: Call, topic: Topic, subscription: Subscription) -> None:
    subscription.properties = dict(call.body or {})


ENDPOINTS: Final = (
    Endpoint("GET", f"{_TOPIC}/subscriptions", _list, "names of the subscriptions of a topic"),
    Endpoint("PUT", _ONE, _create, "create a subscription at a message id, or at the end of the topic", RESET_CURSOR),
    Endpoint("DELETE", _ONE, _delete, "delete a subscription"),
    Endpoint(
        "POST",
        f"{_ONE}/resetcursor/{{timestamp}}",
        _each(_reset_to_time),
        "reset a subscription to a time",
        numbers={"timestamp": 64},
    ),
    Endpoint("POST", f"{_ONE}/resetcursor", _reset_to_id, "reset a subscription to a message id", RESET_CURSOR),
    Endpoint("POST", f"{_ONE}/skip/{{count}}", _skip, "acknowledge the next `count` entries", numbers={"count": 32}),
    Endpoint("POST", f"{_ONE}/skip_all", _skip_all, "acknowledge all messages of a subscription"),
    Endpoint(
        "POST",
        f"{_ONE}/expireMessages/{{seconds}}",
        _expire_older,
        "acknowledge messages older than a number of seconds",
        numbers={"seconds": 32},
    ),
    Endpoint("POST", f"{_ONE}/expireMessages", _expire_to_id, "acknowledge all messages up to an id", RESET_CURSOR),
    Endpoint(
        "POST",
        f"{_TOPIC}/all_subscription/expireMessages/{{seconds}}",
        _expire_all,
        "acknowledge messages older than a number of seconds, on all subscriptions",
        numbers={"seconds": 32},
    ),
    Endpoint(
        "GET",
        f"{_ONE}/position/{{count}}",
        _peek,
        "the unacknowledged message at a position, counted from 1",
        numbers={"count": 32},
    ),
    Endpoint("POST", f"{_ONE}/analyzeBacklog", _analyze, "count the unacknowledged messages", RESET_CURSOR),
    Endpoint("GET", f"{_ONE}/properties", _properties, "properties of a subscription"),
    Endpoint("PUT", f"{_ONE}/properties", _each(_set_properties), "set the properties of a subscription", STRING_MAP),
)
