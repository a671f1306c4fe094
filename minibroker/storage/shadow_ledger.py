"""ShadowManagedLedger: the ledger of a shadow topic, which contains the entries of its source.

Rules of this file (ShadowManagedLedgerImpl, 4.2.4)
1. A shadow ledger has the ledgers, the ids and the entries of its source. It stores nothing and deletes nothing.
2. It ends at the last entry that was added by its id. When the source opens a ledger, all earlier ledgers are complete.
3. Its sizes are those of the messages that the replicator sends, until the source closes the ledger. The counter of
   entries in the last ledger is the id of the last entry.
4. It is never terminated, even if the source is.
5. When it is loaded, it opens the last ledger of the source with recovery (ManagedLedgerImpl.initialize). BookKeeper
   fences this ledger. The source, which this broker always loads first, starts a new ledger with its next entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.ledger import Ledger, ManagedLedger

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry


class _ShadowLedger(Ledger):
    """A ledger of the source as the shadow topic counts it."""

    __slots__ = ()

    @property
    def counted_entries(self) -> int:
        return self.entries if self.closed_ms is not None else max(self.entries - 1, 0)


class ShadowManagedLedger(ManagedLedger):
    """A view of the ledgers of a source."""

    def __init__(self, name: str, source: ManagedLedger, now: int) -> None:
        self.name = name
        self._source = source
        self._by_id, self.ledgers = {}, []
        self.followers = []
        self.entries_read = 0
        self.terminated = self.closed = False
        self.last_add_ms = 0
        self._deleted_up_to = None
        self.first = self.next = source.first
        self._reload()
        source.followers.append(self)
        self._current.created_ms = now

    def _reload(self) -> None:
        """Copy the ledgers of the source with all their entries."""
        self.ledgers.clear()
        self._by_id.clear()
        self.follow()
        self._count(self._source.next)
        self._current.size = self._source.ledgers[-1].size
        self._loaded_at = self.next
        self._source.fence()

    def follow(self) -> None:
        """Copy new, closed and deleted ledgers of the source (processSourceManagedLedgerInfo)."""
        source = self._source
        for one in source.ledgers:
            known = self._by_id.get(one.id)
            if known is None:
                known = self._by_id[one.id] = _ShadowLedger(one.id, one.base, one.created_ms)
                self.ledgers.append(known)
            if one is not source.ledgers[-1]:
                known.entries, known.size, known.closed_ms = one.entries, one.size, one.closed_ms or one.created_ms
        while self.ledgers[0].id != source.ledgers[0].id:
            deleted = self.ledgers.pop(0)
            del self._by_id[deleted.id]
            self._deleted_up_to = deleted.id, deleted.entries - 1
        self._current = self.ledgers[-1]
        self.first = self.ledgers[0].base
        self.next = max(self.next, self._current.base)

    def add(self, position: tuple[int, int], size: int, now: int) -> bool:
        """Extend the ledger to an entry of the source. Return False if the source has no such entry.

        ``size`` is the size of the message that the replicator sent.
        """
        offset = self._source.offset_of(*position)
        if offset is None:
            return False
        self._count(max(offset + 1, self.next))
        self._current.size += size
        self.last_add_ms = now
        return True

    def _count(self, end: int) -> None:
        self.next = end
        self._current.entries = end - self._current.base

    def append(self, data: bytes, now: int) -> Entry:
        """Raise Refused, because entries are added to the source."""
        raise Refused(pb.NotAllowedError, "Cannot send messages to a shadow topic")

    def append_run(self, blocks: Sequence[bytes], now: int) -> list[Entry]:
        """Refuse entries, as `append` does."""
        return [self.append(blocks[0], now)]

    def read(self, offset: int, count: int, max_bytes: int) -> list[Entry]:
        """Return up to ``count`` entries of the source from ``offset`` on."""
        offset = max(offset, self.first)
        count = min(count, self.next - offset)
        entries = self._source.read(offset, count, max_bytes) if count > 0 else []
        self.entries_read += len(entries)
        return entries

    def entry(self, offset: int) -> Entry | None:
        """Return the entry of the source at an offset, or None if it was not added."""
        return self._source.entry(offset) if self.first <= offset < self.next else None

    def roll(self, now: int) -> None:
        """Load the ledgers of the source again, as an unload does."""
        self._deleted_up_to = None
        self._reload()

    def roll_if_full(self, now: int) -> None:
        """Do nothing: only the source closes ledgers."""

    def terminate(self, now: int) -> tuple[int, int]:
        """Raise Refused."""
        raise Refused(pb.NotAllowedError, "Terminate is not allowed on shadow topic.")

    def trim(self, slowest_mark_delete: int | None, retention_minutes: int, retention_mb: int, now: int) -> None:
        """Do nothing: only the source deletes ledgers."""

    def close(self) -> None:
        """Stop following the source."""
        self._source.followers.remove(self)
