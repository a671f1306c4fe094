"""The estimated size of a backlog (ManagedLedgerImpl.estimateBacklogFromPosition)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.minibroker.storage.ledger import ManagedLedger

__all__ = ["backlog_size"]


def backlog_size(ledger: ManagedLedger, mark_delete: int) -> int:
    """Return the number of bytes after an offset, from average entry sizes."""
    size = 0
    for one in ledger.ledgers:
        entries = one.counted_entries
        consumed = min(max(mark_delete + 1 - one.base, 0), entries)
        size += one.size - consumed * (one.size // entries) if consumed < entries else 0
    return size
