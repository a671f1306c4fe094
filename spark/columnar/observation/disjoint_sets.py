"""Sets of things that belong together, directly or through others."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Sets"]


class Sets:
    """Things are joined by twos, again and again; whatever was never joined is alone."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def join(self, one: Hashable, other: Hashable) -> None:
        """These two belong together, and so do all that belong to either."""
        top, under = self.top(one), self.top(other)
        if top != under:
            self._above[under] = top

    def top(self, item: Hashable) -> Hashable:
        """The one of its set that stands for all of them, for now."""
        path = []
        while (above := self._above.get(item, item)) != item:
            path.append(item)
            item = above
        for one in path:
            self._above[one] = item
        return item
