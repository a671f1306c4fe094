"""Zstandard data from another implementation: the zstd command if it is installed, otherwise the wheel."""

from __future__ import annotations

import random
import shutil
import subprocess

import cramjam
import pytest

from pcli.codec.capture import zstd
from pcli.codec.capture.zstd import unzstd
from pcli.codec.errors import CaptureError

DATA = b"".join(b"line %d of some text\n" % (number * number) for number in range(60_000))


def unpacked(data: bytes, size: int = 7000) -> bytes:
    return b"".join(unzstd(iter([data[at : at + size] for at in range(0, len(data), size)])))


def packed(data: bytes, *options: str) -> bytes:
    """Compress with the command in streaming mode, so that the frame does not contain its size."""
    command = shutil.which("zstd")
    if command is None:
        pytest.skip("the command zstd is not installed")
    return subprocess.run([command, "-q", "-c", *options], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("options", [[], ["-12"], ["--no-check"], ["-1", "-T2"], ["--long=24"], ["--fast=5"]])
def test_frames_of_the_command(options):
    assert unpacked(packed(DATA, *options)) == DATA


def test_frames_of_the_wheel():
    assert unpacked(bytes(cramjam.zstd.compress(DATA))) == DATA


def test_single_bytes():
    assert unpacked(bytes(cramjam.zstd.compress(DATA[:5000])), 1) == DATA[:5000]


def test_several_frames_and_skippable_ones():
    frame = bytes(cramjam.zstd.compress(DATA))
    skippable = b"\x53\x2a\x4d\x18\x05\x00\x00\x00abcde"
    assert unpacked(skippable + frame + skippable + frame + skippable) == DATA * 2


def test_random_bytes_are_raw_blocks_and_equal_ones_are_runs():
    data = random.Random(1).randbytes(300_000) + bytes(300_000)
    assert unpacked(bytes(cramjam.zstd.compress(data))) == data


def collect(pieces, out):
    for piece in pieces:
        out.append(piece)


@pytest.mark.parametrize("whole", [True, False])
def test_a_truncated_frame_gives_its_complete_blocks(whole):
    frame = bytes(cramjam.zstd.compress(DATA)) if whole else packed(DATA, "-1")
    out: list[bytes] = []
    with pytest.raises(CaptureError, match="ends early"):
        collect(unzstd(iter([frame[: len(frame) * 2 // 3]])), out)
    assert DATA.startswith(b"".join(out))
    assert len(b"".join(out)) > len(DATA) // 3


def test_the_end_of_a_truncated_file_is_reported():
    frame = bytes(cramjam.zstd.compress(DATA))
    for size in (3, 5, 1000, len(frame) // 2, len(frame) - 1):
        with pytest.raises(CaptureError) as caught:
            unpacked(frame * 2 + frame[:size])
        assert caught.value.offset == 2 * len(frame) + size


def blocks(frame: bytes) -> list[int]:
    """Return the starts of the blocks in a frame of `packed`, and the end of the last (RFC 8878, 3.1.1)."""
    descriptor = frame[4]
    assert descriptor & 3 == 0
    single = descriptor >> 5 & 1
    place = 5 + (1 - single) + (single, 2, 4, 8)[descriptor >> 6]
    places, last = [place], False
    while not last:
        head = int.from_bytes(frame[place : place + 3], "little")
        last = bool(head & 1)
        place += 3 + (1 if head >> 1 & 3 == 1 else head >> 3)
        places.append(place)
    return places


def test_a_wrong_checksum_loses_no_bytes():
    frame = bytearray(packed(DATA, "-3"))
    frame[-1] ^= 1
    out: list[bytes] = []
    with pytest.raises(CaptureError, match="checksum") as caught:
        collect(unzstd(iter([bytes(frame) + packed(b"more", "-3")])), out)
    assert b"".join(out) == DATA + b"more"
    assert caught.value.offset == len(frame) - 4
    # The first damage is reported.
    for behind in (packed(b"more", "-3")[:-6], b"no frame"):
        with pytest.raises(CaptureError, match="checksum"):
            unpacked(bytes(frame) + behind)


@pytest.mark.parametrize("which", [0, 1, 5, -2])
def test_the_blocks_before_a_damaged_one_are_returned(which):
    frame = bytearray(packed(DATA, "-3"))
    places = blocks(frame)
    start = places[:-1][which]
    frame[start + 3 : start + 40] = b"\xff" * 37
    out: list[bytes] = []
    with pytest.raises(CaptureError, match="damaged") as caught:
        collect(unzstd(iter([bytes(frame)])), out)
    found = b"".join(out)
    assert caught.value.offset == start
    assert len(found) == places.index(start) * 128 * 1024
    assert DATA.startswith(found)


@pytest.mark.parametrize("damage", ["cut", "damaged"])
def test_a_large_frame_gives_the_bytes_before_the_damage(monkeypatch, damage):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(zstd, "FRAME_LIMIT", 300_000)
    frame = bytearray(packed(DATA, "-3"))
    start = blocks(frame)[7]
    if damage == "cut":
        del frame[start + 100 :]
    else:
        frame[start + 3 : start + 40] = b"\xff" * 37
    out: list[bytes] = []
    with pytest.raises(CaptureError, match="zstd") as caught:
        collect(unzstd(iter([bytes(frame)])), out)
    found = b"".join(out)
    assert DATA.startswith(found)
    assert len(found) >= 7 * 128 * 1024 - 16 * 1024
    assert caught.value.offset is not None
    assert start <= caught.value.offset <= len(frame)


@pytest.mark.parametrize("data", [b"\x28\xb5\x2f\xfd\x00\x58\xff\xff\xff", b"\x28\xb5\x2f\xfd\x00\x58\x15\0\0\xff\xff"])
def test_damage_is_reported(data):
    with pytest.raises(CaptureError, match="zstd"):
        unpacked(data)


def test_other_bytes_after_a_frame():
    with pytest.raises(CaptureError, match="no frame"):
        unpacked(bytes(cramjam.zstd.compress(b"text")) + b"more")


def test_a_large_frame_is_streamed(monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(zstd, "FRAME_LIMIT", 300_000)
    frame = bytes(cramjam.zstd.compress(DATA))
    assert unpacked(frame + frame) == DATA * 2


def test_a_large_frame_without_a_decompressor_names_the_remedy(monkeypatch):
    monkeypatch.setattr(zstd, "FRAME_LIMIT", 300_000)
    monkeypatch.setattr(zstd, "_stdlib", lambda file: None)
    monkeypatch.setattr(zstd, "_arrow", lambda file: None)
    with pytest.raises(CaptureError, match="zstd -d"):
        unpacked(bytes(cramjam.zstd.compress(DATA)))


def test_a_decompression_bomb_is_rejected(monkeypatch):
    """Blocks of three bytes that each declare 128 KB: their sum is checked before decompression."""
    monkeypatch.setattr(zstd, "_stdlib", lambda file: None)
    monkeypatch.setattr(zstd, "_arrow", lambda file: None)
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    with pytest.raises(CaptureError, match="more than 64 MB"):
        unpacked(b"\x28\xb5\x2f\xfd\x00\x58" + block * 10_000)
