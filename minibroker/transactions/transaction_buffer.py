"""TopicTransactionBuffer: the transactions of one topic.

Rules of this file
1. Messages of a transaction are stored at once. Consumers and readers may read up to the entry before the first message
   of the oldest ongoing transaction (the max-read position). Therefore messages outside transactions wait, too.
2. A commit or an abort appends a marker. The messages of an aborted transaction are skipped until the ledger of its
   marker is deleted.
3. An abort before the first message of any transaction has no effect (state NoSnapshot). A commit always appends a
   marker.
4. Each end of a transaction contains the low water mark of its coordinator: the highest id of which all transactions
   have ended. An ongoing transaction up to the mark is aborted, if it is the oldest one. A SEND with such a transaction
   is rejected.
5. An unload keeps the ongoing and aborted transactions. The counters and the low water marks are lost.

Source of the rules: TopicTransactionBuffer, SingleSnapshotAbortedTxnProcessorImpl.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.storage.ledger import ManagedLedger
from pcli.minibroker.transactions.scalable_transactions import ScalableTransactions
from pcli.minibroker.transactions.txn_id import TXN_ABORT, TXN_COMMIT, TxnId, marker, text_of, txn_of

_TERMINATED: Final = (
    "org.apache.bookkeeper.mledger.ManagedLedgerException$ManagedLedgerTerminatedException: "
    "Managed ledger was already terminated"
)


class TopicTransactionBuffer:
    """The ongoing and aborted transactions of one topic. Positions are offsets; times are in ms since 1970."""

    def __init__(self, ledger: ManagedLedger, append: Callable[[bytes], Entry] | None) -> None:
        """``append`` stores a marker in the ledger and raises Refused. If it is None, there are no markers."""
        self._ledger = ledger
        self._append = append
        self.ongoing: dict[TxnId, int] = {}
        """The first message of each ongoing transaction, in order of the first messages."""
        self.aborted: dict[TxnId, int] = {}
        """The marker of each aborted transaction."""
        self.ready = False
        """Whether the topic has received a message of a transaction: the state is Ready, not NoSnapshot."""
        self.last_snapshot_ms = 0
        """Time of the first message, before which the real broker takes the first snapshot; 0 if there is none."""
        self.low_water_marks: dict[int, int] = {}
        """The highest known low water mark of each coordinator."""
        self.committed_count = self.aborted_count = 0
        """Transactions that ended since the topic was loaded."""
        self.on_change: Callable[[], None] = lambda: None
        """A function that is called when the ongoing or aborted transactions have changed."""

    @property
    def read_end(self) -> int:
        """The offset after the max-read position."""
        for offset in self.ongoing.values():
            return offset
        return self._ledger.next

    # -- messages ------------------------------------------------------------------------------------------------------

    def check_open(self, txn: TxnId) -> None:
        """Raise Refused (NotAllowedError) if a message belongs to a transaction up to the low water mark."""
        mark = self.low_water_marks.get(txn[0])
        if mark is not None and mark >= txn[1]:
            text = f"Transaction [{text_of(txn)}] has been ended. Please use a new transaction to send message."
            raise Refused(pb.NotAllowedError, text)

    def message_appended(self, txn: TxnId, offset: int, now: int) -> None:
        """Record a stored message of a transaction."""
        if not self.ready:
            self.ready, self.last_snapshot_ms = True, now
        if txn not in self.ongoing and txn not in self.aborted:
            self.ongoing[txn] = offset
            self.on_change()

    def is_aborted(self, entry: Entry) -> bool:
        """Return whether a parsed entry is a message of an aborted transaction."""
        metadata = entry.metadata
        if metadata is None or not (metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits")):
            return False
        return txn_of(metadata) in self.aborted

    def without_aborted(self, entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Return the entries outside aborted transactions, and the other ones. All entries must be parsed."""
        kept: list[Entry] = []
        skipped: list[Entry] = []
        for entry in entries:
            (skipped if self.is_aborted(entry) else kept).append(entry)
        return kept, skipped

    # -- ends ----------------------------------------------------------------------------------------------------------

    def commit(self, txn: TxnId, low_water_mark: int, now: int) -> None:
        """Commit a transaction. Raises Refused if the marker cannot be stored."""
        self._append_marker(txn, TXN_COMMIT, now)
        self.committed_count += 1
        self._ended(txn, low_water_mark, now)

    def abort(self, txn: TxnId, low_water_mark: int, now: int) -> None:
        """Abort a transaction. Raises Refused if the marker cannot be stored."""
        if self.ready:
            self._append_abort(txn, now)
            self._ended(txn, low_water_mark, now)

    def _append_abort(self, txn: TxnId, now: int) -> None:
        self.aborted[txn] = self._append_marker(txn, TXN_ABORT, now)
        self.aborted_count += 1

    def _append_marker(self, txn: TxnId, kind: int, now: int) -> int:
        """Append a marker, which ends an ongoing transaction. Return the offset of the marker.

        Without markers, the end of the transaction is the last entry.
        """
        offset = self._ledger.next - 1
        if self._append is not None:
            try:
                offset = self._append(marker(txn, kind, now)).offset
            except Refused as refused:
                if refused.code != pb.TopicTerminatedError:
                    raise
                raise Refused(pb.PersistenceError, _TERMINATED) from None
        self.ongoing.pop(txn, None)
        self.on_change()
        return offset

    def _ended(self, txn: TxnId, low_water_mark: int, now: int) -> None:
        """Store the low water mark, abort the oldest transactions up to the mark, and forget trimmed markers."""
        marks = self.low_water_marks
        marks[txn[0]] = max(marks.get(txn[0], low_water_mark), low_water_mark)
        while (oldest := next(iter(self.ongoing), None)) is not None and oldest[1] <= marks.get(
            oldest[0], oldest[1] - 1
        ):
            self._append_abort(oldest, now)
        while self.aborted and self.aborted[first := next(iter(self.aborted))] < self._ledger.first:
            del self.aborted[first]

    def encode(self) -> dict[str, Any]:
        """Return the JSON value of what an unload of the topic keeps (TransactionBufferSnapshot)."""
        ongoing = [[*txn, offset] for txn, offset in self.ongoing.items()]
        aborted = [[*txn, offset] for txn, offset in self.aborted.items()]
        state = {"ready": self.ready, "last_snapshot_ms": self.last_snapshot_ms}
        return {"ongoing": ongoing, "aborted": aborted, **state}

    def restore(self, value: dict[str, Any]) -> None:
        """Restore a value that `encode` returned."""
        self.ongoing = {(most, least): offset for most, least, offset in value["ongoing"]}
        self.aborted = {(most, least): offset for most, least, offset in value["aborted"]}
        self.ready, self.last_snapshot_ms = value["ready"], value["last_snapshot_ms"]

    def reload(self) -> None:
        """Forget what an unload of the topic loses."""
        self.low_water_marks.clear()
        self.committed_count = self.aborted_count = 0


class SegmentTransactionBuffer(TopicTransactionBuffer):
    """The transactions of a segment of a scalable topic. They end without markers, also after the segment is sealed."""

    def __init__(self, ledger: ManagedLedger, segment: str, transactions: ScalableTransactions) -> None:
        """``segment`` is the name of the segment."""
        super().__init__(ledger, append=None)
        self._segment = segment
        self._transactions = transactions

    def check_open(self, txn: TxnId) -> None:
        """Raise Refused (NotAllowedError) if a message belongs to a transaction that is not open."""
        self._transactions.check_open(txn)

    def message_appended(self, txn: TxnId, offset: int, now: int) -> None:
        """Record a stored message of a transaction, also at its coordinator."""
        super().message_appended(txn, offset, now)
        self._transactions.used(txn, self._segment)
