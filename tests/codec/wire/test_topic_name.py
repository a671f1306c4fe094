"""Topic names, by the rules of the class TopicName as observed on a 4.2.4 broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName, full_name, split_partition


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("orders", "persistent://public/default/orders"),
        ("shop/eu/orders", "persistent://shop/eu/orders"),
        ("persistent://shop/eu/orders", "persistent://shop/eu/orders"),
        ("non-persistent://shop/eu/orders", "non-persistent://shop/eu/orders"),
        ("topic://shop/eu/orders", "topic://shop/eu/orders"),
        ("persistent://prop/cluster/ns/orders", "persistent://prop/cluster/ns/orders"),
        ("persistent://prop/cluster/ns/a/b", "persistent://prop/cluster/ns/a/b"),
    ],
)
def test_forms(text, whole):
    assert str(TopicName.parse(text)) == whole


def test_every_character_that_a_namespace_may_have():
    assert TopicName.parse("a-b=c:d.e_9/-=:._/x y").tenant == "a-b=c:d.e_9"


def test_parts_of_both_generations():
    assert TopicName.parse("persistent://t/n/l") == TopicName("persistent", "t", "n", "l")
    assert TopicName.parse("persistent://p/c/n/l") == TopicName("persistent", "p", "n", "l", "c")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a/b",
        "a/b/c/d",
        "kafka://a/b/c",
        "persistent://a",
        "persistent://a/b",
        "persistent://a/b/",
        "://a/b/c",
        "a b/ns/t",
        "a/n*s/t",
        "tenänt/ns/t",
        "a\n/ns/t",
        "persistent://a/cl%20uster/ns/t",
        "a/²/t",
    ],
)
def test_invalid_topics(text):
    with pytest.raises(LocalError):
        TopicName.parse(text)


@pytest.mark.parametrize(
    ("local", "base", "index"),
    [
        ("x-partition-3", "x", 3),
        ("x-partition-0", "x", 0),
        ("x-partition-1-partition-2", "x-partition-1", 2),
        ("x-partition-", "x-partition-", -1),
        ("x-partition--1", "x-partition--1", -1),
        ("x-partition-01", "x-partition-01", -1),
        ("x-partition-1x", "x-partition-1x", -1),
        ("x-partition-2147483647", "x", 2**31 - 1),
        ("x-partition-2147483648", "x-partition-2147483648", -1),
        ("x-partition-" + "9" * 5000, "x-partition-" + "9" * 5000, -1),
        ("x-partition-²", "x-partition-²", -1),
        ("x", "x", -1),
    ],
)
def test_partitions(local, base, index):
    assert split_partition(local) == (base, index)


def test_partitions_share_a_base_and_a_schema():
    topic = TopicName.parse("persistent://public/default/x y")
    part = topic.with_partition(2)
    assert (part.partition, part.base, topic.partition) == (2, topic, -1)
    assert part.schema_id == topic.schema_id == "public/default/x+y"


# java.net.URLEncoder: letters, digits and .-*_ stay, a blank becomes a plus, other characters percent and UTF-8.
@pytest.mark.parametrize(
    ("local", "encoded"),
    [("a b", "a+b"), ("a/b", "a%2Fb"), ("ü", "%C3%BC"), ("~*-._", "%7E*-._"), ("a+b", "a%2Bb")],
)
def test_percent_encoding(local, encoded):
    assert TopicName("persistent", "t", "n", local).encoded_local == encoded


@given(st.text(min_size=1).filter(lambda text: "/" not in text and text.strip()))
def test_percent_encoding_round_trips(local):
    name = TopicName("persistent", "t", "n", local)
    assert TopicName.decoded("persistent", "t/n", name.encoded_local) == name


@pytest.mark.parametrize("name", ["", "a/b", "a/b/c/d", "://", "persistent://a", "other://a/b/c"])
def test_invalid_names_are_unchanged(name):
    assert full_name(name) == name


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("orders/0000-7fff-0", "segment://public/default/orders/0000-7fff-0"),
        ("shop/eu/orders/0000-7fff-0", "segment://shop/eu/orders/0000-7fff-0"),
        ("shop/eu/0000-7fff-0", "persistent://shop/eu/0000-7fff-0"),
        ("segment://shop/eu/orders/0000-7fff-0", "segment://shop/eu/orders/0000-7fff-0"),
    ],
)
def test_the_short_form_of_a_segment(name, full):
    assert full_name(name) == full
