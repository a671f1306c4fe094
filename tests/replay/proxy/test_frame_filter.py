"""Forwarded bytes and changed frames; in one piece, in two pieces, and byte by byte."""

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
def test_only_requested_types_are_changed(frames, cut):
    filter_under_test = passage()
    out = b"".join(map(filter_under_test.feed, cut(b"".join(frames)))) + filter_under_test.end()
    assert out == b"".join(NEW if frame is CHANGED else frame for frame in frames)


def test_other_frames_are_not_held():
    filter_under_test = passage()
    assert filter_under_test.feed(LARGE[:11]) == LARGE[:11]
    assert filter_under_test.feed(LARGE[11:500]) == LARGE[11:500]


def test_passing_bytes_are_not_copied():
    filter_under_test, data = passage(), PING + LARGE[:70_000]
    assert filter_under_test.feed(data) is data
    rest = LARGE[70_000:]
    assert filter_under_test.feed(rest) is rest


def test_held_bytes_are_returned_at_the_end():
    filter_under_test = passage()
    assert filter_under_test.feed(PING + CHANGED[:-1]) == PING
    assert filter_under_test.end() == CHANGED[:-1]


@pytest.mark.parametrize(
    "junk",
    [b"\x15\x03\x03\0\2\2\x50 and more", b"HTTP/1.1 400 Bad Request", bytes(20), b"\0\0\0\x08\0\0\0\x20" + bytes(12)],
    ids=["tls", "http", "zeros", "lengths"],
)
@pytest.mark.parametrize("cut", [complete, bytewise])
def test_invalid_bytes_and_all_later_bytes_pass(junk, cut):
    filter_under_test = passage()
    data = PING + junk + CHANGED
    assert b"".join(map(filter_under_test.feed, cut(data))) + filter_under_test.end() == data


def test_an_oversized_frame_passes():
    large = push_frame(pb.CommandPong(), bytes(70_000))
    filter_under_test = passage()
    assert filter_under_test.feed(large[:20]) == large[:20]
    assert filter_under_test.feed(large[20:] + CHANGED) == large[20:] + NEW
