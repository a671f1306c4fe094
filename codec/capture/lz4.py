"""LZ4 decompression, block by block, in bounded memory (the frame format of LZ4, and the legacy format before 1.4).

Rules of this file
1. The required compression library (cramjam) decompresses whole frames and single blocks. This module reads the frames
   and decompresses each block.
2. A block may refer to the 64 KB before it. They are given to the library as a prefix of the block, in the block
   format: the last four bytes and the bytes before them as literals, and a match that copies the four bytes. The bytes
   before the content of the block are then the bytes that it refers to.
3. Checksums are not verified, because no required library computes them. Damage is found if a block does not
   decompress, or by the reader of the capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.capture.chunk_stream import ChunkStream, StreamEndedError
from pcli.codec.errors import CaptureError

_MAGIC: Final = b"\x04\x22\x4d\x18"
_LEGACY: Final = b"\x02\x21\x4c\x18"
_LEGACY_BLOCK: Final = 8 << 20
_HISTORY: Final = 64 * 1024 - 1
"""Maximum distance of a match."""
_DAMAGED: Final = "the lz4 data is damaged"


def unlz4(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress chunks of all frames. Raise CaptureError at damage or at an incomplete frame."""
    source = ChunkStream(pieces)
    try:
        while not source.ended():
            magic = source.take(4)
            if magic == _MAGIC:
                yield from _frame(source)
            elif magic == _LEGACY:
                yield from _legacy(source)
            elif magic[0] & 0xF0 == 0x50 and magic[1:] == b"\x2a\x4d\x18":  # a skippable frame
                source.take(int.from_bytes(source.take(4), "little"))
            elif magic.strip(b"\0"):
                raise CaptureError(f"{_DAMAGED}: no frame begins here", source.position - 4)
    except StreamEndedError:
        text = "the lz4 data ends early: the file is truncated or still being written"
        raise CaptureError(text, source.position) from None


def _frame(source: ChunkStream) -> Iterator[bytes]:
    flags, size = source.take(2)
    largest = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}.get(size >> 4 & 7, 0)
    if flags >> 6 != 1 or not largest:
        raise CaptureError(f"{_DAMAGED}: the header of a frame is invalid", source.position - 2)
    source.take(8 * (flags >> 3 & 1) + 4 * (flags & 1) + 1)  # the size of the content, the dictionary, a checksum
    history = b""
    while length := int.from_bytes(source.take(4), "little"):
        packed, at = source.take(length & 0x7FFFFFFF) if length & 0x7FFFFFFF <= largest else b"", source.position
        source.take(4 * (flags >> 4 & 1))
        data = packed if length >> 31 else _block(packed, largest, history, at)
        if not flags & 0x20:
            history = (history + data)[-_HISTORY:]
        yield data
    source.take(4 * (flags >> 2 & 1))


def _legacy(source: ChunkStream) -> Iterator[bytes]:
    while not source.ended():
        length = int.from_bytes(source.take(4), "little")
        if length > _LEGACY_BLOCK * 2:
            raise CaptureError(f"{_DAMAGED}: a block of {length} bytes", source.position - 4)
        yield _block(source.take(length), _LEGACY_BLOCK, b"", source.position)


def _block(packed: bytes, largest: int, history: bytes, position: int) -> bytes:
    """Decompress a block. ``position`` is the offset after it in the file."""
    import cramjam  # imported late: few captures are compressed, and the library takes 2 MB

    prefix = _as_sequence(history) if len(history) >= 4 else b""
    before = len(history) + 4 if prefix else 0
    whole = bytearray(before + largest)
    try:
        size = cramjam.lz4.decompress_block_into(prefix + packed, whole)
    except cramjam.DecompressionError as error:
        raise CaptureError(f"{_DAMAGED}: {error}", position - len(packed)) from None
    return bytes(whole[before:size])


def _as_sequence(history: bytes) -> bytes:
    """Return a sequence of the block format that produces four bytes and the history."""
    literals = history[-4:] + history[:-4]
    count, rest = divmod(len(literals) - 15, 255)
    length = b"\xf0" + b"\xff" * count + bytes([rest]) if count >= 0 else bytes([len(literals) << 4])
    return length + literals + len(literals).to_bytes(2, "little")
