"""Spark's errors, reduced to one line with the problem and the remedy.

The stack traces of the JVM and of the Python workers are not printed.

Common problems are recognized by their text: a dead Python worker, lack of memory, a full disk, a lost master. For
other problems, the last line of the stack trace is printed, because this line contains the error message of the task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pickle import PicklingError
from typing import Final

from pcli.codec.errors import LocalError
from pcli.spark.tables.uri_redaction import hidden

_KNOWN: Final = (
    (r"Invalid (?:maximum|initial) heap size: -Xm[xs](\S+)",
     "Java does not accept {0} as a memory size: write 512m or 4g"),
    (r"No module named '(numpy|pyarrow|google_crc32c|cramjam|google(?:\.protobuf)?|re2)'",
     "the Python of the workers lacks {0}: install pulsar-pcli[spark] there, or set PYSPARK_PYTHON to a different "
     "Python (docs/spark.md)"),
    (r'Cannot run program "([^"]*)": error=2',
     "the workers have no Python at {0}: set PYSPARK_PYTHON to a path that is valid on all workers (docs/spark.md)"),
    (r"Failed to create any local dir",
     "no folder for Spark's temporary files can be created: set --conf spark.local.dir (or SPARK_LOCAL_DIRS)"),
    (r"No space left on device|Disk quota exceeded",
     "no space left for Spark's temporary files (spark.local.dir) or for the tables"),
    (r"Python worker exited unexpectedly|crashed|EOFException",
     "a Python worker was killed repeatedly, usually for lack of memory: run fewer tasks at a time "
     "(--master 'local[1]'), or increase spark.executor.memoryOverhead"),
    (r"java\.lang\.OutOfMemoryError|GC overhead",
     "Java has too little memory: set --conf spark.driver.memory=4g, or spark.executor.memory on a cluster"),
    (r"[Tt]otal size of serialized results of \d+ tasks \(([^)]*)\) is bigger than \S*maxResultSize \(([^)]*)\)",
     "the results of the tasks ({0}) exceed the limit of the driver ({1}): set --conf spark.driver.memory=8g"),
    (r"ExecutorLostFailure|Slave lost|worker lost|Remote RPC client disassociated",
     "executors were lost repeatedly; the logs of the cluster contain the reason"),
    (r"All masters are unresponsive|Connection refused|stopped SparkContext",
     "the cluster no longer responds, or Java has ended"),
    (r"Python in worker has different version: (\S+) than that in driver: (\S+?),",
     "the workers run Python {0}, but the driver runs Python {1}: set PYSPARK_PYTHON to the same version"),
    (r"ArrowMemoryError|MemoryError",
     "a Python worker has too little memory: run fewer tasks at a time (--master 'local[1]')"),
)  # fmt: skip

_CAUSE: Final = r"(?:Caused by: |: |Exception in thread \S+ )?(?:[\w$]+\.)*(\w*(?:Error|Exception)): "


@contextmanager
def plain_errors() -> Iterator[None]:
    """Convert an error raised by Spark to a one-line LocalError. Its cause is the original error, for --debug."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, PicklingError, ConnectionError) as fault:
        interrupt = _original_interrupt(fault)
        if interrupt is not None:
            # When pyspark handles Ctrl-C, it calls the JVM on the connection that still waits for a response.
            raise interrupt from None
        raise LocalError(f"Spark: {hidden(one_line(error_text(fault)))}") from fault


def _original_interrupt(fault: BaseException) -> KeyboardInterrupt | None:
    """Return the KeyboardInterrupt that led to an error, or None. py4j wraps socket errors in its own exceptions."""
    context = fault.__context__
    while context is not None and not isinstance(context, KeyboardInterrupt):
        context = context.__context__
    return context


def error_text(fault: BaseException) -> str:
    """Return the text of an exception; empty if Java raised the exception and the JVM has ended."""
    from py4j.protocol import Py4JError

    try:
        return str(fault)
    except (OSError, Py4JError):
        return ""


def one_line(words: str) -> str:
    """Return the line of a Java or Python trace that describes the problem."""
    for pattern, text in _KNOWN:
        found = re.search(pattern, words)
        if found:
            return text.format(*found.groups())
    stripped_lines = [line.strip() for line in words.splitlines() if line.strip()]
    causes = [line for line in stripped_lines if re.match(_CAUSE, line)]
    line = (causes or stripped_lines or ["unknown error; --debug shows the output"])[-1]
    return re.sub(_CAUSE, r"\1: ", line)
