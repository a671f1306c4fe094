"""A dictionary whose memory is bounded by a number of items."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class BoundedDict(OrderedDict[_K, _V]):
    """A dictionary of at most ``maximum`` items; if it is full, a new item replaces the oldest item.

    A plain dictionary finds its oldest item by skipping all items that were dropped before. This class finds it in
    constant time.
    """

    def __init__(self, maximum: int) -> None:
        super().__init__()
        self.maximum = maximum

    def __setitem__(self, key: _K, value: _V) -> None:
        if len(self) >= self.maximum and key not in self:
            self.popitem(last=False)
        super().__setitem__(key, value)

    def __reduce__(self) -> tuple[Any, ...]:  # copies and pickles keep the maximum
        return BoundedDict, (self.maximum,), None, None, iter(self.items())
