"""Compression and bounded decompression for the four compression types.

Rules of this file
1. The decompressed size is known in advance (``uncompressed_size`` in the metadata), so every decoder writes into a
   buffer of that size. A different actual size is a Problem.
2. Sizes are compared with a limit before a buffer is allocated, because the compression library aborts the process if
   an allocation fails.
3. The formats are those of the Java client (CompressionCodecLZ4, …ZLib, …Zstd, …Snappy). LZ4 is one raw block without a
   size prefix. ZLIB has its two-byte header; the Java client writes a flush instead of the end of the stream. ZSTD is
   one frame. SNAPPY is the raw format without framing. The Rust client writes SNAPPY with framing, which no other
   client can read; this module reads it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

import cramjam
from google.protobuf.unknown_fields import UnknownFieldSet

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

MAX_UNCOMPRESSED: Final = 32 * 1024 * 1024
"""Default limit on decompressed bytes: over six times the default ``maxMessageSize``, because brokers may have a higher
setting. A client refuses messages larger than CONNECTED.max_message_size."""

_COMPRESSION_FIELD: Final = pb.MessageMetadata.DESCRIPTOR.fields_by_name["compression"].number


class _Codec(NamedTuple):
    """One compression type."""

    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]
    """Function of (compressed, expected size) that returns at most that many bytes, or raises an error in _ERRORS."""


def _into(decoder: Callable[[bytes, bytearray], int]) -> Callable[[bytes, int], bytes]:
    def decompress(data: bytes, size: int) -> bytes:
        out = bytearray(size)
        written = decoder(data, out)
        return bytes(memoryview(out)[:written])

    return decompress


def _unzip(data: bytes, size: int) -> bytes:
    # One byte more than expected reveals excess data; zlib treats 0 as "no limit".
    inflater = zlib.decompressobj()
    out = inflater.decompress(data, size + 1)
    if len(out) == size and not inflater.eof and not data.endswith(_SYNC_FLUSH):
        raise zlib.error("the stream has no end")
    return out


_SYNC_FLUSH: Final = b"\x00\x00\xff\xff"
"""The last bytes of a zlib flush: an empty stored block. The Java client writes this block instead of the end of the
stream, so there is no checksum."""


def _unsnap(data: bytes, out: bytearray) -> int:
    if data.startswith(_SNAPPY_FRAMES):
        return int(cramjam.snappy.decompress_into(data, out))
    return int(cramjam.snappy.decompress_raw_into(data, out))


_SNAPPY_FRAMES: Final = b"\xff\x06\x00\x00sNaPpY"
"""The stream identifier of the framing format. In the raw format these bytes would be an invalid copy from before the
start of the output, so the two formats are distinguishable."""

_CODECS: Final[dict[int, _Codec]] = {
    pb.LZ4: _Codec(
        lambda data: bytes(cramjam.lz4.compress_block(data, store_size=False)),
        _into(lambda data, out: int(cramjam.lz4.decompress_block_into(data, out, output_len=len(out)))),
    ),
    pb.ZLIB: _Codec(zlib.compress, _unzip),
    pb.ZSTD: _Codec(
        lambda data: bytes(cramjam.zstd.compress(data)),
        _into(lambda data, out: int(cramjam.zstd.decompress_into(data, out))),
    ),
    pb.SNAPPY: _Codec(lambda data: bytes(cramjam.snappy.compress_raw(data)), _into(_unsnap)),
}

_ERRORS: Final = (cramjam.DecompressionError, zlib.error)


def compression_kind(metadata: pb.MessageMetadata) -> int:
    """Return the number of the compression type, even if it is unknown.

    protobuf (proto2) stores an unknown enum value as an unknown field, and the field itself reads as NONE, which would
    mean an uncompressed payload.
    """
    kind: int = metadata.compression
    if kind == pb.NONE:
        for field in UnknownFieldSet(metadata):  # type: ignore[attr-defined]  # the stubs lack the iterator
            if field.field_number == _COMPRESSION_FIELD and field.wire_type == 0:
                kind = int(field.data)
    return kind


def decompress(kind: int, data: bytes, size: int, limit: int = MAX_UNCOMPRESSED) -> bytes | Problem:
    """Decompress ``data`` to ``size`` bytes. Return a Problem if the size is wrong or exceeds ``limit``.

    ``kind`` is a number of pb.CompressionType. Uncompressed data is returned unchanged.
    """
    if kind == pb.NONE:
        return data
    codec = _CODECS.get(kind)
    if codec is None:
        return Problem("compression", f"type {kind} is not known")
    name = pb.CompressionType.Name(kind)  # type: ignore[arg-type]  # a key of the table is one of its values
    if size > limit:
        return Problem("compression", f"{name}: {size} bytes are announced, but at most {limit} are decompressed")
    if not data and not size:
        return b""
    try:
        out = codec.decompress(data, size)
    except _ERRORS as error:
        return Problem("compression", f"{name}: {len(data)} bytes do not decompress to {size}: {_one_line(error)}")
    if len(out) != size:
        more = "at least " if len(out) > size else ""
        return Problem(
            "compression", f"{name}: {len(data)} bytes decompress to {more}{len(out)}, but {size} are announced"
        )
    return out


def compress(kind: int, data: bytes) -> bytes:
    """Compress ``data``. Raise LocalError for an unknown type. The caller stores the original size in the metadata."""
    if kind == pb.NONE:
        return data
    codec = _CODECS.get(kind)
    if codec is None:
        raise LocalError(f"compression type {kind} is not known")
    return codec.compress(data)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
