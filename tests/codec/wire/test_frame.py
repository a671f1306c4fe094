"""One frame: its parts, its checksum, and its problems."""

from struct import pack

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_entry, push_frame
from pcli.codec.wire.frame import Frame

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
SEND = pb.CommandSend(producer_id=1, sequence_id=5)
FLOW = push_frame(pb.CommandFlow(consumer_id=1, messagePermits=10))


def kinds(frame):
    return [problem.kind for problem in frame.problems]


def test_simple_command():
    # u32 12, u32 8, then 08 0b (type FLOW) 5a 04 (flow, 4 bytes) 08 01 10 0a
    assert FLOW.hex() == "0000000c00000008080b5a040801100a"
    frame = Frame.of(FLOW)
    assert (frame.type, frame.length, frame.missing) == (11, 16, 0)
    assert frame.command.flow.messagePermits == 10
    assert (frame.metadata, frame.payload, frame.broker_entry, frame.checksum) == (None, None, None, None)
    assert frame.problems == []


def test_payload_command_with_everything():
    entry = push_entry(METADATA, b"hello", broker_entry=pb.BrokerEntryMetadata(index=7))
    frame = Frame.of(push_frame(SEND, entry))
    assert frame.broker_entry.index == 7
    assert frame.metadata == METADATA
    assert (frame.payload, frame.checksum, frame.problems) == (b"hello", "good", [])


def test_the_checksum_covers_length_metadata_and_payload():
    packed = METADATA.SerializeToString()
    covered = pack(">I", len(packed)) + packed + b"hello"
    entry = push_entry(METADATA, b"hello")
    assert entry == b"\x0e\x01" + pack(">I", google_crc32c.value(covered)) + covered


def test_absent_and_wrong_checksums_are_distinguished():
    absent = Frame.of(push_frame(SEND, push_entry(METADATA, b"hello", checksum=False)))
    assert (absent.checksum, absent.problems) == ("none", [])
    wrong = Frame.of(push_frame(SEND, push_entry(METADATA, b"hello")[:-1] + b"!"))
    assert (wrong.checksum, kinds(wrong)) == ("bad", ["checksum"])


def test_the_checksum_is_computed_once(monkeypatch):
    computed = []

    def counting(data):
        computed.append(data)
        return google_crc32c.value(data)

    monkeypatch.setattr("pcli.codec.wire.frame._crc32c", counting)
    wrong = Frame.of(push_frame(SEND, push_entry(METADATA, b"hello")[:-1] + b"!"))
    assert (wrong.checksum, kinds(wrong), wrong.checksum) == ("bad", ["checksum"], "bad")
    assert len(computed) == 1


@pytest.mark.parametrize("kept", range(8, len(FLOW)))
def test_a_truncated_simple_command(kept):
    frame = Frame.of(FLOW[:kept])
    assert frame.missing == len(FLOW) - kept
    assert kinds(frame) == ["cut"]


def test_a_truncated_payload_command_keeps_its_captured_parts():
    whole = push_frame(SEND, push_entry(METADATA, b"hello"))
    frame = Frame.of(whole[:-3])
    assert frame.command.send.sequence_id == 5
    assert frame.metadata == METADATA
    assert (frame.payload, frame.checksum, kinds(frame)) == (b"he", None, ["cut"])


def test_the_body_is_the_commands_own_message():
    flow = pb.CommandFlow(consumer_id=1, messagePermits=10)
    assert Frame.of(push_frame(flow)).body == flow
    assert Frame(push_frame(flow), 4711).body is None


def test_unknown_type_is_kept():
    frame = Frame.of(join_frame(b"\x08\xc8\x01"))
    assert (frame.type, kinds(frame)) == (200, ["unknown-command"])


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (b"\x08\x0b", "required"),  # a FLOW without its body
        (b"\x08\x0b\x5a\x02\x08\x01", "required"),  # a FLOW without permits
        (b"\x08\x0b\x5a\x7f", "protobuf"),  # a body longer than the command
        (b"\xff\xff\xff", "protobuf"),
        (b"", "required"),
    ],
)
def test_bad_commands(command, kind):
    assert kind in kinds(Frame.of(join_frame(command)))


def test_lengths_that_contradict_each_other():
    assert kinds(Frame.of(pack(">II", 8, 100) + b"\x08\x0b\x5a\x00"))[:1] == ["length"]
    assert kinds(Frame.of(join_frame(FLOW[8:], b"xyz"))) == ["trailing"]
    assert kinds(Frame.of(push_frame(SEND, b"\x00\x00\x01\x00abc"))) == ["metadata"]
    assert kinds(Frame.of(push_frame(SEND, b"\x0e\x02\x00\x00\x01\x00abc"))) == ["broker-entry"]
    assert kinds(Frame.of(push_frame(SEND, b""))) == ["metadata"]


def test_malformed_metadata():
    frame = Frame.of(push_frame(SEND, push_entry(b"\xff\xff", b"hello")))
    assert frame.checksum == "good"
    assert "metadata" in kinds(frame)


@given(st.binary(min_size=8, max_size=200))
def test_no_bytes_raise(data):
    frame = Frame.of(data)
    assert isinstance(frame.problems, list)
    _ = (frame.command, frame.metadata, frame.broker_entry, frame.payload, frame.checksum, frame.missing)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_entry_raises(metadata, payload):
    for type_ in (b"\x08\x06\x32\x00", b"\x08\x09\x4a\x00"):
        frame = Frame.of(join_frame(type_, metadata + payload))
        assert frame.problems
