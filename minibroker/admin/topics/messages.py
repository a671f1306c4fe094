"""Message ids, messages and statistics of a topic. A message is the last one, or is found by time, id or position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.admin.body_types import MESSAGE_ID
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError, unexpected
from pcli.minibroker.admin.topics.message_responses import message_id, message_response
from pcli.minibroker.stats.internal_stats import internal_stats
from pcli.minibroker.stats.partitioned_stats import partitioned_stats
from pcli.minibroker.stats.topic_stats import topic_stats
from pcli.minibroker.storage.backlog_size import backlog_size
from pcli.minibroker.storage.ledger import ManagedLedger

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic

_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"


def _ledger(call: Call, operation: str) -> tuple[ManagedLedger, Topic]:
    """Return a topic's ledger and the topic. Raises 405 if the topic is non-persistent or partitioned."""
    topic = call.persistent_topic(operation)
    assert topic.ledger is not None
    return topic.ledger, topic


def _last(call: Call) -> Any:
    call.require_persistent("GetLastMessageId")
    if call.broker.topic_registry.partitions(call.topic_name):
        raise RestError(404, f"Topic {call.topic_name} not found")
    ledger, topic = _ledger(call, "GetLastMessageId")
    entry = ledger.entry(ledger.next - 1)
    if entry is None:
        place = ledger.last_confirmed
        # If the ledger of the last entry was deleted, the response is MessageId.earliest.
        deleted = place[1] >= 0 and ledger.offset_of(*place) is None
        return (
            message_id(call.broker.version, (-1, -1), -1)
            if deleted
            else message_id(call.broker.version, place, topic.partition)
        )
    if not entry.parsed:
        entry.parse()
    batch = entry.metadata is not None and entry.metadata.HasField("num_messages_in_batch")
    if not batch:
        return message_id(call.broker.version, (entry.ledger_id, entry.entry_id), topic.partition)
    # BatchMessageIdImpl has two more properties than MessageIdImpl.
    found = message_id(call.broker.version, (entry.ledger_id, entry.entry_id), topic.partition, entry.messages - 1)
    return {**found, "originalBatchSize": 0, "outstandingAcksInSameBatch": 0}


def _at_time(call: Call) -> Any:
    """Return the id of the first message at or after a time. Compacted messages are searched first.

    If there are none, the last compacted message counts as published at time 0, as on the real broker.
    """
    topic = call.persistent_topic("Get message ID by timestamp")
    assert topic.ledger is not None
    assert topic.compaction is not None
    compacted, time = topic.compaction.compacted, call.path_number("timestamp")
    last = compacted.last_message_position()
    if time == last.publish_time:
        return message_id(call.broker.version, last[:2], topic.partition)
    if time > last.publish_time:
        return message_id(
            call.broker.version, topic.ledger.position(topic.ledger.newest_before(time) + 1), topic.partition
        )
    entry = None if compacted.ledger is None else compacted.ledger.first_published_at(time)
    if entry is None:
        raise RestError(500, "CompactedTopicContext is not initialized")
    return message_id(call.broker.version, (entry.ledger_id, entry.entry_id), topic.partition)


def _by_id(call: Call) -> Reply:
    ledger, topic = _ledger(call, "Get message by id")
    offset = ledger.offset_of(call.path_number("ledger"), call.path_number("entry"))
    entry = None if offset is None else ledger.entry(offset)
    if entry is None:
        raise RestError(404, "Message id not found")
    return message_response(topic, entry)


def _examine(call: Call) -> Reply:
    position = call.query_number("messagePosition")
    ledger, topic = _ledger(call, "Examine messages")
    if ledger.next == ledger.first:
        raise RestError(412, "Could not examine messages due to the total message is zero")
    place = max(1, position or 1)
    earliest = call.query.get("initialPosition") == "earliest"
    entry = ledger.entry(ledger.first + place - 1 if earliest else ledger.next - place)
    if entry is None:
        raise RestError(404, "Message not found")
    return message_response(topic, entry)


def _backlog_size(call: Call) -> Any:
    """Return the number of bytes after a message id. If the id is -1:-1, return the number of all bytes."""
    ledger, _ = _ledger(call, "Get backlog size")
    body = call.body
    if body is None:
        method = "org.apache.pulsar.client.impl.MessageIdImpl.getLedgerId()"
        raise unexpected(f'Cannot invoke "{method}" because "messageId" is null')
    if body["ledgerId"] < 0:
        return backlog_size(ledger, ledger.first - 1)
    return backlog_size(ledger, ledger.next_valid(body["ledgerId"], body["entryId"]))


# -- statistics --------------------------------------------------------------------------------------------------------


def _stats(call: Call) -> Any:
    topic = call.topic()
    stats = topic_stats(topic, earliest=call.flag("getEarliestTimeInBacklog"))
    if topic.persistent and call.query.get("subscriptionBacklogSize") == "false":
        for subscription in stats["subscriptions"].values():
            subscription["backlogSize"] = -1
    return stats


def _partitioned(call: Call) -> int:
    name = call.topic_name
    call.owned_namespace()
    count = call.broker.topic_registry.partitions(name)
    if not count:
        raise RestError(404, f"Partitioned Topic {name} not found")
    return count


def _partitioned_stats(call: Call) -> Any:
    count = _partitioned(call)
    each = call.query.get("perPartition", "true").lower() == "true"
    earliest = call.flag("getEarliestTimeInBacklog")
    found = {topic.full_name: topic_stats(topic, earliest=earliest) for topic in call.topics()}
    return partitioned_stats(found, count, each=each)


def _internal_stats(call: Call) -> Any:
    name = call.topic_name
    if not name.persistent and not call.broker.topic_registry.partitions(name):
        call.owned_namespace()
        if call.broker.topic_registry.load(name) is None:
            raise RestError(404, "Topic not found")
    return internal_stats(call.topic())


def _partitioned_internal_stats(call: Call) -> Any:
    count = _partitioned(call)
    parts = {topic.full_name: internal_stats(topic) for topic in call.topics()}
    return {"metadata": {"partitions": count, "deleted": False}, "partitions": parts}


ENDPOINTS: Final = (
    Endpoint("GET", f"{_TOPIC}/stats", _stats, "statistics of a topic"),
    Endpoint("GET", f"{_TOPIC}/partitioned-stats", _partitioned_stats, "statistics of a partitioned topic"),
    Endpoint("GET", f"{_TOPIC}/internalStats", _internal_stats, "ledgers and cursors of a topic"),
    Endpoint(
        "GET",
        f"{_TOPIC}/partitioned-internalStats",
        _partitioned_internal_stats,
        "ledgers and cursors of all partitions",
    ),
    Endpoint("GET", f"{_TOPIC}/lastMessageId", _last, "id of the last message"),
    Endpoint(
        "GET",
        f"{_TOPIC}/messageid/{{timestamp}}",
        _at_time,
        "id of the first message at or after a time",
        numbers={"timestamp": 64},
    ),
    Endpoint(
        "GET",
        f"{_TOPIC}/ledger/{{ledger}}/entry/{{entry}}",
        _by_id,
        "a message by its id",
        numbers={"ledger": 64, "entry": 64},
    ),
    Endpoint(
        "GET",
        f"{_TOPIC}/examinemessage",
        _examine,
        "a message by its position from either end",
        numbers={"messagePosition": 64},
    ),
    Endpoint("PUT", f"{_TOPIC}/backlogSize", _backlog_size, "bytes after a message id", MESSAGE_ID),
)
