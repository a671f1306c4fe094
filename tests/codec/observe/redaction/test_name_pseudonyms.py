"""Pseudonyms hide names but keep the parts that rules read."""

import base64

import pytest

from pcli.codec.observe.redaction import Names
from pcli.codec.observe.system_topics import is_neutral_topic, is_system_name, is_system_subscription, is_system_topic
from pcli.codec.wire.hashes import sticky_hash
from pcli.codec.wire.topic_name import TopicName


def test_each_name_has_its_own_pseudonym():
    names = Names()
    assert names.name("consumer", "ann") == names.name("consumer", "ann") == "consumer-1"
    assert names.name("consumer", "bob") == "consumer-2"
    assert names.name("producer", "ann") == "producer-1"
    assert names.name("consumer", "") == ""


@pytest.mark.parametrize(
    ("topic", "becomes"),
    [
        ("persistent://acme/shop/orders", "persistent://tenant-1/namespace-1/topic-1"),
        ("non-persistent://acme/shop/orders", "non-persistent://tenant-1/namespace-1/topic-1"),
        ("persistent://acme/shop/orders-partition-7", "persistent://tenant-1/namespace-1/topic-1-partition-7"),
        ("persistent://acme/east/shop/orders", "persistent://tenant-1/cluster-1/namespace-1/topic-1"),
        ("segment://acme/shop/orders/0000-7fff-0", "segment://tenant-1/namespace-1/topic-1/0000-7fff-0"),
        ("acme/shop/orders", "tenant-1/namespace-1/topic-1"),
        ("persistent://acme/shop/orders-bill-DLQ", "persistent://tenant-1/namespace-1/topic-1-DLQ"),
        ("persistent://acme/shop/__change_events", "persistent://tenant-1/namespace-1/__change_events"),
        ("persistent://acme/shop/__mine", "persistent://tenant-1/namespace-1/__topic-1"),
        ("orders", "topic-1"),
        ("secret://acme/shop", "tenant-1//namespace-1/topic-1"),
    ],
)
def test_topics_keep_their_form(topic, becomes):
    assert Names().topic(topic) == becomes


def test_a_dead_letter_topic_belongs_to_its_topic_and_subscription():
    names = Names()
    names.topic("persistent://acme/shop/orders")
    names.subscription("bill")
    assert names.topic("persistent://acme/shop/orders-bill-DLQ").endswith("/topic-1-subscription-1-DLQ")
    assert names.topic("persistent://acme/shop/orders-bill-RETRY-partition-2").endswith(
        "/topic-1-subscription-1-RETRY-partition-2"
    )
    assert names.topic("persistent://acme/shop/orders-ship-DLQ").endswith("/topic-2-DLQ")


@pytest.mark.parametrize(
    "topic",
    [
        "persistent://pulsar/system/transaction_coordinator_assign-partition-3",
        "persistent://acme/shop/__transaction_buffer_snapshot",
        "persistent://acme/shop/__something_of_a_later_version",
        "persistent://acme/shop/orders",
    ],
)
def test_names_of_the_broker_stay(topic):
    new = Names().topic(topic)
    assert (is_system_topic(new), is_neutral_topic(new)) == (is_system_topic(topic), is_neutral_topic(topic))
    assert TopicName.parse(new).partition == TopicName.parse(topic).partition


def test_subscriptions_and_producers_of_the_broker():
    names = Names()
    assert names.subscription("__compaction") == "__compaction"
    reader = names.subscription("__system_reader-reader-0c7d9f50ac")
    assert is_system_subscription(reader)
    assert "0c7d9f50ac" not in reader
    replicator = names.producer("pulsar.repl.east-->west")
    assert is_system_name(replicator)
    assert "east" not in replicator


def test_only_kept_names_are_kept():
    names = Names(keep_names=True)
    assert names.topic("persistent://acme/shop/orders-partition-1") == "persistent://acme/shop/orders-partition-1"
    assert names.namespace("acme/shop") == "acme/shop"
    assert names.subscription("bill") == "bill"
    assert names.producer("till") == "till"
    assert names.name("consumer", "ann") == "ann"
    assert names.name("role", "ann") == "role-1"
    assert names.url("pulsar://broker.acme:6650") == "pulsar://host-1:6650"


@pytest.mark.parametrize(
    ("url", "becomes"),
    [
        ("pulsar://127.0.0.1:6650", "pulsar://10.0.0.1:6650"),
        ("127.0.0.1:6650", "10.0.0.1:6650"),
        ("pulsar+ssl://[::1]:6651", "pulsar+ssl://[fd00::1]:6651"),
        ("pulsar://a.acme:6650,b.acme", "pulsar://host-1:6650,host-2"),
        ("http://a.acme:8080/admin?token=x", "http://host-1:8080"),
        ("", ""),
    ],
)
def test_urls(url, becomes):
    assert Names().url(url) == becomes


def test_an_address_is_the_same_in_packets_and_urls():
    names = Names()
    assert names.address(bytes([192, 168, 1, 7])) == bytes([10, 0, 0, 1])
    assert names.address(bytes([192, 168, 1, 8])) == bytes([10, 0, 0, 2])
    assert names.url("pulsar://192.168.1.8:6650") == "pulsar://10.0.0.2:6650"


def test_keys_as_text_and_as_base64():
    names = Names()
    plain = names.key_text("order-17", base64=False)
    packed = names.key_text(base64.b64encode(b"order-17").decode(), base64=True)
    assert base64.b64decode(packed).decode() == plain
    assert names.key(b"order-17").decode() == plain
    assert sticky_hash(plain.encode()) == sticky_hash(b"order-17")
    assert names.key(b"") == b""
    # A key that is marked as base64 but is not valid base64 is hashed as text.
    assert names.key_text("not base64", base64=True) == names.key_text("not base64", base64=False)


def test_patterns_keep_their_namespace():
    names = Names()
    assert names.pattern("persistent://acme/shop/orders-[a-c]") == "persistent://tenant-1/namespace-1/pattern-1"
    assert names.pattern("orders-.*") == "pattern-2"
