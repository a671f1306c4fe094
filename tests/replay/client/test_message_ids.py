"""Message ids: comparison, and acknowledgement of parts of a batch."""

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.message_ids import EARLIEST, LATEST, AckSet, ClientMessageId


def batch(count):
    acks = AckSet((1 << count) - 1)
    return [ClientMessageId(7, 1, -1, index, count, acks) for index in range(count)]


def test_ledger_entry_partition_and_index_order_them():
    ids = [
        EARLIEST,
        ClientMessageId(1, 5),
        ClientMessageId(2, 0),
        ClientMessageId(2, 0, 0),
        ClientMessageId(2, 0, 0, 1),
        ClientMessageId(2, 1),
        LATEST,
    ]
    assert sorted({*ids}) == ids
    assert len(set(ids)) == len(ids)


def test_topic_and_batch_size_are_not_compared():
    one, other = ClientMessageId(1, 2, 0, 3, 10, None, "a"), ClientMessageId(1, 2, 0, 3, topic="b")
    assert one == other
    assert hash(one) == hash(other)


def test_a_batch_is_complete_with_its_last_message():
    assert [one.acknowledge() for one in batch(3)] == [False, False, True]


def test_a_cumulative_ack_includes_all_before_it():
    ids = batch(100)
    assert not ids[98].acknowledge(cumulative=True)
    assert ids[0].acks.bits == 1 << 99
    assert ids[99].acknowledge(cumulative=True)


def test_a_batch_of_unknown_size_is_never_complete():
    assert not ClientMessageId(7, 1, -1, 0, 5).acknowledge()
    assert ClientMessageId(7, 1, -1, 0).acknowledge()


def test_the_entry_of_a_message():
    assert batch(2)[1].whole == ClientMessageId(7, 1)
    chunked = ClientMessageId(7, 3, first=ClientMessageId(7, 1))
    assert chunked.whole is chunked


@pytest.mark.parametrize("text", ["1:2", "1:2:0", "1:2:-1:3"])
def test_the_text_form(text):
    assert str(ClientMessageId.parse(text)) == text


def test_the_protobuf_form():
    data = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1, partition=3)
    assert ClientMessageId.of(data) == ClientMessageId(-1, -1, 3)
