"""MessageDeduplication: detection of messages that a producer resent.

Rules of this file
1. The highest stored sequence id is recorded for each producer name. A message is a duplicate if its lowest id is not
   above the recorded id. A batch that contains a stored message is dropped as a whole.
2. If a message is chunked, only its last chunk is checked and recorded.
3. When deduplication is enabled for a topic, it starts without recorded ids. An unload and a restart keep the recorded
   ids.
4. A producer name is removed if it has no producer for brokerDeduplicationProducerInactivityTimeoutMinutes.

Source of the rules: MessageDeduplication. Pulsar first pushes an id and persists it later; in between, the state is
Unknown. The mini-broker stores an entry at once, so Unknown does not occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.codec.wire.message_id import signed
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.storage.entry import Entry

if TYPE_CHECKING:
    from pcli.minibroker.storage.ledger import ManagedLedger

_MINUTE: Final = 60_000


class MessageDeduplication:
    """The recorded sequence ids of one topic."""

    __slots__ = ("_before", "_gone", "_highest", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._highest: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        """Names without a producer, with the time of removal (ms)."""
        self._before: tuple[str, int | None] | None = None
        """The name of the last checked producer and the id that the check overwrote, or None."""

    def check(self, name: str, sequence: int, highest: int, metadata: Callable[[], pb.MessageMetadata] | None) -> bool:
        """Return whether the sequence ids of a SEND mark its message as a duplicate. If not, record the ids.

        ``highest`` is the highest id of a batch; it is ignored if it is below the lowest id. ``metadata`` reads the
        metadata of a chunk; it is None for other messages.
        """
        self._before = None
        if metadata is not None and not _is_last_chunk(metadata()):
            return False
        known = self._highest.get(name)
        if known is not None and sequence <= known:
            return True
        self._before = name, known
        self._highest[name] = max(sequence, highest)
        return False

    def undo_last_check(self) -> None:
        """Undo the last check, because the message was not stored."""
        if self._before is None:
            return
        name, known = self._before
        self._before = None
        if known is None:
            del self._highest[name]
        else:
            self._highest[name] = known

    def last_sequence_id(self, name: str) -> int:
        """Return the highest recorded id of a name, or -1; PRODUCER_SUCCESS contains it."""
        return self._highest.get(name, -1)

    def sequence_ids(self) -> dict[str, int]:
        """Return the highest recorded id of each name."""
        return dict(self._highest)

    def restore(self, sequence_ids: Mapping[str, int], entries: Iterable[Entry], now: int) -> None:
        """Restore the ids of a snapshot and of the entries after it (MessageDeduplication.replayCursor).

        The names have no producers. Unlike a SEND, an entry is judged by the ids in its metadata.
        """
        self._highest.update(sequence_ids)
        for entry in entries:
            if not entry.parsed:
                entry.parse()
            metadata = entry.metadata
            if metadata is None or entry.marker or (metadata.num_chunks_from_msg > 1 and not _is_last_chunk(metadata)):
                continue
            sequence = max(signed(metadata.sequence_id), signed(metadata.highest_sequence_id))
            name = metadata.producer_name
            self._highest[name] = max(sequence, self._highest.get(name, sequence))
        self._gone.update(dict.fromkeys(self._highest, now))

    def producer_added(self, name: str) -> None:
        """Record that a producer with this name was added."""
        self._gone.pop(name, None)

    def producer_removed(self, name: str, now: int) -> None:
        """Record that the producer with this name was removed."""
        if name in self._highest:
            self._gone[name] = now

    def purge(self, now: int) -> None:
        """Remove names that have been inactive for too long; Pulsar does this periodically."""
        limit = now - self._settings.brokerDeduplicationProducerInactivityTimeoutMinutes * _MINUTE
        for name in [name for name, since in self._gone.items() if since < limit]:
            del self._gone[name]
            self._highest.pop(name, None)


def _is_last_chunk(metadata: pb.MessageMetadata) -> bool:
    """Return whether a message is not chunked or is the last chunk."""
    return metadata.chunk_id == metadata.num_chunks_from_msg - 1


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
