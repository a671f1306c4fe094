"""A seekable stream over a source that can be read once: the bytes read are kept in a temporary file."""

from __future__ import annotations

import io
import tempfile
from typing import BinaryIO

__all__ = ["Spool"]


class Spool(io.RawIOBase):
    """Reads from a live source and keeps all bytes; after `seek(0)` it reads the kept bytes."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__()
        self._source: BinaryIO | None = source
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115  (closed with this)

    def read(self, size: int = -1, /) -> bytes:
        """Return the available bytes, at most ``size``; empty at the end."""
        if self._source is None:
            return self._kept.read(size)
        data = self._source.read(size)
        self._kept.write(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position in the kept bytes; the source is not read afterwards."""
        self._source = None
        return self._kept.seek(offset, whence)

    def tell(self) -> int:
        """Return the number of bytes read so far, or the position in the kept bytes."""
        return self._kept.tell()

    def close(self) -> None:
        """Delete the kept bytes; the owner of the source closes it."""
        if not self.closed:
            self._kept.close()
        super().close()
