"""What is left before its end: no task of it goes on writing into a folder that is about to be removed.

Rules of this file
1. Jobs have a tag of ours: in a session of somebody else's only these are cancelled.
2. Who was interrupted (Ctrl-C) was waiting for an answer of the JVM, which is still to come on this thread's
   connection; and another one that this thread opens may be closed before it answers. So the JVM is asked by another
   thread, which has its own.
3. A task that is cancelled goes on until Spark kills its Python worker, some seconds later: it looks every two, and
   waits for spark.python.task.killTimeout then. The scheduler knows when it is over. That is waited for, not for ever.
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

__all__ = ["call_apart", "cancelled_if_left", "stop_apart"]

_PATIENCE_S: Final = 6.0
_POLL_S: Final = 0.1


@contextmanager
def cancelled_if_left(context: SparkContext) -> Iterator[None]:
    """Jobs that begin inside are cancelled, and their tasks have ended, when an exception leaves it."""
    tag = f"pcli-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    try:
        yield
    except PcliError:  # a result, and the last of all
        context.removeJobTag(tag)
        raise
    except BaseException:
        thread = threading.Thread(target=_cancel, args=(context, tag), daemon=True)
        thread.start()
        thread.join(_PATIENCE_S)
        raise
    context.removeJobTag(tag)


def stop_apart(stop: Callable[[], None]) -> None:
    """Call it as `call_apart` does: what it can't stop ends with the JVM."""
    with suppress(Exception):  # the JVM may have ended before
        call_apart(stop)


def call_apart(work: Callable[[], None]) -> None:
    """Call it in a thread of its own, wait for its end, and raise what it raises.

    A Ctrl-C that comes meanwhile is raised when it is done, or takes too long: left half-way, a JVM ends under those
    who talk to it, who print that, or begins and is known to nobody. The second one leaves.
    """
    done = threading.Event()  # a join that was interrupted takes its thread for ended (Python 3.11)
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
    with suppress(Exception):  # the JVM may be what has ended
        context.cancelJobsWithTag(tag)
        until = time.monotonic() + _PATIENCE_S
        while _running(context) and time.monotonic() < until:
            time.sleep(_POLL_S)


def _running(context: SparkContext) -> int:
    """Tasks that have begun and not ended, cancelled ones too: the scheduler's own count, as nobody else has these."""
    java: Any = context._jsc
    counts = java.sc().taskScheduler().runningTasksByExecutors().valuesIterator()
    total = 0
    while counts.hasNext():
        total += counts.next()
    return total
