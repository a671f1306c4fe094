"""The fast encoder of MESSAGE produces the same bytes as protobuf, with the partition of every message."""

from hypothesis import example, given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.minibroker.topics.message_frames import MessageFrameWriter

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))


@given(NUMBERS, st.integers(-1, 300), st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 2), st.binary(max_size=40))))
@example(2**64 - 1, 2**31 - 1, [(2**63 - 1, 2**63 - 1, 0, b"x")])
@example(1, -1, [(1, 1, 0, b"x"), (1, 1, 1, b"x")])
def test_the_same_bytes(consumer_id, partition, entries):
    deliveries = MessageFrameWriter(consumer_id, partition)
    for ledger, entry, count, data in entries:
        place = pb.MessageIdData(ledgerId=ledger, entryId=entry, partition=partition)
        message = pb.CommandMessage(consumer_id=consumer_id, message_id=place)
        if count:
            message.redelivery_count = count
        assert deliveries.write(ledger, entry, count, data) == push_frame(message, data)
