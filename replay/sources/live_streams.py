"""Wrappers of a live capture stream: one reports the start, and the other keeps the bytes in a temporary file."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from typing import BinaryIO

__all__ = ["SpooledStream", "StartNotifier"]


class StartNotifier(io.RawIOBase):
    """A reader of a live source that reports the first bytes.

    A capture program writes them when it starts to capture.
    """

    def __init__(self, source: BinaryIO, on_begin: Callable[[], None]) -> None:
        """``on_begin`` is called before the first bytes are returned. If there are no bytes, it is not called."""
        super().__init__()
        self._source = source
        self._on_begin: Callable[[], None] | None = on_begin

    def read(self, size: int = -1, /) -> bytes:
        """Return the available bytes, at most ``size``, or no bytes at the end."""
        data = self._source.read(size)
        if data and self._on_begin is not None:
            on_begin, self._on_begin = self._on_begin, None
            on_begin()
        return data


class SpooledStream(io.RawIOBase):
    """A reader of a live source that keeps all bytes; after `seek(0)` it reads the kept bytes."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__()
        self._source: BinaryIO | None = source
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115  (closed with this)

    def read(self, size: int = -1, /) -> bytes:
        """Return the available bytes, at most ``size``, or no bytes at the end."""
        if self._source is None:
            return self._kept.read(size)
        data = self._source.read(size)
        self._kept.write(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position in the kept bytes. The source is not read afterwards."""
        self._source = None
        return self._kept.seek(offset, whence)

    def tell(self) -> int:
        """Return the number of bytes read so far, or the position in the kept bytes."""
        return self._kept.tell()

    def close(self) -> None:
        """Delete the kept bytes. The owner of the source closes the source."""
        if not self.closed:
            self._kept.close()
        super().close()
