"""The two phases of a compaction (AbstractTwoPhaseCompactor, PublishingOrderCompactor, EventTimeOrderCompactor).

Rules of this file
1. Phase one reads all entries and finds the latest message of each key. Phase two reads them again and stores the
   entries of these messages, with their ids.
2. A message without payload or with a null value removes its key. Markers are removed. A message without key is removed
   unless ``topicCompactionRetainNullKey`` is set. Entries with unreadable metadata are not delivered to the compactor.
3. Compaction reads entries as the broker delivers them: without broker entry metadata, unless clients receive it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pcli.codec.proto import pb
from pcli.minibroker.compaction.compacted_topic import CompactedLedger
from pcli.minibroker.compaction.raw_batch_converter import (
    CompactionData,
    UndecodableBatchError,
    compaction_data,
    is_readable_batch,
    rebatch,
    single_compaction_data,
)
from pcli.minibroker.storage.entry import Entry

_SLICE: Final = 500
"""Number of entries after which a compaction pauses, so that the broker serves its clients in the meantime."""

_Key = str | bytes


class TwoPhaseCompactor:
    """One compaction of one topic."""

    def __init__(
        self,
        read_entries: Callable[[], Iterable[Entry]],
        ledger: CompactedLedger,
        *,
        retain_null_key: bool,
        by_event_time: bool,
    ) -> None:
        self._read_entries = read_entries
        self._ledger = ledger
        self._retain_null_key = retain_null_key
        self._by_event_time = by_event_time
        """Whether the message with the highest event time is the latest one of its key, not the last message."""
        self._latest: dict[_Key, tuple[int, int, int]] = {}
        """Offset, index in the batch, and event time of the latest message of each key."""
        self.removed = 0
        """Number of removed messages (lastCompactionRemovedEventCount)."""
        self.messages_read = self.bytes_read = 0

    def run(self) -> Iterator[None]:
        """Run both phases; pause after each slice of entries. Raises DamagedBatchError and StorageFull."""
        for phase in (self._find_latest, self._store):
            for number, entry in enumerate(self._readable()):
                metadata = entry.metadata
                assert metadata is not None
                self.messages_read += entry.messages
                self.bytes_read += len(entry.data)
                phase(entry, metadata)
                if number % _SLICE == _SLICE - 1:
                    yield

    def _readable(self) -> Iterator[Entry]:
        for entry in self._read_entries():
            if not entry.parsed:
                entry.parse()
            if not entry.broken:
                yield entry

    # -- phase one -----------------------------------------------------------------------------------------------------

    def _find_latest(self, entry: Entry, metadata: pb.MessageMetadata) -> None:
        if entry.marker:
            self.removed += 1
        elif is_readable_batch(metadata):
            try:
                messages = compaction_data(entry, metadata)
            except UndecodableBatchError:
                return
            for message in messages:
                self._add(entry, message)
        else:
            self._add(entry, single_compaction_data(entry, metadata))

    def _add(self, entry: Entry, message: CompactionData) -> None:
        """Record a message as the latest one of its key, or remove its key."""
        if message.key is None:
            self.removed += not self._retain_null_key
            return
        known = self._latest.get(message.key)
        if known is not None and self._by_event_time:
            # At the same event time, a message of a batch does not replace the earlier message.
            newest = known[2] if message.index < 0 else known[2] + 1
            if message.event_time < newest:
                return
        if message.size > 0:
            self._latest[message.key] = entry.offset, message.index, message.event_time
            self.removed += known is not None
        else:
            self._latest.pop(message.key, None)
            self.removed += 1

    # -- phase two -----------------------------------------------------------------------------------------------------

    def _store(self, entry: Entry, metadata: pb.MessageMetadata) -> None:
        if entry.marker:
            return
        data = self._kept(entry, metadata)
        if data is not None:
            self._ledger.append(entry, data)

    def _kept(self, entry: Entry, metadata: pb.MessageMetadata) -> bytes | None:
        """Return what is kept of an entry, or None if all of its messages are removed."""
        if is_readable_batch(metadata):
            try:
                return rebatch(
                    entry,
                    metadata,
                    lambda index, key: self._is_latest(key, entry.offset, index),
                    retain_null_key=self._retain_null_key,
                )
            except UndecodableBatchError:
                return entry.data
        key = single_compaction_data(entry, metadata).key
        kept = self._retain_null_key if key is None else self._is_latest(key, entry.offset, -1)
        return entry.data if kept else None

    def _is_latest(self, key: _Key, offset: int, index: int) -> bool:
        return self._latest.get(key, (-1, -1))[:2] == (offset, index)
