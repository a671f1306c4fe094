"""Dictionaries with a maximum of items."""

import copy
import pickle

from pcli.codec.bounded_dict import BoundedDict


def test_a_new_item_drops_the_oldest_one():
    held = BoundedDict[str, int](2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        held[key] = value
    assert list(held.items()) == [("b", 2), ("c", 4)]


def test_copies_keep_the_maximum():
    held = BoundedDict[str, int](1)
    held["a"] = 1
    for other in (copy.deepcopy(held), pickle.loads(pickle.dumps(held))):
        other["b"] = 2
        assert dict(other) == {"b": 2}
