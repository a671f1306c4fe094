"""The lossless JSON form reproduces the original bytes, unless the object was edited."""

import json
from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_entry, push_frame
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.lossless import pull_wire_json, push_wire_json

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
SEND = pb.CommandSend(producer_id=1, sequence_id=5)
RECEIPT = pb.CommandSendReceipt(
    producer_id=1, sequence_id=5, message_id=pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
)


def there_and_back(data):
    wire = json.loads(json.dumps(pull_wire_json(Frame.of(data)), allow_nan=False))
    assert push_wire_json(wire) == data
    return wire


def test_simple():
    assert there_and_back(push_frame(pb.CommandFlow(consumer_id=1, messagePermits=10))) == {
        "type": "FLOW",
        "flow": {"consumer_id": 1, "messagePermits": 10},
    }
    assert there_and_back(push_frame(pb.CommandPing())) == {"type": "PING", "ping": {}}


def test_payload():
    entry = push_entry(METADATA, b"hello", broker_entry=pb.BrokerEntryMetadata(index=7))
    assert there_and_back(push_frame(SEND, entry)) == {
        "type": "SEND",
        "send": {"producer_id": 1, "sequence_id": 5},
        "entry": {"index": 7},
        "checksum": "good",
        "metadata": {"producer_name": "p", "sequence_id": 1, "publish_time": 2},
        "payload": "68656c6c6f",
    }


def test_minus_one_in_unsigned_fields():
    wire = there_and_back(push_frame(RECEIPT))
    assert wire["send_receipt"]["message_id"] == {"ledgerId": -1, "entryId": -1}


def test_a_wrong_checksum_stays_wrong_and_an_absent_one_absent():
    wrong = push_frame(SEND, push_entry(METADATA, b"hello")[:-1] + b"!")
    assert len(there_and_back(wrong)["checksum"]) == 8
    entry = push_entry(METADATA, b"hello", broker_entry=pb.BrokerEntryMetadata(index=7))
    there_and_back(push_frame(SEND, entry[:-1] + b"!"))
    assert "checksum" not in there_and_back(push_frame(SEND, push_entry(METADATA, b"hello", checksum=False)))


@pytest.mark.parametrize(
    "command",
    [
        b"\x08\x0b\x5a\x04\x10\x0a\x08\x01",  # fields in another order
        b"\x08\x0b\x5a\x05\x08\x81\x00\x10\x0a",  # a longer varint than needed
        b"\x5a\x04\x08\x01\x10\x0a\x08\x0b",  # the type after the body
        b"\x08\x12",  # PING without its body
        b"\x08\xc8\x01",  # an unknown type
        b"\x08\x0b\x5a\x07\x08\x01\x10\x0a\xa0\x06\x07",  # an unknown field
        b"\x08\x05\x2a\x06\x0a\x02\xff\xfe\x10\x05",  # a topic that is not UTF-8
        b"\x08\x0b\x5a\x7f",  # invalid protobuf
        b"\x08\x09\x08\x02",  # two types
        b"\x08\x64\x08\x02",  # an unknown type, and another
        b"\x08\xc8\x81\x00",  # an unknown type, longer than needed
        b"\xa0\x06\x07\x08\xc8\x01",  # the same after an unknown field
        b"",
    ],
)
def test_any_encoding_is_reproduced(command):
    there_and_back(join_frame(command))


def test_unknown_fields_are_shown():
    wire = there_and_back(join_frame(b"\x08\x0b\x5a\x07\x08\x01\x10\x0a\xa0\x06\x07"))
    assert wire == {"type": "FLOW", "flow": {"consumer_id": 1, "messagePermits": 10, "unknown": "a00607"}}


def test_an_edit_overrides_the_original_bytes():
    wire = there_and_back(join_frame(b"\x08\x0b\x5a\x04\x10\x0a\x08\x01"))
    assert wire["bytes"] == {"command": "080b5a04100a0801"}
    wire["flow"]["messagePermits"] = 11
    assert push_wire_json(wire) == push_frame(pb.CommandFlow(consumer_id=1, messagePermits=11))


def test_an_edited_payload_has_the_right_checksum():
    wire = pull_wire_json(Frame.of(push_frame(SEND, push_entry(METADATA, b"hello"))))
    edited = Frame.of(push_wire_json({**wire, "payload": b"bye".hex()}))
    assert (edited.payload, edited.checksum) == (b"bye", "good")


