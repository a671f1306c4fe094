"""Bytes that pass, and frames that are changed on the way; in one piece, in two, and byte by byte."""

import random

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.commands import BY_NAME
from pcli.replay.proxy.frame_filter import FrameFilter

PONG = BY_NAME["PONG"].number
CHANGED = push_frame(pb.CommandPong())
NEW = b"something else"
LARGE = push_frame(pb.CommandSend(producer_id=1, sequence_id=2), push_entry(pb.MessageMetadata(
    producer_name="p", sequence_id=2, publish_time=3), b"\x12" * 100_000))  # fmt: skip
PING = push_frame(pb.CommandPing())


def passage():
    def change(frame):
        assert frame == CHANGED
        return NEW

    return FrameFilter({PONG}, change)


def complete(data):
    return [data]


def bytewise(data):
    return [data[at : at + 1] for at in range(len(data))]


def in_pieces(data):
    chance, pieces = random.Random(len(data)), []
    while data:
        size = chance.choice((1, 3, 9, 10, 11, 40, 5000))
        pieces.append(data[:size])
        data = data[size:]
    return pieces


@pytest.mark.parametrize("cut", [complete, bytewise, in_pieces])
@pytest.mark.parametrize(
    "frames",
    [[CHANGED], [PING], [PING, CHANGED, PING], [CHANGED, LARGE, CHANGED], [LARGE, PING, LARGE, CHANGED, CHANGED]],
    ids=["one", "none", "between", "around", "many"],
)
def test_only_what_is_meant_is_changed(frames, cut):
    way = passage()
    out = b"".join(map(way.feed, cut(b"".join(frames)))) + way.end()
    assert out == b"".join(NEW if frame is CHANGED else frame for frame in frames)


def test_nobody_waits_for_a_frame_that_nobody_wants():
    way = passage()
    assert way.feed(LARGE[:11]) == LARGE[:11]
    assert way.feed(LARGE[11:500]) == LARGE[11:500]


def test_bytes_that_pass_are_not_copied():
    way, data = passage(), PING + LARGE[:70_000]
    assert way.feed(data) is data
    rest = LARGE[70_000:]
    assert way.feed(rest) is rest


def test_what_is_held_comes_at_the_end():
    way = passage()
    assert way.feed(PING + CHANGED[:-1]) == PING
    assert way.end() == CHANGED[:-1]


@pytest.mark.parametrize(
    "junk",
    [b"\x15\x03\x03\0\2\2\x50 and more", b"HTTP/1.1 400 Bad Request", bytes(20), b"\0\0\0\x08\0\0\0\x20" + bytes(12)],
    ids=["tls", "http", "zeros", "lengths"],
)
@pytest.mark.parametrize("cut", [complete, bytewise])
def test_what_is_no_frame_passes_with_all_behind_it(junk, cut):
    way = passage()
    data = PING + junk + CHANGED
    assert b"".join(map(way.feed, cut(data))) + way.end() == data


def test_a_frame_too_large_for_a_name_passes():
    large = push_frame(pb.CommandPong(), bytes(70_000))
    way = passage()
    assert way.feed(large[:20]) == large[:20]
    assert way.feed(large[20:] + CHANGED) == large[20:] + NEW
