"""Commands of which a capture contains only the beginning."""

from __future__ import annotations

import struct

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame

SEEK = pb.CommandSeek(consumer_id=3, request_id=9, message_id=pb.MessageIdData(ledgerId=7, entryId=300, partition=2))
WHOLE = push_frame(SEEK)


@pytest.mark.parametrize(
    ("end", "known"),
    [
        (len(WHOLE), SEEK),
        (len(WHOLE) - 1, pb.CommandSeek(consumer_id=3, request_id=9, message_id={"ledgerId": 7, "entryId": 300})),
        (len(WHOLE) - 3, pb.CommandSeek(consumer_id=3, request_id=9, message_id={"ledgerId": 7})),
        (len(WHOLE) - 7, pb.CommandSeek(consumer_id=3, request_id=9, message_id={})),
        (15, pb.CommandSeek(consumer_id=3)),
        (11, pb.CommandSeek()),
    ],
)
def test_complete_fields_of_nested_messages_are_known(end, known):
    assert Frame.of(WHOLE[:end]).command.seek == known


def test_deeply_nested_messages_end_at_the_limit_of_protobuf():
    size = b"\xff\xff\x03"
    command = b"\x08\x1c\xe2\x01" + size + b"\x1a" + size + (b"\x3a" + size) * 10_000
    data = struct.pack(">II", 70_000, 69_000) + command
    assert Frame.of(data).command.type == pb.BaseCommand.SEEK
