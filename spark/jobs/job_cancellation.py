"""Cancellation of interrupted jobs, so that no task continues to write into a folder that is about to be removed.

Rules of this file
1. pcli adds a tag to its jobs. In a caller's session only the jobs with this tag are cancelled.
2. Ctrl-C interrupts a thread while it waits for a response from the JVM. The response will still arrive on the thread's
   connection, and a new connection of this thread may be closed before it is used. A different thread with a separate
   connection therefore calls the JVM.
3. A cancelled task continues until Spark kills its Python worker: Spark checks every two seconds and then waits for
   spark.python.task.killTimeout. pcli waits, up to a time limit, until the scheduler counts no running tasks.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import PcliError

if TYPE_CHECKING:
    from pyspark import SparkContext

_PATIENCE_S: Final = 6.0
_POLL_S: Final = 0.1


@contextmanager
def cancelled_if_left(context: SparkContext) -> Iterator[None]:
    """If an exception leaves the block, cancel the jobs started in it and wait for their tasks to end."""
    tag = f"pcli-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    try:
        yield
    except PcliError:  # the job has ended and returned the error
        context.removeJobTag(tag)
        raise
    except BaseException:
        thread = threading.Thread(target=_cancel, args=(context, tag), daemon=True)
        thread.start()
        thread.join(_PATIENCE_S)
        raise
    context.removeJobTag(tag)


def stop_in_thread(stop: Callable[[], None]) -> None:
    """Call ``stop`` in a thread, like `call_in_thread`; ignore errors, because the JVM ends anyway."""
    with suppress(Exception):  # the JVM may already have ended
        call_in_thread(stop)


def call_in_thread(work: Callable[[], None]) -> None:
    """Call ``work`` in a separate thread, wait for its end, and raise its exception.

    A KeyboardInterrupt during the call is raised when the call returns or takes too long. If it were raised
    immediately, a stopping JVM would end while threads use it, and errors would be printed; a starting JVM would
    continue to run unnoticed. A second KeyboardInterrupt is raised immediately.
    """
    done = threading.Event()  # in Python 3.11, interrupting join() marks the joined thread as ended
    faults: list[Exception] = []

    def quietly() -> None:
        try:
            work()
        except Exception as fault:
            faults.append(fault)
        finally:
            done.set()

    thread = threading.Thread(target=quietly, daemon=True)
    try:
        thread.start()
        done.wait()
    except KeyboardInterrupt:
        done.wait(_PATIENCE_S)
        raise
    if faults:
        raise faults[0]


def _cancel(context: SparkContext, tag: str) -> None:
    with suppress(Exception):  # the JVM may have ended
        context.cancelJobsWithTag(tag)
        until = time.monotonic() + _PATIENCE_S
        while _running(context) and time.monotonic() < until:
            time.sleep(_POLL_S)


def _running(context: SparkContext) -> int:
    """Return the number of running tasks, including cancelled tasks, which only the scheduler counts."""
    java: Any = context._jsc
    counts = java.sc().taskScheduler().runningTasksByExecutors().valuesIterator()
    total = 0
    while counts.hasNext():
        total += counts.next()
    return total
