"""Files that are open only while they are read. A capture may have more files than a process may open.

Rules of this file
1. A file is opened at its first read, and closed at its end and when it is rewound. Its position is kept.
2. Among files that share an `OpenFileSlot`, only one file is open at a time. Otherwise a damaged file, which is not
   read to its end, would remain open.
3. A failure raises a CaptureError with the path, because a file may have been deleted after it was listed.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

from pcli.codec.errors import CaptureError


class OpenFileSlot:
    """The slot for the one open file of a group."""

    def __init__(self) -> None:
        self.holder: LazyFile | None = None

    def take(self, file: LazyFile) -> None:
        """Close the file that is open, before the caller opens a different file."""
        if self.holder is not None and self.holder is not file:
            self.holder.release()
        self.holder = file


class LazyFile(io.RawIOBase):
    """A regular file for binary reading, with the interface of any other file."""

    def __init__(self, path: Path, slot: OpenFileSlot) -> None:
        self._path = path
        self._slot = slot
        self._file: io.FileIO | None = None
        self._position = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, or all bytes if ``size`` is negative.

        Raises CaptureError if the file is unreadable.
        """
        if self.closed:
            raise ValueError("I/O operation on closed file")
        try:
            data = self._opened().read(size) or b""
        except OSError as error:
            raise CaptureError(f"{self._path}: {reason_of(error)}") from None
        self._position += len(data)
        if size < 0 or (size and not data):
            self.release()
        return data

    def _opened(self) -> io.FileIO:
        if self._file is None:
            self._slot.take(self)
            # The reader has a buffer; a second buffer would only add a copy.
            self._file = self._path.open("rb", buffering=0)
            self._file.seek(self._position)
        return self._file

    def release(self) -> None:
        """Close the file descriptor; the next read reopens the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the offset of the next read, which opens the file if necessary."""
        if whence != os.SEEK_SET:
            raise io.UnsupportedOperation("only from the beginning")
        self.release()
        self._position = offset
        return offset

    def tell(self) -> int:
        """Return the offset of the next read, whether the file is open or not."""
        return self._position

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True, because the file is regular."""
        return True

    def close(self) -> None:
        """Close the file. It cannot be read afterwards."""
        self.release()
        super().close()


def reason_of(error: OSError) -> str:
    """Return the operating system's error as the end of a sentence."""
    return (error.strerror or str(error)).lower()
