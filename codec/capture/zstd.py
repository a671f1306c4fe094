"""Zstandard decompression, frame by frame, in bounded memory (RFC 8878).

Rules of this file
1. The required compression library (cramjam) decompresses only whole frames. This module therefore reads frames block
   by block, to determine an upper bound of their size before decompression and to reject decompression bombs.
2. A frame above FRAME_LIMIT needs a streaming decompressor: the standard library's (Python 3.14), or pyarrow's if it
   is installed. If neither is available, the error names the remedy.
3. From a truncated or damaged frame, the content of the whole blocks before the damage is returned. If only the
   checksum or the size is wrong, all content is returned and the error follows at the end. Offsets refer to the
   compressed file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Final

from pcli.codec.capture.chunk_stream import ChunkStream, StreamEndedError
from pcli.codec.errors import CaptureError

FRAME_LIMIT: Final = 64 * 1024 * 1024
"""Maximum size in bytes, compressed and decompressed, of a frame that is decompressed at once."""

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_BLOCK: Final = 128 * 1024
"""Maximum size of a decompressed block."""
_STEP: Final = 256 * 1024
_READ_SIZE: Final = 16 * 1024
_SIP: Final = 4 * 1024


class _Frame:
    """A partly read frame: its header and its blocks so far."""

    def __init__(self, source: ChunkStream) -> None:
        descriptor = source.take(1)[0]
        single = descriptor >> 5 & 1
        self.raw = [_MAGIC, bytes([descriptor])]
        self.window = b"" if single else source.take(1)
        self.raw.append(self.window)
        self.dictionary = source.take((0, 1, 2, 4)[descriptor & 3])
        field = source.take((single, 2, 4, 8)[descriptor >> 6])
        self.raw += [self.dictionary, field]
        self.content = int.from_bytes(field, "little") + (256 if len(field) == 2 else 0)
        self.checked = descriptor >> 2 & 1
        self.single = single
        self.blocks: list[bytes] = []
        self.packed = self.bound = 0

    def pull(self, source: ChunkStream) -> bool:
        """Read one block. Return True if it is the last."""
        head = source.take(3)
        bits = int.from_bytes(head, "little")
        kind, size = bits >> 1 & 3, bits >> 3
        if kind == 3 or size > _BLOCK:
            raise CaptureError("the zstd data is damaged: a block header is invalid", source.position - 3)
        body = source.take(1 if kind == 1 else size)
        self.blocks.append(head + body)
        self.packed += len(body) + 3
        self.bound += size if kind < 2 else _BLOCK
        return bool(bits & 1)

    def cut(self, count: int) -> bytes:
        """Return a frame of the first ``count`` blocks, without size and checksum, with the last block marked."""
        if not count:
            return b""
        descriptor = b"\0"
        window = self.window or bytes([max(0, (max(self.content, 1024) - 1).bit_length() - 10) << 3])
        last = bytes([self.blocks[count - 1][0] | 1]) + self.blocks[count - 1][1:]
        return b"".join([_MAGIC, descriptor, window, *self.blocks[: count - 1], last])

    def decompress_undamaged(self) -> tuple[memoryview, int]:
        """Decompress the blocks before the first damaged block. Return the content and the number of blocks."""
        whole = _unpack(self.cut(len(self.blocks)), self.bound)
        if whole is not None:
            return whole, len(self.blocks)
        found, low, high = memoryview(b""), 0, len(self.blocks) - 1
        while low < high:
            middle = (low + high + 1) // 2
            part = _unpack(self.cut(middle), self.bound)
            if part is None:
                high = middle - 1
            else:
                found, low = part, middle
        return found, low

    def place(self, count: int) -> int:
        """Return the offset after the first ``count`` blocks, from the start of the frame."""
        return sum(map(len, self.raw)) + sum(map(len, self.blocks[:count]))


def unzstd(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the decompressed bytes. Raise CaptureError after the last good byte if the data is damaged or truncated."""
    source = ChunkStream(pieces)
    wrong: CaptureError | None = None
    while not source.ended():
        try:
            deferred = yield from _one(source, source.position)
        except StreamEndedError:
            end = source.position + len(source.rest)
            cut = CaptureError("the zstd data ends early: the file is truncated or still being written", end)
            raise (wrong or cut) from None
        except CaptureError as error:
            raise (wrong or error) from None
        wrong = wrong or deferred
    if wrong is not None:
        raise wrong


