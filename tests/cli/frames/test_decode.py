"""`pcli decode` and `pcli encode`: frames from pasted text, and back."""

import json

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire import push_entry, push_frame

FLOW = push_frame(pb.CommandFlow(consumer_id=1, messagePermits=10))
SEND = push_frame(
    pb.CommandSend(producer_id=1, sequence_id=5),
    push_entry(pb.MessageMetadata(producer_name="p", sequence_id=5, publish_time=1), b"hello"),
)
CONNECT = push_frame(pb.CommandConnect(client_version="x", auth_method_name="token", auth_data=b"very secret"))


def test_hex_as_an_argument(pcli):
    result = pcli("decode", FLOW.hex())
    assert result.code == 0
    assert result.lines == [
        "FLOW  client → broker  16 bytes",
        "  flow",
        "    consumer_id: 1",
        "    messagePermits: 10",
    ]


def test_binary_on_stdin_and_a_file(pcli, tmp_path):
    path = tmp_path / "frame.bin"
    path.write_bytes(FLOW + SEND)
    from_file = pcli("decode", path)
    assert from_file.out == pcli("decode", "-", stdin=FLOW + SEND).out
    assert "  checksum: 0x" in from_file.out
    assert "(good)" in from_file.out


def test_ndjson_is_one_object_per_frame_and_json_an_array_of_them(pcli):
    frames = (FLOW + SEND).hex()
    flow, send = map(json.loads, pcli("decode", frames, "-T", "ndjson").lines)
    assert json.loads(pcli("decode", frames, "-T", "json").out) == [flow, send]
    assert flow["pulsar.flow.messagePermits"] == 10
    assert send["pulsar.checksum"] == "good"
    assert send["pulsar.payload"] == "<hidden: 5 bytes>"
    assert not [name for name in send if name.startswith(("frame.", "tcp.", "ip."))]


def test_payload_and_secrets_are_hidden_by_default(pcli):
    assert "hello" not in pcli("decode", SEND.hex()).out
    assert "5 B  hello" in pcli("decode", SEND.hex(), "--payload").out
    hidden = pcli("decode", CONNECT.hex())
    assert b"very secret".hex() not in hidden.out
    assert "<hidden: 11 bytes>" in hidden.out
    assert b"very secret".hex() in pcli("decode", CONNECT.hex(), "--show-secrets").out


def test_input_that_is_no_frame_is_reported(pcli, small_captures, tmp_path):
    result = pcli("decode", small_captures / "go" / "nack.pcap")
    assert (result.code, result.out) == (2, "")
    assert "this is a capture" in result.err
    result = pcli("decode", tmp_path)
    assert (result.code, result.out) == (2, "")
    assert "is a directory" in result.err


def test_a_batch_that_lies_about_its_size(pcli):
    lie = pb.MessageMetadata(producer_name="p", sequence_id=5, publish_time=1, num_messages_in_batch=1000)
    frame = push_frame(pb.CommandSend(producer_id=1, sequence_id=5), push_entry(lie, b"12345678"))
    result = pcli("decode", frame.hex(), "-T", "ndjson")
    assert json.loads(result.out)["pulsar.problem"] == ["batch"]
    assert "  problem: batch: " in pcli("decode", frame.hex()).out


def test_encode_reads_wire_json(pcli):
    wire = pcli("decode", (FLOW + SEND).hex(), "-T", "wire")
    assert pcli("encode", "-", stdin=wire.out.encode()).lines == [FLOW.hex(), SEND.hex()]
    assert pcli("encode", "-", "-T", "binary", stdin=wire.out.encode()).raw == FLOW + SEND


def test_encode_from_assignments(pcli):
    assert pcli("encode", "FLOW", "consumer_id=1", "messagePermits=10").lines == [FLOW.hex()]
    assert pcli("encode", "PING").lines == [push_frame(pb.CommandPing()).hex()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["decode", "00 0g"], "'g' is not a hex digit (at byte 4)"),
        (["decode", "00 0"], "1 hex digit: one is missing, or there is one too many (at byte 3)"),
        (["decode", ""], "no bytes to decode"),
        (["encode", "FLOWS"], "unknown command FLOWS; near: FLOW"),
        (["encode", "FLOW", "consumer=1"], "near: consumer_id"),
        (["encode", "FLOW", "consumer_id=1", "x"], "write field=value"),
        (["encode", '{"type":'], "not JSON"),
        (["encode", "[5]"], '"type"'),
        (["decode", FLOW.hex(), "-T", "xml"], "'xml' is not one of"),
    ],
)
def test_bad_input_is_one_line(pcli, arguments, message):
    result = pcli(*arguments)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (FLOW + FLOW[:10], "the input ends inside a frame: only 10 bytes of the frame are present (at byte 16)"),
        (FLOW + b"\x00\x00\x00\x00", "a frame of 4 bytes"),
        (FLOW + b"\xff\xff\xff\xff", "a frame of 4294967299 bytes"),
        (FLOW + bytes.fromhex("0000000800000064080b5a00"), "a command of 100 bytes in a frame of 12"),
    ],
)
def test_frames_before_the_damage_are_shown(pcli, data, message):
    result = pcli("decode", "-", "--as", "binary", stdin=data)
    assert result.code == 3
    assert result.lines[0] == "FLOW  client → broker  16 bytes"
    assert message in result.err


@pytest.mark.parametrize(
    "topic", [b"a\x1b[31mred", b"line\nbreak", "right\u202eleft".encode(), "c1\x9b31m\x7f".encode(), b"\xff\xfe"]
)
def test_names_cannot_steer_the_terminal(pcli, topic):
    lookup = push_frame(pb.CommandLookupTopic(topic="x" * len(topic), request_id=1)).replace(b"x" * len(topic), topic)
    for form in ("tree", "json", "wire"):
        result = pcli("decode", lookup.hex(), "-T", form)
        assert result.code == 0
        assert all(line.isprintable() for line in result.lines)


def test_a_missing_required_field_is_reported_but_encoded(pcli):
    result = pcli("encode", "FLOW", "consumer_id=1")
    assert result.code == 0
    assert result.lines == ["0000000a00000006080b5a020801"]  # type 11, field 11 with consumer_id alone
    assert result.err.splitlines() == [
        "pcli: the required field messagePermits is missing: a broker closes the connection when it receives this frame"
    ]
    send = pcli("encode", "SEND", "producer_id=1", "sequence_id=5", "metadata.sequence_id=5", "payload=x")
    assert send.code == 0
    assert [line.partition(" is missing")[0].replace("the required field ", "") for line in send.err.splitlines()] == [
        "pcli: metadata.producer_name",
        "pcli: metadata.publish_time",
    ]
    assert pcli("encode", "FLOW", "consumer_id=1", "messagePermits=10").err == ""


def test_a_frame_without_a_type(pcli):
    """A BaseCommand with a body and no type: 0x22 is field 4 (subscribe)."""
    frame = (6).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"\x22\x00"
    result = pcli("decode", frame.hex(), "-T", "ndjson")
    flat = json.loads(result.out)
    assert flat["pulsar.type"] == "NO_TYPE"
    assert flat["pulsar.problem.detail"] == [
        "required: type: the command has no type",
        "unknown-field: pulsar.unknown.4",
    ]
    assert pcli("decode", frame.hex()).lines[0].startswith("NO_TYPE  ")
    wire = pcli("decode", frame.hex(), "-T", "wire")
    assert json.loads(wire.out)["type"] == "NO_TYPE"
    assert pcli("encode", "-", stdin=wire.out.encode()).lines == [frame.hex()]
