"""One bit that is wrong: of the payload, so that the checksum is wrong too, or else of the command.

The same frame is always damaged in the same place: the lowest bit of the last byte. Of an empty payload that is a bit
of the checksum in front of it.
"""

from __future__ import annotations

from pcli.codec.wire.frame import Frame

__all__ = ["corrupted"]


def corrupted(frame: Frame) -> bytes:
    """The bytes of a whole frame with one bit turned over. Its lengths are left alone."""
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
