"""Live ids in sent commands and in compared responses."""

import re

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame, pull_type
from pcli.codec.wire.message_id import MessageId
from pcli.replay.player.id_translation import Ids


def frame(body, entry=b""):
    data = push_frame(body, entry)
    return Frame(data, pull_type(data, 8, 8 + int.from_bytes(data[4:8], "big")))


def last_sent(ids, body, entry=b""):
    data = ids.rewritten(frame(body, entry))
    return Frame(data, frame(body).type).command if data else None


@pytest.fixture
def ids():
    """Ids that map the captured entry 7:3 to the live entry 1:0."""
    found = Ids()
    receipt = pb.CommandSendReceipt(producer_id=1, sequence_id=0)
    captured, live = pb.CommandSendReceipt(), pb.CommandSendReceipt()
    captured.CopyFrom(receipt)
    live.CopyFrom(receipt)
    captured.message_id.CopyFrom(MessageId(7, 3).proto())
    live.message_id.CopyFrom(MessageId(1, 0).proto())
    found.map_ids(captured, live)
    return found


def test_an_ack_has_the_live_entry_and_the_captured_partition_batch_and_bits(ids):
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
    position = MessageId(7, 3, 2, 5).proto()
    position.ack_set.append(6)
    ack.message_id.append(position)
    (live,) = last_sent(ids, ack).ack.message_id
    assert (live.ledgerId, live.entryId, live.partition, live.batch_index, list(live.ack_set)) == (1, 0, 2, 5, [6])


def test_unknown_ids_are_removed(ids):
    ask = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
    ask.message_ids.extend([MessageId(7, 4).proto(), MessageId(7, 3).proto()])
    (live,) = last_sent(ids, ask).redeliverUnacknowledgedMessages.message_ids
    assert (live.ledgerId, live.entryId) == (1, 0)
    assert ids.unknown == [(7, 4)]
    del ask.message_ids[1]
    assert last_sent(ids, ask) is None


@pytest.mark.parametrize("position", [(-1, -1), (2**63 - 1, 2**63 - 1)])
def test_earliest_and_latest_are_unchanged(ids, position):
    seek = pb.CommandSeek(consumer_id=1, request_id=1)
    seek.message_id.CopyFrom(MessageId(*position).proto())
    assert ids.rewritten(frame(seek)) == frame(seek).data


def test_an_unchanged_frame_has_the_captured_bytes(ids):
    """Protobuf would write this frame's fields in another order."""
    data = bytes.fromhex("0000000a 00000006 5a04 1001 0800 080b".replace(" ", ""))
    odd = Frame(data[:4] + (len(data) - 8).to_bytes(4, "big") + data[8:], 11)
    assert ids.rewritten(odd) == odd.data


def test_topics_are_mapped_and_mapped_back():
    ids = Ids(topics=[(re.compile("/old/"), "/new/")])
    live = last_sent(ids, pb.CommandLookupTopic(topic="persistent://a/old/t", request_id=1)).lookupTopic.topic
    assert live == "persistent://a/new/t"
    assert list(ids.captured_topics([live, "other"])) == ["persistent://a/old/t", "other"]


def test_a_generated_producer_name_is_mapped():
    ids = Ids()
    captured = pb.CommandProducerSuccess(request_id=1, producer_name="standalone-0-9")
    ids.map_ids(captured, pb.CommandProducerSuccess(request_id=1, producer_name="standalone-3-0"))
    again = pb.CommandProducer(topic="t", producer_id=1, request_id=2, producer_name="standalone-0-9")
    assert last_sent(ids, again).producer.producer_name == "standalone-3-0"


def test_a_name_that_the_client_chose_is_not_mapped():
    ids = Ids()
    ids.rewritten(frame(pb.CommandProducer(topic="t", producer_id=1, request_id=1, producer_name="mine")))
    ids.map_ids(
        pb.CommandProducerSuccess(request_id=1, producer_name="mine"),
        pb.CommandProducerSuccess(request_id=1, producer_name="other"),
    )
    assert ids.names == {"mine": "mine"}


def test_a_live_name_maps_to_one_captured_name():
    ids = Ids()
    for captured in ("standalone-0-1", "standalone-0-2"):
        ids.map_ids(
            pb.CommandProducerSuccess(request_id=1, producer_name=captured),
            pb.CommandProducerSuccess(request_id=1, producer_name="standalone-9-9"),
        )
    assert ids.names == {"standalone-0-1": "standalone-9-9"}


def test_an_empty_schema_version_is_not_mapped():
    ids = Ids()
    ids.map_ids(
        pb.CommandProducerSuccess(request_id=1, producer_name="p", schema_version=b""),
        pb.CommandProducerSuccess(request_id=1, producer_name="p", schema_version=b"\0" * 8),
    )
    assert ids.versions == {}


def test_entries_of_a_ledger_keep_their_order():
    ids = Ids(positions={(7, 0): (1, 5), (7, 1): (1, 4)}, live_positions={(1, 5): (7, 0), (1, 4): (7, 1)})
    assert not ids.same_place((7, 1), (1, 4))


def test_transactions():
    ids = Ids()
    captured = pb.CommandNewTxnResponse(request_id=1, txnid_most_bits=0, txnid_least_bits=4)
    ids.map_ids(captured, pb.CommandNewTxnResponse(request_id=1, txnid_most_bits=2, txnid_least_bits=9))
    end = last_sent(ids, pb.CommandEndTxn(request_id=2, txnid_most_bits=0, txnid_least_bits=4)).endTxn
    assert (end.txnid_most_bits, end.txnid_least_bits) == (2, 9)


def test_shifted_delivery_times_are_recognized_in_messages():
    ids = Ids(shift_ms=60_000)
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=5, deliver_at_time=1000)
    send = frame(pb.CommandSend(producer_id=1, sequence_id=0), push_entry(metadata, b"later"))
    data = ids.rewritten(send)
    live = Frame(data, send.type)
    assert live.checksum == "good"
    assert live.metadata.deliver_at_time == 61_000
    assert live.metadata.publish_time == 5
    assert ids.content(live) == send.data[send.parts.checked_start :]


def test_the_first_mapping_counts(ids):
    assert ids.same_place((7, 3), (1, 0))
    assert not ids.same_place((7, 3), (1, 1))
    assert not ids.same_place((7, 9), (1, 0))


def test_unsent_entries_are_mapped_by_their_entry_id(ids):
    assert ids.same_place((9, 4), (2, 4))
    assert not ids.same_place((9, 5), (2, 4))
    assert not ids.same_place((9, 5), (2, 6))
    assert ids.same_place((-1, -1), (-1, -1))


def test_a_topic_name_that_is_not_utf_8():
    assert Ids().topic(b"orders\xff") == "orders\\xff"
