"""Segments as columns compared with `pull_segment`, packet by packet."""

from __future__ import annotations

import random

import pytest

from pcli.codec.capture.ip import Fragments
from pcli.codec.capture.packets import Interface
from pcli.codec.capture.tunnels import pull_segment
from pcli.spark.columnar.reading.packet_records import records_of
from pcli.spark.columnar.reading.tcp_segments import read_segments


def window_of(link, packets, faces=None):
    """Return a window that ends with an unrelated packet, so that headers cannot be read beyond the window's end."""
    data, records = b"", []
    for number, (time_ns, packet, wire) in enumerate(packets):
        face = Interface(link) if faces is None else faces[number]
        start = len(data)
        data += packet
        records.append((start, len(data), wire, time_ns, face))
    face = records[0][4]
    return data, [
        (start, end, wire, time_ns, face if faces is None else each) for start, end, wire, time_ns, each in records
    ]


def agree(window):
    """Check the columns of ordinary packets; return their number."""
    data, records = window
    told = read_segments(records_of(window))
    assert told is not None
    for index, (start, end, wire, _, face) in enumerate(records):
        one = pull_segment(data, face.link, start, end, wire, index, Fragments())
        if told.direction[index] < 0:
            continue
        if one is None:
            assert not told.ordinary[index]
            continue
        assert told.keys[told.direction[index]] == one.key
        assert (told.seq[index], told.ack[index]) == (one.seq, one.ack)
        whole = one.flags & 0x17 == 0x10 and not one.missing and face.left_out is not face
        assert told.ordinary[index] == whole
        if whole:
            assert data[told.at[index] : told.stop[index]] == one.data[one.start : one.end]
    return int(told.ordinary.sum())


def test_every_wrapping(both):
    segments = both.talk(random.Random(1), 100)
    for name in both.WRAPS:
        link, packets = both.wrapped(segments, name)
        count = agree(window_of(link, packets))
        assert (count > len(packets) * 0.9) == (name in both.TOGETHER), name


@pytest.mark.parametrize("seed", range(30))
def test_cut_and_changed_packets(both, seed):
    dice = random.Random(seed)
    link, packets = both.wrapped(both.talk(dice, 60), dice.choice(sorted(both.WRAPS)))
    changed = []
    for time_ns, packet, wire in packets:
        data = bytearray(packet)
        if dice.random() < 0.5:
            data[dice.randrange(min(70, len(data)))] = dice.randrange(256)
        changed.append((time_ns, bytes(data[: dice.choice([len(data), dice.randrange(len(data) + 1)])]), wire))
    agree(window_of(link, changed))


def test_packets_of_the_fast_path_are_lean(both):
    segments = both.talk(random.Random(2), 50)
    for name, lean in (("ethernet", True), ("cooked 2", True), ("vlan", False), ("raw", False), ("no length", False)):
        told = read_segments(records_of(window_of(*both.wrapped(segments, name))))
        assert told.lean.all() == lean
        assert told.lean.any() == lean


def test_different_link_types_and_packets_after_omissions(both):
    segments = both.talk(random.Random(3), 60)
    packets, faces = [], []
    kinds = [Interface(1), Interface(101), Interface(147)]
    kinds.append(kinds[0].after_left_out())
    for number, one in enumerate(segments):
        face = kinds[number % 4]
        packets += both.wrapped([one], "raw" if face.link == 101 else "ethernet")[1]
        faces.append(face)
    window = window_of(1, packets, faces)
    assert agree(window) == pytest.approx(len(segments) / 2, rel=0.1)
    told = read_segments(records_of(window))
    assert (told.direction[2::4] == -1).all()


def test_nothing_at_all():
    told = read_segments(records_of((b"", [])))
    assert told is not None
    assert told.keys == []
