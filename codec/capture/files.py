"""The decompressed bytes of a capture file, in chunks.

Rules of this file
1. The first bytes of a file, never its name, determine its type: an uncompressed capture, or one of the compression
   formats of `packing_of`.
2. Memory use does not grow with the file: at most CHUNK bytes are read at a time, and decompressed chunks have about
   that size.
3. The chunks end at the first damage. All bytes that can be decompressed are returned first; ``Source.error`` then
   contains the reason, with the offset in the compressed file. A wrong checksum is reported only after all bytes were
   returned.
4. A file object that returns one byte per read is supported but slow.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO, Final

from pcli.codec.capture.lz4 import unlz4
from pcli.codec.capture.zstd import unzstd
from pcli.codec.errors import CaptureError

CHUNK: Final = 256 * 1024
"""Bytes per read. Larger windows do not speed up reading, and all frames of a window are in memory at the same time."""

_STARTS: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zX": "xz",
    b"BZh": "bzip2",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x02\x21\x4c\x18": "lz4",
}
"""Names of compression formats by the first bytes of a file."""

_COMMANDS: Final = {
    b"PK\x03\x04": ("a zip archive", "unzip"),
    b"7z\xbc\xaf": ("a 7z archive", "7z x"),
    b"LZIP": ("compressed with lzip", "lzip -d"),
    b"\x1f\x9d": ("compressed with compress", "uncompress"),
    b"\xff\x06\0\0": ("compressed with snappy", "snzip -d"),
    b"\x5d\0\0": ("compressed with lzma", "unlzma"),
    b"Rar!": ("a rar archive", "unrar x"),
}
"""Formats that are not read, by the first bytes of a file: the text, and the command that decompresses the file."""

_STEP: Final = 4096
"""Number of compressed bytes that are decompressed at a time if the decompressor drops its output at an error."""


class Source:
    """A window that moves forward through chunks of bytes."""

    __slots__ = ("_pieces", "data", "error", "position", "total")

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.data = b""
        """The bytes of the window."""
        self.position = 0
        """Offset of the window in the decompressed file."""
        self.error: CaptureError | None = None
        """The reason why the chunks ended early; None if they did not end early."""

    def fill(self, used: int, needed: int) -> bool:
        """Drop ``used`` bytes and read until the window has ``needed`` bytes. Return False if the file ends earlier."""
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
        """Drop ``used`` bytes and discard the ``count`` bytes after them. Return False if the file ends earlier."""
        while count > len(self.data) - used:
            count -= len(self.data) - used
            self.position += len(self.data)
            self.data, used = self._next(), 0
            if not self.data:
                return False
        return self.fill(used + count, 0)

    def check_end(self, unit: str) -> None:
        """Raise CaptureError if the chunks ended with an error or inside a ``unit`` (packet or block)."""
        if self.error is not None:
            raise self.error
        if self.data:
            place = f"the file ends inside a {unit}, {len(self.data)} bytes after the last {unit}"
            raise CaptureError(f"{place}: it is truncated or still being written", self.position)

    def _next(self) -> bytes:
        """Return the next chunk, or no bytes at the end."""
        try:
            return next(self._pieces, b"")
        except CaptureError as error:
            self.error = error
            self._pieces = iter(())
            return b""


def open_source(file: BinaryIO) -> Source:
    """Return a source of the decompressed capture. Only OSError from the file itself is raised."""
    # read1 returns the available bytes, so a live capture from a pipe does not wait for a full buffer.
    read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)
    head = b""
    while len(head) < 4:
        piece = read(4 - len(head))
        if not piece:
            break
        head += piece
    unpack = _UNPACK.get(packing_of(head))
    pieces = _pieces(head, read)
    return Source(pieces if unpack is None else unpack(pieces))


def packing_of(head: bytes) -> str:
    """Return the name of the compression format of a file, from its first four bytes; empty if it has none."""
    if len(head) >= 4 and head[0] & 0xF0 == 0x50 and head[1:4] == b"\x2a\x4d\x18":
        return "zstd"  # a skippable frame, with which pzstd begins
    return next((name for start, name in _STARTS.items() if head.startswith(start)), "")


def unpacking_hint(head: bytes) -> str:
    """Return how to decompress a file whose compression format is not read; empty for any other file."""
    found = next((value for start, value in _COMMANDS.items() if head.startswith(start)), None)
    return "" if found is None else f"it is {found[0]}: decompress it with `{found[1]}`"


def _pieces(head: bytes, read: Callable[[int], bytes | None]) -> Iterator[bytes]:
    if head:
        yield head
    while piece := read(CHUNK):
        yield piece


class _Gunzip:
    """A gzip decompressor (RFC 1952) for any number of concatenated members."""

    def __init__(self) -> None:
        self._engine: Any = None
        """The decompressor of the current member; None between members."""
        self._left = 0
        """Number of bytes of a wrong trailer that must still be skipped."""
        self._wrong: CaptureError | None = None
        """The first wrong trailer. Its member's data is complete, so the error is raised at the end."""

    def feed(self, piece: bytes, position: int) -> Iterator[bytes]:
        """Decompress the bytes at this offset of the compressed file."""
        end = position + len(piece)
        more = False
        while piece or more:
            if self._left:
                skipped = min(self._left, len(piece))
                piece, self._left = piece[skipped:], self._left - skipped
                continue
            if self._engine is None:
                piece = piece.lstrip(b"\0")  # tapes and block devices pad files with zeros
                if not piece:
                    return
                self._engine = zlib.decompressobj(wbits=31)
            # If the data is damaged, zlib discards the output decompressed so far.
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
        """Raise the error, or defer it if only the trailer is wrong: the member's data is then complete."""
        trailer = next((left for sign, left in _WRONG_TRAILERS.items() if sign in text), None)
        if trailer is None:
            raise self._wrong or CaptureError(f"the gzip data is damaged: {text}", offset) from None
        self._engine, self._left = None, trailer
        if self._wrong is None:
            what = "the gzip data is damaged: its checksum or size does not match the decompressed data"
            self._wrong = CaptureError(what, offset)

    def end(self, position: int) -> None:
        """Handle the end of the file. Raise CaptureError for a deferred error or an incomplete member."""
        if self._wrong is not None:
            raise self._wrong
        if self._engine is not None:
            raise CaptureError("the gzip data ends early: the file is truncated or still being written", position)


