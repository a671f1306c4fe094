"""Assembly of frames from chunks of bytes, for one direction of one connection.

Rules of this file
1. An incomplete frame is normal: `feed` returns the frames that are now complete, possibly none.
2. Only a length that no valid frame can have ends the stream. ``error`` is then set, with the offset, and no further
   bytes are read. The frames before that offset are returned. A peer closes the connection in this case; the broker's
   frame decoder does so as soon as it has the length prefix.
3. The frames do not depend on how the bytes are divided, and the work is linear in the number of bytes: the buffer is
   examined only when the next frame is complete.
"""

from __future__ import annotations

from struct import Struct

from pcli.codec.errors import RemoteError
from pcli.codec.wire.constants import MAX_FRAME_SIZE
from pcli.codec.wire.frame import Frame, pull_type

_u32 = Struct(">I").unpack_from


class FrameReader:
    """A splitter of one direction of a connection into frames."""

    __slots__ = ("_buffer", "_needed", "error", "max_frame_size", "offset")

    def __init__(self, max_frame_size: int = MAX_FRAME_SIZE) -> None:
        self.max_frame_size = max_frame_size
        """Size of the largest frame in bytes, prefix included. A client sets it from CONNECTED."""
        self.offset = 0
        """Total bytes of the frames returned so far: the offset of the next frame in the stream."""
        self.error: RemoteError | None = None
        """The reason why the stream cannot continue, or None."""
        self._buffer = bytearray()
        self._needed = 8

    @property
    def pending(self) -> int:
        """Number of buffered bytes of an incomplete frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """Add the next bytes of the stream and return the frames that are now complete, in order."""
        if self.error is not None:
            return []
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        frames, position = self._cut(data)
        self.offset += position
        if position < len(data) and self.error is None:
            self._buffer += data[position:]
        return frames

    def _cut(self, data: bytes) -> tuple[list[Frame], int]:
        """Return all complete frames at the start of ``data``, and the offset of the rest."""
        frames: list[Frame] = []
        position, size = 0, len(data)
        while size - position >= 4:
            end: int = position + 4 + _u32(data, position)[0]
            if end - position > self.max_frame_size or end - position < 8:
                self._fail(f"a frame of {end - position} bytes; the range is 8 to {self.max_frame_size}", position)
                break
            if size - position >= 8 and position + 8 + _u32(data, position + 4)[0] > end:
                self._fail(f"a command of {_u32(data, position + 4)[0]} bytes in a frame of {end - position}", position)
                break
            if end > size:
                self._needed = end - position
                return frames, position
            whole = data[position:end]
            frames.append(Frame(whole, pull_type(whole, 8, 8 + _u32(whole, 4)[0])))
            position = end
        self._needed = 4
        return frames, position

    def _fail(self, text: str, position: int) -> None:
        self.error = RemoteError(text, self.offset + position)
