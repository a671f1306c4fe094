"""Frames of a faulty or hostile peer: they do not fail a job, and other rows do not change."""

from __future__ import annotations

import random

import pytest

from pcli.codec.capture.frames import START, CapturedFrame, Stream
from pcli.codec.observe.tracking.tracker import Tracker, process_events
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.hot import push_send_receipt, push_varint
from pcli.codec.wire.message_id import signed

LONGEST = (1 << 63) - 1
LAST_MS = LONGEST // 1_000_000
STREAM = Stream(0, ("10.0.0.1", 40_000), ("10.0.0.2", 6650), midstream=False)
TOPIC = "persistent://a/b/c"
PRODUCER = [
    (True, push_frame(pb.CommandConnect(client_version="x"))),
    (False, push_frame(pb.CommandConnected(server_version="y"))),
    (True, push_frame(pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1, producer_name="my producer"))),
    (False, push_frame(pb.CommandProducerSuccess(request_id=1, producer_name="my producer"))),
]
RECEIPT = (False, push_send_receipt(1, 1, 5, 0, 0))


def entry(**fields):
    fields = {"producer_name": "my producer", "sequence_id": 1, "publish_time": 5} | fields
    return push_entry(pb.MessageMetadata(**fields), b"hello", checksum=True)


def send(sequence=1, **fields):
    command = pb.CommandSend(producer_id=1, sequence_id=sequence, num_messages=1)
    if "uuid" in fields:
        command.is_chunk = True
    return True, push_frame(command, entry(sequence_id=sequence, **fields))


def message(entry_id=0, **fields):
    command = pb.CommandMessage(consumer_id=3, message_id=pb.MessageIdData(ledgerId=5, entryId=entry_id))
    return False, push_frame(command, entry(**fields))


def taken(sides):
    """Return frames of one connection, one per second; ``sides``: whether the client sent each, and its bytes."""
    found = []
    for number, (client, data) in enumerate(sides, 1):
        place = number, number, number * 1_000_000_000, STREAM, client, 0, START
        found.append(CapturedFrame(data, Frame.of(data).type, *place))
    return found


@pytest.fixture
def rows(bulk, recorded):
    """Return the rows of `messages` and the tracker's lifecycles."""

    def made(*sides):
        frames, lives = taken(sides), []
        process_events(frames, Tracker(on_lifecycle=lives.append))
        return bulk(recorded(frames)).messages(), lives

    return made


TIMES = (7, LAST_MS, LAST_MS + 1, 1_700_000_000_000_000, LONGEST)
WAYS = {
    "usual": lambda **fields: (*PRODUCER, send(**fields), RECEIPT),
    "without a receipt": lambda **fields: (*PRODUCER, send(**fields)),
    "delivered": lambda **fields: (message(**fields),),
    "delivered twice": lambda **fields: (message(**fields), message(**fields)),
    "both ways, twice": lambda **fields: (*PRODUCER, send(**fields), RECEIPT, message(**fields), message(**fields)),
}


@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize(
    ("name", "value"),
    [("publish_time", value) for value in (*TIMES, 1 << 63, (1 << 64) - 5)]
    + [("deliver_at_time", value) for value in (*TIMES, -1, -5)],
)
def test_a_time_that_no_64_bits_hold_is_null(rows, direction, name, value):
    found, lives = rows(*WAYS[direction](**{name: value}))
    assert len(found) == len(lives) == 1
    column = name.replace("_time", "_ns")
    assert found[0]["producer"][column] == (value * 1_000_000 if 0 < value <= LAST_MS else None)
    assert found[0]["state"] == lives[0].state


def typed(number):
    """Return a frame of a command that has only a type."""
    return True, Frame.of(command_of(b"\x08" + push_varint(number))).data


