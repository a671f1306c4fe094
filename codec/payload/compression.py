"""The four compressions, both ways, with a bound on what comes out.

Rules of this file
1. The size that a payload opens to is known beforehand (``uncompressed_size`` of the metadata), so every decoder
   writes into a buffer of that size. One that wants to write more, or writes less, has been lied to: a Problem.
2. No buffer is made before its size is below a limit. The wheel that does the work aborts the process when it is
   asked for a size that memory has not.
3. The forms are those of the Java client (CompressionCodecLZ4, …ZLib, …Zstd, …Snappy): LZ4 is one raw block without
   a size in front, ZLIB has its two-byte header (and of the Java client a flush in place of its end), ZSTD is a
   frame, SNAPPY is the raw format without framing. The Rust client writes SNAPPY with framing, which no other client
   reads; here it is read too.
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

__all__ = ["MAX_UNCOMPRESSED", "compress", "compression_kind", "decompress"]

MAX_UNCOMPRESSED: Final = 32 * 1024 * 1024
"""Bytes that a payload may open to unless the caller says otherwise: six times the default ``maxMessageSize``, so
that brokers with a raised one are read too. A client refuses what is above CONNECTED.max_message_size."""

_COMPRESSION_FIELD: Final = pb.MessageMetadata.DESCRIPTOR.fields_by_name["compression"].number


class _Codec(NamedTuple):
    """One kind of compression."""

    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]
    """(compressed, expected size) to what came out, of that size or shorter; or an error of _ERRORS."""


def _into(decoder: Callable[[bytes, bytearray], int]) -> Callable[[bytes, int], bytes]:
    def decompress(data: bytes, size: int) -> bytes:
        out = bytearray(size)
        written = decoder(data, out)
        return bytes(memoryview(out)[:written])

    return decompress


def _unzip(data: bytes, size: int) -> bytes:
    # One byte more than expected shows that there is more; zlib takes 0 for "no limit".
    inflater = zlib.decompressobj()
    out = inflater.decompress(data, size + 1)
    if len(out) == size and not inflater.eof and not data.endswith(_SYNC_FLUSH):
        raise zlib.error("the stream has no end")
    return out


_SYNC_FLUSH: Final = b"\x00\x00\xff\xff"
"""The last bytes of what zlib flushes: an empty stored block. The Java client writes that and never ends the stream,
so there is no check sum either."""


def _unsnap(data: bytes, out: bytearray) -> int:
    if data.startswith(_SNAPPY_FRAMES):
        return int(cramjam.snappy.decompress_into(data, out))
    return int(cramjam.snappy.decompress_raw_into(data, out))


_SNAPPY_FRAMES: Final = b"\xff\x06\x00\x00sNaPpY"
"""The stream identifier of the framing format. In the raw format these bytes copy from before the beginning, so
nothing is taken for the other."""

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
    pb.SNAPPY: _Codec(
        lambda data: bytes(cramjam.snappy.compress_raw(data)),
        _into(_unsnap),
    ),
}

_ERRORS: Final = (cramjam.DecompressionError, zlib.error)


def compression_kind(metadata: pb.MessageMetadata) -> int:
    """The number of the compression, also one that no known protocol has.

    protobuf (proto2) puts an enum value that it does not know among the unknown fields, and the field then reads as
    NONE: a payload of a newer kind would be shown as if it were plain.
    """
    kind: int = metadata.compression
    if kind == pb.NONE:
        for field in UnknownFieldSet(metadata):  # type: ignore[attr-defined]  # the stubs lack the iterator
            if field.field_number == _COMPRESSION_FIELD and field.wire_type == 0:
                kind = int(field.data)
    return kind


def decompress(kind: int, data: bytes, size: int, limit: int = MAX_UNCOMPRESSED) -> bytes | Problem:
    """Open ``data``, which the metadata says to be ``size`` bytes; a Problem when that is no truth or above ``limit``.

    ``kind`` is a number of pb.CompressionType; what is not compressed comes back as it is.
    """
    if kind == pb.NONE:
        return data
    codec = _CODECS.get(kind)
    if codec is None:
        return Problem("compression", f"type {kind} is not known")
    name = pb.CompressionType.Name(kind)  # type: ignore[arg-type]  # a key of the table is one of its values
    if size > limit:
        return Problem("compression", f"{name}: {size} bytes are announced, at most {limit} are decompressed")
    if not data and not size:
        return b""
    try:
        out = codec.decompress(data, size)
    except _ERRORS as error:
        return Problem("compression", f"{name}: {len(data)} bytes do not open to {size}: {_one_line(error)}")
    if len(out) != size:
        more = "at least " if len(out) > size else ""
        return Problem("compression", f"{name}: {len(data)} bytes open to {more}{len(out)}, {size} are announced")
    return out


def compress(kind: int, data: bytes) -> bytes:
    """Close ``data``; LocalError for a kind that is not known. The caller writes its size into the metadata."""
    if kind == pb.NONE:
        return data
    codec = _CODECS.get(kind)
    if codec is None:
        raise LocalError(f"compression type {kind} is not known")
    return codec.compress(data)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
