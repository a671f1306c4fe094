"""The consumer of a key: vectors of the Java implementation, and arithmetic."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.hashes import SLOTS, murmur3_31
from pcli.minibroker.dispatch.consumer_selectors import ConsistentHashing, HashRangeAutoSplit, HashRangeExclusive
from pcli.minibroker.errors import Refused


class Who(SimpleNamespace):
    """The part of a consumer that a selector reads."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def who(name, *ranges):
    hash_ranges = [pb.IntRange(start=start, end=end) for start, end in ranges]
    return Who(name=name, key_shared_meta=pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=hash_ranges))


def owner(selector, key):
    return selector.select(selector.slot(murmur3_31(key.encode())))


def test_a_ring_of_two():
    ring = ConsistentHashing(100)
    for name in ("c1", "c2"):
        ring.add(who(name))
    found = {key: owner(ring, key).name for key in ("key1", "key2", "key3", "a", "b", "hello")}
    assert found == {"key1": "c1", "key2": "c2", "key3": "c2", "a": "c2", "b": "c2", "hello": "c1"}


def test_slots_of_keys():
    ring, split = ConsistentHashing(100), HashRangeAutoSplit()
    keys = {key: murmur3_31(key.encode()) for key in ("key1", "hello", "a")}
    assert {key: ring.slot(value) for key, value in keys.items()} == {"key1": 7357, "hello": 7892, "a": 42456}
    assert {key: split.slot(value) for key, value in keys.items()} == {"key1": 293, "hello": 64071, "a": 27058}
    assert split.slot(SLOTS * 5) == 1  # 0 means "unknown"


def test_consumers_with_one_name_have_different_points():
    ring = ConsistentHashing(100)
    same = [who("same") for _ in range(3)]
    for one in same:
        ring.add(one)
    assert {id(owner(ring, f"k{i}")) for i in range(60)} == {id(one) for one in same}


def test_a_removed_consumer_has_no_points():
    ring = ConsistentHashing(100)
    first, second = who("a"), who("b")
    ring.add(first)
    before = [owner(ring, f"k{i}") for i in range(50)]
    ring.add(second)
    ring.remove(second)
    assert [owner(ring, f"k{i}") for i in range(50)] == before
    ring.remove(first)
    assert owner(ring, "k1") is None


def bounds(selector):
    return {ranges[0][1]: one.name for one, ranges in selector.ranges().items()}


def test_halving_the_widest_range():
    split = HashRangeAutoSplit()
    a, b, c, d = (who(name) for name in "abcd")
    split.add(a)
    assert bounds(split) == {65536: "a"}
    split.add(b)
    assert bounds(split) == {32768: "b", 65536: "a"}
    split.add(c)
    assert bounds(split) == {16384: "c", 32768: "b", 65536: "a"}
    split.add(d)
    assert bounds(split) == {16384: "c", 32768: "b", 49152: "d", 65536: "a"}
    split.remove(b)  # merged with the next higher range
    assert bounds(split) == {16384: "c", 49152: "d", 65536: "a"}
    split.remove(a)  # the highest range is merged with the one below
    assert bounds(split) == {16384: "c", 65536: "d"}


@given(st.lists(st.integers(0, 7), max_size=40))
def test_every_slot_has_an_owner_while_there_is_a_consumer(steps):
    split, ring = HashRangeAutoSplit(), ConsistentHashing(20)
    there = {}
    for step in steps:
        if step in there:
            one = there.pop(step)
            split.remove(one)
            ring.remove(one)
        else:
            one = there[step] = who(f"c{step}")
            split.add(one)
            ring.add(one)
        for slot in (1, 77, 16384, 32769, 65535):
            for selector in (split, ring):
                found = selector.select(slot)
                assert (found in there.values()) if there else found is None


@given(st.integers(1, 6))
def test_the_reported_ranges_match_the_selection(count):
    ring = ConsistentHashing(10)
    for number in range(count):
        ring.add(who(f"c{number}"))
    ranges_of = ring.ranges()
    for slot in range(1, 65536, 97):
        owners = [one for one, ranges in ranges_of.items() if any(start <= slot <= end for start, end in ranges)]
        assert owners == [ring.select(slot)]


@pytest.mark.parametrize(
    "ranges", [(), ((300, 200),), ((300, 400), (400, 500)), ((100, 200),)], ids=["none", "reversed", "own", "taken"]
)
def test_invalid_ranges_are_refused(ranges):
    sticky = HashRangeExclusive()
    sticky.add(who("first", (0, 100)))
    with pytest.raises(Refused) as refused:
        sticky.add(who("second", *ranges))
    assert refused.value.code == pb.ConsumerAssignError


def test_undeclared_slots_have_no_owner():
    sticky = HashRangeExclusive()
    one = who("one", (0, 9), (20, 29))
    sticky.add(one)
    assert [sticky.select(slot) is one for slot in (9, 10, 20, 30)] == [True, False, True, False]
    sticky.remove(one)
    assert sticky.select(9) is None