def command_of(data):
    return (4 + len(data)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("number", [127, 128, 1 << 31, (1 << 32) + 6, 1 << 63, (1 << 64) - 100, (1 << 64) - 1])
def test_a_command_of_64_bits_is_unknown(rows, number):
    found, lives = rows(*PRODUCER, typed(number), send(), RECEIPT, typed(number))
    assert [row["state"] for row in found] == [one.state for one in lives] == ["stored"]


UUIDS = [["my producer-1"], ["one", "one 1", "one 2"], [" ", "  "], ["same thing", "same thing", "same"]]


@pytest.mark.parametrize("uuids", UUIDS)
def test_a_uuid_may_have_spaces(rows, uuids):
    sides = list(PRODUCER)
    for at, uuid in enumerate(uuids):
        for chunk in range(2):
            number = 2 * at + chunk
            sides.append(send(at, uuid=uuid, chunk_id=chunk, num_chunks_from_msg=2, total_chunk_msg_size=10))
            sides.append((False, push_send_receipt(1, at, 5, number, 0)))
    found, lives = rows(*sides)
    expected = [(one.uuid, [place[0] for place in one.chunks], one.entry) for one in lives]
    told = [(row["chunk"]["uuid"], [one["id"] for one in row["chunk"]["entries"]], row["entry"]) for row in found]
    assert sorted(told) == sorted(expected)
    assert {one[0] for one in told} == set(uuids)


def test_a_delivered_uuid_may_have_spaces(rows):
    sides = [message(chunk, uuid="my producer-1", chunk_id=chunk, num_chunks_from_msg=2) for chunk in range(2)]
    found, lives = rows(*sides)
    assert [row["chunk"]["uuid"] for row in found] == [one.uuid for one in lives] == ["my producer-1"]


@pytest.mark.parametrize("least", [7, LONGEST, 1 << 63, (1 << 64) - 2])
def test_a_transaction_of_the_metadata_keeps_its_bits(rows, least):
    found, lives = rows(message(txnid_most_bits=(1 << 64) - 3, txnid_least_bits=least))
    assert [row["txn"] for row in found] == [{"most": -3, "least": signed(least)}]
    assert [one.txn for one in lives] == [((1 << 64) - 3, least)]


@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize(
    "fields",
    [
        {"uuid": "a", "chunk_id": -1, "num_chunks_from_msg": -1},
        {"uuid": "a", "chunk_id": 0, "num_chunks_from_msg": -5},
        {"num_messages_in_batch": -5},
        {"marker_type": -7},
    ],
)
def test_negative_numbers_end_nothing(rows, direction, fields):
    """Negative int32 fields of the metadata are encoded in ten bytes; the protocol allows negative values."""
    made, _ = rows(*WAYS[direction](**fields))
    assert [row["state"] for row in made]


SUBSCRIBED = [
    (True, push_frame(pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=0, consumer_id=3, request_id=2))),
    (False, push_frame(pb.CommandSuccess(request_id=2))),
]


def id_of(ledger, entry_id):
    return pb.MessageIdData(ledgerId=ledger % (1 << 64), entryId=entry_id % (1 << 64))


def of_ids(places):
    """Return frames of a consumer that acknowledges two of three messages with these ids."""
    sides = PRODUCER + SUBSCRIBED
    for sequence, place in enumerate(places):
        sides.append(send(sequence))
        sides.append((False, push_send_receipt(1, sequence, *(one % (1 << 64) for one in place), 0)))
    sides += [(False, push_frame(pb.CommandMessage(consumer_id=3, message_id=id_of(*one)), entry())) for one in places]
    again = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=3, message_ids=[id_of(*places[2])])
    ack = pb.CommandAck(consumer_id=3, ack_type=1, message_id=[id_of(*places[1])])
    return [*sides, (True, push_frame(ack)), (True, push_frame(again))]


HIGH = [5, 1 << 40, (1 << 40) + 1, 1 << 62, LONGEST - 2]


@pytest.mark.parametrize("ledger", [*HIGH, LONGEST])
@pytest.mark.parametrize("first", [0, *HIGH])
def test_ids_of_any_height_are_ids(rows, ledger, first):
    places = [(ledger, first + at) for at in range(3)]
    found, lives = rows(*of_ids(places))
    states = {(one.ledger, one.entry): one.state for one in lives}
    assert {(row["ledger"], row["entry"]): row["state"] for row in found} == states
    assert states == dict(zip(places, ("acked", "acked", "unacked"), strict=True))


@pytest.mark.parametrize("ledger", [3, LONGEST, -(1 << 63), -2, -1])
@pytest.mark.parametrize("entry_id", [3, LONGEST, -(1 << 63), -2, -1])
def test_ids_that_are_negative_end_nothing(rows, ledger, entry_id):
    """Brokers do not assign these ids: a MESSAGE with one has no row, and other rows do not change."""
    odd = of_ids([(ledger, entry_id)] * 3)
    late = message(7)
    found, _ = rows(*odd, late)
    assert [row["state"] for row in found if (row["ledger"], row["entry"]) == (5, 7)] == ["unacked"]


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
@pytest.mark.parametrize("ledger", [5, 7])
def test_a_jump_to_a_far_entry_is_not_walked(rows, kind, ledger):
    """Entries between two deliveries are processed one by one, but only a limited number."""
    subscribe = pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=kind, consumer_id=3, request_id=2)
    sides = [*PRODUCER, (True, push_frame(subscribe)), SUBSCRIBED[1], message(0)]
    far = pb.CommandMessage(consumer_id=3, message_id=id_of(ledger, 1 << 40))
    sides += [(False, push_frame(far, entry())), send(), (False, push_send_receipt(1, 1, ledger, 1 << 50, 0))]
    found, lives = rows(*sides, (True, push_frame(pb.CommandFlow(consumer_id=3, messagePermits=100))), message(1))
    assert sorted(row["state"] for row in found) == sorted(one.state for one in lives)
    assert len(found) == 4


