"""The fast encoder writes the same bytes as protobuf.

test_entry_builder.py compares whole entries with those of the Java client.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.batch import join_batch, split_batch
from pcli.codec.proto import pb
from pcli.replay.client.producer.outgoing_message import OutgoingMessage, join_singles


@given(st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 2**63 - 1))))
def test_plain_batch_messages_equal_protobufs_encoding(messages: list[tuple[bytes, int]]) -> None:
    joined = join_singles([OutgoingMessage(payload) for payload, _ in messages], [number for _, number in messages])
    assert joined == join_batch((pb.SingleMessageMetadata(sequence_id=number), payload) for payload, number in messages)


@pytest.mark.parametrize(
    "more",
    [
        {"key": ""},
        {"ordering_key": b""},
        {"properties": {"a": "b"}},
        {"event_time": 0},
        {"null_value": True},
        {"null_key": True},
    ],
)
def test_other_fields_of_batch_messages_are_kept(more: dict[str, Any]) -> None:
    message = OutgoingMessage(b"1", **more)
    assert not message.bare
    pieces, problem = split_batch(join_singles([OutgoingMessage(b"0"), message, OutgoingMessage(b"22")], [5, 6, 7]), 3)
    assert problem is None
    assert [single.sequence_id for single, _, _ in pieces] == [5, 6, 7]
    bare = {field.name for field, _ in pieces[0][0].ListFields()}
    assert {field.name for field, _ in pieces[1][0].ListFields()} - bare
