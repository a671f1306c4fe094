"""Bytes in pieces in, whole frames out: one direction of one connection.

Rules of this file
1. Running out of bytes is normal: `feed` gives the frames that are whole now, which may be none.
2. Only a length that can never become a frame ends the stream: ``error`` is then set, with the offset, and nothing
   more is read. What came before is delivered. A peer closes the connection over it, as the broker's frame decoder
   does, which fails as soon as the prefix is there.
3. Whole or byte by byte, the frames are the same, and the work is linear in the bytes: the buffer is looked at only
   when the next frame is complete.
"""

from __future__ import annotations

from struct import Struct

from pcli.codec.errors import RemoteError
from pcli.codec.wire.constants import MAX_FRAME_SIZE
from pcli.codec.wire.frame import Frame, pull_type

__all__ = ["FrameReader"]

_u32 = Struct(">I").unpack_from


class FrameReader:
    """Cuts one direction of a connection into frames."""

    __slots__ = ("_buffer", "_needed", "error", "max_frame_size", "offset")

    def __init__(self, max_frame_size: int = MAX_FRAME_SIZE) -> None:
        self.max_frame_size = max_frame_size
        """Bytes of the largest frame, prefix included; a client raises it by what CONNECTED announces."""
        self.offset = 0
        """Bytes of all frames delivered so far: where the next one begins in the stream."""
        self.error: RemoteError | None = None
        """Why the stream can't go on; None while it can."""
        self._buffer = bytearray()
        self._needed = 8

    @property
    def pending(self) -> int:
        """Bytes kept of a frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes of the stream; give the frames that are whole now, in order."""
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
        """All whole frames from the beginning of data, and where the rest begins."""
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
