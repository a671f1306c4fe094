"""Redacted frames: valid ones stay valid, and defects are kept."""

import pytest

from pcli.codec.observe.redaction import Names
from pcli.codec.observe.redaction.frames import redact_frame
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_entry, push_frame
from pcli.codec.wire.frame import Frame

METADATA = pb.MessageMetadata(producer_name="till", sequence_id=7, publish_time=2, partition_key="jane")
SEND = pb.CommandSend(producer_id=1, sequence_id=7)


def redacted(data):
    return Frame.of(redact_frame(Frame.of(data), Names()))


def kinds(frame):
    return [problem.kind for problem in frame.problems]


def test_a_send():
    frame = redacted(push_frame(SEND, push_entry(METADATA, b"payload")))
    assert frame.body == SEND
    assert frame.metadata.producer_name == "producer-1"
    assert frame.metadata.sequence_id == 7
    assert frame.payload == b"xxxxxxx"
    assert frame.checksum == "good"
    assert not frame.problems


def test_a_message_with_broker_entry_metadata_and_no_checksum():
    entry = push_entry(METADATA, b"payload", checksum=False, broker_entry=pb.BrokerEntryMetadata(index=9))
    body = pb.CommandMessage(consumer_id=3, message_id=pb.MessageIdData(ledgerId=4, entryId=5))
    frame = redacted(push_frame(body, entry))
    assert frame.body == body
    assert frame.broker_entry == pb.BrokerEntryMetadata(index=9)
    assert frame.checksum == "none"


@pytest.mark.parametrize("broker_entry", [None, pb.BrokerEntryMetadata(index=9)])
def test_a_wrong_checksum_stays_wrong(broker_entry):
    data = bytearray(push_frame(SEND, push_entry(METADATA, b"payload", broker_entry=broker_entry)))
    data[-1] ^= 1
    assert Frame.of(bytes(data)).checksum == "bad"
    frame = redacted(bytes(data))
    assert frame.checksum == "bad"
    assert frame.payload == b"xxxxxxx"


def test_a_command_of_a_later_version_keeps_only_its_type():
    frame = redacted(join_frame(b"\x08\x7a\xd2\x07\x06secret"))
    assert frame.type == 122
    assert b"secret" not in frame.data
    assert kinds(frame) == ["unknown-command"]


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        (join_frame(b"\x08\x05\x2a\x20persistent"), ["protobuf"]),
        (join_frame(b"\xff\xffsecret"), ["protobuf"]),
        (join_frame(pb.BaseCommand(type="PING", ping=pb.CommandPing()).SerializeToString(), b"secret"), ["trailing"]),
        (push_frame(SEND, b"\x0e\x01\0\0\0\0\x7f\xff\xff\xffsecret"), ["metadata"]),
        (push_frame(SEND, push_entry(b"\x0a\x30secret", b"payload")), ["required", "metadata"]),
        (push_frame(SEND, push_entry(b"", b"payload")), ["required"]),
    ],
)
def test_defects_of_a_frame_are_kept(data, problems):
    before = Frame.of(data)
    frame = redacted(data)
    assert set(problems) <= set(kinds(before))
    assert set(problems) <= set(kinds(frame))
    assert frame.type == before.type
    assert b"secret" not in frame.data
    assert b"payload" not in frame.data


def cut(data, size):
    return Frame.of(data[:size])


@pytest.mark.parametrize("broker_entry", [None, pb.BrokerEntryMetadata(index=9)])
@pytest.mark.parametrize("checksum", [True, False])
def test_a_truncated_frame_lacks_the_same_number_of_bytes(broker_entry, checksum):
    body = pb.CommandMessage(consumer_id=3, message_id=pb.MessageIdData(ledgerId=4, entryId=5))
    data = push_frame(body, push_entry(METADATA, b"payload" * 9, checksum=checksum, broker_entry=broker_entry))
    for size in range(10, len(data)):
        before = cut(data, size)
        frame = Frame.of(redact_frame(before, Names()))
        assert frame.missing == before.missing
        assert frame.type == before.type
        assert frame.checksum is None
        assert (frame.metadata is None) == (before.metadata is None)
        if before.parts.command_end <= size and before.metadata is not None:
            assert frame.body == body
            assert frame.metadata.sequence_id in (0, 7)
        assert b"till" not in frame.data
        assert b"payl" not in frame.data
