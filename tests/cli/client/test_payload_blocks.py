"""Payloads in lists."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

from pcli.cli.client.payload_blocks import first, listed, numbered, paced


def _all(blocks: AsyncIterator[Any]) -> list[Any]:
    async def gather() -> list[Any]:
        return [block async for block in blocks]

    return asyncio.run(gather())


def test_numbers_in_so_many_digits() -> None:
    assert list(numbered(3, 3)) == [b"000", b"001", b"002"]
    assert list(itertools.islice(numbered(1, None), 9, 12)) == [b"9", b"0", b"1"]


def test_lists() -> None:
    assert [len(block) for block in _all(listed(numbered(4, 2500), 4))] == [1000, 1000, 500]


def test_blocks_of_large_payloads_are_smaller() -> None:
    assert [len(block) for block in _all(listed(numbered(1 << 20, 5), 1 << 20))] == [4, 1]
    assert [len(block) for block in _all(listed(numbered(5 << 20, 2), 5 << 20))] == [1, 1]


def test_the_first_of_them() -> None:
    for count, sizes in ((None, [1000, 500]), (1500, [1000, 500]), (1200, [1000, 200]), (1000, [1000]), (7, [7])):
        assert [len(block) for block in _all(first(listed(numbered(4, 1500), 4), count))] == sizes


def test_a_pace_keeps_all_in_order() -> None:
    blocks = _all(paced(listed(numbered(4, 50), 4), 10_000))
    assert list(itertools.chain(*blocks)) == list(numbered(4, 50))
    assert len(blocks) > 1
