"""Ledgers and cursors of a topic (``internalStats``: PersistentTopicInternalStats, CursorStats of 4.2.4).

Positions are written as ``ledger:entry``, and ranges of acknowledged entries as ``(before:last]``, as on the real
broker. There are no cursor ledgers; their ids are -1.

The entry in which a real broker stores a version of a schema (BookkeeperSchemaStorage) contains the schema with its id,
type, time and properties (SchemaInfo), and an index of the earlier versions with their positions and SHA-256 hashes.
The index of the first version contains a position that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.minibroker.stats.topic_stats import Json
from pcli.minibroker.timestamps import instant_text
from pcli.minibroker.topics.shadow_replicators import SHADOW_SOURCE

if TYPE_CHECKING:
    from pcli.minibroker.storage.cursor import ManagedCursor
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

_REPLICATED: Final[Json] = {"pulsar.replicated.subscription": 1}
_NO_LEDGER: Final[Json] = {"ledgerId": -1, "entries": -1, "size": -1, "offloaded": False, "underReplicated": False}


def position(ledger: ManagedLedger, offset: int) -> str:
    """Return a position as text."""
    ledger_id, entry_id = ledger.position(offset)
    return f"{ledger_id}:{entry_id}"


def internal_stats(topic: Topic) -> Json:
    """Return the internal stats of one topic."""
    ledger = topic.ledger
    if ledger is None:
        return _without_ledger(topic)
    current = None if ledger.closed else ledger.ledgers[-1]
    return {
        "entriesAddedCounter": ledger.entries_added,
        "numberOfEntries": ledger.next - ledger.first,
        "totalSize": ledger.total_size,
        "currentLedgerEntries": 0 if current is None else current.counted_entries,
        "currentLedgerSize": 0 if current is None else current.size,
        "lastLedgerCreatedTimestamp": instant_text(ledger.ledgers[-1].created_ms),
        "waitingCursorsCount": sum(one.waits for one in topic.subscriptions.values())
        + len(topic.shadow_replicators.by_name),
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": "{}:{}".format(*ledger.last_confirmed),
        "state": "Terminated" if ledger.terminated else "LedgerOpened",
        "ledgers": [
            {
                "ledgerId": one.id,
                # The real broker also omits the size of the last ledger, even if it is closed.
                "entries": one.entries if one is not current and one.closed_ms is not None else 0,
                "size": one.size if one is not current and one.closed_ms is not None else 0,
                "offloaded": False,
                "underReplicated": False,
            }
            for one in ledger.ledgers
        ],
        "cursors": _cursors(topic, ledger),
        "properties": ledger_properties(topic),
        "schemaLedgers": _schema_ledgers(topic),
        "compactedLedger": _compacted_ledger(topic),
    }


def _cursors(topic: Topic, ledger: ManagedLedger) -> Json:
    found = {name: _cursor(ledger, topic, cursor, None) for name, cursor in topic.detached_cursors.items()}
    for name, one in topic.subscriptions.items():
        if one.cursor is not None:
            found[name] = _cursor(ledger, topic, one.cursor, one)
    for cursor in topic.shadow_replicators.cursors:
        found[cursor.name] = {**_cursor(ledger, topic, cursor, None), "waitingReadOp": True, "active": True}
    if topic.deduplication_snapshot is not None:
        cursor = topic.deduplication_snapshot.cursor
        found[cursor.name] = _cursor(ledger, topic, cursor, None)
    return found


def ledger_properties(topic: Topic) -> dict[str, str]:
    """Return the properties of the topic and its epoch, which are stored together."""
    epoch = topic.producer_access.epoch
    own = topic.broker.policies.properties.get(str(topic.name.base), {})
    if topic.shadow_source is not None and topic.partition >= 0:
        own = {SHADOW_SOURCE: str(topic.shadow_source)}
    return own if epoch is None else {**own, "pulsar.topic.epoch": str(epoch)}


def _schema_ledgers(topic: Topic) -> list[Json]:
    """Return the ledger of each version of the schema. The ledgers do not exist; their ids count the versions."""
    versions = topic.broker.schemas.versions(topic.schema_id)
    return [
        {
            **_NO_LEDGER,
            "ledgerId": number,
            "entries": 1,
            "size": schema_entry_size(topic.schema_id, one.schema, one.timestamp, number),
        }
        for number, one in enumerate(versions)
    ]


def _compacted_ledger(topic: Topic) -> Json:
    ledger = None if topic.compaction is None else topic.compaction.compacted.ledger
    if ledger is None:
        return _NO_LEDGER
    return {**_NO_LEDGER, "ledgerId": ledger.id, "entries": len(ledger), "size": ledger.size}


def _cursor(ledger: ManagedLedger, topic: Topic, cursor: ManagedCursor, subscription: Subscription | None) -> Json:
    ranges = cursor.deleted_ranges()
    waits = subscription is not None and subscription.waits
    replicated = subscription is not None and subscription.replicated
    runs = ",".join(f"({_before(ledger, first)}..{position(ledger, last)}]" for first, last in ranges)
    return {
        "markDeletePosition": "{}:{}".format(*cursor.mark_delete_position),
        "readPosition": _read_position(ledger, cursor),
        "waitingReadOp": waits,
        "pendingReadOps": 0,
        "messagesConsumedCounter": ledger.entries_added - cursor.backlog,
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": f"[{runs}]",
        "lastLedgerSwitchTimestamp": instant_text(topic.created),
        "state": "Open" if cursor.has_ledger or not cursor.durable else "NoLedger",
        "active": subscription is not None and bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": cursor.read_position - cursor.mark_delete - cursor.is_at_start,
        "totalNonContiguousDeletedMessagesRange": len(ranges),
        "subscriptionHavePendingRead": waits,
        "subscriptionHavePendingReplayRead": False,
        "properties": {**cursor.properties, **_REPLICATED} if replicated else cursor.properties,
    }


def _before(ledger: ManagedLedger, offset: int) -> str:
    """Return the position before an entry in the same ledger; the entry id is -1 before the first entry."""
    ledger_id, entry_id = ledger.position(offset)
    return f"{ledger_id}:{entry_id - 1}"


def _read_position(ledger: ManagedLedger, cursor: ManagedCursor) -> str:
    if cursor.is_at_start:
        return f"{ledger.ledgers[0].id}:-1"
    if cursor.follows_read:
        ledger_id, entry_id = ledger.position(cursor.read_position - 1)
        return f"{ledger_id}:{entry_id + 1}"
    return position(ledger, cursor.read_position)


def _without_ledger(topic: Topic) -> Json:
    """Return the internal stats of a non-persistent topic, which stores nothing."""
    nothing = {
        "waitingReadOp": False,
        "pendingReadOps": 0,
        "messagesConsumedCounter": 0,
        "cursorLedger": 0,
        "cursorLedgerLastEntry": 0,
        "active": False,
        "numberOfEntriesSinceFirstNotAckedMessage": 0,
        "totalNonContiguousDeletedMessagesRange": 0,
        "subscriptionHavePendingRead": False,
        "subscriptionHavePendingReplayRead": False,
    }
    return {
        "entriesAddedCounter": topic.entries_in,
        "numberOfEntries": 0,
        "totalSize": 0,
        "currentLedgerEntries": 0,
        "currentLedgerSize": 0,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "cursors": dict.fromkeys(topic.subscriptions, nothing),
    }


_ONE_BYTE_FIELD: Final = 2
"""A field with a number below 128, or an empty one: its tag and one byte."""
_HASH: Final = 34
_NO_POSITION: Final = 24
"""A position with two negative numbers, which use ten bytes each."""
_POSITION: Final = 7
"""A position whose ledger id uses two bytes."""


def schema_entry_size(schema_id: str, schema: pb.Schema, timestamp: int, earlier: int) -> int:
    """Return the size in bytes. ``earlier`` is the number of versions before this one."""
    info = _field(len(schema_id.encode())) + _field(len(schema.schema_data)) + 1 + _varint(timestamp)
    info += 3 * _ONE_BYTE_FIELD  # the user, the type, and whether it is deleted
    for pair in schema.properties:
        info += _field(_field(len(pair.key.encode())) + _field(len(pair.value.encode())))
    position = _POSITION if earlier else _NO_POSITION
    return _field(info) + max(1, earlier) * _field(_ONE_BYTE_FIELD + position + _HASH)


def _field(size: int) -> int:
    """Return the size of a field with a length."""
    return 1 + _varint(size) + size


def _varint(value: int) -> int:
    return max(1, -(-value.bit_length() // 7))
