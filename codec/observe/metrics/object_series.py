"""The counters and histograms of all objects of one kind: topics, subscriptions or consumers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Final
from zlib import crc32

from pcli.codec.errors import LocalError
from pcli.codec.observe.metrics.own_series import Key, OwnSeries
from pcli.codec.observe.metrics.series_values import Sample, Values
from pcli.codec.steps import Steps
from pcli.codec.wire.topic_name import TopicName

OTHER: Final = "other"
"""Value of all labels of the series that objects without own series share. The name of a topic contains its domain, so
no topic has this name."""

_LONGEST: Final = 1_000
"""Maximum length of a label value in characters. A name from the wire can have megabytes."""


class ObjectSeries:
    """The counters and histograms of all objects of one kind."""

    def __init__(self, labels: Sequence[str], limit: int, counters: Sequence[str]) -> None:
        """``labels`` are the names of the labels; ``counters`` are shown for each object, even if they are 0."""
        self.own = OwnSeries(limit)
        self.others = (OTHER,) * len(labels)
        """The label values of the shared series."""
        self._counters = counters
        self._values: dict[Key, Values] = {}
        self._shared = Values()

    def values(self, key: Key, messages: int, now_ns: int) -> Values:
        """Count messages of an object, and return the values to increase."""
        if not self.own.count(key, messages, now_ns):
            return self._shared
        return self._values.setdefault(key, Values())

    def choose(self, now_ns: int, preferred: Collection[Key]) -> Steps[None]:
        """Choose the objects with own series again."""
        for key in (yield from self.own.choose(now_ns, preferred)):
            self._values.pop(key, None)

    def samples(self) -> Iterator[tuple[str, Sample]]:
        """Yield the name of the metric and the sample of all counters and histograms."""
        zeros = dict.fromkeys(self._counters, 0)
        for key in self.own:
            values = self._values.get(key, Values())
            yield from _samples(labels_of(key), zeros | values.counters, values)
        yield from _samples(self.others, self._shared.counters, self._shared)


def _samples(labels: tuple[str, ...], counters: dict[str, int], values: Values) -> Iterator[tuple[str, Sample]]:
    for name, count in counters.items():
        yield name, Sample(labels, count)
    for name, histogram in values.histograms.items():
        yield name, Sample(labels, histogram.copy())


@lru_cache(10_000)
def labels_of(key: Key) -> tuple[str, ...]:
    """Return the label values of an object: the namespace of its topic, and its names."""
    try:
        name = TopicName.parse(key[0])
        namespace = "/".join(filter(None, (name.tenant, name.cluster, name.namespace)))
    except LocalError:
        namespace = ""
    return tuple(map(_bounded, (namespace, *key)))


def _bounded(name: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}…{crc32(name.encode('utf-8', 'surrogatepass')):08x}"
