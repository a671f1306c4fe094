"""Receipts: in order, late, too early, of batches; and the entries to which errors refer."""

from __future__ import annotations

import pytest

from pcli.codec.wire.hot import push_send
from pcli.codec.wire.message_id import MessageId
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.pending_sends import MISMATCH, OpSendMsg, PendingSends


def pending(*ids: tuple[int, int]) -> PendingSends:
    """Entries with these lowest and highest ids."""
    queue = PendingSends()
    for lowest, highest in ids:
        queue.add(OpSendMsg(lowest, highest, [None] * (1 if highest < 0 else highest - lowest + 1), 10, 0))
    return queue


@pytest.mark.parametrize(
    ("sequence_id", "highest", "verdict"),
    [
        (5, 9, "taken"),
        (5, 0, "taken"),  # from brokers that ignore it
        (5, -1, "taken"),
        (5, 5, "taken"),
        (5, 8, MISMATCH),
        (5, 10, MISMATCH),
        (4, 4, None),
        (6, 6, MISMATCH),
        (10, 0, MISMATCH),
    ],
)
def test_a_receipt_of_a_batch(sequence_id: int, highest: int, verdict: str | None) -> None:
    queue = pending((5, 9), (10, -1))
    first = queue.ops[0]
    response = queue.receipt(sequence_id, highest)
    assert response == (first if verdict == "taken" else verdict)
    assert queue.messages == (1 if verdict == "taken" else 6)


def test_a_receipt_of_nothing_is_late() -> None:
    assert pending().receipt(3, 0) is None


def test_an_error_names_the_highest_id_of_the_first_entry() -> None:
    queue = pending((5, 9), (10, -1))
    assert queue.named(9) is queue.ops[0]
    assert queue.named(5) is None
    assert queue.named(10) is None
    queue.pop()
    assert queue.named(10) is queue.ops[0]


def test_receipts_complete_their_callbacks() -> None:
    results: list[object] = []
    op = OpSendMsg(0, 2, [results.append, None, results.append], 0, 0)
    op.flushes.append(results.append)
    op.complete(MessageId(7, 1, 3))
    assert results == [MessageId(7, 1, 3, 0), MessageId(7, 1, 3, 2), None]
    results.clear()
    op.fail(ClientFailure("TimeOut", "late"))
    assert results == [ClientFailure("TimeOut", "late")] * 3


def test_the_last_chunk_completes_the_message() -> None:
    results: list[object] = []
    first, last = OpSendMsg(0, -1, (), 0, 0, last=False), OpSendMsg(0, -1, [results.append], 0, 0)
    first.complete(MessageId(7, 1))
    first.fail(ClientFailure("TimeOut", ""))
    assert results == []
    last.complete(MessageId(7, 2))
    assert results == [MessageId(7, 2)]


def test_an_entry_can_be_replaced_by_others() -> None:
    queue = pending((0, -1), (1, -1), (2, -1))
    first, middle, last = queue.ops
    others = [OpSendMsg(1, -1, (), 0, 0), OpSendMsg(1, -1, [None], 0, 0)]
    queue.replace(middle, others)
    assert list(queue.ops) == [first, *others, last]
    assert queue.messages == 4
    assert queue.after(others[1]) == [others[1], last]
    queue.replace(first)
    assert queue.drain() == [*others, last]
    assert (queue.messages, list(queue.ops)) == (0, [])


def test_an_entry_damaged_in_the_client_fails() -> None:
    op = OpSendMsg(0, -1, [None], 0, 0)
    op.frame = push_send(1, 0, 1, 0, b"\x0a\x01p\x10\x00\x18\x00", b"payload")
    assert op.sound
    op.frame = op.frame[:-1] + b"D"
    assert not op.sound
