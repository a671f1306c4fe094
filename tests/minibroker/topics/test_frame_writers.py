"""The fast encoder of receipts produces the same bytes as protobuf."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.topics.frame_writers import MessageFrameWriter, SendReceiptWriter

_numbers = st.integers(0, 2**64 - 1) | st.sampled_from([2**bits + more for bits in range(1, 64) for more in (-1, 0)])


@given(
    producer=_numbers,
    ids=st.lists(st.tuples(_numbers, _numbers, st.integers(-1, 2**63 - 1), st.integers(-1, 2**63 - 1)), max_size=5),
)
def test_the_bytes_equal_protobufs(producer: int, ids: list[tuple[int, int, int, int]]) -> None:
    receipts = SendReceiptWriter(producer)
    for sequence, highest, ledger, entry in ids:
        expected = pb.CommandSendReceipt(
            producer_id=producer,
            sequence_id=sequence,
            message_id=pb.MessageIdData(ledgerId=ledger % 2**64, entryId=entry % 2**64),
            highest_sequence_id=highest if highest >= sequence else 0,
        )
        assert receipts.write(sequence, highest, ledger, entry) == push_frame(expected)


def test_another_ledger_in_between() -> None:
    receipts = SendReceiptWriter(1)
    read = [pb.BaseCommand.FromString(receipts.write(5, -1, ledger, 0)[8:]) for ledger in (3, 3, 400, 3)]
    assert [command.send_receipt.message_id.ledgerId for command in read] == [3, 3, 400, 3]


@given(
    st.sampled_from([1, 127, 128, 2**64 - 1]),
    st.sampled_from([0, 1, 128, 2**40]),
    st.lists(st.sampled_from([0, 1, 126, 127, 128, 129, 16383, 16384, 2**21, 2**63 - 1]), min_size=1, max_size=9),
    st.sampled_from([0, 1, 127, 16383, 2**63]),
)
def test_a_run_has_the_bytes_of_single_frames(owner, ledger, entry_ids, sequence):
    entries = [Entry(0, ledger, number, bytes(number % 5)) for number in entry_ids]
    sequences = [sequence + number for number in range(len(entries))]
    single, run = SendReceiptWriter(owner), SendReceiptWriter(owner)
    expected = [
        single.write(number, -1, ledger, entry_id) for number, entry_id in zip(sequences, entry_ids, strict=True)
    ]
    assert run.write_run(sequences, entries) == b"".join(expected)
    alone, together = MessageFrameWriter(owner, -1), MessageFrameWriter(owner, -1)
    expected = [alone.write(ledger, one.entry_id, 0, one.data) for one in entries]
    assert b"".join(together.write_run(entries)) == b"".join(expected)


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
