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
    """The last readable entry that is neither a marker nor aborted. Only entries after the last search are searched.

    Whether an entry is a marker depends on the flag of its SEND, until the topic is loaded again or a transaction ends.
    After that, it depends on the metadata.
    """

    __slots__ = ("_first", "_found", "_published", "_searched", "flagged")

    def __init__(self, ledger_end: int) -> None:
        """``ledger_end`` is the offset after the last entry that is stored already."""
        self.flagged: set[int] = set()
        """The offsets of the entries that were published with the marker flag."""
        self._published = ledger_end
        """The first offset for which the flag decides."""
        self._first = 0
        """The first offset of the ledger at the last search."""
        self._found = -1
        """The offset that the last search found, or the offset before the first entry."""
        self._searched = 0
        """The end of the last search."""

    def reset(self, ledger_end: int) -> None:
        """Let the metadata decide which of the entries so far are markers."""
        self._published, self._searched = ledger_end, min((self._searched, *self.flagged))
        self.flagged.clear()

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
            marker = entry.marker if offset < self._published else offset in self.flagged
            if not marker and not (buffer is not None and buffer.is_aborted(entry)):
                self._found = offset
                return entry
        if self.flagged:  # nothing was published without the flag
            self.reset(end)
            return self.find(ledger, buffer)
        return None
