"""CompactedTopicImpl: the compacted ledger of a topic, and the reads from it.

Rules of this file
1. A compacted ledger contains the entries that a compaction kept, with their original ids and in their original order.
   It remains readable after the ledgers of the original entries were deleted.
2. The compaction horizon is the last entry that was compacted. Consumers with ``readCompacted`` read from the compacted
   ledger up to the horizon, and from the topic after it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final, NamedTuple

from pcli.codec.proto import pb
from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.storage.spilling_storage import Storage

_LENGTHS: Final = 8
"""The bytes of the two lengths in a stored RawMessage, before its id and its entry."""

_NO_LIMIT: Final = 1 << 62

_INDEX_ENTRIES: Final = 4096
"""The number of positions in one entry of the index. Only the last entry can have fewer."""


class MessagePosition(NamedTuple):
    """The id of the last message in a compacted ledger (TopicCompactionService.MessagePosition)."""

    ledger_id: int
    entry_id: int
    batch_index: int
    publish_time: int
    """In milliseconds since 1970."""


EARLIEST: Final = MessagePosition(-1, -1, 0, 0)
"""The position for a topic without compacted messages."""


class CompactedLedger:
    """The entries that one compaction kept."""

    def __init__(self, ledger_id: int, partition: int, storage: Storage, index: Storage | None = None) -> None:
        """``storage`` stores the entries, and ``index`` their positions; None if the positions are not stored."""
        self.id = ledger_id
        self.size = 0
        """Size in bytes. As on the real broker, it includes the message id of each entry."""
        self._partition = partition
        self._storage = storage
        self._index = index
        self.deleted = False
        self._offsets = array("q")
        self._ledger_ids = array("q")
        self._entry_ids = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, entry: Entry, data: bytes) -> None:
        """Store an entry with these bytes and the position of ``entry``. Raises StorageFull."""
        self._storage.append(data)
        self._offsets.append(entry.offset)
        self._ledger_ids.append(entry.ledger_id)
        self._entry_ids.append(entry.entry_id)
        place = pb.MessageIdData(ledgerId=entry.ledger_id, entryId=entry.entry_id, partition=self._partition)
        self.size += _LENGTHS + place.ByteSize() + len(data)
        if self._index is not None and len(self) % _INDEX_ENTRIES == 0:
            self.store_index()

    def store_index(self) -> None:
        """Store the positions that are not stored yet, as an entry of the index. Raises StorageFull."""
        first = 0 if self._index is None else self._index.end * _INDEX_ENTRIES
        if self._index is not None and first < len(self):
            columns = self._offsets, self._ledger_ids, self._entry_ids
            self._index.append(b"".join(column[first:].tobytes() for column in columns))

    def restore(self, size: int) -> None:
        """Read the stored positions. ``size`` is the stored size."""
        assert self._index is not None
        self.size = size
        while blocks := self._index.read(len(self) // _INDEX_ENTRIES, 16):
            for block in blocks:
                third = len(block) // 3
                self._offsets.frombytes(block[:third])
                self._ledger_ids.frombytes(block[third : 2 * third])
                self._entry_ids.frombytes(block[2 * third :])
            if len(self) % _INDEX_ENTRIES:
                return

    def read(self, offset: int, count: int, max_bytes: int = _NO_LIMIT) -> list[Entry]:
        """Return entries at or after an offset: at most ``count`` of ``max_bytes``, but at least one if any exists."""
        index = bisect_left(self._offsets, offset)
        end = min(index + count, len(self))
        entries: list[Entry] = []
        while index < end:
            for data in self._storage.read(index, end - index):
                max_bytes -= len(data)
                if max_bytes < 0 and entries:
                    return entries
                entries.append(Entry(self._offsets[index], self._ledger_ids[index], self._entry_ids[index], data))
                index += 1
        return entries

    def offset_at(self, ledger_id: int, entry_id: int) -> int | None:
        """Return the offset of the first entry at or after a position, or None if there is none (findStartPoint)."""
        index = bisect_left(range(len(self)), (ledger_id, entry_id), key=self._position)
        return self._offsets[index] if index < len(self) else None

    def _position(self, index: int) -> tuple[int, int]:
        return self._ledger_ids[index], self._entry_ids[index]

    def first_published_at(self, time: int) -> Entry | None:
        """Return the first entry published at or after a time (ms since 1970), or None if there is none.

        Uses the binary search of findFirstMatchEntry, which determines the result if the times are not in order.
        """
        index = bisect_left(self._offsets, time, key=self._publish_time)
        return self.read(self._offsets[index], 1)[0] if index < len(self) else None

    def _publish_time(self, offset: int) -> int:
        [entry] = self.read(offset, 1)
        entry.parse()
        assert entry.metadata is not None  # compaction drops unreadable entries
        return entry.metadata.publish_time

    def last(self) -> Entry | None:
        """Return the last entry, or None if the ledger is empty."""
        return self.read(self._offsets[-1], 1)[0] if len(self) else None

    def delete(self) -> None:
        """Release the storage. The ledger must not be used afterwards."""
        self.deleted = True
        self._storage.trim(self._storage.end)
        if self._index is not None:
            self._index.trim(self._index.end)


class CompactedTopic:
    """The compacted part of a topic."""

    __slots__ = ("horizon", "ledger")

    def __init__(self) -> None:
        self.horizon = -1
        """Offset of the last entry that was compacted; -1 if the topic was never compacted."""
        self.ledger: CompactedLedger | None = None

    def new_compacted_ledger(self, horizon: int, ledger: CompactedLedger) -> None:
        """Replace the compacted ledger, and delete the old one."""
        previous, self.ledger, self.horizon = self.ledger, ledger, horizon
        if previous is not None:
            previous.delete()

    def reset(self) -> None:
        """Delete the compacted ledger and forget the horizon."""
        if self.ledger is not None:
            self.ledger.delete()
        self.ledger, self.horizon = None, -1

    def read(self, offset: int, count: int, max_bytes: int) -> list[Entry]:
        """Return compacted entries at or after an offset, at most ``count`` entries of ``max_bytes`` in total."""
        return [] if self.ledger is None else self.ledger.read(offset, count, max_bytes)

    def last_message_position(self) -> MessagePosition:
        """Return the position of the last compacted message (PulsarTopicCompactionService.getLastMessagePosition)."""
        entry = None if self.ledger is None else self.ledger.last()
        if entry is None:
            return EARLIEST
        entry.parse()
        metadata = entry.metadata
        assert metadata is not None  # compaction drops unreadable entries
        index = -1
        if metadata.num_messages_in_batch > 1:
            kept = metadata.compacted_batch_indexes
            index = kept[-1] if kept else metadata.num_messages_in_batch - 1
        return MessagePosition(entry.ledger_id, entry.entry_id, index, metadata.publish_time)
