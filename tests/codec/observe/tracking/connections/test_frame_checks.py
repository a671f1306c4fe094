"""Checksums, sizes, and deprecated commands."""

from __future__ import annotations

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.hot import push_message, push_send
from pcli.codec.wire.problems import Problem

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)


def damaged(frame):
    return frame[:-1] + bytes([frame[-1] ^ 1])


def test_checksums(wire):
    wire.hello()
    good = push_send(1, 0, 1, 0, METADATA.SerializeToString(), b"payload")
    wire.client(good)
    wire.client(damaged(good))
    wire.client(damaged(good), problems=(Problem("overlap", "other bytes came again"),))
    wire.client(damaged(good)[:-3], problems=(Problem("cut", "3 bytes"),))
    message = push_message(1, 7, 0, -1, 0, push_entry(METADATA, b"payload"))
    wire.broker(message)
    wire.broker(damaged(message))
    record = wire.connection()
    assert {side: tally.frames for side, tally in record.wrong_crc.items()} == {True: [4], False: [8]}
    assert record.deprecated == {}


def test_a_send_without_checksum(wire):
    wire.hello()
    whole = push_send(1, 0, 1, 0, METADATA.SerializeToString(), b"payload")
    place = whole.index(b"\x0e\x01")
    bare = whole[:place] + whole[place + 6 :]
    wire.client((len(bare) - 4).to_bytes(4, "big") + bare[4:])
    record = wire.connection()
    assert record.wrong_crc == {}
    assert record.deprecated["SEND without checksum"].frames == [3]


def test_sizes(wire):
    wire.hello(max_message_size=1000)
    wire.client(push_send(1, 0, 1, 0, METADATA.SerializeToString(), bytes(1000 + 10_000)))
    assert wire.connection().oversize.count == 0
    wire.client(push_send(1, 1, 1, 0, METADATA.SerializeToString(), bytes(1000 + 10_240)))
    oversize = wire.connection().oversize
    assert oversize.frames == [4]
    assert oversize.sample.startswith("SEND of 11,")
    topics = [f"persistent://public/default/topic-{number}" for number in range(400)]
    wire.broker(pb.CommandGetTopicsOfNamespaceResponse(request_id=1, topics=topics))
    assert wire.connection().oversize.frames == [4, 5]


def test_the_limit_is_unknown_without_connected(wire):
    wire.client(push_send(1, 0, 1, 0, METADATA.SerializeToString(), bytes(6_000_000)))
    assert wire.connection().oversize.count == 0
