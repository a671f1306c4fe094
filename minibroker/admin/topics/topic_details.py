"""Details of topics: stored ledgers and cursors, an offline backlog, message ids by index (PersistentTopicsBase)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, Reply, RestError
from pcli.minibroker.admin.topics.message_responses import message_id
from pcli.minibroker.schema.registry import version_number
from pcli.minibroker.stats.topic_stats import Json
from pcli.minibroker.storage.entry import block_start
from pcli.minibroker.timestamps import instant_text

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.storage.cursor import ManagedCursor
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_HEAD: Final = 6
"""Number of bytes before the broker entry metadata."""


# -- ledgers and cursors -----------------------------------------------------------------------------------------------


def _info(call: Call) -> Any:
    """Return the stored description of a topic, or of its partitions (ManagedLedgerInfo)."""
    name = call.topic_name
    call.owned_namespace()
    count = call.broker.topic_registry.partitions(name)
    if not count:
        return _of_topic(call, name)
    parts = [name.with_partition(index) for index in range(count)]
    return {"version": 0, "partitions": {str(part): _of_topic(call, part) for part in parts}}


def _of_topic(call: Call, name: TopicName) -> Json:
    topic = call.broker.topics.get(str(name))
    if topic is None and str(name) in call.broker.stored:
        return {**_about(call.broker.now, 0), "ledgers": [], "cursors": {}}  # no ledger exists before the first use
    if topic is None or topic.ledger is None:
        raise PageError(500)
    ledgers = [
        {
            "ledgerId": one.id,
            **({} if one.closed_ms is None else {"entries": one.entries, "size": one.size}),
            "timestamp": one.created_ms if one.closed_ms is None else one.closed_ms,
            "isOffloaded": False,
        }
        for one in topic.ledger.ledgers
    ]
    about = _about(topic.created, 1)
    cursors = {one.name: {**about, **_of_cursor(cursor)} for one, cursor in _durable(topic)}
    return {**_about(topic.created, len(ledgers)), "ledgers": ledgers, "cursors": cursors}


def _about(created: int, version: int) -> Json:
    """Return the description of an entry in the metadata store. ``version`` counts its changes."""
    date = instant_text(created)
    return {"version": version, "creationDate": date, "modificationDate": date}


def _durable(topic: Topic) -> list[tuple[Subscription, ManagedCursor]]:
    return [(one, one.cursor) for one in topic.subscriptions.values() if one.durable and one.cursor is not None]


def _of_cursor(cursor: ManagedCursor) -> Json:
    ledger_id, entry_id = cursor.mark_delete_position
    return {"cursorsLedgerId": -1, "markDelete": {"ledgerId": ledger_id, "entryId": entry_id}}


# -- backlog -----------------------------------------------------------------------------------------------------------


def _backlog(call: Call) -> Any:
    """Return the backlog that is stored for a topic (PersistentOfflineTopicStats).

    The broker of a real standalone never responds to this request for an unpartitioned persistent topic.
    """
    name = call.topic_name
    call.owned_namespace()
    found: Json = {
        "storageSize": 0,
        "totalMessages": 0,
        "messageBacklog": 0,
        "brokerName": call.broker.host,
        "topicName": f"{call.namespace_name}/{name.domain}/{name.local}",
        "dataLedgerDetails": [],
        "cursorDetails": {},
        "statGeneratedAt": call.broker.now,
    }
    topic = call.broker.topic_registry.load(name)
    if topic is None or topic.ledger is None:
        return found
    ledger = topic.ledger
    found["storageSize"] = ledger.total_size
    found["totalMessages"] = ledger.next - ledger.first
    found["dataLedgerDetails"] = [
        {"entries": one.entries, "timestamp": one.closed_ms or one.created_ms, "size": one.size, "ledgerId": one.id}
        for one in ledger.ledgers
    ]
    found["cursorDetails"] = {one.name: _offline(cursor) for one, cursor in _durable(topic)}
    found["messageBacklog"] = sum(cursor.backlog for _, cursor in _durable(topic))
    return found


def _offline(cursor: ManagedCursor) -> Json:
    return {"cursorBacklog": cursor.backlog, "cursorLedgerId": -1}


# -- index -------------------------------------------------------------------------------------------------------------


def _by_index(call: Call) -> Any:
    """Return the id of the message with an index, or of the first message of its batch."""
    if not call.broker.settings.brokerEntryMetadataInterceptors:
        raise RestError(412, "GetMessageIDByIndex is not allowed when broker entry metadata is disabled")
    index = call.query_number("index") or 0
    if index < 0:
        raise RestError(404, f"Invalid message index: {index}")
    if call.broker.topic_registry.partitions(call.topic_name):
        raise RestError(405, "GetMessageIDByIndex is not allowed on partitioned-topic")
    topic = call.topic()
    ledger = topic.ledger
    if ledger is None:
        raise RestError(405, "Get message id by index on a non-persistent topic is not allowed")
    if ledger.next <= ledger.first:
        raise RestError(404, f"No messages found in topic {topic.full_name}")
    return message_id(call.broker.version, _position(ledger, index), topic.partition)


def _position(ledger: ManagedLedger, index: int) -> tuple[int, int]:
    low, high = ledger.first, ledger.next
    while low < high:
        middle = (low + high) // 2
        if _highest(ledger, middle) < index:
            low = middle + 1
        else:
            high = middle
    if low == ledger.next:
        raise RestError(404, f"Message not found for index {index}")
    return ledger.position(low)


def _highest(ledger: ManagedLedger, offset: int) -> int:
    """Return the index of the last message of an entry, or -1 if the entry has no index."""
    entry = ledger.entry(offset)
    assert entry is not None
    start = block_start(entry.data)
    return pb.BrokerEntryMetadata.FromString(entry.data[_HEAD:start]).index if start else -1


# -- schemas -----------------------------------------------------------------------------------------------------------


def _schema_metadata(call: Call) -> Reply:
    """Return where the schemas of a topic are stored. The ledgers do not exist; their ids count the versions."""
    call.path = {**call.path, "domain": "persistent"}
    versions = [version_number(one.version) for one in call.broker.schemas.versions(call.topic_name.schema_id)]
    index = [{"ledgerId": version, "entryId": 0, "version": version} for version in versions]
    return Reply(200, {"info": index[-1], "index": index} if index else None)


ENDPOINTS: Final = (
    Endpoint("GET", f"{_TOPIC}/internal-info", _info, "stored ledgers and cursors of a topic"),
    Endpoint("GET", f"{_TOPIC}/backlog", _backlog, "stored backlog of a topic"),
    Endpoint(
        "GET", f"{_TOPIC}/getMessageIdByIndex", _by_index, "id of the message with an index", numbers={"index": 64}
    ),
    Endpoint(
        "GET",
        "/admin/v2/schemas/{tenant}/{namespace}/{topic}/metadata",
        _schema_metadata,
        "the versions of the schemas of a topic",
    ),
)
