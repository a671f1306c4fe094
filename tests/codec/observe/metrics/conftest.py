"""Metrics of captures and of conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, ReadOptions, StreamEnd, read_capture
from pcli.codec.observe import Observer
from pcli.codec.observe.metrics.collector import MetricsCollector
from pcli.codec.observe.metrics.series_values import Histogram
from pcli.codec.steps import run_steps
from pcli.replay.sources.capture_sources import open_inputs

Series = dict[tuple[str, ...], float]


class Collected:
    """A collector with the values of its last update."""

    def __init__(self, top: int = 50, **options: Any) -> None:
        self.collector = MetricsCollector(top, **options)

    def read(self, path: Path) -> None:
        """Process a whole capture."""
        observe, diagnosis = Observer().see, self.collector.diagnosis
        for item in events(path):
            if isinstance(item, CapturedFrame):
                self.collector.see(observe(item))
            elif isinstance(item, StreamEnd):
                diagnosis.ended(item)
            else:
                diagnosis.note(item)
        diagnosis.finish()
        run_steps(self.collector.update(diagnosis.capture.last_ns, diagnosis.findings()))

    def update(self, now_ns: int = 0) -> None:
        run_steps(self.collector.update(now_ns, self.collector.diagnosis.poll(now_ns)))

    def series(self, name: str) -> Series:
        """Return the values of a metric by its labels, without the namespace."""
        [found] = [(metric, samples) for metric, samples in self.collector.read() if metric.name == name]
        metric, samples = found
        skip = metric.labels[:1] == ("namespace",)
        return {sample.labels[skip:]: sample.value for sample in samples}  # type: ignore[misc]

    def histograms(self, name: str) -> dict[tuple[str, ...], Histogram]:
        return self.series(name)  # type: ignore[return-value]


def events(path: Path) -> Iterator[Any]:
    """Yield the frames, notes and ends of a capture."""
    inputs = open_inputs([str(path)])
    yield from read_capture([(one.name, one.file) for one in inputs], ReadOptions(ends=True))
    for one in inputs:
        one.file.close()


@pytest.fixture
def collected() -> Callable[..., Collected]:
    """Create a collector with these options."""
    return Collected


@pytest.fixture
def of_capture(small_captures: Path) -> Callable[..., Collected]:
    """Collect the metrics of a committed capture."""

    def collect(name: str, top: int = 50, **options: Any) -> Collected:
        found = Collected(top, **options)
        found.read(small_captures / name)
        return found

    return collect