def test_inconsistent_lengths_and_truncated_frames_are_raw():
    for data in (pack(">II", 8, 100) + b"\x08\x0b\x5a\x00", push_frame(RECEIPT)[:-2], push_frame(RECEIPT, b"xyz")):
        assert set(there_and_back(data)) == {"type", "raw"}


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        ([], '"type"'),
        ({}, '"type"'),
        ({"type": "FLOW", "flow": {"consumer": 1}}, "flow.consumer: CommandFlow has no such field; near: consumer_id"),
        ({"type": "FLOW", "flow": {"consumer_id": "x"}}, "flow.consumer_id: 'x' is not a value"),
        ({"type": "FLOW", "flow": {"consumer_id": 2**64}}, "is not a value"),
        ({"type": "FLOW", "flow": 5}, "an object is expected"),
        ({"type": "ACK", "ack": {"message_id": {}}}, "a list is expected"),
        ({"type": "FLOW", "flow": {"consumer_id": [1]}}, "a single value is expected"),
        ({"type": "SUBSCRIBE", "subscribe": {"subType": "Sharde"}}, "one of Exclusive, Shared"),
        ({"type": "FLOW", "raw": "0g"}, "hex is expected"),
        ({"type": "SEND", "metadata": {}, "checksum": "12"}, "eight hex digits"),
        ({"type": "FLOW", "flow": {"unknown": "ff"}}, "not valid protobuf fields"),
        ({"type": "FLOWS"}, "unknown command 'FLOWS'; near: FLOW"),
        ({"type": "UNKNOWN_x"}, "unknown command"),
        ({"type": "UNKNOWN_" + "9" * 5000}, "unknown command"),
        ({"type": "FLOW", "payload": "00"}, "payload: not allowed for FLOW"),
        ({"type": "UNKNOWN_200", "metadata": {}}, "metadata: not allowed for UNKNOWN_200"),
        ({"type": "FLOW", "flow": {"consumer_id": 10**5000}}, "a number of 16610 bits is not a value"),
        ({"type": "FLOW", "flow": {"\ud800": 1}}, "no such field"),
        ({"type": "SUBSCRIBE", "subscribe": {"topic": "\ud800"}}, "is not a value"),
        ({"type": "SUBSCRIBE", "subscribe": {"subType": "\ud800"}}, "one of Exclusive"),
        ({"type": "CONSUMER_STATS_RESPONSE", "consumerStatsResponse": {"msgRateOut": 10**400}}, "is not a value"),
        ({"type": "CONSUMER_STATS_RESPONSE", "consumerStatsResponse": {"msgRateOut": "nan:0"}}, "a number is expected"),
        ({"type": "SEND", "metadata": 5, "bytes": {"metadata": "00"}}, "an object is expected"),
    ],
)
def test_an_invalid_object_is_reported_with_its_path(wire, said):
    with pytest.raises(LocalError) as caught:
        push_wire_json(wire)
    assert said in str(caught.value)


def test_nested_messages_are_limited():
    place = {"ledgerId": 1, "entryId": 2}
    for _ in range(100_000):
        place = {"ledgerId": 1, "entryId": 2, "first_chunk_message_id": place}
    for wire in ({"type": "ACK", "ack": {"message_id": [place]}}, {"type": "FLOW", "flow": {"consumer_id": place}}):
        with pytest.raises(LocalError):
            push_wire_json(wire)
    for key in ("metadata", "payload", "raw", "bytes", "checksum"):
        with pytest.raises(LocalError):
            push_wire_json({"type": "SEND", key: [place]})


NAMES = st.sampled_from([
    "send", "message", "ack", "message_id", "first_chunk_message_id", "ledgerId", "entryId", "ack_set", "unknown",
    "subscribe", "subType", "topic", "schema", "properties", "key", "value", "producer_name", "publish_time",
]) | st.text(st.characters(), max_size=5)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just("08ff"),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=4),
)
TYPES = st.sampled_from(["SEND", "MESSAGE", "ACK", "SUBSCRIBE", "CONSUMER_STATS_RESPONSE", "UNKNOWN_200"]) | JSON
KEYS = st.sampled_from(["bytes", "raw", "entry", "checksum", "metadata", "payload"])


@given(st.builds(lambda inside, type_: {**inside, "type": type_}, st.dictionaries(KEYS | NAMES, JSON), TYPES) | JSON)
def test_any_json_gives_bytes_or_a_local_error(wire):
    with suppress(LocalError):
        assert isinstance(push_wire_json(wire), bytes)


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("7ff8000000000001", "nan:7ff8000000000001"),
        ("fff8000000000000", "nan:fff8000000000000"),
        ("7ff0000000000000", "inf"),
        ("fff0000000000000", "-inf"),
    ],
)
def test_non_finite_doubles(bits, text):
    # CONSUMER_STATS_RESPONSE (26): request_id (field 1) = 1, msgRateOut (field 4, fixed64): little-endian
    body = b"\x08\x01\x21" + bytes.fromhex(bits)[::-1]
    command = b"\x08\x1a\xd2\x01" + bytes([len(body)]) + body
    wire = there_and_back(join_frame(command))
    assert wire["consumerStatsResponse"] == {"request_id": 1, "msgRateOut": text}
    assert "bytes" not in wire


def test_an_unknown_type_is_encoded_from_its_name():
    assert push_wire_json({"type": "UNKNOWN_200"}) == join_frame(b"\x08\xc8\x01")
    assert there_and_back(join_frame(b"\x08\xc8\x01")) == {"type": "UNKNOWN_200"}
    assert there_and_back(join_frame(b"\x08\xc8\x01\xa0\x06\x07")) == {"type": "UNKNOWN_200", "unknown": "a00607"}


@pytest.mark.parametrize("wire", [{"payload": "6869"}, {"checksum": "good"}, {"entry": {"index": 7}}])
def test_one_part_of_the_payload_is_enough(wire):
    frame = Frame.of(push_wire_json({"type": "SEND", "send": {"producer_id": 1, "sequence_id": 5}, **wire}))
    assert frame.parts.problems == []
    assert frame.metadata == pb.MessageMetadata()
    assert frame.payload == bytes.fromhex(wire.get("payload", ""))
    assert frame.checksum == ("good" if "checksum" in wire else "none")
    assert (frame.broker_entry is not None) == ("entry" in wire)


@given(st.binary(min_size=8, max_size=80))
def test_any_bytes(data):
    there_and_back(data)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_command_and_entry(command, entry):
    there_and_back(join_frame(command, entry))
    there_and_back(join_frame(b"\x08\x06\x32\x02\x08\x01", push_entry(command, entry)))
    there_and_back(join_frame(b"\x08\x09" + command, push_entry(b"", entry, broker_entry=command)))
