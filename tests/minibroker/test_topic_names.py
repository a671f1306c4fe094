"""Valid and invalid names, as on 4.2.4."""

from __future__ import annotations

import pytest

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused
from pcli.minibroker.topic_names import check_namespace, is_system, namespace_of, topic_name


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("t", "persistent://public/default/t"),
        ("a/b/t", "persistent://a/b/t"),
        ("non-persistent://a/b/t-partition-3", "non-persistent://a/b/t-partition-3"),
    ],
)
def test_topics(text, full):
    assert str(topic_name(text)) == full


@pytest.mark.parametrize("text", ["", "a/b", "a/b/c/d", "x://a/b/c", "topic://a/b/c", "persistent://a/cluster/b/t"])
def test_invalid_topics(text):
    with pytest.raises(Refused) as caught:
        topic_name(text)
    assert caught.value.code == pb.InvalidTopicName


def test_namespaces():
    assert check_namespace("a-=:._1/b") == "a-=:._1/b"
    assert namespace_of(topic_name("a/b/t")) == "a/b"


@pytest.mark.parametrize("text", ["", "a", "a/", "/b", "a/b/c", "a/b c", "ä/b"])
def test_invalid_namespaces(text):
    with pytest.raises(RemoteError):
        check_namespace(text)


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("__change_events", True),
        ("__change_events-partition-0", True),
        ("__transaction_buffer_snapshot", True),
        ("__transaction_buffer_snapshot_segments", True),
        ("t-sub__transaction_pending_ack", True),
        ("pulsar/system/anything", True),
        ("__change_events_of_mine", False),
        ("__mine", False),
        ("pulsar/other/anything", False),
    ],
)
def test_system_topics(text, system):
    assert is_system(TopicName.parse(text)) is system
