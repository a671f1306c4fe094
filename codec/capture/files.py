"""Bytes of a capture file in pieces, unpacked on the way.

Rules of this file
1. What a file is, its first bytes say, never its name: gzip, zstd, or the capture itself.
2. Memory does not grow with the file: pieces of at most CHUNK bytes come in, and unpacked ones of about that go out.
3. Damage ends the pieces. What came before it is delivered first; ``Source.error`` then says what was wrong.
4. A file object that gives one byte per read is as good as any other, only slower.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from pcli.codec.capture.zst import unzstd
from pcli.codec.errors import CaptureError

__all__ = ["CHUNK", "Source", "open_source"]

CHUNK: Final = 256 * 1024
"""Bytes read at once. Larger windows are no faster, and all frames of a window are alive at once."""

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class Source:
    """A window over pieces of bytes that moves forward."""

    __slots__ = ("_pieces", "data", "error", "position", "total")

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.data = b""
        """The window."""
        self.position = 0
        """Where the window begins, in the bytes of the (unpacked) file."""
        self.error: CaptureError | None = None
        """Why the pieces ended; None: by the end of the file, or not yet."""

    def fill(self, used: int, needed: int) -> bool:
        """Drop the first ``used`` bytes of the window, and get at least ``needed``. False: the file ends before."""
        rest = self.data[used:]
        self.position += used
        parts, size = [rest], len(rest)
        while size < needed:
            piece = self._next()
            if not piece:
                break
            parts.append(piece)
            size += len(piece)
        self.data = rest if len(parts) == 1 else b"".join(parts)
        return size >= needed

    def skip(self, used: int, count: int) -> bool:
        """Drop ``used`` bytes and the ``count`` behind them without keeping these. False: the file ends before."""
        while count > len(self.data) - used:
            count -= len(self.data) - used
            self.position += len(self.data)
            self.data, used = self._next(), 0
            if not self.data:
                return False
        return self.fill(used + count, 0)

    def _next(self) -> bytes:
        """The next piece; empty at the end."""
        try:
            return next(self._pieces, b"")
        except CaptureError as error:
            self.error = error
            self._pieces = iter(())
            return b""


def open_source(file: BinaryIO) -> Source:
    """A source of the capture's own bytes, whatever it is packed in. Nothing but OSError of the file's own leaves."""
    # read1 gives what is there: a live capture in a pipe should not wait for a full buffer.
    read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)
    head = b""
    while len(head) < 4:
        piece = read(4 - len(head))
        if not piece:
            break
        head += piece
    pieces = _pieces(head, read)
    if head.startswith(_GZIP):
        pieces = _gunzip(pieces)
    elif head == _ZSTD or (len(head) == 4 and head[0] & 0xF0 == 0x50 and head[1:] == b"\x2a\x4d\x18"):
        pieces = unzstd(pieces)
    return Source(pieces)


def _pieces(head: bytes, read: Callable[[int], bytes | None]) -> Iterator[bytes]:
    if head:
        yield head
    while piece := read(CHUNK):
        yield piece


def _gunzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """RFC 1952, with any number of members one behind the other."""
    position = 0
    engine = zlib.decompressobj(wbits=31)
    fed = False
    for piece in pieces:
        position += len(piece)
        while piece:
            if engine.eof:
                piece = piece.lstrip(b"\0")  # tapes and block devices pad with zeros
                if not piece:
                    break
                engine, fed = zlib.decompressobj(wbits=31), False
            try:
                out = engine.decompress(piece, CHUNK)
            except zlib.error as error:
                raise CaptureError(f"the gzip data is damaged: {error}", position - len(piece)) from None
            fed = True
            piece = engine.unused_data if engine.eof else engine.unconsumed_tail
            if out:
                yield out
        while not engine.eof and (out := engine.decompress(b"", CHUNK)):
            yield out
    if fed and not engine.eof:
        raise CaptureError("the gzip data ends early: the file is cut or still being written", position)
