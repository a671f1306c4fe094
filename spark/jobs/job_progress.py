"""The progress of a job, from Spark's status and from the numbers of bytes that tasks report as processed.

Rules of this file
1. A thread polls Spark's status a few times a second and reports `Progress`.
2. A task adds the size of its item to an accumulator when it has processed the item. If a task is repeated, the size of
   its item is added twice, so the sum is limited to the total. If progress is not reported, there is no accumulator.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pcli.spark.engine import OnProgress, Progress

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

_POLL_S: Final = 0.3


class _Watch:
    """A stage whose progress is reported."""

    def __init__(self, context: SparkContext, what: str, tasks: int, size: int) -> None:
        self._context = context
        self._what, self._tasks, self._size = what, tasks, size
        self.bytes: Accumulator[int] = context.accumulator(0)
        self._done = 0

    def now(self) -> Progress:
        """Return the current progress."""
        tracker = self._context.statusTracker()
        done = active = 0
        for job in tracker.getActiveJobsIds():
            job_info = tracker.getJobInfo(job)
            for stage in job_info.stageIds if job_info else ():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    done, active = done + info.numCompletedTasks, active + info.numActiveTasks
        # A completed job is no longer active, but the number of completed tasks must not decrease.
        self._done = max(self._done, min(done, self._tasks))
        size = min(self._size, self.bytes.value)
        return Progress(self._what, self._done, active, self._tasks, size, self._size)

    def end(self) -> Progress:
        """Return the progress of the stage after its completion."""
        return Progress(self._what, self._tasks, 0, self._tasks, self._size, self._size)


@contextmanager
def watched(
    context: SparkContext, what: str, tasks: int, size: int, report: OnProgress | None
) -> Iterator[Callable[[int], None] | None]:
    """Call ``report`` regularly with the progress of the block, and once more after the block succeeds.

    Yield a function that tasks call with the size of their item; it can be pickled. Yield None if ``report`` is None.
    """
    if report is None:
        yield None
        return
    watch = _Watch(context, what, tasks, size)
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(_POLL_S):
            report(watch.now())

    thread = threading.Thread(target=poll, daemon=True)
    report(Progress(what, 0, 0, tasks, 0, size))
    thread.start()
    try:
        yield watch.bytes.add
    finally:
        stop.set()
        thread.join()
    report(watch.end())
