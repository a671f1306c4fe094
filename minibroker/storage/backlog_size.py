"""Estimates from the average size of the entries of each ledger (ManagedLedgerImpl, EntryCountEstimator)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pcli.minibroker.storage.ledger import ManagedLedger

_OVERHEAD: Final = 64
"""Bytes that are added to each entry in the estimate of a read (BOOKKEEPER_READ_OVERHEAD_PER_ENTRY)."""


def backlog_size(ledger: ManagedLedger, mark_delete: int) -> int:
    """Return the number of bytes after an offset, from average entry sizes."""
    size = 0
    for one in ledger.ledgers:
        entries = one.counted_entries
        consumed = min(max(mark_delete + 1 - one.base, 0), entries)
        size += one.size - consumed * (one.size // entries) if consumed < entries else 0
    return size


def entries_of_size(ledger: ManagedLedger, position: int, size: int) -> int:
    """Return the number of entries from an offset that fit into a number of bytes, at least 1."""
    count = average = 0
    for one in ledger.ledgers:
        entries = one.counted_entries
        average = one.size // entries + _OVERHEAD if entries else average
        left = min(one.base + entries - position, entries)
        if left > 0 and size > 0:
            taken = min(max(1, size // average), left)
            count, size = count + taken, size - taken * average
    return max(1, count + (size // average if average and size > 0 else 0))
