"""The fast encoder of MESSAGE produces the same bytes as the general encoder."""

from hypothesis import example, given
from hypothesis import strategies as st

from pcli.codec.wire.hot import push_message
from pcli.minibroker.topics.message_frames import MessageFrameWriter

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))


@given(NUMBERS, st.integers(-1, 300), st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 2), st.binary(max_size=40))))
@example(2**64 - 1, 2**31 - 1, [(2**63 - 1, 2**63 - 1, 0, b"x")])
def test_the_same_bytes(consumer_id, partition, entries):
    deliveries = MessageFrameWriter(consumer_id, partition)
    for ledger, entry, count, data in entries:
        expected = push_message(consumer_id, ledger, entry, partition, count, data)
        assert deliveries.write(ledger, entry, count, data) == expected
