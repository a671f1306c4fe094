"""Blocks of payloads for a producer: generated payloads, a limit on the number, and a limit on the rate."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

_BLOCK: Final = 1000
"""Maximum number of messages in a block."""

_BYTES: Final = 1 << 22
"""Maximum number of bytes in a block, unless one message is larger."""


def numbered(size: int, count: int | None) -> Iterator[bytes]:
    """Yield the last ``size`` digits of 0, 1, 2, …, padded with zeros; the sequence is endless if ``count`` is None."""
    numbers: Iterable[int] = itertools.count() if count is None else range(count)
    return ((b"%0*d" % (size, number))[-size:] for number in numbers)


async def listed(payloads: Iterator[bytes], size: int) -> AsyncIterator[list[bytes]]:
    """Yield the payloads in blocks. ``size`` is the size of the largest payload in bytes."""
    count = max(1, min(_BLOCK, _BYTES // max(1, size)))
    while block := list(itertools.islice(payloads, count)):
        yield block


async def first(blocks: AsyncIterator[list[bytes]], count: int | None) -> AsyncIterator[list[bytes]]:
    """Yield the first ``count`` payloads, or all payloads if ``count`` is None."""
    async for block in blocks:
        if count is not None and len(block) >= count:
            yield block[:count]
            return
        if count is not None:
            count -= len(block)
        yield block


async def paced(blocks: AsyncIterator[list[bytes]], rate: float) -> AsyncIterator[list[bytes]]:
    """Yield ``rate`` payloads per second, or without delay if ``rate`` is 0."""
    began, sent = time.monotonic(), 0
    async for block in blocks:
        if not rate:
            yield block
            continue
        left = block
        while left:
            due = int((time.monotonic() - began) * rate) + 1 - sent
            if due > 0:
                now, left = left[:due], left[due:]
                sent += len(now)
                yield now
            else:
                await asyncio.sleep(began + sent / rate - time.monotonic())
