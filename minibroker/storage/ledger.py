"""ManagedLedger: the entries of a topic and their ids.

Rules of this file
1. Inside the broker, an entry is identified by its offset, which is its number in the topic. On the wire it is
   identified by ledger id and entry id. This module converts between the two. A topic is a list of ledgers; the last
   one is open.
2. A ledger that is full or old is closed after the append that filled it, and the next one is opened at once. An unload
   also closes the ledger and opens the next one. A closed ledger without entries is removed. The last confirmed entry
   belongs to the old ledger until the first append to the new one.
3. Data is deleted by whole closed ledgers, oldest first. The last ledger is never deleted.
4. Recently written or read entries are cached as objects, so all subscriptions share the parsed metadata.

Source of the rules: ManagedLedgerImpl, ManagedLedgerConfig, OpFindNewest, EntryCache.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from google.protobuf.message import DecodeError

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.storage.spilling_storage import Storage

_MINUTE: Final = 60_000
_MEGABYTE: Final = 1024 * 1024
_NEVER: Final = 1 << 62

_ENTRY_OVERHEAD: Final = 600
"""Memory of an entry object with parsed metadata, excluding the entry's bytes."""


class Ledger:
    """Consecutive entries with the same ledger id."""

    __slots__ = ("base", "closed_ms", "created_ms", "entries", "id", "size")

    def __init__(self, ledger_id: int, base: int, now: int) -> None:
        self.id = ledger_id
        self.base = base
        """Offset of entry 0 of the ledger."""
        self.entries = 0
        self.size = 0
        """Size in bytes."""
        self.created_ms = now
        self.closed_ms: int | None = None

    @property
    def counted_entries(self) -> int:
        """The number of entries in statistics."""
        return self.entries


class EntryCache:
    """The cache of entry objects, shared by all topics.

    Each ledger has young and old entries. When the young entries of all ledgers exceed the limit, the old entries are
    evicted and the young entries become old. No entry is handled individually, and recently used entries stay cached.
    """

    def __init__(self, limit: int = 2 * _MEGABYTE) -> None:
        self.limit = limit
        """Size of the young entries at which they become old. The cache contains at most about twice as many bytes."""
        self.size = 0
        """Size of the young entries, including the memory of the objects."""
        self._young_ledgers: dict[ManagedLedger, None] = {}
        self._old_ledgers: dict[ManagedLedger, None] = {}

    def add_ledger(self, ledger: ManagedLedger) -> None:
        """Record a ledger that is about to get its first young entry."""
        self._young_ledgers[ledger] = None

    def remove_ledger(self, ledger: ManagedLedger) -> None:
        """Evict all entries of a ledger."""
        self.size -= sum(len(entry.data) + _ENTRY_OVERHEAD for entry in ledger.young_entries.values())
        ledger.young_entries, ledger.old_entries = {}, {}
        self._young_ledgers.pop(ledger, None)
        self._old_ledgers.pop(ledger, None)

    def age(self) -> None:
        """Evict the old entries and make the young ones old."""
        for ledger in self._old_ledgers:
            ledger.old_entries = {}
        for ledger in self._young_ledgers:
            ledger.old_entries, ledger.young_entries = ledger.young_entries, {}
        self._old_ledgers, self._young_ledgers, self.size = self._young_ledgers, {}, 0


class Follower(Protocol):
    """An object that is notified when the list of ledgers changes (MetaStore.watchManagedLedgerInfo)."""

    def follow(self) -> None:
        """Copy the changed list."""


