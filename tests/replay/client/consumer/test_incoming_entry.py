"""Batches that are split without protobuf, compared with the codec, which uses protobuf."""

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.batch import join_batch, split_batch
from pcli.codec.proto import pb
from pcli.replay.client.consumer.incoming_entry import IncomingEntry, IncomingMessage, cut
from pcli.replay.client.message_ids import AckSet, ClientMessageId

SINGLES = st.builds(
    pb.SingleMessageMetadata,
    partition_key=st.one_of(st.none(), st.text(max_size=200)),
    properties=st.lists(st.builds(pb.KeyValue, key=st.text(max_size=5), value=st.text(max_size=150)), max_size=2),
    event_time=st.one_of(st.none(), st.integers(0, 2**63)),
    sequence_id=st.one_of(st.none(), st.integers(0, 2**40)),
    compacted_out=st.one_of(st.none(), st.booleans()),
    null_value=st.one_of(st.none(), st.booleans()),
)
MESSAGES = st.lists(st.tuples(SINGLES, st.binary(max_size=300)), max_size=8)


def expected(data, count):
    pieces, problem = split_batch(data, count)
    return [(start, end, single.compacted_out) for single, start, end in pieces], problem


@given(MESSAGES)
def test_batches_are_split_as_by_protobuf(messages):
    data = join_batch(messages)
    pieces, good = cut(data, len(messages))
    assert good
    whole, problem = expected(data, len(messages))
    assert problem is None
    assert [(end, stop < 0) for _, stop, end in pieces] == [(end, out) for _, end, out in whole]
    assert [stop for _, stop, _ in pieces if stop >= 0] == [start for start, _, out in whole if not out]


@given(MESSAGES.filter(bool), st.data())
def test_a_malformed_batch_ends_at_the_error(messages, data):
    whole = join_batch(messages)
    short = whole[: data.draw(st.integers(0, len(whole) - 1))]
    pieces, good = cut(short, len(messages))
    assert not good
    assert pieces == cut(whole, len(messages))[0][: len(pieces)]


@given(st.binary(max_size=60), st.integers(0, 5))
def test_arbitrary_bytes_do_not_raise(data, count):
    pieces, good = cut(data, count)
    assert len(pieces) <= count
    assert good == (len(pieces) == count)


def test_the_fields_of_a_message():
    singles = [(pb.SingleMessageMetadata(partition_key="k", sequence_id=n), b"payload-%d" % n) for n in range(3)]
    data = join_batch(singles)
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=5, num_messages_in_batch=3)
    arrival = IncomingEntry(ClientMessageId(7, 1, 2, topic="t"), metadata, data, None)
    arrival.count, arrival.acks = 3, AckSet(7)
    messages = [IncomingMessage(arrival, index, *piece) for index, piece in enumerate(cut(data, 3)[0])]
    assert [message.data for message in messages] == [b"payload-0", b"payload-1", b"payload-2"]
    last = messages[2]
    assert (last.size, last.content.key, last.content.sequence_id, last.publish_time) == (9, "k", 2, 5)
    assert (last.id, last.id.topic, last.id.batch_size) == (ClientMessageId(7, 1, 2, 2), "t", 3)
    assert last.id.acks is messages[0].id.acks


def test_malformed_fields_of_a_message_are_absent():
    """The fast splitter reads only the size; the other bytes may be invalid protobuf."""
    data = b"\x00\x00\x00\x04\x18\x05\x40\xffhello"
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=5, num_messages_in_batch=1)
    [piece], _ = cut(data, 1)
    message = IncomingMessage(IncomingEntry(ClientMessageId(7, 1), metadata, data, None), 0, *piece)
    assert (message.data, message.content.payload) == (b"hello", b"hello")
    assert (message.content.key, message.content.properties) == (None, [])
