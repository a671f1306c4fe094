"""The fast readers and writers compared with protobuf."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire import hot
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
COUNT = st.integers(1, 2**31 - 1)
PARTITION = st.integers(-1, 2**31 - 1)
PACKED = b"metadata"
METADATA = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)


def read(pull, frame):
    parts = Frame.of(frame).parts
    return pull(frame, parts.command_start, parts.command_end)


@given(U64, U64, COUNT, U64)
def test_send(producer, sequence, count, highest):
    frame = hot.push_send(producer, sequence, count, highest, METADATA.SerializeToString(), b"payload")
    parsed = Frame.of(frame)
    assert parsed.problems == []
    assert parsed.checksum == "good"
    send = parsed.command.send
    assert (send.producer_id, send.sequence_id, send.num_messages) == (producer, sequence, count)
    assert send.highest_sequence_id == highest
    assert read(hot.pull_send, frame) == (producer, sequence, -1 if count == 1 else count, highest or -1)
    body = pb.CommandSend(producer_id=producer, sequence_id=sequence)
    if count != 1:
        body.num_messages = count
    if highest:
        body.highest_sequence_id = highest
    assert frame == push_frame(body, push_entry(METADATA, b"payload"))


@given(U64, U64, U64, U64, U64)
def test_send_receipt(producer, sequence, ledger, entry, highest):
    frame = hot.push_send_receipt(producer, sequence, ledger, entry, highest)
    place = pb.MessageIdData(ledgerId=ledger, entryId=entry)
    assert frame == push_frame(
        pb.CommandSendReceipt(producer_id=producer, sequence_id=sequence, message_id=place, highest_sequence_id=highest)
    )


def test_the_receipt_for_a_duplicate():
    frame = hot.push_send_receipt(1, 2, -1, -1, 2)
    assert Frame.of(frame).command.send_receipt.message_id.ledgerId == 2**64 - 1


@given(U64, U64, U64, PARTITION, U32)
def test_message(consumer, ledger, entry, partition, redeliveries):
    stored = push_entry(METADATA, b"payload")
    frame = hot.push_message(consumer, ledger, entry, partition, redeliveries, stored)
    place = pb.MessageIdData(ledgerId=ledger, entryId=entry)
    if partition >= 0:
        place.partition = partition
    body = pb.CommandMessage(consumer_id=consumer, message_id=place)
    if redeliveries:
        body.redelivery_count = redeliveries
    assert frame == push_frame(body, stored)


@given(U64, st.integers(0, 1), st.lists(st.tuples(U64, U64, PARTITION, PARTITION), max_size=5), st.integers(-1, 2**63))
def test_ack(consumer, kind, ids, request):
    frame = hot.push_ack(consumer, kind, ids, request)
    body = pb.CommandAck(consumer_id=consumer, ack_type=kind)
    for ledger, entry, partition, batch in ids:
        place = body.message_id.add(ledgerId=ledger, entryId=entry)
        if partition >= 0:
            place.partition = partition
        if batch >= 0:
            place.batch_index = batch
    if request >= 0:
        body.request_id = request
    assert frame == push_frame(body)
    assert read(hot.pull_ack, frame) == (consumer, kind, ids, request)


@given(U64, U32)
def test_flow(consumer, permits):
    frame = hot.push_flow(consumer, permits)
    assert frame == push_frame(pb.CommandFlow(consumer_id=consumer, messagePermits=permits))
    assert read(hot.pull_flow, frame) == (consumer, permits)


def test_minus_one_as_a_client_writes_it():
    # Some clients set partition and batch_index to their default, -1: ten bytes each.
    place = pb.MessageIdData(ledgerId=5, entryId=7, partition=-1, batch_index=-1)
    frame = push_frame(pb.CommandAck(consumer_id=1, ack_type=0, message_id=[place]))
    assert read(hot.pull_ack, frame) == (1, 0, [(5, 7, -1, -1)], -1)


PLACE = pb.MessageIdData(ledgerId=5, entryId=7)


@pytest.mark.parametrize(
    ("pull", "body"),
    [
        (hot.pull_send, pb.CommandSend(producer_id=1, sequence_id=1, is_chunk=True)),
        (hot.pull_send, pb.CommandSend(producer_id=1, sequence_id=1, txnid_most_bits=1)),
        (hot.pull_ack, pb.CommandAck(consumer_id=1, ack_type=0, validation_error=1)),
        (hot.pull_ack, pb.CommandAck(consumer_id=1, ack_type=0, properties=[pb.KeyLongValue(key="k", value=1)])),
        (hot.pull_flow, pb.CommandConnect(client_version="x")),
    ],
)
def test_unusual_commands_are_not_read(pull, body):
    assert read(pull, push_frame(body)) is None


def ids_of(place):
    return (place.ledgerId, place.entryId, place.partition, place.batch_index)


def given_or_minus_one(body, name):
    return getattr(body, name) if body.HasField(name) else -1


# The values that protobuf reads, in the form that the fast readers return.
MEANT = {
    6: (
        hot.pull_send,
        lambda command: (
            command.send.producer_id,
            command.send.sequence_id,
            given_or_minus_one(command.send, "num_messages"),
            given_or_minus_one(command.send, "highest_sequence_id"),
        ),
    ),
    10: (
        hot.pull_ack,
        lambda command: (
            command.ack.consumer_id,
            command.ack.ack_type,
            [ids_of(place) for place in command.ack.message_id],
            given_or_minus_one(command.ack, "request_id"),
        ),
    ),
    11: (hot.pull_flow, lambda command: (command.flow.consumer_id, command.flow.messagePermits)),
}
EDGES = [0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 2**31 - 1, 2**64 - 2**31, 2**64 - 1]
NUMBER = st.one_of(st.sampled_from(EDGES), U64).map(hot.push_varint)
# Varints longer than needed, and longer than 64 bits.
ODD_NUMBER = st.sampled_from([b"\x81\x00", b"\x80" * 9 + b"\x01", b"\x80" * 9 + b"\x02", b"\x80" * 10 + b"\x01"])
FIELD = st.builds(
    lambda number, value: bytes([number << 3]) + value, st.sampled_from([1, 2, 3, 4, 6, 8]), NUMBER | ODD_NUMBER
)


def nested(number, body):
    return bytes([number << 3 | 2]) + hot.push_varint(len(body)) + body


PLACES = st.one_of(
    st.builds(hot._push_id, U64, U64, PARTITION),
    st.lists(FIELD, max_size=4).map(b"".join),
    st.builds(lambda fields: b"\x08\x05\x10\x07" + b"".join(fields), st.lists(FIELD, max_size=2)),
)
NESTED = st.builds(nested, st.sampled_from([2, 3]), PLACES)
USUAL = {
    6: b"\x08\x01\x10\x01",
    10: b"\x08\x01\x10\x01",
    11: b"\x08\x01\x10\x01",
}


def agrees(type_, body):
    pull, meant = MEANT[type_]
    command = bytes([8, type_]) + nested(type_, body)
    found = pull(command + b"rest", 0, len(command))
    if found is not None:
        assert found == meant(pb.BaseCommand.FromString(command))
    return found is not None


@pytest.mark.slow
@pytest.mark.parametrize("type_", MEANT)
@settings(max_examples=500)
@given(st.booleans(), st.lists(FIELD | NESTED, max_size=3).map(b"".join) | st.binary(max_size=40))
def test_no_bytes_raise_and_results_equal_protobufs(type_, whole, fields):
    agrees(type_, USUAL[type_] + fields if whole else fields)


@pytest.mark.parametrize("type_", MEANT)
@pytest.mark.parametrize("value", EDGES)
def test_each_number_is_read_correctly_or_not_at_all(type_, value):
    place = b"\x08\x05\x10\x07"
    for number in range(1, 9):
        field = bytes([number << 3]) + hot.push_varint(value)
        for usual in (b"\x08\x01\x10\x01", b"\x08\x01" + nested(2, place), b"\x08\x01\x10\x01" + nested(3, place)):
            agrees(type_, usual + field)
        for at in (2, 3):
            agrees(type_, b"\x08\x01" + (b"\x10\x01" if at == 3 else b"") + nested(at, place + field))


# Each contains a number that is too large for its field.
@pytest.mark.parametrize(
    ("type_", "body"),
    [
        (11, b"\x08\x01\x10" + hot.push_varint(2**32)),
        (6, b"\x08\x01\x10\x01\x18" + hot.push_varint(-1)),
        (6, b"\x08\x01\x10\x01\x18" + hot.push_varint(2**31)),
        (10, b"\x08\x01\x10\x00" + nested(3, b"\x08\x05\x10\x07\x20" + hot.push_varint(2**63))),
        (10, b"\x08\x01\x10\x00" + nested(3, b"\x08\x05\x10\x07\x18" + hot.push_varint(2**31))),
    ],
)
def test_too_large_numbers_are_not_read(type_, body):
    assert not agrees(type_, body)


# Each ends inside its last number: protobuf rejects them, and the following bytes of the frame must not be read.
@pytest.mark.parametrize(
    ("pull", "command"),
    [
        (hot.pull_flow, b"\x08\x0b\x5a\x04\x08\x01\x10\x80"),
        (hot.pull_send, b"\x08\x06\x32\x04\x08\x01\x10\x80"),
        (hot.pull_ack, b"\x08\x0a\x52\x0a\x08\x01\x10\x00\x1a\x04\x08\x05\x10\x80"),
    ],
)
def test_a_number_beyond_the_end(pull, command):
    with pytest.raises(DecodeError):
        pb.BaseCommand.FromString(command)
    assert pull(command + b"\x01rest", 0, len(command)) is None


@given(U64, U64)
def test_the_first_ids_only(first, second):
    frame = hot.push_send(first, second, 1, 0, PACKED, b"payload")
    ids = hot.pull_ids(frame, 0x32)
    assert ids in ((first, second), (-1, -1))
    assert first > 127 or ids == (first, second)
    flow = hot.push_flow(first, 10)
    assert hot.pull_first_id(flow, 0x5A) in (first, -1)
    assert hot.pull_first_id(flow, 0x52) == -1
    for size in range(8, len(frame)):
        assert hot.pull_ids(frame[:size], 0x32)[0] in (first, -1)


def test_a_repeated_id_of_a_send_is_unusual():
    """The last one counts: a reader that knows the position of the first must not be used."""
    command = b"\x08\x06\x32\x06\x08\x01\x10\x02\x10\x03"
    assert pb.BaseCommand.FromString(command).send.sequence_id == 3
    assert hot.pull_send(command, 0, len(command)) is None
