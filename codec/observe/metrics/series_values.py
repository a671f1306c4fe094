"""Values of series: counters and histograms of one object, and the samples that the endpoint shows."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, NamedTuple

BOUNDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""Upper bounds of the buckets of a histogram in seconds; one more bucket has no bound."""

_BOUNDS_NS: Final = tuple(round(one * 1e9) for one in BOUNDS)


class Exemplar(NamedTuple):
    """A message of a bucket."""

    trace: int
    """Trace id of the message."""
    value_ns: int
    time_ns: int


@dataclass(slots=True)
class Histogram:
    """Durations by bucket."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """Number of durations in each bucket, without those of the buckets before."""
    sum_ns: int = 0
    exemplars: dict[int, Exemplar] = field(default_factory=dict)
    """The latest message of each bucket, by the number of the bucket."""

    def observe(self, duration_ns: int) -> int:
        """Add a duration; return the number of its bucket."""
        place = bisect_left(_BOUNDS_NS, duration_ns)
        self.counts[place] += 1
        self.sum_ns += duration_ns
        return place

    def copy(self) -> Histogram:
        """Return a copy that does not change."""
        return Histogram(self.counts[:], self.sum_ns, dict(self.exemplars))


@dataclass(slots=True)
class Values:
    """Counters and histograms of an object, by the name of the metric."""

    counters: dict[str, int] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)


class Sample(NamedTuple):
    """A series at one time."""

    labels: tuple[str, ...]
    """The values of the metric's labels."""
    value: float | Histogram
