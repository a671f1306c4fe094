"""How far a job is: from Spark's own status, and the bytes that tasks say they have done.

Rules of this file
1. Spark is asked a few times a second by a thread of its own; what it says is told as `Progress`.
2. Tasks add the size of their item to an accumulator when they are done with it. A task done twice would count twice,
   so no more is told than there is. There is none when nobody listens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pcli.spark.engine import OnProgress, Progress

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

__all__ = ["watched"]

_POLL_S: Final = 0.3


class _Watch:
    """A stage that is being watched."""

    def __init__(self, context: SparkContext, what: str, tasks: int, size: int) -> None:
        self._context = context
        self._what, self._tasks, self._size = what, tasks, size
        self.bytes: Accumulator[int] = context.accumulator(0)
        self._done = 0

    def now(self) -> Progress:
        """How far it is."""
        tracker = self._context.statusTracker()
        done = active = 0
        for job in tracker.getActiveJobsIds():
            told = tracker.getJobInfo(job)
            for stage in told.stageIds if told else ():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    done, active = done + info.numCompletedTasks, active + info.numActiveTasks
        # A job that has just ended is not among the active ones any more: no step back for that.
        self._done = max(self._done, min(done, self._tasks))
        size = min(self._size, self.bytes.value)
        return Progress(self._what, self._done, active, self._tasks, size, self._size)

    def end(self) -> Progress:
        """What is said when all is done."""
        return Progress(self._what, self._tasks, 0, self._tasks, self._size, self._size)


@contextmanager
def watched(
    context: SparkContext, what: str, tasks: int, size: int, tell: OnProgress | None
) -> Iterator[Callable[[int], None] | None]:
    """Watch what happens inside; ``tell`` hears of it now and then, and at its good end.

    Gives what a task calls with the size of its item, which can be pickled; None: nobody wants to know.
    """
    if tell is None:
        yield None
        return
    watch = _Watch(context, what, tasks, size)
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(_POLL_S):
            tell(watch.now())

    thread = threading.Thread(target=look, daemon=True)
    tell(Progress(what, 0, 0, tasks, 0, size))
    thread.start()
    try:
        yield watch.bytes.add
    finally:
        stop.set()
        thread.join()
    tell(watch.end())
