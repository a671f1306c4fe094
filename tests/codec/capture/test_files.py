"""The bytes of files: windows and decompression."""

from __future__ import annotations

import gzip
import io
import zlib

import pytest

from pcli.codec.capture.files import CHUNK, Source, open_source
from pcli.codec.errors import CaptureError


def drained(source: Source) -> bytes:
    out = bytearray()
    used = 0
    while source.fill(used, 1):
        out += source.data
        used = len(source.data)
    return bytes(out)


def test_a_window_moves_forward():
    source = Source(iter([b"abc", b"defg", b"h"]))
    assert source.fill(0, 2)
    assert source.data == b"abc"
    assert source.fill(1, 5)
    assert (source.data, source.position) == (b"bcdefg", 1)
    assert not source.fill(6, 2)
    assert (source.data, source.position) == (b"h", 7)


def test_skipped_bytes_are_not_kept():
    source = Source(iter([b"ab"] * 1000))
    source.fill(0, 2)
    assert source.skip(1, 1500)
    assert source.position == 1501
    assert len(source.data) <= 2
    assert not source.skip(0, 5000)


def test_plain_bytes():
    data = bytes(range(256)) * 5000
    assert drained(open_source(io.BytesIO(data))) == data


def test_gzip_with_several_members_and_padding():
    data = b"one" * 100_000
    packed = gzip.compress(data) + gzip.compress(b"two") + bytes(512)
    assert drained(open_source(io.BytesIO(packed))) == data + b"two"


def test_a_decompression_bomb_is_returned_in_small_chunks():
    """One megabyte that expands to a gigabyte: no chunk exceeds the requested size."""
    engine = zlib.compressobj(9, wbits=31)
    packed = b"".join(engine.compress(bytes(1 << 20)) for _ in range(64)) + engine.flush()
    source = open_source(io.BytesIO(packed))
    largest = total = used = 0
    while source.fill(used, 1):
        used = len(source.data)
        total += used
        largest = max(largest, used)
    assert total == 64 << 20
    assert largest <= CHUNK


@pytest.mark.parametrize("change", ["cut", "damaged"])
def test_bytes_before_the_damage_are_returned(change):
    data = zlib.crc32(b"").to_bytes(4, "big") + bytes(i * i & 255 for i in range(400_000))
    packed = bytearray(gzip.compress(data, 1))
    if change == "cut":
        packed = packed[:-1000]
    else:
        packed[-1000:-900] = b"\xff" * 100
    source = open_source(io.BytesIO(bytes(packed)))
    found = drained(source)
    assert data.startswith(found[: len(data) // 2])
    assert len(found) > len(data) // 2
    assert isinstance(source.error, CaptureError)
    assert "gzip" in source.error.text


def text_of(size: int) -> bytes:
    """Return bytes that compress well and decompress differently wherever they are damaged."""
    return b"".join(b"line %d of some text\n" % (number * number) for number in range(size))


@pytest.mark.parametrize(("place", "offset"), [(-8, -5), (-4, -1)])
def test_a_wrong_trailer_loses_no_bytes(place, offset):
    """With a wrong checksum or size, all bytes are returned before the error, which has the offset of the trailer."""
    data = text_of(40_000)
    packed = bytearray(gzip.compress(data))
    packed[place] ^= 1
    source = open_source(io.BytesIO(bytes(packed)))
    assert drained(source) == data
    assert isinstance(source.error, CaptureError)
    assert source.error.offset == len(packed) + offset
    assert "checksum" in source.error.text


def test_members_after_a_wrong_trailer_are_read():
    data = text_of(10_000)
    first = bytearray(gzip.compress(data))
    first[-8] ^= 1
    for size in (1, 3, 1 << 20):
        packed = bytes(first) + gzip.compress(b"two") + gzip.compress(b"three")
        source = open_source(Dripping(packed, size))
        assert drained(source) == data + b"twothree"
        assert source.error is not None
        assert source.error.offset == len(first) - 5


class Dripping:
    """A file object that returns a fixed number of bytes per read."""

    def __init__(self, data: bytes, size: int) -> None:
        self.file, self.size = io.BytesIO(data), size

    def read(self, size: int) -> bytes:
        return self.file.read(min(size, self.size))


def test_all_decompressible_bytes_before_the_damage_are_returned():
    """The result has as many bytes as zlib returns when it is fed byte by byte, wherever the damage is."""
    data = text_of(6000)
    whole = gzip.compress(data)
    for place in range(20, len(whole), len(whole) // 100):
        packed = whole[:place] + bytes(byte ^ 0xA5 for byte in whole[place : place + 20]) + whole[place + 20 :]
        engine = zlib.decompressobj(wbits=31)
        judge = bytearray()
        at = None
        for at in range(len(packed)):
            try:
                judge += engine.decompress(packed[at : at + 1])
            except zlib.error:
                break
        source = open_source(io.BytesIO(packed))
        assert drained(source) == judge
        assert source.error is not None
        assert source.error.offset == at


def test_a_truncated_file_reports_where_it_ends():
    data = text_of(60_000)
    whole = gzip.compress(data)
    for size in range(1000, len(whole) - 8, 20_011):
        source = open_source(io.BytesIO(whole[:size]))
        assert drained(source) == zlib.decompressobj(wbits=31).decompress(whole[:size])
        assert source.error is not None
        assert (source.error.offset, "ends early" in source.error.text) == (size, True)


def test_a_file_object_with_only_a_read_method():
    class Plain:
        def __init__(self) -> None:
            self.left = [b"\x1f", None, b""]

        def read(self, size: int) -> bytes | None:
            return self.left.pop(0)

    assert drained(open_source(Plain())) == b"\x1f"
