"""Compression compared with zlib, handwritten bytes from the format documents, and captures of four clients
(test_truth.py)."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.payload.compression import MAX_UNCOMPRESSED, compress, compression_kind, decompress
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

KINDS = [pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]
TEXT = b"a" * 12 + b"bc"

# LZ4 block format: one literal, a match of 7 at distance 1, and the last literals.
LZ4 = bytes([0x13]) + b"a" + b"\x01\x00" + bytes([0x60]) + b"aaaabc"
# Snappy format description: length 14, a literal of 1, a copy of 11 at distance 1, a literal of 2.
SNAPPY = bytes([14, 0 << 2]) + b"a" + bytes([0b000_111_01, 1]) + bytes([1 << 2]) + b"bc"
# RFC 8878: single segment, content size 14; an RLE block of 12 and a raw block of 2, which is the last.
ZSTD = bytes.fromhex("28b52ffd200e") + (12 << 3 | 1 << 1).to_bytes(3, "little") + b"a"
ZSTD += (2 << 3 | 1).to_bytes(3, "little") + b"bc"


def rle_bomb(size: int) -> bytes:
    """RFC 8878: a window of 8 MiB, no content size, blocks of 128 KiB that take four bytes each."""
    block = 128 * 1024
    count = size // block
    blocks = [(block << 3 | 1 << 1 | (index == count - 1)).to_bytes(3, "little") + b"x" for index in range(count)]
    return bytes.fromhex("28b52ffd") + bytes([0, 13 << 3]) + b"".join(blocks)


def snappy_frames(data: bytes) -> bytes:
    """Snappy framing format: stream identifier, then one uncompressed chunk with its masked CRC-32C."""
    crc = google_crc32c.value(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    chunk = masked.to_bytes(4, "little") + data
    return b"\xff\x06\x00\x00sNaPpY" + b"\x01" + len(chunk).to_bytes(3, "little") + chunk


@pytest.mark.parametrize(
    ("kind", "closed"), [(pb.LZ4, LZ4), (pb.SNAPPY, SNAPPY), (pb.ZSTD, ZSTD), (pb.ZLIB, zlib.compress(TEXT))]
)
def test_decompresses_handwritten_data(kind: int, closed: bytes) -> None:
    assert decompress(kind, closed, len(TEXT)) == TEXT


def test_snappy_with_framing_as_the_rust_client_writes_it() -> None:
    assert decompress(pb.SNAPPY, snappy_frames(TEXT), len(TEXT)) == TEXT


def test_zlib_as_the_java_client_writes_it_ends_with_a_flush() -> None:
    written = bytes.fromhex("789cca4d2d2e4e4c4fd53500000000ffff")
    assert decompress(pb.ZLIB, written, 9) == b"message-0"
    assert isinstance(decompress(pb.ZLIB, written, 10), Problem)
    assert isinstance(decompress(pb.ZLIB, written, 8), Problem)
    assert isinstance(decompress(pb.ZLIB, written[:-1], 9), Problem)


def test_zlib_output_equals_zlibs() -> None:
    assert zlib.decompress(compress(pb.ZLIB, TEXT)) == TEXT


@given(kind=st.sampled_from([pb.NONE, *KINDS]), data=st.binary(max_size=3000), times=st.integers(1, 50))
def test_compress_and_decompress(kind: int, data: bytes, times: int) -> None:
    data *= times
    assert decompress(kind, compress(kind, data), len(data)) == data


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lie", [0, 1, 13, 15, 1000])
def test_a_wrong_size_is_a_problem(kind: int, lie: int) -> None:
    problem = decompress(kind, compress(kind, TEXT), lie)
    assert isinstance(problem, Problem)
    assert problem.kind == "compression"
    assert str(lie) in problem.detail
    assert "\n" not in problem.detail


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_stream_is_a_problem(kind: int) -> None:
    closed = compress(kind, bytes(range(256)) * 8)
    for end in (0, 1, len(closed) // 2, len(closed) - 1):
        assert isinstance(decompress(kind, closed[:end], 2048), Problem)


@pytest.mark.parametrize("kind", KINDS)
def test_no_bytes_are_an_empty_payload(kind: int) -> None:
    assert decompress(kind, b"", 0) == b""


def test_an_unknown_type_is_a_problem_or_a_local_error() -> None:
    assert decompress(9, b"x", 1) == Problem("compression", "type 9 is not known")
    with pytest.raises(LocalError, match="type 9"):
        compress(9, b"x")


def test_an_unknown_type_is_not_read_as_none() -> None:
    # protobuf stores an unknown enum value among the unknown fields.
    metadata = pb.MessageMetadata.FromString(b"\x0a\x01p\x10\x00\x18\x00" + b"\x40\x09")
    assert metadata.compression == pb.NONE
    assert compression_kind(metadata) == 9
    metadata.compression = pb.ZSTD
    assert compression_kind(metadata) == pb.ZSTD


GIB = 1 << 30
BOMBS = {
    pb.ZSTD: rle_bomb(GIB),
    # LZ4: a match in which each further length byte adds 255.
    pb.LZ4: bytes([0x1F]) + b"a" + b"\x01\x00" + b"\xff" * 100_000 + b"\x00" + bytes([0x50]) + b"aaaaa",
    pb.ZLIB: zlib.compress(bytes(100_000_000)),
    # Snappy: a length of 4 GiB - 1 without data.
    pb.SNAPPY: b"\xff\xff\xff\xff\x0f" + b"\x00a",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", [10, 1_000_000, GIB, 2**32 - 1])
def test_a_decompression_bomb_stops_at_the_limit(
    kind: int, said: int, peak: Callable[[Callable[[], object]], int]
) -> None:
    found: list[object] = []
    used = peak(lambda: found.append(decompress(kind, BOMBS[kind], said)))
    assert isinstance(found[0], Problem)
    assert used < 2 * min(said, MAX_UNCOMPRESSED) + 1_000_000


def test_the_caller_sets_the_limit() -> None:
    closed = compress(pb.ZSTD, bytes(1000))
    assert decompress(pb.ZSTD, closed, 1000, limit=1000) == bytes(1000)
    assert isinstance(decompress(pb.ZSTD, closed, 1000, limit=999), Problem)


@given(kind=st.integers(0, 6), data=st.binary(max_size=300), size=st.integers(0, 2**32 - 1))
def test_no_bytes_raise(kind: int, data: bytes, size: int) -> None:
    opened = decompress(kind, data, size)
    assert isinstance(opened, Problem | bytes)


@given(kind=st.sampled_from(KINDS), place=st.integers(0, 10_000), bit=st.integers(0, 7), size=st.integers(0, 3000))
def test_one_wrong_bit(kind: int, place: int, bit: int, size: int) -> None:
    closed = bytearray(compress(kind, bytes(range(256)) * 8))
    closed[place % len(closed)] ^= 1 << bit
    opened = decompress(kind, bytes(closed), size)
    assert isinstance(opened, Problem) or len(opened) == size
