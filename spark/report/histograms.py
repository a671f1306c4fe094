"""Distributions of durations as counts in logarithmic steps. The memory depends only on the number of keys.

Rules of this file
1. A step is an eighth of an octave. From a microsecond to a day, a quantile differs from the true quantile by at most 9
   %.
2. A duration below a nanosecond is counted in the first step. It occurs, for example, if a response was captured before
   its request.
3. Keys beyond MAX_KEYS are counted together as OTHERS. Only their names are lost.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["MAX_KEYS", "OTHERS", "Histograms", "Keys"]

MAX_KEYS: Final = 5_000
"""Maximum number of topics, subscriptions or consumers in one table."""

OTHERS: Final = ("(all others)",)

_STEPS: Final = 8
_WIDTH: Final = 48 * _STEPS
"""Number of steps; 2^48 ns is three days."""

Longs = npt.NDArray[np.int64]


class Keys:
    """An assignment of small numbers to the names in columns. A name has the same number in every batch."""

    def __init__(self, most: int = MAX_KEYS) -> None:
        self.names: list[tuple[str, ...]] = []
        """The names by number, including OTHERS if needed."""
        self._numbers: dict[tuple[str, ...], int] = {}
        self._most = most

    def numbers(self, *columns: pa.Array) -> Longs:
        """Return the number for the names in each row; null counts as an empty name."""
        codes, parts = np.zeros(len(columns[0]), np.int64), []
        for column in columns:
            encoded = pc.dictionary_encode(pc.fill_null(column, ""))
            parts.append(encoded.dictionary.to_pylist())
            codes = codes * max(1, len(parts[-1])) + encoded.indices.to_numpy(zero_copy_only=False)
        found, inverse = np.unique(codes, return_inverse=True)
        return np.array([self._number(int(code), parts) for code in found], np.int64)[inverse]

    def _number(self, code: int, parts: list[list[str]]) -> int:
        names: list[str] = []
        for words in reversed(parts):
            code, index = divmod(code, max(1, len(words)))
            names.insert(0, words[index])
        key = tuple(names)
        if key not in self._numbers:
            if len(self.names) >= self._most:
                key = OTHERS
            if key not in self._numbers:
                self._numbers[key] = len(self.names)
                self.names.append(key)
        return self._numbers[key]


class Histograms:
    """A distribution for each key."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._counts = np.zeros((0, _WIDTH), np.int64)
        self._longest = np.zeros(0, np.int64)

    def add(self, keys: Longs, durations_ns: Longs) -> None:
        """Add durations. ``keys`` contains the number of each duration's key."""
        more = len(self._keys.names) - len(self._counts)
        if more > 0:
            self._counts = np.vstack([self._counts, np.zeros((more, _WIDTH), np.int64)])
            self._longest = np.concatenate([self._longest, np.zeros(more, np.int64)])
        if not len(keys):
            return
        steps = np.floor(np.log2(np.maximum(durations_ns, 1)) * _STEPS).astype(np.int64).clip(0, _WIDTH - 1)
        flat = np.bincount(keys * _WIDTH + steps, minlength=self._counts.size)
        self._counts += flat.reshape(self._counts.shape)
        np.maximum.at(self._longest, keys, durations_ns)

    def count(self, key: int) -> int:
        """Return the number of durations of a key."""
        return int(self._counts[key].sum()) if key < len(self._counts) else 0

    def longest_ns(self, key: int) -> int:
        """Return the exact maximum duration of a key."""
        return int(self._longest[key])

    def quantile_ns(self, key: int, share: float) -> float:
        """Return the duration that is longer than this share of a key's durations; there must be at least one."""
        passed = np.cumsum(self._counts[key])
        step = int(np.searchsorted(passed, share * passed[-1]))
        return float(min(2 ** ((step + 0.5) / _STEPS), self._longest[key]))

    def curve(self, key: int) -> tuple[list[float], list[float]]:
        """Return durations in milliseconds, each with the percentage of durations up to it, for a chart."""
        used = np.nonzero(self._counts[key])[0]
        steps = np.arange(used[0], used[-1] + 1)
        share = np.cumsum(self._counts[key][steps]) / self._counts[key].sum() * 100
        return list(2 ** ((steps + 1) / _STEPS) / 1e6), list(share)
