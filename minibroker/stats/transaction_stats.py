"""Statistics of transactions with Pulsar's names (TransactionMetadata, TransactionBufferStats and others of 4.2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcli.minibroker.stats.internal_stats import position
from pcli.minibroker.timestamps import instant_text
from pcli.minibroker.transactions.txn_id import TxnId, text_of

if TYPE_CHECKING:
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.transactions.metadata_store import MLTransactionMetadataStore, TxnMeta
    from pcli.minibroker.transactions.pending_ack_handle import Place

Json = dict[str, Any]


def coordinator_stats(store: MLTransactionMetadataStore) -> Json:
    """Return the statistics of a coordinator."""
    return {
        "state": "Ready",
        "leastSigBits": store.sequence_id,
        "lowWaterMark": store.low_water_mark,
        "ongoingTxnSize": len(store.metas),
        **_recovered(store.opened_ms),
    }


def _recovered(time: int) -> Json:
    return {"recoverStartTime": time, "recoverEndTime": time}


def metadata_stats(meta: TxnMeta) -> Json:
    """Return the fields of a transaction that do not depend on its topics."""
    return {
        "txnId": text_of(meta.id),
        "status": meta.status.name,
        "openTimestamp": meta.opened_ms,
        "timeoutAt": meta.timeout_ms,
    }


def in_buffer_stats(topic: Topic, txn: TxnId) -> Json:
    """Return the state of a transaction in a topic."""
    buffer, ledger = topic.transaction_buffer, topic.ledger
    if buffer is None or ledger is None:
        return {"aborted": False}
    start = {"startPosition": position(ledger, buffer.ongoing[txn])} if txn in buffer.ongoing else {}
    return {**start, "aborted": txn in buffer.aborted}


def buffer_stats(topic: Topic, *, low_water_marks: bool) -> Json | None:
    """Return the statistics of the transactions of a topic, or None if the topic has no transactions."""
    buffer, ledger = topic.transaction_buffer, topic.ledger
    if ledger is None or not topic.transactions_enabled:
        return None
    marks = {} if buffer is None else {str(number): mark for number, mark in buffer.low_water_marks.items()}
    return {
        "state": "Ready" if buffer is not None and buffer.ready else "NoSnapshot",
        "maxReadPosition": position(ledger, (ledger.next if buffer is None else buffer.read_end) - 1),
        "lastSnapshotTimestamps": 0 if buffer is None else buffer.last_snapshot_ms,
        **({"lowWaterMarks": marks} if low_water_marks else {}),
        "ongoingTxnSize": 0 if buffer is None else len(buffer.ongoing),
        **_recovered(topic.created),
        "totalAbortedTransactions": 0 if buffer is None else len(buffer.aborted),
        "snapshotType": "Single",
    }


def in_pending_ack_stats(subscription: Subscription, txn: TxnId) -> Json:
    """Return the cumulative acknowledgement of a transaction, if there is one."""
    handle = subscription.pending_ack_handle
    if handle is None or handle.cumulative is None or handle.cumulative[0] != txn:
        return {}
    _, (ledger_id, entry_id), bits = handle.cumulative
    index = f":{(bits & -bits).bit_length() - 2}" if bits else ""
    return {"cumulativeAckPosition": f"{ledger_id}:{entry_id}{index}"}


def pending_ack_stats(subscription: Subscription, *, low_water_marks: bool) -> Json | None:
    """Return the statistics of the pending acknowledgements of a subscription, or None without transactions."""
    if not subscription.topic.transactions_enabled:
        return None
    handle = subscription.pending_ack_handle
    marks = {} if handle is None else {str(number): mark for number, mark in handle.low_water_marks.items()}
    initialized = 0 if handle is None else handle.initialized_ms
    return {
        "state": "Ready" if initialized else "None",
        **({"lowWaterMarks": marks} if low_water_marks else {}),
        "ongoingTxnSize": 0 if handle is None else len(handle.transactions),
        **_recovered(initialized),
    }


def position_state(subscription: Subscription, place: Place, batch_index: int | None) -> str:
    """Return the state of an entry, or of a message of a batch (PositionInPendingAckStats.State)."""
    handle, cursor = subscription.pending_ack_handle, subscription.cursor
    if handle is None or not handle.initialized_ms or cursor is None:
        return "PendingAckNotReady"
    if place <= cursor.mark_delete_position:
        return "MarkDelete"
    if place not in handle.places:
        return "NotInPendingAck"
    bits, size = handle.places[place]
    if batch_index is None:
        return "PendingAck"
    if batch_index >= size:
        return "InvalidPosition"
    return "NotInPendingAck" if (bits or 0) >> batch_index & 1 else "PendingAck"


def log_stats(name: str, cursor: str, entries: int, properties: dict[str, str], created: int) -> Json:
    """Return the internal stats of a transaction log. It is not written: sizes are 0, and the ledger id is -1."""
    before = {"markDeletePosition": "-1:-1", "readPosition": "-1:0", "waitingReadOp": False, "pendingReadOps": 0}
    state: Json = {
        **before,
        "messagesConsumedCounter": 0,
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": "[]",
        "lastLedgerSwitchTimestamp": instant_text(created),
        "state": "NoLedger",
        "active": True,
        "numberOfEntriesSinceFirstNotAckedMessage": 1,
        "totalNonContiguousDeletedMessagesRange": 0,
        "subscriptionHavePendingRead": False,
        "subscriptionHavePendingReplayRead": False,
        "properties": {},
    }
    ledger = {"ledgerId": -1, "entries": 0, "size": 0, "offloaded": False, "underReplicated": False}
    stats = {
        "entriesAddedCounter": entries,
        "numberOfEntries": entries,
        "totalSize": 0,
        "currentLedgerEntries": entries,
        "currentLedgerSize": 0,
        "lastLedgerCreatedTimestamp": instant_text(created),
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": f"-1:{entries - 1}",
        "state": "LedgerOpened",
        "ledgers": [ledger],
        "cursors": {cursor: state},
        "properties": properties,
    }
    return {"managedLedgerName": name, "managedLedgerInternalStats": stats}
