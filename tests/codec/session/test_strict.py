"""Commands that a peer accepts, and those after which it ends the connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.session import read_command
from pcli.codec.wire.build import command_of


def test_a_command_and_its_body():
    command, body = read_command(command_of(pb.CommandFlow(consumer_id=1, messagePermits=2)).SerializeToString())
    assert command.type == pb.BaseCommand.FLOW
    assert body == pb.CommandFlow(consumer_id=1, messagePermits=2)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "without a known type"),
        (b"\xff" * 20, "not a command"),
        (b"\x08\xc7\x01", "without a known type"),
        (b"\x08\x17", "without its body"),
        (b"\x08\x0b\x5a\x02\x08\x01", "FLOW lacks flow.messagePermits"),
        (b"\x08\x02\x12\x00", "CONNECT lacks connect.client_version"),
        # SUBSCRIBE whose subType is an unknown enum value: the required field is then missing
        (b"\x08\x04\x22\x0c\x0a\x01t\x12\x01s\x18\x09\x20\x01\x28\x01", "SUBSCRIBE lacks subscribe.subType"),
    ],
)
def test_rejected_commands(data, text):
    with pytest.raises(RemoteError, match=text):
        read_command(data)


def test_invalid_utf8():
    """Java replaces each invalid byte by one character."""
    sent = command_of(pb.CommandLookupTopic(topic="aXc", request_id=1)).SerializeToString()
    _, body = read_command(sent.replace(b"aXc", b"a\xffc"))
    assert body.topic == "a\ufffdc"


def test_invalid_utf8_in_lists_and_messages():
    add = pb.CommandAddSubscriptionToTxn(request_id=1, subscription=[pb.Subscription(topic="aXc", subscription="s")])
    _, body = read_command(command_of(add).SerializeToString().replace(b"aXc", b"a\xffc"))
    assert body.subscription[0].topic == "a\ufffdc"
    lists = pb.CommandAddPartitionToTxn(request_id=1, partitions=["ok", "aXc"])
    _, body = read_command(command_of(lists).SerializeToString().replace(b"aXc", b"a\xffc"))
    assert list(body.partitions) == ["ok", "a\ufffdc"]


@given(st.binary(max_size=200))
def test_any_bytes(data):
    try:
        command, body = read_command(data)
    except RemoteError:
        return
    assert command.IsInitialized()
    assert body.IsInitialized()
