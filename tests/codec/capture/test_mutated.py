"""Mutated captures raise only PcliError, and the work stays proportional to their size."""

from __future__ import annotations

import io
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, read_capture, read_packets
from pcli.codec.errors import PcliError

NAMES = [
    "python/01-exclusive-unbatched.pcapng", "python/02-batched-keys-properties.pcap", "python/37-packets-lost.pcap",
    "python/03-compression-lz4.pcap.gz", "python/04-compression-zlib.pcapng.zst", "java/cut-packets.pcap",
    "java/late-capture.pcap", "python/21-tls.pcapng",
]  # fmt: skip
TRIALS = int(os.environ.get("PCLI_FUZZ", "1000")) // len(NAMES)
"""Number of mutations of each capture; `make fuzz` sets a higher one."""


def survives(data: bytes) -> None:
    """Read a capture and access every attribute: only PcliError may be raised."""
    try:
        for item in read_capture([("mutated", io.BytesIO(data))]):
            if isinstance(item, CapturedFrame):
                assert item.problems is not None
                assert item.packets
        assert all(packet is not None for packet in read_packets([("mutated", io.BytesIO(data))]))
    except PcliError:
        return


def mutated(data: bytes, dice: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice([1, 3, 30])):
        at = dice.randrange(len(out))
        match dice.randrange(5):
            case 0:
                out[at] = dice.randrange(256)
            case 1:
                out[at : at + 4] = dice.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x01"])
            case 2:
                del out[at : at + dice.randrange(1, 100)]
            case 3:
                out[at:at] = out[at : at + dice.randrange(1, 200)]
            case _:
                out[at] ^= 1 << dice.randrange(8)
        if not out:
            out = bytearray(b"\0")
    return bytes(out[: dice.randrange(len(out))] if dice.random() < 0.1 else out)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_real_captures_mutated(small_captures, name):
    data = (small_captures / name).read_bytes()
    dice = random.Random(name)
    for _ in range(TRIALS):
        survives(mutated(data, dice))


@pytest.mark.parametrize("name", NAMES)
def test_real_captures_truncated_anywhere(small_captures, name):
    data = (small_captures / name).read_bytes()
    dice = random.Random(name)
    for size in [*range(40), *(dice.randrange(len(data)) for _ in range(20))]:
        survives(data[:size])


def test_packets_mutated(w, small_captures):
    """Damage inside packets with intact record headers reaches deeper layers."""
    packets = w.packets((small_captures / "python/01-exclusive-unbatched.pcapng").read_bytes())
    dice = random.Random(1)
    for _ in range(60):
        changed = []
        for packet in packets:
            data = bytearray(packet.data)
            if dice.random() < 0.3:
                data[dice.randrange(12, len(data))] = dice.randrange(256)
            changed.append(type(packet)(packet.number, packet.time_ns, packet.link, bytes(data), packet.wire_length))
        w.read(w.file(changed))


@settings(max_examples=200)
@given(st.binary(max_size=200), st.sampled_from([0, 1, 12, 101, 108, 113, 228, 229, 276, 9999]))
def test_packets_of_random_bytes(w, data, link):
    whole = [type(packet)(1, 0, link, data, len(data)) for packet in w.Tape().send(0).packets]
    w.read(w.file(whole * 2))


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(-50, 400), st.binary(max_size=80), st.booleans()), max_size=40))
def test_segments_in_random_order(w, pieces):
    tape = w.Tape().hello().send(0, w.connect)
    for at, data, server in pieces:
        tape.send(at, data, server=server, ack=max(at, 0))
    w.read(tape)


@settings(max_examples=100)
@given(st.data())
def test_any_order_of_real_segments_gives_the_real_frames(w, data):
    frames = [w.connect, *(w.send(number, bytes(number * 7)) for number in range(6))]
    stream = b"".join(frames)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=12)))
    pieces = list(zip([0, *cuts], [*cuts, len(stream)]))
    order = data.draw(st.permutations(pieces + data.draw(st.lists(st.sampled_from(pieces), max_size=5))))
    tape = w.Tape().hello()
    for start, end in order:
        tape.send(start, stream[start:end])
    found, notes = w.read(tape)
    assert [frame.data for frame in found] == frames
    assert {frame.sync for frame in found} == {"start"}
    assert notes == []
