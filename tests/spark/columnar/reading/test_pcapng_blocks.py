"""Blocks of pcapng files as columns equal the packets of the object path, for windows of all sizes."""

from __future__ import annotations

import io
import random
import struct

import pytest

from pcli.codec.capture.files import open_source
from pcli.codec.capture.packets import LEFT_OUT
from pcli.codec.capture.pcapng import PcapngReader
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.reading.pcapng_blocks import PcapngColumns


def block(order, kind, body):
    body += bytes(-len(body) & 3)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def section(order):
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order, link=1, snaplen=0, resolution=None, offset=0):
    options = b"" if resolution is None else struct.pack(order + "HHBxxx", 9, 1, resolution)
    if offset:
        options += struct.pack(order + "HHq", 14, 8, offset)
    return block(order, 1, struct.pack(order + "HHI", link, 0, snaplen) + options)


def enhanced(order, number, stamp, data, more=0, comment=b""):
    head = struct.pack(order + "IIIII", number, stamp >> 32, stamp & 0xFFFFFFFF, len(data), len(data) + more)
    data += bytes(-len(data) & 3)
    return block(order, 6, head + data + (struct.pack(order + "HH", 1, len(comment)) + comment if comment else b""))


def simple(order, data):
    return block(order, 3, struct.pack(order + "I", len(data)) + data)


def old(order, number, stamp, data):
    head = struct.pack(order + "HHIIII", number, 0, stamp >> 32, stamp & 0xFFFFFFFF, len(data), len(data))
    return block(order, 2, head + data)


def random_blocks(dice):
    """Return a file with both byte orders, late interfaces, all kinds of packets and unknown blocks."""
    parts = []
    for _ in range(dice.randrange(1, 4)):
        order = dice.choice("<>")
        parts.append(section(order))
        known = 0
        for _ in range(dice.randrange(1, 60)):
            data = dice.randbytes(dice.choice([0, 1, 60, 300]))
            stamp = dice.choice([5, 1 << 40, 1 << 60])
            if not known or dice.random() < 0.1:
                resolution = dice.choice([None, 9, 6, 3, 0x80 | 20, 12])
                parts.append(
                    interface(order, dice.choice([1, 113]), dice.choice([0, 50]), resolution, dice.choice([0, -9]))
                )
                known += 1
                continue
            match dice.randrange(12):
                case 0:
                    parts.append(simple(order, data))
                case 1:
                    parts.append(old(order, dice.randrange(known), stamp, data))
                case 2:
                    parts.append(block(order, 0x777, data))
                case 3:
                    parts.append(
                        enhanced(order, dice.randrange(known), stamp, data, 3, dice.choice([LEFT_OUT, bytes(99)]))
                    )
                case 4:
                    parts.append(block(order, 10, struct.pack(order + "II", 1, 4) + b"keys"))
                case _:
                    parts.append(enhanced(order, dice.randrange(known), stamp, data, dice.randrange(3)))
    return b"".join(parts)


def plain(windows):
    rows = []
    try:
        for data, records in windows:
            for start, end, wire, time_ns, face in records:
                time_ns = max(-(1 << 63) + 1, min(time_ns, (1 << 63) - 1))
                rows.append((data[start:end], wire, time_ns, face.link, face.left_out is face))
    except CaptureError as error:
        return rows, (error.text, error.offset)
    return rows, None


def objects(blob):
    return plain(PcapngReader(open_source(io.BytesIO(blob))).windows())


def columns(blob, size):
    windows = PcapngColumns(open_source(io.BytesIO(blob))).columns(size)
    return plain((one.data, [one.record(index) for index in range(len(one))]) for one in windows)


@pytest.mark.parametrize("seed", range(40))
def test_every_kind_of_block(seed):
    blob = random_blocks(random.Random(seed))
    expected = objects(blob)
    assert expected[1] is None
    for size in (1, 400, 1 << 20):
        assert columns(blob, size) == expected


@pytest.mark.parametrize("seed", range(120))
def test_cut_and_damaged_files_end_at_the_same_place(seed):
    dice = random.Random(seed)
    blob = bytearray(random_blocks(dice))
    for _ in range(dice.randrange(3)):
        at = dice.randrange(len(blob) - 4)
        blob[at : at + 4] = dice.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\2\0", b"\x0a\x0d\x0d\x0a"])
    if dice.random() < 0.5:
        del blob[dice.randrange(12, len(blob)) :]
    expected = objects(bytes(blob))
    for size in (1, 400, 1 << 20):
        assert columns(bytes(blob), size) == expected


def test_intact_windows_are_read_once(monkeypatch):
    """The reader of the object path is used only for damaged windows."""
    blob = random_blocks(random.Random(5))
    expected = objects(blob)
    monkeypatch.delattr(PcapngReader, "_walk")
    assert columns(blob, 1000) == expected
    assert len(expected[0]) > 20
