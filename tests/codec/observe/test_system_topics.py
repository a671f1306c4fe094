"""Names that only a broker uses, from the captures and the broker's own constants."""

from __future__ import annotations

from collections import defaultdict

import pytest

from pcli.codec.observe import find_field
from pcli.codec.observe.system_topics import is_neutral_topic, is_system_name, is_system_subscription, is_system_topic
from pcli.codec.wire.commands import name_of


@pytest.mark.parametrize(
    ("topic", "system"),
    [
        ("persistent://public/default/__change_events", True),
        ("persistent://public/default/__change_events-partition-1", True),
        ("persistent://public/default/__transaction_buffer_snapshot", True),
        ("persistent://pulsar/system/loadbalancer-broker-load-data", True),
        ("non-persistent://pulsar/system/x", True),
        ("__transaction_buffer_snapshot", True),
        ("persistent://public/default/orders", False),
        ("persistent://public/default/_orders", False),
        ("persistent://public/pulsar/system", False),
        ("persistent://pulsar/systems/x", False),
        ("orders", False),
        ("", False),
        ("persistent://pulsar/system/transaction_coordinator_assign-partition-3", False),
    ],
)
def test_topics(topic, system):
    assert is_system_topic(topic) is system


def test_the_topic_of_coordinators_is_neutral():
    assert is_neutral_topic("persistent://pulsar/system/transaction_coordinator_assign")
    assert not is_neutral_topic("persistent://pulsar/system/other")


def test_subscriptions_and_producers():
    names = ("__compaction", "__system_reader-reader-0e5315195a", "pulsar.repl.west", "orders", "compaction")
    assert [is_system_subscription(name) for name in names] == [True, True, True, False, False]
    assert [is_system_name(name) for name in ("pulsar.repl.west-->east", "standalone-0-1")] == [True, False]


def test_system_traffic_of_a_real_broker_is_marked(small):
    """txn-commit: the events of the truth file belong to the application; its SENDs are not system traffic."""
    truth = small.truth("java/txn-commit")
    topics = {one["topic"] for one in truth["events"] if "topic" in one}
    facts = small.facts("java/txn-commit")
    by_topic = defaultdict(set)
    for one in facts:
        found = find_field("pulsar.topic").get(one)
        if isinstance(found, str) and not name_of(one.frame.type).startswith("END_TXN_ON"):
            by_topic[found].add(one.system)
    assert all(by_topic[topic] == {False} for topic in topics if topic in by_topic)
    assert any(topic in by_topic for topic in topics)
    coordinator = [one for one in facts if name_of(one.frame.type).startswith("END_TXN_ON")]
    assert coordinator
    assert all(one.system for one in coordinator)
