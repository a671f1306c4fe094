"""DrainingHashesTracker (PIP-379): reassigned slots in which the previous consumer has pending entries.

No entry of a draining slot is sent to the new consumer until the previous consumer has no pending entries left in this
slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.minibroker.dispatch.consumer_selectors import ConsumerSelector
    from pcli.minibroker.topics.consumer import Consumer


@dataclass(slots=True)
class _Draining:
    consumer: Consumer
    entries: int
    """Number of entries of this slot that are pending at the consumer."""
    blocking: int
    """Number of times that the slot blocked an entry."""


class DrainingHashesTracker:
    """The draining slots."""

    __slots__ = ("_of", "_slots", "cleared")

    def __init__(self) -> None:
        self._slots: dict[int, _Draining] = {}
        self._of: dict[Consumer, set[int]] = {}
        """The draining slots in which a consumer has pending entries."""
        self.cleared: Counter[Consumer] = Counter()
        """Number of slots that were drained, by the consumer that had the pending entries."""

    def __len__(self) -> int:
        return len(self._slots)

    def changed(self, selector: ConsumerSelector, consumers: Iterable[Consumer]) -> None:
        """After slots of these consumers were reassigned, track their pending entries in slots that they do not own."""
        for consumer in consumers:
            before = {slot: self._slots.pop(slot).blocking for slot in self._of.pop(consumer, ())}
            for slot, entries in Counter(consumer.hashes.values()).items():
                if selector.select(slot) is not consumer:
                    self._slots[slot] = _Draining(consumer, entries, before.get(slot, 0))
                    self._of.setdefault(consumer, set()).add(slot)

    def removed(self, consumer: Consumer) -> None:
        """After a consumer was removed, its slots no longer drain."""
        self.cleared.pop(consumer, None)
        for slot in self._of.pop(consumer, ()):
            del self._slots[slot]

    def blocks(self, slot: int, consumer: Consumer) -> bool:
        """Return whether an entry of this slot must wait before it is sent to this consumer."""
        one = self._slots.get(slot)
        if one is None:
            return False
        if one.consumer is consumer:
            # The slot was assigned to the previous consumer again.
            self._drained(slot, consumer)
            return False
        one.blocking += 1
        return True

    def entry_released(self, slot: int, consumer: Consumer) -> bool:
        """Record that an entry is no longer pending at a consumer. Return whether this unblocks entries of its slot."""
        one = self._slots.get(slot)
        if one is None or one.consumer is not consumer:
            return False
        one.entries -= 1
        if one.entries > 0:
            return False
        self._drained(slot, consumer)
        return one.blocking > 0

    def _drained(self, slot: int, consumer: Consumer) -> None:
        del self._slots[slot]
        self.cleared[consumer] += 1
        slots = self._of[consumer]
        slots.remove(slot)
        if not slots:
            del self._of[consumer]

    def of(self, consumer: Consumer) -> list[tuple[int, int, int]]:
        """Return one consumer's draining slots, each with the numbers of pending entries and of blocked attempts."""
        found = ((slot, self._slots[slot]) for slot in sorted(self._of.get(consumer, ())))
        return [(slot, one.entries, one.blocking) for slot, one in found]
