"""The bytes of files: windows and decompression."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
import zlib

import cramjam
import pytest

from pcli.codec.capture import read_capture
from pcli.codec.capture.files import CHUNK, Source, open_source, packing_of, unpacking_hint
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


# -- formats other than gzip and zstd

PACKERS = {"xz": ["xz", "-zc"], "bzip2": ["bzip2", "-zc"], "lz4": ["lz4", "-zcq"]}
LZ4_OPTIONS = [[], ["-9"], ["-B4", "-BD"], ["-B4", "-BI", "-BX"], ["-l"], ["--no-frame-crc", "-BD"]]


def packed(data: bytes, name: str, *options: str) -> bytes:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return subprocess.run([*PACKERS[name], *options], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize(("name", "options"), [("xz", []), ("bzip2", []), *(("lz4", some) for some in LZ4_OPTIONS)])
def test_other_formats(name, options):
    data = text_of(20_000) + os.urandom(300_000)
    whole = packed(data, name, *options)
    assert packing_of(whole[:4]) == name
    twice = whole if "-l" in options else whole + whole
    source = open_source(io.BytesIO(twice))
    assert drained(source) == data * (len(twice) // len(whole))
    assert source.error is None


@pytest.mark.parametrize(
    ("name", "change"), [*((name, "cut") for name in PACKERS), ("xz", "damaged"), ("bzip2", "damaged")]
)
def test_bytes_before_the_damage_are_returned_in_other_formats(name, change):
    data = text_of(30_000)
    whole = packed(data, name, {"xz": "-1", "bzip2": "-1", "lz4": "-B4"}[name])  # small blocks
    at = len(whole) * 3 // 4
    source = open_source(io.BytesIO(whole[:at] if change == "cut" else whole[:at] + bytes(2000) + whole[at + 2000 :]))
    found = drained(source)
    assert len(found) > len(data) // 4
    assert data.startswith(found[: len(data) // 4])
    assert source.error is not None
    assert f"the {name} data" in source.error.text


def test_a_damaged_lz4_block():
    data = text_of(30_000)
    whole = bytearray(packed(data, "lz4", "-B4"))
    size = int.from_bytes(whole[7:11], "little")
    whole[11 + size : 15 + size] = b"\xff\xff\xff\x7f"
    source = open_source(io.BytesIO(bytes(whole)))
    assert drained(source) == data[: 64 << 10]
    assert source.error is not None
    assert "the lz4 data" in source.error.text


def test_lz4_and_bzip2_of_libraries():
    data = text_of(20_000)
    assert drained(open_source(io.BytesIO(bytes(cramjam.lz4.compress(data))))) == data
    assert drained(open_source(io.BytesIO(bz2.compress(data)))) == data
    assert drained(open_source(io.BytesIO(lzma.compress(data)))) == data


@pytest.mark.parametrize(
    ("head", "command"), [(b"PK\3\4", "unzip"), (b"7z\xbc\xaf", "7z x"), (b"\x1f\x9d\x90\0", "uncompress")]
)
def test_formats_that_are_not_read_are_named(head, command):
    assert f"`{command}`" in unpacking_hint(head)
    with pytest.raises(CaptureError, match=command):
        list(read_capture([("a.zip", io.BytesIO(head + bytes(40)))]))
