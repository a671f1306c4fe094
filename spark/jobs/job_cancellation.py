"""Cancellation of interrupted jobs: no task continues to write into a folder that is about to be removed.

Rules of this file
1. Jobs have a tag of pcli: in a caller's session only these are cancelled.
2. A thread that is interrupted by Ctrl-C was waiting for a response of the JVM, which will still arrive on its
   connection. Another connection that this thread opens may be closed before it is used. Another thread with its
   own connection therefore calls the JVM.
3. A cancelled task continues until Spark kills its Python worker: Spark checks every two seconds and then waits for
   spark.python.task.killTimeout. The scheduler counts running tasks. pcli waits for them, up to a limit.
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

__all__ = ["call_in_thread", "cancelled_if_left", "stop_in_thread"]

_PATIENCE_S: Final = 6.0
_POLL_S: Final = 0.1


@contextmanager
def cancelled_if_left(context: SparkContext) -> Iterator[None]:
    """Cancel the jobs started inside, and wait for their tasks to end, if an exception leaves the block."""
    tag = f"pcli-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    try:
        yield
    except PcliError:  # a result of the job, which has ended
        context.removeJobTag(tag)
        raise
    except BaseException:
        thread = threading.Thread(target=_cancel, args=(context, tag), daemon=True)
        thread.start()
        thread.join(_PATIENCE_S)
        raise
    context.removeJobTag(tag)


def stop_in_thread(stop: Callable[[], None]) -> None:
    """Call ``stop`` as `call_in_thread` does; ignore errors, because the JVM ends anyway."""
    with suppress(Exception):  # the JVM may have ended before
        call_in_thread(stop)


def call_in_thread(work: Callable[[], None]) -> None:
    """Call it in its own thread, wait for its end, and raise what it raises.

    A Ctrl-C during the call is raised when the call is done or takes too long. If it were raised at once, a stopping
    JVM would end while threads use it, which would print errors, or a starting JVM would continue to run unnoticed. A
    second Ctrl-C is raised at once.
    """
    done = threading.Event()  # in Python 3.11 an interrupted join marks its thread as ended
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
    """Return the number of running tasks, including cancelled ones. Only the scheduler counts the latter."""
    java: Any = context._jsc
    counts = java.sc().taskScheduler().runningTasksByExecutors().valuesIterator()
    total = 0
    while counts.hasNext():
        total += counts.next()
    return total