_WRONG_TRAILERS: Final = {"incorrect data check": 4, "incorrect length check": 0}
"""zlib's messages for a wrong trailer (CRC-32 and size), and the number of trailer bytes left after the error."""


def _until_damage(engine: Any, piece: bytes) -> tuple[bytes, int]:
    """Decompress a damaged chunk up to the damage. Return the output and the number of bytes used."""
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


def _decompressed(name: str, new: Callable[[], Any], pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress chunks with a decompressor of the standard library, stream by stream."""
    engine, position = None, 0
    for piece in pieces:
        for start in range(0, len(piece), _STEP):
            rest = piece[start : start + _STEP]
            while rest or (engine is not None and not engine.needs_input):
                if engine is None:
                    rest = rest.lstrip(b"\0")  # padding between streams
                    if not rest:
                        break
                    engine = new()
                try:
                    out = engine.decompress(rest, CHUNK)
                except (OSError, ValueError, lzma.LZMAError) as error:
                    raise CaptureError(f"the {name} data is damaged: {error}", position + start) from None
                rest = engine.unused_data
                if engine.eof:
                    engine = None
                if out:
                    yield out
        position += len(piece)
    if engine is not None:
        raise CaptureError(f"the {name} data ends early: the file is truncated or still being written", position)


_UNPACK: Final[dict[str, Callable[[Iterator[bytes]], Iterator[bytes]]]] = {
    "gzip": _gunzip,
    "zstd": unzstd,
    "xz": partial(_decompressed, "xz", lzma.LZMADecompressor),
    "bzip2": partial(_decompressed, "bzip2", bz2.BZ2Decompressor),
    "lz4": unlz4,
}
"""Decompressors by the name of the format."""
