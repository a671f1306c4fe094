"""Frames from messages."""

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import command_of, push_entry, push_frame
from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.frame import Frame


@pytest.mark.parametrize("row", COMMANDS.values(), ids=lambda row: row.name)
def test_every_body_determines_its_type(row):
    body = type(getattr(pb.BaseCommand(), row.field))()
    command = command_of(body)
    assert command.type == row.number
    assert command.HasField(row.field)


def test_a_message_that_is_not_a_body():
    with pytest.raises(LocalError, match="KeyValue is not a command"):
        command_of(pb.KeyValue(key="a", value="b"))


def test_a_missing_required_field_is_named():
    with pytest.raises(LocalError, match="messagePermits"):
        push_frame(pb.CommandFlow(consumer_id=1))
    with pytest.raises(LocalError, match="publish_time"):
        push_entry(pb.MessageMetadata(producer_name="p", sequence_id=1), b"")


def test_the_blocks_are_in_the_brokers_order():
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
    entry = push_entry(metadata, b"x", broker_entry=pb.BrokerEntryMetadata(index=3))
    # magic, size 2, index (field 2) = 3, then the checksum's magic
    assert entry[:10].hex() == "0e02" + "00000002" + "1003" + "0e01"
    assert Frame.of(push_frame(pb.CommandSend(producer_id=1, sequence_id=1), entry)).problems == []
