"""Ranges of slots as they are written on the command line, and keys that fall into them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final

from pcli.codec.errors import LocalError

__all__ = ["keys_in", "ranges_of"]

_RANGE: Final = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)

_MOST: Final = 64
"""Different keys that are used at most."""

_SLOTS_PER_KEY: Final = 512
"""So many slots of a range bring one more key: finding keys stays quick."""


def ranges_of(texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """``0-32767``: first and last slot; LocalError for what is no range of slots."""
    from pcli.codec.wire.hashes import SLOTS

    ranges = []
    for text in texts:
        match = _RANGE.fullmatch(text.strip())
        first, last = (int(match[1]), int(match[2])) if match else (1, 0)
        if not first <= last < SLOTS:
            raise LocalError(f"--key-range {text}: write two slots from 0 to {SLOTS - 1}, as 0-32767")
        ranges.append((first, last))
    return tuple(ranges)


def keys_in(ranges: Sequence[tuple[int, int]]) -> list[str]:
    """Some keys whose slots are in these ranges: numbers, the first that there are. LocalError: slot 0 alone."""
    from pcli.codec.wire.hashes import sticky_hash

    if all(last == 0 for _, last in ranges):
        raise LocalError("--key-range 0-0: no key falls into slot 0")
    slots = sum(last - first + 1 for first, last in ranges)
    wanted = max(1, min(_MOST, slots // _SLOTS_PER_KEY))
    numbers = (str(number) for number in itertools.count())
    fitting = (key for key in numbers if any(first <= sticky_hash(key.encode()) <= last for first, last in ranges))
    return list(itertools.islice(fitting, wanted))