class ManagedLedger:
    """The ledgers of one topic. Times are in milliseconds since 1970. Sizes are in bytes of entries."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        new_ledger_id: Callable[[], int],
        settings: Settings,
        now: int,
        *,
        cache: EntryCache | None = None,
        stored: tuple[list[Ledger], bool] = ([], False),
    ) -> None:
        """``stored`` contains the stored ledgers of a topic that is loaded, and whether the topic is terminated."""
        self.name = name
        self._storage = storage
        self._new_ledger_id = new_ledger_id
        self._settings = settings
        self._cache = cache or EntryCache()
        self.entries_read = 0
        """Number of entries that dispatchers and the compactor have read."""
        self.followers: list[Follower] = []
        """The ledgers of the loaded shadow topics."""
        self.young_entries: dict[int, Entry] = {}
        """Cached entries by offset. EntryCache evicts them."""
        self.old_entries: dict[int, Entry] = {}
        self.ledgers, self.terminated = list(stored[0]), stored[1]
        """Ledgers, oldest first. The last one is open unless the topic is terminated."""
        self._by_id = {ledger.id: ledger for ledger in self.ledgers}
        self.first = storage.start
        """Offset of the oldest stored entry, or ``next`` if none is stored."""
        self.next = storage.end
        """Offset of the next entry. The last confirmed entry is the entry before it."""
        self._loaded_at = self.next
        self._full_entries = self._full_size = self._full_at = self._min_age = 0
        self.last_add_ms = 0
        """Time of the last append, or 0."""
        self._deleted_up_to: tuple[int, int] | None = None
        """Position of the last deleted entry, or None if the topic was loaded since then."""
        self.closed = self.terminated
        """Whether the topic was loaded after its termination. The last ledger is then not open, even for statistics."""
        self._fenced = False
        """Whether the next entry starts a new ledger."""
        if self.terminated:
            self._current = self.ledgers[-1]
        else:
            self._open(now)

    def append(self, data: bytes, now: int) -> Entry:
        """Store an entry.

        Raises StorageFull if there is no room, and TopicTerminatedError if the topic is terminated.
        """
        if self.terminated:
            raise Refused(pb.TopicTerminatedError, "Topic was already terminated")
        if self._fenced:
            self._open_next(now)
        self._storage.append(data)
        current, offset, size = self._current, self.next, len(data)
        entry = Entry(offset, current.id, current.entries, data)
        self.next = offset + 1
        self.last_add_ms = now
        current.entries += 1
        current.size += size
        if not self.young_entries:
            self._cache.add_ledger(self)
        self.young_entries[offset] = entry
        cache = self._cache
        cache.size += size + _ENTRY_OVERHEAD
        if cache.size > cache.limit:
            cache.age()
        if current.entries >= self._full_entries or now >= self._full_at or current.size >= self._full_size:
            self.roll_if_full(now)
        return entry

    def append_run(self, blocks: Sequence[bytes], now: int) -> list[Entry]:
        """Store entries as `append` does, with less work for each. Return the stored ones, which are the first ones.

        The run ends early where a ledger ends, or where there is no room. Raises Refused if no entry is stored.
        """
        entries = [self.append(blocks[0], now)]
        cache, store, young = self._cache, self._storage.append, self.young_entries
        current, offset, size = self._current, self.next, self._current.size
        if current.id != entries[0].ledger_id:
            return entries
        try:
            for data in blocks[1:]:
                if current.entries >= self._full_entries or current.size >= self._full_size or not young:
                    break
                store(data)
                young[offset] = entry = Entry(offset, current.id, current.entries, data)
                entries.append(entry)
                offset += 1
                current.entries += 1
                current.size += len(data)
        except Refused:
            pass
        finally:
            self.next = offset
            cache.size += current.size - size + _ENTRY_OVERHEAD * (len(entries) - 1)
        if cache.size > cache.limit:
            cache.age()
        self.roll_if_full(now)
        return entries

    def read(self, offset: int, count: int, max_bytes: int) -> list[Entry]:
        """Return up to ``count`` entries from ``offset`` on, at most ``max_bytes`` but at least one entry.

        Trimmed entries are skipped.
        """
        if offset < self.first:
            offset = self.first
        end = offset + count
        if end > self.next:
            end = self.next
        young = self.young_entries
        entries: list[Entry] = []
        if offset in young and end - 1 in young:  # usually, all entries are, and their size is below the limit
            entries = [young[number] for number in range(offset, end) if number in young]
            if len(entries) == end - offset and sum([len(entry.data) for entry in entries]) <= max_bytes:
                self.entries_read += len(entries)
                return entries
            entries = []
        while offset < end:
            known = young.get(offset) or self.old_entries.get(offset)
            for entry in self._load(offset, end) if known is None else (known,):
                max_bytes -= len(entry.data)
                if max_bytes < 0 and entries:
                    self.entries_read += len(entries)
                    return entries
                entries.append(entry)
                offset += 1
        self.entries_read += len(entries)
        return entries

    def entry(self, offset: int) -> Entry | None:
        """Return the entry at an offset, or None if it does not exist."""
        if not self.first <= offset < self.next:
            return None
        return self.young_entries.get(offset) or self.old_entries.get(offset) or self._load(offset, offset + 1)[0]

    def _load(self, offset: int, end: int) -> list[Entry]:
        """Load at least one entry from storage; cached objects are reused."""
        entries: list[Entry] = []
        at = self._index(offset)
        ledger = self.ledgers[at]
        for data in self._storage.read(offset, end - offset):
            while offset >= ledger.base + ledger.entries:
                at += 1
                ledger = self.ledgers[at]
            entry = self.young_entries.get(offset) or self.old_entries.get(offset)
            if entry is None:
                entry = Entry(offset, ledger.id, offset - ledger.base, data)
                self._cache_entry(entry)
            entries.append(entry)
            offset += 1
        return entries

    def _cache_entry(self, entry: Entry) -> None:
        """Cache an entry. For speed, ``append`` and ``append_run`` contain copies of this code."""
        cache = self._cache
        if not self.young_entries:
            cache.add_ledger(self)
        self.young_entries[entry.offset] = entry
        cache.size += len(entry.data) + _ENTRY_OVERHEAD
        if cache.size > cache.limit:
            cache.age()

    @property
    def total_size(self) -> int:
        """Size of all ledgers, in bytes."""
        return sum(ledger.size for ledger in self.ledgers)

    @property
    def entries_added(self) -> int:
        """Number of entries appended since the topic was loaded."""
        return self.next - self._loaded_at

    def position(self, offset: int) -> tuple[int, int]:
        """Return the ledger id and entry id of an offset.

        For ``next``, the id of the future entry is returned, and before the first entry, the position of the last entry
        that was deleted. If none was deleted, the entry id is -1.
        """
        ledger = self._current
        if offset < ledger.base:
            if offset < self.first:
                return self._deleted_up_to or (self.ledgers[0].id, -1)
            ledger = self.ledgers[self._index(offset)]
        return ledger.id, offset - ledger.base

    def ledger_from(self, offset: int) -> int | None:
        """Return the id of the ledger whose first entry is at an offset, or None."""
        ledger = self.ledgers[max(0, self._index(offset))]
        return ledger.id if ledger.base == offset else None

    def first_entries(self, offset: int, count: int) -> int:
        """Return the first entries of ledgers among ``count`` offsets, as bits."""
        low = bisect_left(self.ledgers, offset, key=_base)
        high = bisect_left(self.ledgers, offset + count, key=_base)
        return sum(1 << one.base - offset for one in self.ledgers[low:high])

    def offset_of(self, ledger_id: int, entry_id: int) -> int | None:
        """Return the offset of an entry, or None if it never existed, was deleted, or does not exist yet."""
        ledger = self._current
        if ledger_id != ledger.id:
            known = self._by_id.get(ledger_id)
            if known is None:
                return None
            ledger = known
        return ledger.base + entry_id if 0 <= entry_id < ledger.entries else None

    def last_up_to(self, ledger_id: int, entry_id: int) -> int | None:
        """Return the offset of the last entry at or before an id, or None if the id is after the last entry."""
        if (ledger_id, entry_id) > self.position(self.next - 1):
            return None
        return self.next_valid(ledger_id, entry_id + 1) - 1

    def next_valid(self, ledger_id: int, entry_id: int) -> int:
        """Return the offset of the first existing entry at or after an id, or ``next`` if there is none."""
        ledger = self._by_id.get(ledger_id)
        if ledger is not None:
            return ledger.base + min(max(entry_id, 0), ledger.entries)
        return next((ledger.base for ledger in self.ledgers if ledger.id > ledger_id), self.next)

    def roll(self, now: int) -> None:
        """Close the ledger and open the next one, as an unload does. A terminated topic keeps its ledger."""
        self._loaded_at = self.next
        self._deleted_up_to = None
        self.last_add_ms = 0
        self.closed = self.terminated
        if not self.terminated:
            self._open_next(now)

    def _open_next(self, now: int) -> None:
        self._current.closed_ms = now
        if not self._current.entries:
            del self._by_id[self.ledgers.pop().id]
        self._open(now)

    def roll_if_full(self, now: int) -> None:
        """Close the ledger if it has entries and is full or old."""
        current = self._current
        full = current.entries >= self._full_entries or current.size >= self._full_size or now >= self._full_at
        if not full or not current.entries:
            return
        if self._min_age and now - current.created_ms <= self._min_age:
            # The ledger is too young to close. Until it is old enough, only its age is checked.
            self._full_entries = self._full_size = _NEVER
            self._full_at = current.created_ms + self._min_age + 1
            return
        self._open_next(now)

    def fence(self) -> None:
        """Start a new ledger with the next entry, because BookKeeper refuses more entries in a fenced ledger."""
        self._fenced = True

    def terminate(self, now: int) -> tuple[int, int]:
        """Accept no more entries. Return the last confirmed entry, which is now in the last ledger (asyncTerminate)."""
        if not self.terminated:
            self.terminated = True
            self._current.closed_ms = now
            self._notify()
        return self.last_confirmed

    @property
    def last_confirmed(self) -> tuple[int, int]:
        """Ledger id and entry id of the last entry. On a terminated topic, the entry id is -1 in an empty ledger."""
        if self.terminated:
            return self._current.id, self._current.entries - 1
        return self.position(self.next - 1)

    def newest_before(self, time: int) -> int:
        """Return the offset of the newest entry with a timestamp before ``time``, or ``first`` - 1 if there is none.

        Uses the binary search of OpFindNewest, which determines the result if the timestamps are not in order.
        """
        if self.next == self.first or not self._is_before(self.first, time):
            return self.first - 1
        if self._is_before(self.next - 1, time):
            return self.next - 1
        low, high = self.first, self.next
        while low < high:
            middle = low + max((high - low) // 2, 1)
            if self._is_before(middle, time):
                low = middle
            else:
                high = middle - 1
        return low

    def _is_before(self, offset: int, time: int) -> bool:
        entry = self.entry(offset)
        when = None if entry is None else timestamp(entry)
        return when is not None and when < time

    def trim(self, slowest_mark_delete: int | None, retention_minutes: int, retention_mb: int, now: int) -> None:
        """Delete closed ledgers that all durable cursors have acknowledged and that retention does not keep.

        ``slowest_mark_delete`` is an offset, or None if there are no durable cursors. A retention of -1 is unlimited,
        and 0 means no retention. A ledger is deleted if one of the two retention limits allows it. If a ledger is kept,
        all ledgers after it are kept.
        """
        deleted = size = 0
        total = self.total_size
        for ledger in self.ledgers[:-1]:
            size += ledger.size
            if slowest_mark_delete is not None and ledger.base + ledger.entries - 1 > slowest_mark_delete:
                break
            age = now - (ledger.closed_ms or 0)
            old = retention_minutes == 0 or 0 < retention_minutes * _MINUTE < age
            if not old and not 0 <= retention_mb * _MEGABYTE <= total - size:
                break
            deleted += 1
        self._delete_ledgers(deleted)

    def _delete_ledgers(self, count: int) -> None:
        if not count:
            return
        last = self.ledgers[count - 1]
        self._deleted_up_to = last.id, last.entries - 1
        for ledger in self.ledgers[:count]:
            del self._by_id[ledger.id]
        del self.ledgers[:count]
        self.first = self.ledgers[0].base
        self._storage.trim(self.first)
        self._notify()

    def close(self) -> None:
        """Release the storage of a deleted topic. The ledger must not be used afterwards."""
        self.first = self.next
        self._storage.trim(self.first)
        self._cache.remove_ledger(self)

    def _open(self, now: int) -> None:
        self._current = ledger = Ledger(self._new_ledger_id(), self.next, now)
        self.ledgers.append(ledger)
        self._by_id[ledger.id] = ledger
        self._fenced = False
        settings = self._settings
        self._full_entries = settings.managedLedgerMaxEntriesPerLedger
        self._full_size = settings.managedLedgerMaxSizePerLedgerMbytes * _MEGABYTE
        self._full_at = now + settings.managedLedgerMaxLedgerRolloverTimeMinutes * _MINUTE
        self._min_age = settings.managedLedgerMinLedgerRolloverTimeMinutes * _MINUTE
        self._notify()

    def _notify(self) -> None:
        for follower in self.followers:
            follower.follow()

    def _index(self, offset: int) -> int:
        """Return the index of the ledger that contains an offset, or of the last ledger if the offset is higher."""
        return bisect_right(self.ledgers, offset, key=_base) - 1


def timestamp(entry: Entry) -> int | None:
    """Return the broker timestamp of an entry or else its publish time. Return None if the metadata is unreadable."""
    if not entry.parsed:
        entry.parse()
    if entry.block:
        stored = pb.BrokerEntryMetadata()
        try:
            stored.ParseFromString(entry.data[6 : entry.block])
        except DecodeError:
            return None
        if stored.HasField("broker_timestamp"):
            return stored.broker_timestamp
    return None if entry.metadata is None else entry.metadata.publish_time


def _base(ledger: Ledger) -> int:
    return ledger.base
