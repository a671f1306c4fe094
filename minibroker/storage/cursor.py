"""A subscription's place in its topic: ManagedCursor.

Rules of this file
1. Everything up to the mark-delete is acknowledged; behind it, single entries are, out of order. When the hole in
   front of such a run is filled the mark-delete moves to the run's end, over the limits of ledgers.
2. A partly acknowledged batch is an entry that is not acknowledged, with a set of bits of what is left of it.
3. If the mark-delete overtakes the reading, the reading follows.
4. Entries acknowledged out of order are bits, in pages of 1024 by the offset: a million of them is a hundred
   kilobytes, and no operation but listing them walks over more than the pages in its way.

Source of the rules: ManagedCursorImpl.
"""

from __future__ import annotations

from typing import Final

from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.storage.ledger import ManagedLedger

__all__ = ["ManagedCursor"]

_SHIFT: Final = 10
_PAGE: Final = 1 << _SHIFT
_MASK: Final = _PAGE - 1
_FULL: Final = (1 << _PAGE) - 1
"""A page all of whose entries are deleted; one object for all of them."""


class ManagedCursor:
    """What one subscription has read and acknowledged. ``mark_delete``: an offset, -1 at the very start."""

    __slots__ = (
        "_deleted",
        "_highest",
        "_ledger",
        "_pages",
        "ack_sets",
        "durable",
        "mark_delete",
        "name",
        "properties",
        "read_position",
    )

    def __init__(self, ledger: ManagedLedger, name: str, mark_delete: int, *, durable: bool) -> None:
        self._ledger = ledger
        self.name = name
        self.durable = durable
        self.mark_delete = mark_delete
        """Offset of the last entry of the acknowledged run that begins the topic."""
        self.read_position = mark_delete + 1
        """Offset at which the next read begins."""
        self.properties: dict[str, int] = {}
        """What acknowledgements left here for compaction and replicated subscriptions."""
        self.ack_sets: dict[int, int] = {}
        """Of partly acknowledged entries: offset to bits, 1 = not acknowledged yet."""
        self._pages: dict[int, int] = {}
        """Page number to bits, 1 = deleted. Bits at or below the mark-delete may be set or not."""
        self._deleted = 0
        """How many entries behind the mark-delete are deleted."""
        self._highest = -1
        """No entry behind that offset and behind the mark-delete is deleted."""

    def is_deleted(self, offset: int) -> bool:
        """Whether the entry is acknowledged, wholly."""
        if offset <= self.mark_delete:
            return True
        return self._deleted > 0 and bool(self._pages.get(offset >> _SHIFT, 0) >> (offset & _MASK) & 1)

    def delete(self, offset: int) -> bool:
        """Acknowledge one entry. False if it is already, or does not exist yet."""
        after = self.mark_delete + 1
        if offset == after and offset < self._ledger.next:
            if self._deleted:
                self._advance(offset)
            else:
                self.mark_delete = offset
            if self.read_position <= self.mark_delete:
                self.read_position = self.mark_delete + 1
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
        else:
            return False
        if self.ack_sets:
            self.ack_sets.pop(offset, None)
        return True

    def mark_delete_to(self, offset: int) -> None:
        """Acknowledge everything up to ``offset``; one that is behind or does not exist yet changes nothing."""
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

    def next_unacked(self, offset: int) -> int:
        """The smallest offset, ``offset`` or behind it, that is not deleted; may be one that does not exist yet."""
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
        """The offset of the ``count``-th entry (from 1) that is not acknowledged; the last entry if there are fewer."""
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
        """Read again from the first entry that is not acknowledged."""
        self.read_position = self.mark_delete + 1

    def seek(self, offset: int) -> None:
        """Go to ``offset``: what is before it is acknowledged, what is behind it is not, read on from there."""
        offset = min(max(offset, self._ledger.first), self._ledger.next)
        self.mark_delete, self.read_position = offset - 1, offset
        self.ack_sets.clear()
        self._pages.clear()
        self._deleted, self._highest = 0, -1

    def read(self, count: int, max_bytes: int) -> list[Entry]:
        """The next entries that are not deleted; the read position moves behind them.

        At most ``count``, of no more than ``max_bytes`` together, but one if any is there.
        """
        ledger, position = self._ledger, self.read_position
        if position >= ledger.next:
            return []
        if position < ledger.first:
            self.skip_trimmed()
            position = self.read_position
        if position <= self._highest or position <= self.mark_delete:
            return self._read_unacked(count, max_bytes)
        entries = ledger.read(position, count, max_bytes)
        self.read_position = position + len(entries)
        return entries

    def _read_unacked(self, count: int, max_bytes: int) -> list[Entry]:
        """A read among deleted entries: one by one as far as they go, the rest at once."""
        ledger = self._ledger
        entries: list[Entry] = []
        position = self.next_unacked(self.read_position)
        while len(entries) < count and position <= self._highest:
            entry = ledger.entry(position)
            if entry is None or (entries and len(entry.data) > max_bytes):
                count = 0
                break
            max_bytes -= len(entry.data)
            entries.append(entry)
            position = self.next_unacked(position + 1)
        if len(entries) < count and (max_bytes > 0 or not entries):
            rest = ledger.read(position, count - len(entries), max_bytes)
            if rest and (not entries or len(rest[0].data) <= max_bytes):
                entries += rest
                position += len(rest)
        self.read_position = position
        return entries

    @property
    def has_more(self) -> bool:
        """Whether a read would give something."""
        if not self._deleted:
            return self.read_position < self._ledger.next
        return self.next_unacked(self.read_position) < self._ledger.next

    @property
    def backlog(self) -> int:
        """How many entries are not acknowledged."""
        before, deleted = self.mark_delete, self._deleted
        if before < self._ledger.first - 1:
            # What was trimmed counts as acknowledged, though the mark-delete has not moved yet.
            before = self._ledger.first - 1
            deleted -= self._count(self.mark_delete + 1, before) if deleted else 0
        return self._ledger.next - 1 - before - deleted

    def skip_trimmed(self) -> None:
        """Entries were trimmed although this cursor had not acknowledged them: they are as good as acknowledged."""
        self.mark_delete_to(self._ledger.first - 1)
        self.read_position = max(self.read_position, self._ledger.first)

    def deleted_ranges(self) -> list[tuple[int, int]]:
        """First and last offset of every run of entries behind the mark-delete that are acknowledged."""
        ranges: list[tuple[int, int]] = []
        if not self._deleted:
            return ranges
        for number in sorted(self._pages):
            offset = max(number << _SHIFT, self.mark_delete + 1)
            page = self._pages[number] >> (offset & _MASK)
            while page:
                skip = (page & -page).bit_length() - 1
                run = _trailing_ones(page >> skip)
                _extend(ranges, offset + skip, offset + skip + run - 1)
                offset += skip + run
                page >>= skip + run
        return ranges

    def _advance(self, offset: int) -> None:
        """Mark-delete to ``offset`` and on over the run that follows; ``_deleted`` does not count up to it."""
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
        """Forget the bits of entries up to ``offset``, the shorter way."""
        if offset - self.mark_delete < len(self.ack_sets):
            for gone in range(self.mark_delete + 1, offset + 1):
                self.ack_sets.pop(gone, None)
        else:
            for gone in [known for known in self.ack_sets if known <= offset]:
                del self.ack_sets[gone]

    def _count(self, first: int, last: int) -> int:
        """How many entries from ``first`` to ``last`` are deleted."""
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
        """How many entries from ``offset`` on, at most ``count``, are not deleted; ``offset`` is not."""
        if not self._deleted:
            return count
        end = offset + count
        at = offset
        while at < end:
            page = self._pages.get(at >> _SHIFT, 0) >> (at & _MASK)
            if page:
                return min(at + (page & -page).bit_length() - 1, end) - offset
            at = (at | _MASK) + 1
        return count


def _trailing_ones(page: int) -> int:
    """How many bits from the lowest on are set."""
    return (page + 1 & ~page).bit_length() - 1


def _extend(ranges: list[tuple[int, int]], first: int, last: int) -> None:
    """Add a run, joined with the one before if it goes on."""
    if ranges and ranges[-1][1] == first - 1:
        ranges[-1] = ranges[-1][0], last
    else:
        ranges.append((first, last))


def _drop(pages: dict[int, int], low: int, high: int) -> None:
    """Forget the pages from ``low`` to below ``high``, the shorter way."""
    if high - low < len(pages):
        for number in range(low, high):
            pages.pop(number, None)
    else:
        for number in [known for known in pages if known < high]:
            del pages[number]
