"""A seekable stream over a source that can be read once: the bytes read are kept in a temporary file."""

from __future__ import annotations

import io
import tempfile
from typing import BinaryIO

__all__ = ["Spool"]


class Spool(io.RawIOBase):
    """Reads from a live source, keeping everything; after `seek(0)` it reads what was kept."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__()
        self._source: BinaryIO | None = source
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115  (closed with this)

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes: as many as there are now, at most ``size``; empty at the end."""
        if self._source is None:
            return self._kept.read(size)
        data = self._source.read(size)
        self._kept.write(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place in what was kept; the source is not read any more."""
        self._source = None
        return self._kept.seek(offset, whence)

    def tell(self) -> int:
        """Bytes read so far, or since the beginning of what was kept."""
        return self._kept.tell()

    def close(self) -> None:
        """Forget what was kept; the source is its owner's to close."""
        if not self.closed:
            self._kept.close()
        super().close()
