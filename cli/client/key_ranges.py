"""The values of --key-range: ranges of hash slots, and example keys for them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final

from pcli.codec.errors import LocalError

_RANGE: Final = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)

_MOST: Final = 64
"""Maximum number of keys."""

_SLOTS_PER_KEY: Final = 512
"""Number of slots per key. A smaller range gets fewer keys, so that the search is fast."""


def ranges_of(texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Parse ranges such as ``0-32767`` into first and last slots. Raises LocalError if a range is invalid."""
    from pcli.codec.wire.hashes import SLOTS

    ranges = []
    for text in texts:
        match = _RANGE.fullmatch(text.strip())
        first, last = (int(match[1]), int(match[2])) if match else (1, 0)
        if not first <= last < SLOTS:
            raise LocalError(f"--key-range {text}: write two slots between 0 and {SLOTS - 1}, for example 0-32767")
        ranges.append((first, last))
    return tuple(ranges)


def keys_in(ranges: Sequence[tuple[int, int]]) -> list[str]:
    """Return the first decimal numbers with hash slots in these ranges. Raises LocalError if all ranges are 0-0."""
    from pcli.codec.wire.hashes import sticky_hash

    if all(last == 0 for _, last in ranges):
        raise LocalError("--key-range 0-0: no key has the hash slot 0")
    slots = sum(last - first + 1 for first, last in ranges)
    wanted = max(1, min(_MOST, slots // _SLOTS_PER_KEY))
    numbers = (str(number) for number in itertools.count())
    fitting = (key for key in numbers if any(first <= sticky_hash(key.encode()) <= last for first, last in ranges))
    return list(itertools.islice(fitting, wanted))
