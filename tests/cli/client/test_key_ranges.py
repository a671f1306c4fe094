"""Ranges of slots, and keys in them."""

from __future__ import annotations

import pytest

from pcli.cli.client.key_ranges import keys_in, ranges_of
from pcli.codec.errors import LocalError
from pcli.codec.wire.hashes import sticky_hash


def test_ranges() -> None:
    assert ranges_of(["0-32767", " 40000-65535 "]) == ((0, 32767), (40000, 65535))


@pytest.mark.parametrize("text", ["", "5", "6-5", "0-65536", "a-b", "1-2-3"])
def test_invalid_ranges_are_refused(text: str) -> None:
    with pytest.raises(LocalError, match="write two slots between 0 and 65535"):
        ranges_of([text])


@pytest.mark.parametrize(("ranges", "count"), [([(0, 65535)], 64), ([(0, 4095), (9000, 13095)], 16), ([(77, 77)], 1)])
def test_keys(ranges: list[tuple[int, int]], count: int) -> None:
    keys = keys_in(ranges)
    assert len(set(keys)) == count
    assert all(any(first <= sticky_hash(key.encode()) <= last for first, last in ranges) for key in keys)


def test_no_key_has_slot_0() -> None:
    with pytest.raises(LocalError, match="no key has the hash slot 0"):
        keys_in([(0, 0)])