def _one(source: ChunkStream, start: int) -> Generator[bytes, None, CaptureError | None]:
    """Yield one frame's content, or skip a skippable frame. Return a deferred error if all content was yielded."""
    magic = source.take(4)
    if magic[0] & 0xF0 == 0x50 and magic[1:] == b"\x2a\x4d\x18":
        left = int.from_bytes(source.take(4), "little")
        while left:
            left -= len(source.take(min(left, _STEP)))
        return None
    if magic != _MAGIC:
        raise CaptureError("the zstd data is damaged: no frame begins here", start)
    frame = _Frame(source)
    if any(frame.dictionary):
        raise CaptureError("the zstd data needs a dictionary: decompress the file first (zstd -d -D)", start)
    try:
        last = False
        while not last and frame.bound <= FRAME_LIMIT:
            last = frame.pull(source)
        large = frame.bound > FRAME_LIMIT
        tail = source.take(4) if frame.checked and not large else b""
    except (StreamEndedError, CaptureError):
        yield from _undamaged(frame, start)
        raise
    if large:
        yield from _stream(_Again(frame, source))
        return None
    whole = _unpack(b"".join([*frame.raw, *frame.blocks, tail]), frame.bound)
    if whole is not None:
        yield from _pack(whole)
        return None
    yield from _undamaged(frame, start)
    what = "the zstd data is damaged: the checksum or size of a frame does not match the decompressed data"
    return CaptureError(what, start + frame.place(len(frame.blocks)))


def _undamaged(frame: _Frame, start: int) -> Iterator[bytes]:
    """Yield the good part of a damaged frame. Raise CaptureError at the damaged block."""
    data, count = frame.decompress_undamaged()
    yield from _pack(data)
    if count < len(frame.blocks):
        raise CaptureError("the zstd data is damaged: a block cannot be decompressed", start + frame.place(count))


def _pack(data: memoryview) -> Iterator[bytes]:
    for position in range(0, len(data), _STEP):
        yield bytes(data[position : position + _STEP])


def _unpack(data: bytes, bound: int) -> memoryview | None:
    """Decompress a whole frame with cramjam into a buffer of ``bound`` bytes. Return None if it is damaged."""
    import cramjam

    out = bytearray(bound)
    try:
        size = cramjam.zstd.decompress_into(data, out) if data else 0
    except (cramjam.DecompressionError, OSError, ValueError):
        return None
    return memoryview(out)[:size]


class _Again:
    """A file with the bytes of a partly read frame and all data after it."""

    closed = False

    def __init__(self, frame: _Frame, source: ChunkStream) -> None:
        self._piece = b"".join([*frame.raw, *frame.blocks])
        self._place = 0
        self._source = source

    def read(self, size: int = _SIP) -> bytes:
        """Return at most ``size`` bytes. Reads are small because a decompressor loses the output of a damaged chunk."""
        if self._place >= len(self._piece):
            if self._source.ended():
                return b""
            self._piece, self._place = self._source.take(len(self._source.rest)), 0
        start = self._place
        self._place = min(start + min(size, _SIP), len(self._piece))
        return self._piece[start : self._place]

    @property
    def position(self) -> int:
        """Offset of the next read in the compressed file."""
        return self._source.position - len(self._piece) + self._place

    def close(self) -> None:
        """Do nothing; decompressors call this method."""


def _stream(file: _Again) -> Iterator[bytes]:
    """Decompress a large frame and all data after it with a streaming decompressor."""
    opened = _stdlib(file) or _arrow(file)
    if opened is None:
        raise CaptureError(
            f"a zstd frame of more than {FRAME_LIMIT >> 20} MB: decompress the file first (zstd -d), or install "
            "pyarrow",
            file.position,
        )
    parts: list[bytes] = []
    damage: Exception | None = None
    try:
        # Reads are small because the output of a read with damaged data is lost.
        while piece := opened.read(_READ_SIZE):
            parts.append(piece)
            if len(parts) * _READ_SIZE >= _STEP:
                yield b"".join(parts)
                parts.clear()
    except (OSError, EOFError, ValueError) as error:
        damage = error
    if parts:
        yield b"".join(parts)
    if damage is not None:
        raise CaptureError(f"the zstd data is damaged or ends early: {damage}", file.position)


def _stdlib(file: _Again) -> Any:
    """Return the decompressor of Python 3.14, or None in earlier versions."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    return zstd.ZstdFile(file)


def _arrow(file: _Again) -> Any:
    """Return the decompressor of pyarrow, or None if it is not installed."""
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return None
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")
