"""Bytes of a capture file in pieces, unpacked on the way.

Rules of this file
1. What a file is, its first bytes say, never its name: gzip, zstd, or the capture itself.
2. Memory does not grow with the file: pieces of at most CHUNK bytes come in, and unpacked ones of about that go out.
3. Damage ends the pieces. What unpacks before it is delivered first; ``Source.error`` then says what was wrong, with
   the offset in the packed file. A checksum that is wrong costs nothing: all is delivered, and then it is told.
4. A file object that gives one byte per read is as good as any other, only slower.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

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


class _Gunzip:
    """RFC 1952, with any number of members one behind the other."""

    def __init__(self) -> None:
        self._engine: Any = None
        """What unpacks the current member; None between members."""
        self._left = 0
        """Bytes of a wrong trailer that are still to come."""
        self._wrong: CaptureError | None = None
        """The first wrong trailer: all its bytes are there, so it is told at the end."""

    def feed(self, piece: bytes, position: int) -> Iterator[bytes]:
        """What the packed bytes at this offset of the file unpack to."""
        end = position + len(piece)
        more = False
        while piece or more:
            if self._left:
                skipped = min(self._left, len(piece))
                piece, self._left = piece[skipped:], self._left - skipped
                continue
            if self._engine is None:
                piece = piece.lstrip(b"\0")  # tapes and block devices pad with zeros
                if not piece:
                    return
                self._engine = zlib.decompressobj(wbits=31)
            # An engine that meets damage keeps for itself what it has unpacked up to there.
            before = self._engine.copy()
            try:
                out = self._engine.decompress(piece, CHUNK)
            except zlib.error as error:
                out, taken = _until_damage(before, piece)
                piece = piece[taken:]
                if out:
                    yield out
                self._damage(str(error), end - len(piece))
                piece, more = piece[1:], False
                continue
            more = len(out) == CHUNK and not self._engine.eof
            piece = self._engine.unused_data if self._engine.eof else self._engine.unconsumed_tail
            if self._engine.eof:
                self._engine = None
            if out:
                yield out

    def _damage(self, text: str, offset: int) -> None:
        """The end, but for a wrong trailer, which tells of bytes that were delivered."""
        trailer = next((left for sign, left in _WRONG_TRAILERS.items() if sign in text), None)
        if trailer is None:
            raise self._wrong or CaptureError(f"the gzip data is damaged: {text}", offset) from None
        self._engine, self._left = None, trailer
        if self._wrong is None:
            what = "the gzip data is damaged: its checksum or size does not match the decompressed data"
            self._wrong = CaptureError(what, offset)

    def end(self, position: int) -> None:
        """The file ends at this offset; CaptureError when something was wrong."""
        if self._wrong is not None:
            raise self._wrong
        if self._engine is not None:
            raise CaptureError("the gzip data ends early: the file is truncated or still being written", position)


_WRONG_TRAILERS: Final = {"incorrect data check": 4, "incorrect length check": 0}
"""What zlib says of a wrong trailer, and how many bytes of it are then left: it is CRC-32 and size."""


def _until_damage(engine: Any, piece: bytes) -> tuple[bytes, int]:
    """What unpacks of a piece that is damaged somewhere, and how many of its bytes that takes."""
    parts = []
    for place in range(len(piece)):
        try:
            parts.append(engine.decompress(piece[place : place + 1]))
        except zlib.error:
            return b"".join(parts), place
    return b"".join(parts), len(piece)


def _gunzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    engine, position = _Gunzip(), 0
    for piece in pieces:
        yield from engine.feed(piece, position)
        position += len(piece)
    engine.end(position)
