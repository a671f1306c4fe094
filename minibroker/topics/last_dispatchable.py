"""The last entry of a topic that consumers can receive (PersistentTopic.getLastDispatchablePosition)."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.transactions.transaction_buffer import TopicTransactionBuffer

__all__ = ["LastDispatchableEntry"]


class LastDispatchableEntry:
    """The last readable entry that is neither a marker nor aborted. Only entries after the last search are searched."""

    __slots__ = ("_first", "_found", "_searched")

    def __init__(self) -> None:
        self._first = 0
        """The first offset of the ledger at the last search."""
        self._found = -1
        """The offset that the last search found, or the offset before the first entry."""
        self._searched = 0
        """The end of the last search."""

    def find(self, ledger: ManagedLedger, buffer: TopicTransactionBuffer | None) -> Entry | None:
        """Return the last dispatchable entry, or None."""
        if self._first != ledger.first:
            # With the ledger of its marker, an aborted transaction is forgotten.
            self._first = self._searched = ledger.first
            self._found = ledger.first - 1
        end = ledger.next if buffer is None else buffer.read_end
        new, old = range(end - 1, self._searched - 1, -1), range(self._found, self._first - 1, -1)
        self._searched, self._found = end, self._first - 1
        for offset in chain(new, old):
            entry = ledger.entry(offset)
            assert entry is not None
            if not entry.parsed:
                entry.parse()
            if not entry.marker and not (buffer is not None and buffer.is_aborted(entry)):
                self._found = offset
                return entry
        return None