def test_an_entry_below_zero_is_followed_by_the_next_ledger(rows):
    """The ACK does not acknowledge all entries up to 0."""
    odd, late = (pb.CommandMessage(consumer_id=3, message_id=id_of(*at)) for at in ((0, 1 << 63), (1, 1)))
    receipt = (False, push_send_receipt(1, 1, 1, 2, 0))
    found, _ = rows(
        *PRODUCER, *SUBSCRIBED, send(), receipt, *((False, push_frame(one, entry())) for one in (odd, late))
    )
    assert [row["state"] for row in found if (row["ledger"], row["entry"]) == (1, 1)] == ["unacked"]


@pytest.mark.parametrize("count", [1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("times", [1, 2])
def test_redelivery_counts_are_limited_to_the_column(rows, count, times):
    one = pb.CommandMessage(consumer_id=3, message_id=id_of(5, 0), redelivery_count=count)
    found, _ = rows(*PRODUCER, *SUBSCRIBED, *[(False, push_frame(one, entry()))] * times)
    assert found[0]["deliveries"][0]["redelivery_count"] == min(count, (1 << 31) - 1)


@pytest.mark.parametrize("number", [1, LONGEST, 1 << 63, (1 << 64) - 1])
def test_producers_and_consumers_have_any_id(rows, number):
    """The 64 bits appear as a signed number; -1 means absent."""
    opened = pb.CommandProducer(topic=TOPIC, producer_id=number, request_id=1, producer_name="my producer")
    sides = [*PRODUCER[:2], (True, push_frame(opened)), PRODUCER[3]]
    command = pb.CommandSend(producer_id=number, sequence_id=1, num_messages=1)
    sent = (True, push_frame(command, entry()))
    subscribe = pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=0, consumer_id=number, request_id=2)
    delivered = pb.CommandMessage(consumer_id=number, message_id=id_of(5, 0))
    sides += [sent, (False, push_send_receipt(number, 1, 5, 0, 0)), sent]
    sides += [(True, push_frame(subscribe)), SUBSCRIBED[1], (False, push_frame(delivered, entry()))]
    found, _ = rows(*sides)
    (row,) = [one for one in found if one["ledger"] == 5]
    assert row["producer"]["producer_id"] == (signed(number) if signed(number) != -1 else None)
    assert number > LONGEST or [one["consumer_id"] for one in row["deliveries"]] == [number]


@pytest.mark.slow
@pytest.mark.parametrize("field", [b"\x58", b"\xa0\x01"])
def test_32_bit_numbers_of_redelivered_messages_are_signed(bulk, recorded, field):
    """num_messages_in_batch and marker_type of 2^40: rows of resent SENDs are encoded as frames again."""
    metadata = pb.MessageMetadata(producer_name="my producer", sequence_id=1, publish_time=5).SerializeToString()
    metadata += field + push_varint(1 << 40)
    again = push_frame(pb.CommandSend(producer_id=1, sequence_id=1, num_messages=1))[4:]
    again += len(metadata).to_bytes(4, "big") + metadata + b"hello"
    sent = (True, len(again).to_bytes(4, "big") + again)
    recording = recorded(taken([*PRODUCER, sent, RECEIPT, sent, sent]))
    counts = {len(bulk(recording, random.Random(seed)).messages()) for seed in range(20)}
    assert counts == {len(bulk(recording).messages())}


@pytest.mark.parametrize("cut", [0, 1, 490])
def test_a_dead_letter_that_is_cut_is_a_message(rows, cut):
    """Only the head of the frame was captured."""
    metadata = pb.MessageMetadata(producer_name="my producer", sequence_id=1, publish_time=5)
    metadata.properties.add(key="REAL_TOPIC", value=TOPIC)
    command = pb.CommandSend(producer_id=1, sequence_id=1, num_messages=1)
    data = push_frame(command, push_entry(metadata, bytes(500), checksum=True))
    found, _ = rows(*PRODUCER, (True, data[: len(data) - cut]))
    assert [(row["producer"]["sequence_id"], row["producer"]["size"]) for row in found] == [(1, 500)]
