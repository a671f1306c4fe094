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
        ("Persistent://a/b/t", "persistent://a/b/t"),
        ("non-persistent://a/b/t-partition-3", "non-persistent://a/b/t-partition-3"),
    ],
)
def test_topics(text, full):
    assert str(topic_name(text)) == full


_V1 = (
    "V1 topic names (with cluster component) are no longer supported. "
    "Please use the V2 format: '<domain>://tenant/namespace/topic'. Got: {}"
)
_SHORT = "Invalid short topic name '{}', it should be in the format of <tenant>/<namespace>/<topic> or <topic>"
_PARTS = "Invalid topic name {}"
_BLANK = "Invalid topic name: {}. Topic local name must not be blank."
_SEGMENT = (
    "Invalid segment topic name: local name must contain '<parent-topic>/<hashStart>-<hashEnd>-<segmentId>'. Got: {}"
)
_SAME = ""


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("a/b", _SHORT, _SAME),
        ("a/b/c/d", _SHORT, _SAME),
        ("", _BLANK, _SAME),
        ("://", _PARTS, "Invalid topic domain: ''"),
        ("ftp://public/default/t", "Invalid topic domain: 'ftp'", _SAME),
        ("x://", _PARTS, "Invalid topic domain: 'x'"),
        ("persistent://", _PARTS, _SAME),
        ("persistent://a", _PARTS, _SAME),
        ("persistent://a/b", _PARTS, _SAME),
        ("persistent://a/b/", _BLANK, _SAME),
        ("persistent://a/b/ ", _BLANK, _SAME),
        ("persistent:///b/c", "Invalid topic name /b/c", _SAME),
        ("persistent://a//c", "Invalid topic name a//c", _SAME),
        ("persistent://a b/c/d", "Invalid named entity: a b", _SAME),
        ("persistent://a/c d/e", "Invalid named entity: c d", _SAME),
        ("persistent://a/b/c/d", _V1, _SAME),
        ("persistent://a/b/c/", "Invalid topic name a/b/c/", _SAME),
        ("persistent://a//c/d", "Invalid topic name a//c/d", _SAME),
        ("persistent://a/b//d", "Invalid topic name a/b//d", _SAME),
        (" ", _BLANK, _SAME),
        ("/", _PARTS, _SAME),
        ("//", _PARTS, _SAME),
        ("a//b", _PARTS, _SAME),
        ("/a/b", _PARTS, _SAME),
        ("a/b/", _BLANK, _SAME),
        ("public/default/ ", _BLANK, _SAME),
        ("topic://public/default/", "Invalid topic domain: 'topic'", "Invalid topic name public/default/"),
        ("topic://public/default", _PARTS, _SAME),
        (
            "segment://public/default/t",
            "Invalid topic domain: 'segment'",
            _SEGMENT,
        ),
        (
            "segment://public/default/t/x",
            _V1,
            "Invalid segment descriptor: expected '<hexStart>-<hexEnd>-<segmentId>', got: 'x'",
        ),
        ("segment://a", _PARTS, _SAME),
        (
            "segment://a/b/c/d/e",
            _V1,
            "Invalid segment descriptor: expected '<hexStart>-<hexEnd>-<segmentId>', got: 'e'",
        ),
        ("persistent:/public/default/t", _SHORT, _SAME),
        ("persistent://public/default/t/u/v", _V1, _SAME),
        ("a://b://c", "Invalid topic name b://c", "Invalid topic domain: 'a'"),
        ("segment://p q/default/t/0000-ffff-0", _V1, "Invalid named entity: p q"),
        ("non-persistent://a", _PARTS, _SAME),
    ],
)
def test_invalid_topics(text, old, new):
    """The messages of 4.2.4, and of 5.0.1 with scalable topics, measured with LOOKUPs."""
    for scalable, said in ((False, old), (True, new or old)):
        with pytest.raises(Refused) as caught:
            topic_name(text, scalable=scalable)
        assert caught.value.code == pb.InvalidTopicName
        assert caught.value.text == f"Invalid topic name: {said.format(text)}"


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
