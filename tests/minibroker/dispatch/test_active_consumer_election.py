"""Election of the active consumer, compared with vectors of a real broker."""

from types import SimpleNamespace

import pytest

from pcli.minibroker.dispatch.active_consumer_election import by_index, by_ring, candidates


def names(*words, priority=0):
    return [SimpleNamespace(name=word, priority=priority) for word in words]


@pytest.mark.parametrize(
    ("topic", "of_two", "of_three"),
    [("persistent://public/default/t1", "c1", "c1"), ("persistent://public/default/my-topic", "c1", "c3")],
)
def test_the_ring_of_a_topic_without_partitions(topic, of_two, of_three):
    assert by_ring(candidates(names("c1", "c2")), topic).name == of_two
    assert by_ring(candidates(names("c3", "c2", "c1")), topic).name == of_three


@pytest.mark.parametrize(("index", "name"), [(0, "a"), (1, "b"), (2, "c"), (3, "a")])
def test_the_index_of_a_partition_counts_in_order_of_names(index, name):
    assert by_index(candidates(names("b", "c", "a")), index).name == name


def test_only_the_best_level_takes_part():
    consumers = [*names("a", priority=1), *names("z")]
    assert by_index(candidates(consumers), 0).name == "z"


def test_the_earlier_of_two_equal_names_stays():
    consumers = names("same", "same")
    assert by_index(candidates(consumers), 0) is consumers[0]
