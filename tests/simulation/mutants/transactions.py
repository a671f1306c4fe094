"""Defects of transactions."""

from __future__ import annotations

from typing import Any

from simulation.mutants.registry import mutant

from pcli.minibroker.transactions.pending_ack_handle import PendingAckHandle
from pcli.minibroker.transactions.transaction_buffer import TopicTransactionBuffer


@mutant(TopicTransactionBuffer, "is_aborted")
def aborted_messages_delivered(original: Any) -> Any:
    """The messages of aborted transactions are delivered."""

    def is_aborted(self: Any, entry: Any) -> bool:
        return False

    return is_aborted


@mutant(TopicTransactionBuffer, "read_end")
def open_messages_delivered(original: Any) -> Any:
    """The messages of open transactions are delivered."""
    del original
    return property(lambda self: self._ledger.next)


@mutant(PendingAckHandle, "commit")
def commit_loses_acknowledgements(original: Any) -> Any:
    """A commit drops the acknowledgements of the transaction."""

    def commit(self: Any, txn: Any, low_water_mark: int) -> None:
        self.abort(txn, low_water_mark)

    return commit


@mutant(PendingAckHandle, "abort")
def abort_acknowledges(original: Any) -> Any:
    """An abort applies the acknowledgements of the transaction."""

    def abort(self: Any, txn: Any, low_water_mark: int) -> None:
        self.commit(txn, low_water_mark)

    return abort
