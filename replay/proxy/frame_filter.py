"""A filter for one direction of a connection. It decodes only frames of some types; all other frames pass as bytes.

Rules of this file
1. Only the lengths and the type are parsed. The type is in the first two bytes of the command, where all encoders write
   it. A frame of an unrequested type is neither copied nor held: its bytes pass as they arrive.
2. A frame of a requested type is held until it is complete. A frame above the size limit passes unchanged.
3. Bytes that are not frames, and all bytes after them, pass unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from struct import Struct
from typing import Final

_lengths = Struct(">II").unpack_from
_HEAD: Final = 10
"""Number of bytes that contain the two lengths and the type field."""
_TYPE_KEY: Final = 8
"""The key of the type field: field 1, a varint."""
_LARGEST_HELD: Final = 1 << 16
"""Size limit for held frames. Frames that contain a broker's address are far smaller."""


class FrameFilter:
    """A filter of a byte stream."""

    def __init__(self, types: Container[int], change: Callable[[bytes], bytes]) -> None:
        """``change`` receives each whole frame of these types and returns its replacement."""
        self._types = types
        self._change = change
        self._rest = 0
        """Number of bytes that remain of a frame that passes unchanged."""
        self._held = b""
        self._not_frames = False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that can be forwarded now."""
        size = len(data)
        if self._rest >= size:  # the middle of a large frame, which is the most frequent case
            self._rest -= size
            return data
        if self._not_frames:
            return data
        if self._held:
            data, self._held = self._held + data, b""
        return self._cut(data)

    def end(self) -> bytes:
        """Return the held bytes at the end of the stream."""
        data, self._held = self._held, b""
        return data

    def _cut(self, data: bytes) -> bytes:
        size, position, kept, types = len(data), self._rest, 0, self._types
        out: list[bytes] = []
        while size - position >= _HEAD:
            total, command = _lengths(data, position)
            if total < 6 or command > total - 4:
                self._not_frames = True
                position = size
                break
            end = position + 4 + total
            if data[position + 8] == _TYPE_KEY and data[position + 9] in types and total < _LARGEST_HELD:
                if end > size:
                    break
                out += (data[kept:position], self._change(data[position:end]))
                kept = end
            position = end
        self._rest = max(0, position - size)
        if position < size:
            self._held = data[position:]
            out.append(data[kept:position])
        elif not out:
            return data
        else:
            out.append(data[kept:])
        return b"".join(out)
