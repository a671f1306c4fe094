"""Frames with one inverted bit."""

from pcli.codec.faults import corrupted
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=4, publish_time=1)
SEND = pb.CommandSend(producer_id=1, sequence_id=4)


def bits_apart(one, other):
    assert len(one) == len(other)
    return sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True))


def test_a_corrupt_payload_has_a_wrong_checksum():
    good = Frame.of(push_frame(SEND, push_entry(METADATA, b"hello")))
    bad = Frame.of(corrupted(good))
    assert bits_apart(good.data, bad.data) == 1
    assert (good.checksum, bad.checksum) == ("good", "bad")
    assert bad.payload == b"helln"
    assert bad.command == good.command


def test_without_payload_bytes_the_checksum_is_corrupted():
    good = Frame.of(push_frame(SEND, push_entry(METADATA, b"")))
    bad = Frame.of(corrupted(good))
    assert bits_apart(good.data, bad.data) == 1
    assert bad.checksum == "bad"
    assert bad.metadata == good.metadata


def test_a_frame_without_entry_has_a_corrupt_command():
    good = Frame.of(push_frame(pb.CommandFlow(consumer_id=3, messagePermits=10)))
    bad = Frame.of(corrupted(good))
    assert bits_apart(good.data, bad.data) == 1
    assert bad.command.flow.messagePermits == 11


def test_a_frame_without_command_stays_a_frame():
    good = Frame.of(bytes.fromhex("0000000400000000"))
    assert corrupted(good)[:4] == good.data[:4]
