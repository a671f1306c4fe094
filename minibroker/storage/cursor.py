"""ManagedCursor: the position of a subscription in its topic.

Rules of this file
1. All entries up to the mark-delete position are acknowledged. Entries after it can be acknowledged out of order.
   Consecutive acknowledged entries form a run. When all entries before a run are acknowledged, the mark-delete position
   moves to the end of the run, across ledgers.
2. A partly acknowledged batch is an unacknowledged entry with an ack set of the remaining messages.
3. If the mark-delete position passes the read position, the read position follows it.
4. Entries acknowledged out of order are stored as bits, in pages of 1024 offsets. A million entries take about 100 KB,
   and every operation except listing them visits only the pages in its range.

Source of the rules: ManagedCursorImpl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.storage.ledger import ManagedLedger

_SHIFT: Final = 10
_PAGE: Final = 1 << _SHIFT
_MASK: Final = _PAGE - 1
_PAGE_BYTES: Final = _PAGE // 8
_FULL: Final = (1 << _PAGE) - 1
"""A page in which all entries are deleted. All of these pages share this object."""


class CursorChanges(Protocol):
    """An object that is notified when the stored state of a cursor changes."""

    def moved(self) -> None:
        """Record that the mark-delete position or the properties have changed."""

    def page_changed(self, number: int) -> None:
        """Record that acknowledged entries or ack sets of a page have changed."""

    def all_changed(self) -> None:
        """Record that the cursor was reset: all pages have changed."""


class ManagedCursor:
    """The state of one subscription: which entries are read and which are acknowledged."""

    __slots__ = (
        "_deleted",
        "_highest",
        "_initial",
        "_ledger",
        "_pages",
        "_read_end",
        "_start",
        "_start_of_ledger",
        "ack_sets",
        "changes",
        "durable",
        "mark_delete",
        "name",
        "properties",
        "read_position",
        "waits_at_end",
    )

    def __init__(self, ledger: ManagedLedger, name: str, mark_delete: int, *, durable: bool) -> None:
        self._ledger = ledger
        self.name = name
        self.durable = durable
        self.mark_delete = mark_delete
        """Offset of the last entry up to which all entries are acknowledged; -1 before the first entry."""
        self.read_position = mark_delete + 1
        """Offset at which the next read starts."""
        self.waits_at_end = False
        """Whether a read at the end of the terminated topic has failed. It stays registered and prevents later ones."""
        self.properties: dict[str, int] = {}
        """Properties that acknowledgements set; used for compaction and replicated subscriptions."""
        self.ack_sets: dict[int, int] = {}
        """Ack sets of partly acknowledged entries, by offset; a bit is 1 if the message is not acknowledged."""
        self._pages: dict[int, int] = {}
        """Bits by page number; 1 means deleted. Bits at or below the mark-delete position are undefined."""
        self._deleted = 0
        """Number of deleted entries after the mark-delete position."""
        self._highest = -1
        """Upper bound of the deleted offsets after the mark-delete position."""
        self._start_of_ledger: tuple[int, int] | None = None
        """A mark-delete offset, and the id of the ledger that starts after it, if the position is in this ledger."""
        if mark_delete == ledger.first - 1:
            self.skip_closed_ledger()
        self._initial: tuple[int, int] | None = mark_delete, 0
        """Mark-delete position and number of deleted entries at the load; None after a change that moves neither."""
        self._start = self._read_end = -1
        """The read position after a seek to the first entry and that after the last read, or -1."""
        self.changes: CursorChanges | None = None
        """What stores the changes; None if the cursor is not stored."""

    @property
    def mark_delete_position(self) -> tuple[int, int]:
        """Ledger id and entry id of the mark-delete position; the entry id is -1 at the start of a ledger."""
        if self._start_of_ledger is not None and self._start_of_ledger[0] == self.mark_delete:
            return self._start_of_ledger[1], -1
        return self._ledger.position(self.mark_delete)

    @property
    def is_at_start(self) -> bool:
        """Whether nothing was read since a seek to the first entry; the read position is then entry -1."""
        return self._start == self.read_position

    @property
    def follows_read(self) -> bool:
        """Whether the read position is that after the last read. It is then in the ledger of the entry before it."""
        return self._read_end == self.read_position

    @property
    def has_ledger(self) -> bool:
        """Whether the real broker would have opened a cursor ledger, as it does for the first change (State.Open)."""
        return (self.mark_delete, self._deleted) != self._initial

    def open_ledger(self) -> None:
        """Record a change that is persisted although it does not move the mark-delete position."""
        self._initial = None

    def reload(self, *, keep_ack_sets: bool) -> None:
        """Close the cursor ledger, as an unload does. A seek to the start is lost."""
        if self.changes is not None and self.ack_sets:
            self.changes.all_changed()
        self.ack_sets = self.ack_sets if keep_ack_sets else {}
        self._start = self._read_end = -1
        self._initial, self.waits_at_end = (self.mark_delete, self._deleted), False

    def skip_closed_ledger(self) -> bool:
        """Move the position from the end of a ledger to the start of the next ledger. Return whether there is one.

        The offset does not change (ManagedLedgerImpl.maybeUpdateCursorBeforeTrimmingConsumedLedger).
        """
        following = self._ledger.ledger_from(self.mark_delete + 1)
        if following is not None and self._start_of_ledger != (self.mark_delete, following):
            self._start_of_ledger, self._initial = (self.mark_delete, following), None
            if self.read_position <= self.mark_delete + 1:
                self._read_end = -1
            return True
        return False

    def is_deleted(self, offset: int) -> bool:
        """Return whether the whole entry is acknowledged."""
        if offset <= self.mark_delete:
            return True
        return self._deleted > 0 and bool(self._pages.get(offset >> _SHIFT, 0) >> (offset & _MASK) & 1)

    def delete(self, offset: int) -> bool:
        """Acknowledge one entry. Return False if it is already acknowledged or does not exist yet."""
        after = self.mark_delete + 1
        if offset == after and offset < self._ledger.next:
            if self._deleted:
                self._advance(offset)
            else:
                self.mark_delete = offset
            if self.read_position <= self.mark_delete:
                self.read_position = self.mark_delete + 1
            if self.changes is not None:
                self.changes.moved()
        elif after < offset < self._ledger.next:
            number, bit = offset >> _SHIFT, 1 << (offset & _MASK)
            page = self._pages.get(number, 0)
            if page & bit:
                return False
            page |= bit
            self._pages[number] = _FULL if page == _FULL else page
            self._deleted += 1
            if offset > self._highest:
                self._highest = offset
            if self.changes is not None:
                self.changes.page_changed(number)
        else:
            return False
        if self.ack_sets:
            self.ack_sets.pop(offset, None)
        return True

    def mark_delete_to(self, offset: int) -> None:
        """Acknowledge all entries up to ``offset``.

        This has no effect if they are already acknowledged or the offset does not exist yet.
        """
        if not self.mark_delete < offset < self._ledger.next:
            return
        if self.ack_sets:
            self._drop_ack_sets(offset)
        if self._deleted:
            self._deleted -= self._count(self.mark_delete + 1, offset)
            self._advance(offset)
        else:
            self.mark_delete = offset
        if self.read_position <= self.mark_delete:
            self.read_position = self.mark_delete + 1
        if self.changes is not None:
            self.changes.moved()

    def put_ack_set(self, offset: int, bits: int) -> None:
        """Store the remaining bits of a partly acknowledged batch."""
        self.ack_sets[offset] = bits
        if self.changes is not None:
            self.changes.page_changed(offset >> _SHIFT)

    def put_properties(self, properties: Mapping[str, int]) -> None:
        """Add properties, or change their values."""
        if properties:
            self.properties.update(properties)
            if self.changes is not None:
                self.changes.moved()

    def clear_properties(self) -> None:
        """Remove all properties."""
        if self.properties:
            self.properties.clear()
            if self.changes is not None:
                self.changes.moved()

    def next_unacked(self, offset: int) -> int:
        """Return the first offset at or after ``offset`` that is not deleted. Its entry may not exist yet."""
        if offset <= self.mark_delete:
            offset = self.mark_delete + 1
        if not self._deleted:
            return offset
        pages, number = self._pages, offset >> _SHIFT
        page = pages.get(number, 0) >> (offset & _MASK)
        if not page & 1:
            return offset
        offset += _trailing_ones(page)
        while not offset & _MASK:
            number += 1
            page = pages.get(number, 0)
            offset += _trailing_ones(page)
            if page != _FULL:
                break
        return offset

    def nth_unacked(self, count: int) -> int:
        """Return the offset of the ``count``-th unacknowledged entry (counted from 1), or of the last entry."""
        offset, last = self.mark_delete, self._ledger.next - 1
        while count > 0:
            offset = self.next_unacked(offset + 1)
            if offset >= last:
                return last
            run = min(self._count_unacked(offset, count), last - offset + 1)
            offset += run - 1
            count -= run
        return offset

    def rewind(self) -> None:
        """Move the read position back to the first unacknowledged entry."""
        self.read_position = self.mark_delete + 1
        self._start = self._read_end = -1

    def seek(self, offset: int) -> None:
        """Move to ``offset``, or to the first entry if ``offset`` is -1.

        All entries before it are acknowledged, all others are not, and the next read starts at ``offset``.
        """
        if self.changes is not None:
            self.changes.all_changed()
        to_start = offset < 0
        offset = min(max(offset, self._ledger.first), self._ledger.next)
        self.mark_delete, self.read_position = offset - 1, offset
        self._start = offset if to_start else -1
        self._start_of_ledger = self._initial = None
        self._read_end = -1
        if offset == self._ledger.first:
            self.skip_closed_ledger()
        self.ack_sets.clear()
        self._pages.clear()
        self._deleted, self._highest = 0, -1

    def read(self, count: int, max_bytes: int) -> list[Entry]:
        """Read the next entries that are not deleted, and move the read position past them.

        Returns at most ``count`` entries of ``max_bytes`` in total, but at least one if any entry is left.
        """
        ledger, position = self._ledger, self.read_position
        if position >= ledger.next:
            return []
        if position < ledger.first:
            self.skip_trimmed()
            position = self.read_position
        if position <= self._highest or position <= self.mark_delete:
            return self._read_unacked(count, max_bytes, ledger.next)
        entries = ledger.read(position, count, max_bytes)
        self.read_position = self._read_end = position + len(entries)
        return entries

    def read_before(self, end: int, count: int, max_bytes: int) -> list[Entry]:
        """Read the next entries that are not deleted and are before the offset ``end``, like `read`."""
        if self.read_position < self._ledger.first:
            self.skip_trimmed()
        return self._read_unacked(count, max_bytes, end) if self.read_position < end else []

    def _read_unacked(self, count: int, max_bytes: int, end: int) -> list[Entry]:
        """Read entries one by one up to the last deleted entry, and all entries after it with a single read."""
        ledger = self._ledger
        entries: list[Entry] = []
        position = self.next_unacked(self.read_position)
        while len(entries) < count and position <= self._highest and position < end:
            entry = ledger.entry(position)
            if entry is None or (entries and len(entry.data) > max_bytes):
                count = 0
                break
            max_bytes -= len(entry.data)
            entries.append(entry)
            position = self.next_unacked(position + 1)
        if len(entries) < count and (max_bytes > 0 or not entries):
            rest = ledger.read(position, min(count - len(entries), end - position), max_bytes)
            if rest and (not entries or len(rest[0].data) <= max_bytes):
                entries += rest
                position += len(rest)
        self.read_position = position
        self._read_end = entries[-1].offset + 1 if entries else self._read_end
        return entries

    @property
    def has_more(self) -> bool:
        """Whether a read would return an entry."""
        if not self._deleted:
            return self.read_position < self._ledger.next
        return self.next_unacked(self.read_position) < self._ledger.next

    @property
    def backlog(self) -> int:
        """Number of unacknowledged entries."""
        before, deleted = self.mark_delete, self._deleted
        if before < self._ledger.first - 1:
            # Trimmed entries count as acknowledged, although the mark-delete position has not moved yet.
            before = self._ledger.first - 1
            deleted -= self._count(self.mark_delete + 1, before) if deleted else 0
        return self._ledger.next - 1 - before - deleted

    def skip_trimmed(self) -> None:
        """Acknowledge entries that were trimmed before this cursor acknowledged them."""
        self.mark_delete_to(self._ledger.first - 1)
        self.read_position = max(self.read_position, self._ledger.first)

    def deleted_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last offset of each run of acknowledged entries after the mark-delete position."""
        ranges: list[tuple[int, int]] = []
        for number in sorted(self._pages):
            offset, page, starts = number << _SHIFT, self._defined(number), self._starts(number)
            while page:
                at = _lowest(page)
                following = starts >> at + 1
                run = min(_trailing_ones(page >> at), _lowest(following) + 1 if following else _PAGE)
                first = offset + at if starts >> at & 1 else ranges.pop()[0]
                ranges.append((first, offset + at + run - 1))
                page = page >> at + run << at + run
        return ranges

    @property
    def deleted_range_count(self) -> int:
        """Number of runs of acknowledged entries after the mark-delete position."""
        return sum(self._starts(number).bit_count() for number in self._pages)

    def deleted_bits(self, limit: int) -> tuple[int, bytes]:
        """Return the acknowledged entries after the mark-delete position, as the offset of the first bit and the bits.

        The lowest bit of a byte is the first. ``limit`` is the maximum number of runs.
        """
        if not self._deleted:
            return 0, b""
        pages: list[bytes] = []
        first = expected = min(self._pages)
        for number in sorted(self._pages):
            page, starts = self._defined(number), self._starts(number)
            limit -= starts.bit_count()
            if limit < 0:
                for _ in range(starts.bit_count() + limit):
                    starts &= starts - 1
                page &= (starts & -starts) - 1
            pages.append(bytes((number - expected) * _PAGE_BYTES) + page.to_bytes(_PAGE_BYTES, "little"))
            expected = number + 1
            if limit < 0:
                break
        return first << _SHIFT, b"".join(pages)

    # -- stored state --------------------------------------------------------------------------------------------------

    @property
    def first_page(self) -> int:
        """The number of the page of the first entry after the mark-delete position."""
        return self.mark_delete + 1 >> _SHIFT

    def page(self, number: int) -> tuple[int, dict[int, int]]:
        """Return the bits of acknowledged entries of a page, and the ack sets by index in the page."""
        bits = self._defined(number) if self._deleted and number in self._pages else 0
        first = number << _SHIFT
        if len(self.ack_sets) < _PAGE:
            sets = {at - first: left for at, left in self.ack_sets.items() if at >> _SHIFT == number}
        else:
            sets = {at: self.ack_sets[first + at] for at in range(_PAGE) if first + at in self.ack_sets}
        return bits, sets

    def page_numbers(self) -> set[int]:
        """Return the numbers of the pages with acknowledged entries or ack sets."""
        return {*self._pages, *(offset >> _SHIFT for offset in self.ack_sets)}

    def restore_page(self, number: int, bits: int, ack_sets: dict[int, int]) -> None:
        """Restore a page that `page` returned. The entries up to the mark-delete position are ignored."""
        first = number << _SHIFT
        self.ack_sets.update((first + at, left) for at, left in ack_sets.items() if first + at > self.mark_delete)
        self._pages[number] = _FULL if bits == _FULL else bits
        bits = self._defined(number)
        if not bits:
            del self._pages[number]
            return
        self._deleted += bits.bit_count()
        self._highest = max(self._highest, first + bits.bit_length() - 1)
        self._initial = self.mark_delete, self._deleted

    def _defined(self, number: int) -> int:
        """Return the bits of a page after the mark-delete position."""
        undefined = self.mark_delete + 1 - (number << _SHIFT)
        return self._pages[number] if undefined <= 0 else self._pages[number] >> undefined << undefined

    def _starts(self, number: int) -> int:
        """Return the bits of a page at which a run starts; a run ends with its ledger (OpenLongPairRangeSet)."""
        page = self._defined(number)
        before = self._defined(number - 1) >> _MASK if number - 1 in self._pages else 0
        return page & (~(page << 1 | before) | self._ledger.first_entries(number << _SHIFT, _PAGE))

    def _advance(self, offset: int) -> None:
        """Move the mark-delete position to ``offset`` and past the run after it.

        The caller must first subtract the entries up to ``offset`` from ``_deleted``.
        """
        before, following = self.mark_delete, offset + 1
        self.mark_delete = offset
        if self._pages.get(following >> _SHIFT, 0) >> (following & _MASK) & 1:
            self.mark_delete = self.next_unacked(following) - 1
            self._deleted -= self.mark_delete - offset
        if not self._deleted:
            self._pages.clear()
        elif (before + 1) >> _SHIFT != (self.mark_delete + 1) >> _SHIFT:
            _drop(self._pages, (before + 1) >> _SHIFT, (self.mark_delete + 1) >> _SHIFT)

    def _drop_ack_sets(self, offset: int) -> None:
        """Delete the ack sets of entries up to ``offset``, with the shorter of two loops."""
        if offset - self.mark_delete < len(self.ack_sets):
            for deleted in range(self.mark_delete + 1, offset + 1):
                self.ack_sets.pop(deleted, None)
        else:
            for deleted in [known for known in self.ack_sets if known <= offset]:
                del self.ack_sets[deleted]

    def _count(self, first: int, last: int) -> int:
        """Return the number of deleted entries from ``first`` to ``last``."""
        low, high = first >> _SHIFT, last >> _SHIFT
        numbers = range(low, high + 1) if high - low < len(self._pages) else self._pages
        total = 0
        for number in numbers:
            page = self._pages.get(number, 0)
            if page and low <= number <= high:
                if number == high:
                    page &= (2 << (last & _MASK)) - 1
                if number == low:
                    page >>= first & _MASK
                total += page.bit_count()
        return total

    def _count_unacked(self, offset: int, count: int) -> int:
        """Return the number of consecutive unacknowledged entries from ``offset`` on, between 1 and ``count``."""
        if not self._deleted:
            return count
        end = offset + count
        at = offset
        while at < end:
            page = self._pages.get(at >> _SHIFT, 0) >> (at & _MASK)
            if page:
                return min(at + _lowest(page), end) - offset
            at = (at | _MASK) + 1
        return count


def _trailing_ones(page: int) -> int:
    """Return the number of trailing one bits."""
    return (page + 1 & ~page).bit_length() - 1


def _lowest(bits: int) -> int:
    """Return the number of the lowest one bit."""
    return (bits & -bits).bit_length() - 1


def _drop(pages: dict[int, int], low: int, high: int) -> None:
    """Delete the pages from ``low`` up to but not including ``high``, with the shorter of two loops."""
    if high - low < len(pages):
        for number in range(low, high):
            pages.pop(number, None)
    else:
        for number in [known for known in pages if known < high]:
            del pages[number]
