"""The pcapng format as the draft specifies it: sections, interfaces, blocks of all types, and damaged blocks."""

from __future__ import annotations

import struct

import pytest

from pcli.codec.capture import Note, Packet, Secrets, read_packets


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) & 3)
    length = len(body) + 12
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) & 3)


def interface(order: str = "<", link: int = 1, snaplen: int = 0, options: bytes = b"") -> bytes:
    return block(1, struct.pack(order + "HHI", link, 0, snaplen) + options, order)


def enhanced(data: bytes, stamp: int, order: str = "<", number: int = 0, options: bytes = b"") -> bytes:
    head = struct.pack(order + "IIIII", number, stamp >> 32, stamp & 0xFFFFFFFF, len(data), len(data))
    return block(6, head + data + bytes(-len(data) & 3) + options, order)


def datas(w):
    return [p.data for p in w.Tape().hello().send(0, w.connect).packets]


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(w, order):
    packets = b"".join(enhanced(data, 1_700_000_000_000_000 + i, order) for i, data in enumerate(datas(w)))
    frames, notes = w.read(section(order) + interface(order) + packets)
    assert [frame.data for frame in frames] == [w.connect]
    assert frames[0].time_ns == 1_700_000_000_000_003_000
    assert notes == []


@pytest.mark.parametrize(
    ("options", "stamp", "time_ns"),
    [
        (b"", 5, 5_000),
        (option(9, b"\x06"), 5, 5_000),
        (option(9, b"\x09"), 5, 5),
        (option(9, b"\x00"), 5, 5_000_000_000),
        (option(9, b"\x0c"), 5_000, 5),
        (option(9, b"\x8a"), 1024 * 3 // 2, 1_500_000_000),
        (option(2, b"eth0") + option(14, struct.pack("<q", 10)), 5, 10_000_005_000),
        (option(14, struct.pack("<q", -1)) + option(9, b"\x03"), 3000, 2_000_000_000),
    ],
)
def test_resolutions_and_offsets(w, options, stamp, time_ns):
    file = section() + interface(options=options) + enhanced(b"x", stamp)
    assert [packet.time_ns for packet in w.packets(file)] == [time_ns]


def test_several_sections_and_interfaces(w):
    one, two, three, four = datas(w)
    file = (
        section() + interface(link=113) + interface(options=option(2, b"lo")) + enhanced(one, 1, number=1)
        + section(">") + interface(">", options=option(9, b"\x09", ">"))
        + enhanced(two, 2, ">") + enhanced(three, 3, ">")
        + section() + interface() + enhanced(four, 4)
    )  # fmt: skip
    frames, _ = w.read(file)
    assert [frame.data for frame in frames] == [w.connect]
    assert [(p.time_ns, p.interface) for p in w.packets(file)] == [(1000, "lo"), (2, ""), (3, ""), (4000, "")]


def test_simple_and_old_packets(w):
    one, two, three, four = datas(w)
    old = struct.pack("<HHIIII", 0, 7, 0, 9, len(one), len(one)) + one
    file = section() + interface(snaplen=70) + block(2, old)
    file += b"".join(block(3, struct.pack("<I", len(data)) + data[:70]) for data in (two, three, four))
    packets = w.packets(file)
    assert [p.data for p in packets] == [one, two, three, four[:70]]
    assert [p.wire_length for p in packets] == [len(one), len(two), len(three), len(four)]
    assert [p.time_ns for p in packets] == [9000] * 4


def test_other_block_types_are_skipped(w):
    other = [(4, bytes(40)), (5, bytes(20)), (0x0BAD, b"custom" * 9), (0x40000BAD, b""), (9, bytes(600_000))]
    file = section() + interface()
    for (kind, body), data in zip(other, [*datas(w), bytes(60)]):
        file += block(kind, body) + enhanced(data, 1)
    frames, notes = w.read(file)
    assert [frame.data for frame in frames] == [w.connect]
    assert notes == []


def test_secrets_keep_their_position(w):
    keys = struct.pack("<II", 0x544C534B, 9) + b"CLIENT_R " + bytes(3)
    file = section() + interface() + enhanced(b"a" * 60, 1) + block(10, keys) + enhanced(b"b" * 60, 2)
    items = list(read_packets([("", w.opened(file))]))
    assert Secrets(0x544C534B, b"CLIENT_R ") in items
    assert [item.data for item in items if isinstance(item, Packet)] == [b"a" * 60, b"b" * 60]
    assert w.read(file) == ([], [])


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (struct.pack("<II", 6, 0) + bytes(8), "block of 0 bytes"),
        (struct.pack("<II", 6, 0xFFFFFFFC) + bytes(40), "block of 4294967292 bytes"),
        (struct.pack("<II", 6, 30) + bytes(40), "block of 30 bytes"),
        (struct.pack("<II", 4, 16) + bytes(4) + struct.pack("<I", 20), "length 16 at its start and 20"),
        (enhanced(b"x", 1, number=3), "interface 3"),
        (block(6, struct.pack("<IIIII", 0, 0, 0, 500, 500) + b"x"), "500 bytes in a smaller block"),
        (block(1, b""), "too small"),
        (block(0x0A0D0D0A, b"no order at all!"), "byte order"),
        (enhanced(bytes(100), 1)[:-1], "ends inside a block"),
        (struct.pack("<II", 77, 4_000_000_000) + bytes(100), "ends inside a block"),
    ],
)
def test_damaged_blocks(w, bad, word):
    good = section() + interface() + b"".join(enhanced(data, 1) for data in datas(w))
    frames, notes = w.read(good + bad + b"")
    assert [frame.data for frame in frames] == [w.connect]
    assert [note.kind for note in notes] == ["file"]
    assert word in notes[0].text
    assert notes[0].offset is not None
    assert notes[0].offset >= len(good)
    assert isinstance(notes[0], Note)


def test_truncation_at_every_byte(w):
    whole = section() + interface() + b"".join(enhanced(data, 1) for data in datas(w))
    for size in range(28, len(whole)):
        _, notes = w.read(whole[:size])
        assert [note.kind for note in notes] in ([], ["file"])
