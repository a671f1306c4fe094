"""DrainingHashesTracker (PIP-379): slots that belong to another consumer now, while the old one still holds entries.

No entry of such a slot may go to anybody else until the old consumer has acknowledged, given back or lost what it
holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.minibroker.dispatch.consumer_selectors import ConsumerSelector
    from pcli.minibroker.topics.consumer import Consumer

__all__ = ["DrainingHashesTracker"]


@dataclass(slots=True)
class _Draining:
    consumer: Consumer
    entries: int
    """Of this slot, still held by the consumer."""
    blocking: int
    """How often it held an entry back."""


class DrainingHashesTracker:
    """The slots that drain."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: dict[int, _Draining] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def changed(self, selector: ConsumerSelector, consumers: Iterable[Consumer]) -> None:
        """The slots have been dealt anew: what each consumer holds of slots that it lost drains."""
        before, self._slots = self._slots, {}
        for consumer in consumers:
            for slot, entries in Counter(consumer.hashes.values()).items():
                if selector.select(slot) is not consumer:
                    old = before.get(slot)
                    self._slots[slot] = _Draining(consumer, entries, old.blocking if old is not None else 0)

    def blocks(self, slot: int, consumer: Consumer) -> bool:
        """Whether an entry of this slot must wait instead of going to this consumer."""
        one = self._slots.get(slot)
        if one is None:
            return False
        if one.consumer is consumer:
            # It came back to the one that holds it.
            del self._slots[slot]
            return False
        one.blocking += 1
        return True

    def entry_released(self, slot: int, consumer: Consumer) -> bool:
        """A consumer is done with an entry of this slot; whether that frees something that was held back."""
        one = self._slots.get(slot)
        if one is None or one.consumer is not consumer:
            return False
        one.entries -= 1
        if one.entries > 0:
            return False
        del self._slots[slot]
        return one.blocking > 0

    def of(self, consumer: Consumer) -> list[tuple[int, int, int]]:
        """Slot, entries held, entries blocked, of one consumer, for the statistics."""
        return [(slot, one.entries, one.blocking) for slot, one in self._slots.items() if one.consumer is consumer]
