"""The features available to old clients, compared with the protocol versions in the .proto."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.session.versions import NEWEST, supports_command


def test_the_newest_version_equals_the_protos():
    assert max(pb.ProtocolVersion.values()) == NEWEST


@pytest.mark.parametrize(
    ("command", "since"),
    [
        ("PING", 1),
        ("REACHED_END_OF_TOPIC", 9),
        ("ACTIVE_CONSUMER_CHANGE", 12),
        ("AUTH_CHALLENGE", 14),
        ("TOPIC_MIGRATED", 20),
        ("SUCCESS", 0),
    ],
)
def test_supports_command(command, since):
    assert supports_command(since, command)
    assert not supports_command(since - 1, command)
