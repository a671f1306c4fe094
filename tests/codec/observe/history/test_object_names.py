"""Names that select an object."""

import pytest

from pcli.codec.observe.history.object_names import EXACT, NameMatcher

TOPIC = "persistent://public/default/orders"
PART = "persistent://tenant/shop/orders-partition-2"


@pytest.mark.parametrize("name", [TOPIC, "public/default/orders", "orders"])
def test_names_of_a_topic(name):
    assert NameMatcher(name).topic(TOPIC) == EXACT


@pytest.mark.parametrize("name", ["tenant/shop/orders", "orders", "persistent://tenant/shop/orders"])
def test_a_partitioned_topic_finds_its_partitions_unless_a_topic_has_the_name(name):
    assert 0 < NameMatcher(name).topic(PART) < EXACT
    assert NameMatcher("orders").topic(TOPIC) == EXACT


@pytest.mark.parametrize("name", ["billing", "orders/billing", f"{TOPIC}/billing"])
def test_names_of_a_subscription(name):
    assert NameMatcher(name).subscription(TOPIC, "billing") == EXACT


@pytest.mark.parametrize("name", ["worker", "billing/worker", "orders/billing/worker", "3#0", "billing/3#0"])
def test_names_of_a_consumer(name):
    assert NameMatcher(name).consumer(TOPIC, "billing", "worker", 3, 0) == EXACT


@pytest.mark.parametrize("name", ["web", "orders/web", "3#1"])
def test_names_of_a_producer(name):
    assert NameMatcher(name).producer(TOPIC, "web", 3, 1) == EXACT


def test_a_consumer_outside_the_capture_has_no_topic():
    assert NameMatcher("3#0").consumer("", "", "3#0", 3, 0) == EXACT
    assert not NameMatcher("/3#0").consumer("", "", "3#0", 3, 0)


@pytest.mark.parametrize("name", ["7", "10.0.0.7:40000", "[::1]:6650"])
def test_names_of_a_connection(name):
    assert NameMatcher(name).connection(7, ("10.0.0.7", 40000), ("::1", 6650)) == EXACT


def test_ids_of_messages():
    assert str(NameMatcher("7:12").message_id) == "7:12"
    assert NameMatcher("orders").message_id is None
    assert NameMatcher("-1:-1").message_id is None


def test_a_kind_excludes_other_kinds():
    matcher = NameMatcher("orders", "producer")
    assert not matcher.topic(TOPIC)
    assert not matcher.subscription(TOPIC, "orders")
    assert not matcher.consumer(TOPIC, "s", "orders", 1, 1)
    assert not matcher.connection(1, ("orders", 1), ("", 1))
    assert NameMatcher("7:12", "topic").message_id is None
    assert matcher.producer(TOPIC, "orders", 1, 1) == EXACT
