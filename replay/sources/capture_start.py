"""A live capture that reports its start: the capture program writes the file header only when it listens."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

__all__ = ["Begun"]


class Begun(io.RawIOBase):
    """Reads from a live source."""

    def __init__(self, source: BinaryIO, on_begin: Callable[[], None]) -> None:
        """``on_begin`` is called before the first bytes are returned, and never if there are none."""
        super().__init__()
        self._source = source
        self._on_begin: Callable[[], None] | None = on_begin

    def read(self, size: int = -1, /) -> bytes:
        """Return the available bytes, at most ``size``; empty at the end."""
        data = self._source.read(size)
        if data and self._on_begin is not None:
            tell, self._on_begin = self._on_begin, None
            tell()
        return data
