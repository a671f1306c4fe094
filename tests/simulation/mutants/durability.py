"""Defects of the durable storage."""

from __future__ import annotations

from typing import Any

from simulation.mutants.registry import mutant

from pcli.minibroker.broker_documents import BrokerDocuments
from pcli.minibroker.storage.broker_storage import DurableBrokerStorage
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.topics.deduplication import MessageDeduplication
from pcli.minibroker.topics.topic_documents import SubscriptionDocuments
from pcli.minibroker.transactions.pending_ack_handle import PendingAckHandle


@mutant(DurableBrokerStorage, "add")
def receipt_before_commit(original: Any) -> Any:
    """Receipts do not wait for the commit of their entries."""

    def add(self: Any, storage: Any, number: int, data: bytes) -> None:
        required = self._required
        original(self, storage, number, data)
        self._required = required

    return add


@mutant(DurableBrokerStorage, "require")
def ack_response_before_commit(original: Any) -> Any:
    """ACK_RESPONSE does not wait for the commit of the acknowledgement."""
    del original
    return lambda self: None


@mutant(SubscriptionDocuments, "page_changed")
def unstored_individual_acks(original: Any) -> Any:
    """The entries that are acknowledged after the mark-delete position are not stored."""
    del original
    return lambda self, number: None


@mutant(ManagedCursor, "restore_page")
def unrestored_ack_sets(original: Any) -> Any:
    """The ack sets of batches are not restored."""
    return lambda self, number, bits, ack_sets: original(self, number, bits, {})


@mutant(MessageDeduplication, "restore")
def unrestored_sequence_ids(original: Any) -> Any:
    """The sequence ids of deduplication are not restored."""
    del original
    return lambda self, *arguments: None


@mutant(PendingAckHandle, "restore")
def unrestored_pending_acks(original: Any) -> Any:
    """The acknowledgements in open transactions are not restored."""
    del original
    return lambda self, *arguments: None


@mutant(BrokerDocuments, "next_ledger_id")
def reused_ledger_id(original: Any) -> Any:
    """The counter of ledger ids is stored only at the start, so a restarted broker uses ids again."""
    del original

    def next_ledger_id(self: Any) -> int:
        self._next_ledger_id += 1
        return int(self._next_ledger_id) - 1

    return next_ledger_id
