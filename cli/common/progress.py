"""A progress bar on stderr for work that takes longer than a second, shown only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

    from pcli.replay.sources.capture_sources import Input

_T = TypeVar("_T")

_EVERY = 2048
"""Number of items between two checks of the clock."""


def watched(items: Iterator[_T], inputs: Sequence[Input], *, printed: bool = True) -> Iterator[_T]:
    """Yield the items and show a progress bar for the part of the inputs that has been read.

    Nothing is shown if stderr is not a terminal, if a size is unknown, or if the data is printed on the terminal.
    ``printed`` states whether the command writes data to stdout.
    """
    sizes = [source.size for source in inputs]
    total = sum(size for size in sizes if size is not None)
    if not sys.stderr.isatty() or (printed and sys.stdout.isatty()) or None in sizes:
        return items
    return _with_bar(items, inputs, total)


def _with_bar(items: Iterator[_T], inputs: Sequence[Input], total: int) -> Iterator[_T]:
    started = time.monotonic()
    bar: Progress | None = None
    try:
        for count, item in enumerate(items):
            if not count % _EVERY and time.monotonic() - started > 1:
                bar = bar or _new_bar(total)
                done = sum((source.size or 0) if source.file.closed else source.file.tell() for source in inputs)
                bar.update(bar.task_ids[0], completed=done)
            yield item
    finally:
        if bar is not None:
            bar.stop()


def _new_bar(total: int) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("", total=total)
    bar.start()
    return bar
