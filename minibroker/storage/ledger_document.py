"""The JSON value of the ledgers of a topic (ManagedLedgerInfo).

Rules of this file
1. The stored number of entries of the last ledger can be too low. The entries after ``next`` are counted when the topic
   is loaded.
2. When a topic is loaded, its last ledger is closed. It is removed if it is empty (ManagedLedgerImpl.initialize).
"""

from __future__ import annotations

from typing import Any, Final

from pcli.minibroker.storage.ledger import Ledger, ManagedLedger
from pcli.minibroker.storage.spilling_storage import Storage

_READ_ENTRIES: Final = 1000


def encode_ledgers(ledger: ManagedLedger) -> dict[str, Any]:
    """Return the ledgers, the offset of the next entry, and whether the topic is terminated."""
    ledgers = [[one.id, one.base, one.entries, one.size, one.created_ms, one.closed_ms] for one in ledger.ledgers]
    return {"next": ledger.next, "terminated": ledger.terminated, "ledgers": ledgers}


def restore_ledgers(value: dict[str, Any], storage: Storage, now: int) -> tuple[list[Ledger], bool]:
    """Return the ledgers of a topic that is loaded, and whether the topic is terminated."""
    ledgers = [_ledger(*row) for row in value["ledgers"]]
    terminated = bool(value["terminated"])
    if not terminated:
        last = ledgers[-1]
        last.entries = storage.end - last.base
        last.size += _size(storage, value["next"])
        last.closed_ms = now
        if not last.entries:
            ledgers.pop()
    return ledgers, terminated


def _ledger(ledger_id: int, base: int, entries: int, size: int, created: int, closed: int | None) -> Ledger:
    ledger = Ledger(ledger_id, base, created)
    ledger.entries, ledger.size, ledger.closed_ms = entries, size, closed
    return ledger


def _size(storage: Storage, first: int) -> int:
    """Return the size in bytes of the entries from number ``first`` on."""
    size = 0
    while entries := storage.read(first, _READ_ENTRIES):
        size += sum(map(len, entries))
        first += len(entries)
    return size
