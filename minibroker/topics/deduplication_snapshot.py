"""The cursor of deduplication: the position up to which the sequence ids are stored (MessageDeduplication).

Rules of this file
1. The position moves to the last entry after brokerDeduplicationEntriesInterval entries, and at a check if the interval
   of the policy deduplicationSnapshotInterval has passed.
2. Entries after the position are needed to restore the sequence ids. Ledgers that contain them are not deleted.
3. With durable storage, the position and the sequence ids are a document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from pcli.minibroker.storage.cursor import ManagedCursor

if TYPE_CHECKING:
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.storage.ledger import ManagedLedger

__all__ = ["DEDUPLICATION", "DeduplicationSnapshot"]

DEDUPLICATION: Final = "pulsar.dedup"
"""The name of the cursor."""
_READ_ENTRIES: Final = 100
_READ_BYTES: Final = 1024 * 1024


class DeduplicationSnapshot:
    """The cursor of one topic."""

    __slots__ = ("_entries", "_ledger", "_settings", "_taken", "cursor", "on_take")

    def __init__(self, settings: Settings, ledger: ManagedLedger, mark_delete: int | None = None) -> None:
        """``mark_delete`` is the stored offset, or None for a new cursor, which starts at the end of the topic."""
        self._settings = settings
        self._ledger = ledger
        self._entries = 0
        self._taken = 0
        """Time of the last snapshot (ms), or 0."""
        start = ledger.next - 1 if mark_delete is None else mark_delete
        self.cursor = ManagedCursor(ledger, DEDUPLICATION, start, durable=True)
        self.on_take: Callable[[], None] = lambda: None
        """A function that is called when the position has moved."""

    def entries(self) -> Iterator[Entry]:
        """Read the entries after the position."""
        while entries := self.cursor.read(_READ_ENTRIES, _READ_BYTES):
            yield from entries

    def entry_stored(self, now: int) -> None:
        """Count a stored entry; take a snapshot after every brokerDeduplicationEntriesInterval entries."""
        self._entries += 1
        if self._entries >= self._settings.brokerDeduplicationEntriesInterval:
            self._take(now)

    def check(self, interval: int, now: int) -> None:
        """Take a snapshot if there are new entries and the last one is ``interval`` seconds old. 0 disables this."""
        if interval > 0 and now - self._taken >= interval * 1000 and self.cursor.mark_delete < self._ledger.next - 1:
            self._take(now)

    def _take(self, now: int) -> None:
        self._entries, self._taken = 0, now
        self.cursor.mark_delete_to(self._ledger.next - 1)
        self.on_take()
