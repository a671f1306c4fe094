"""A live capture that says when it begins: the header of the capture comes when its program listens, not before."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

__all__ = ["Begun"]


class Begun(io.RawIOBase):
    """Reads from a live source."""

    def __init__(self, source: BinaryIO, on_begin: Callable[[], None]) -> None:
        """``on_begin`` is called before the first bytes are given; never when there are none."""
        super().__init__()
        self._source = source
        self._on_begin: Callable[[], None] | None = on_begin

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, as many as there are now, at most ``size``; empty at the end."""
        data = self._source.read(size)
        if data and self._on_begin is not None:
            tell, self._on_begin = self._on_begin, None
            tell()
        return data
