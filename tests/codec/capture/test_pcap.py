"""The pcap format in all variants, and damaged files."""

from __future__ import annotations

import struct

import pytest


def tape(w):
    return w.Tape().hello().send(0, w.connect).send(0, w.connected, server=True)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_both_byte_orders_and_resolutions(w, order, magic):
    frames, notes = w.read(w.pcap(tape(w), order, magic))
    assert [frame.data for frame in frames] == [w.connect, w.connected]
    assert [frame.time_ns for frame in frames] == [4_000_000, 5_000_000]
    assert notes == []


def test_the_records_of_a_patched_tcpdump(w):
    head = struct.pack("<IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65535, 1)
    body = b"".join(
        struct.pack("<IIIIIHBB", 0, packet.time_ns // 1000, len(packet.data), packet.wire_length, 1, 0, 0, 0)
        + packet.data
        for packet in tape(w).packets
    )
    frames, _ = w.read(head + body)
    assert [frame.data for frame in frames] == [w.connect, w.connected]


def test_a_link_type_with_a_frame_check_sequence(w):
    """The upper bits of the field specify that a frame check sequence of 4 bytes follows each packet."""
    frames, _ = w.read(w.pcap(tape(w), link=0x4400_0001))
    assert [frame.data for frame in frames] == [w.connect, w.connected]


def test_truncation_at_every_byte(w):
    whole = w.pcap(tape(w))
    frames, _ = w.read(whole)
    last = len(whole) - len(tape(w).packets[-1].data) - 16
    for size in range(last - 60, len(whole)):
        found, notes = w.read(whole[:size])
        assert [frame.data for frame in found] == [frame.data for frame in frames][: 1 if size >= last else 0]
        if size != last:
            assert [note.kind for note in notes] == ["file"]
            assert "ends inside a packet" in notes[0].text
            assert notes[0].offset == (last if size > last else last - len(w.connect) - 54 - 16)


def test_a_truncated_file_header(w):
    _, notes = w.read(w.pcap([])[:20])
    assert [note.text for note in notes] == ["the file ends inside the pcap header"]


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x80000000, 17 << 20])
def test_a_packet_of_four_gigabytes(w, size):
    good = w.pcap(tape(w))
    frames, notes = w.read(good + struct.pack("<IIII", 0, 0, size, size) + bytes(100))
    assert len(frames) == 2
    assert (notes[0].kind, notes[0].offset) == ("file", len(good))
    assert str(size) in notes[0].text


def test_a_packet_larger_than_a_window(w):
    big = w.Tape().hello()
    frame = w.send(1, bytes(64_000))
    packets = big.packets
    padded = b"".join([w.connect, frame])
    at = 0
    for start in range(0, len(padded), 40_000):
        big.send(at, padded[start : start + 40_000], padding=bytes(400_000))
        at += 40_000
    assert len(packets) == 5
    frames, _ = w.read(w.pcap(big))
    assert [frame.data for frame in frames] == [w.connect, frame]
