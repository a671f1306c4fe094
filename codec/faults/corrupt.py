"""Corruption of one bit of a frame: in the payload or the checksum, or in the command if the frame has neither.

The bit depends only on the frame: it is the lowest bit of the payload's last byte. If the payload is empty, it is the
lowest bit of the checksum, or of the command's last byte if there is no checksum.
"""

from __future__ import annotations

from pcli.codec.wire.frame import Frame


def corrupted(frame: Frame) -> bytes:
    """Return the bytes of a whole frame with one bit inverted. The lengths are unchanged."""
    parts = frame.parts
    if parts.payload_end > parts.payload_start >= 0:
        place = parts.payload_end - 1
    elif parts.checksum is not None:
        place = parts.checked_start - 1
    else:
        place = parts.command_end - 1
    data = bytearray(frame.data)
    data[max(place, min(8, len(data) - 1))] ^= 1
    return bytes(data)
