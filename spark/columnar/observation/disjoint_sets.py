"""Disjoint sets (union-find)."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Sets"]


class Sets:
    """Sets of items that are joined in pairs. An item that was never joined is in a separate set."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def join(self, one: Hashable, other: Hashable) -> None:
        """Join the sets of two items."""
        top, under = self.top(one), self.top(other)
        if top != under:
            self._above[under] = top

    def top(self, item: Hashable) -> Hashable:
        """Return the current representative of an item's set."""
        path = []
        while (non_negative := self._above.get(item, item)) != item:
            path.append(item)
            item = non_negative
        for one in path:
            self._above[one] = item
        return item
