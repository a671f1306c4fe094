"""Spark's errors as one line each: what failed, and the way out. Traces of Java and of the workers stay unprinted.

Some are known by their words: a Python worker that died, memory, a disk that is full, a master that has gone. Of others
the last line tells what the task said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pickle import PicklingError
from typing import Final

from pcli.codec.errors import LocalError
from pcli.spark.tables.uri_redaction import hidden

__all__ = ["one_line", "plain_errors", "words_of"]

_KNOWN: Final = (
    (r"Invalid (?:maximum|initial) heap size: -Xm[xs](\S+)", "Java takes no {0} for memory: write 512m or 4g"),
    (r"No module named '(numpy|pyarrow|google_crc32c|cramjam|google(?:\.protobuf)?|re2)'",
     "the Python of the workers lacks {0}: install pulsar-pcli[spark] there, or name another one by PYSPARK_PYTHON "
     "(docs/spark.md)"),
    (r"Failed to create any local dir",
     "no folder can be made for Spark's temporary files: --conf spark.local.dir (or SPARK_LOCAL_DIRS) names where"),
    (r"No space left on device|Disk quota exceeded",
     "no space left where Spark keeps its temporary files (spark.local.dir) or the tables are written"),
    (r"Python worker exited unexpectedly|crashed|EOFException",
     "a Python worker died again and again: it was killed, mostly for memory (fewer tasks at a time: "
     "--master 'local[1]', or a larger spark.executor.memoryOverhead)"),
    (r"java\.lang\.OutOfMemoryError|GC overhead",
     "Java has too little memory: --conf spark.driver.memory=4g on one machine, spark.executor.memory on a cluster"),
    (r"[Tt]otal size of serialized results of \d+ tasks \(([^)]*)\) is bigger than \S*maxResultSize \(([^)]*)\)",
     "what the tasks give back ({0}) is more than the driver takes ({1}): --conf spark.driver.memory=8g makes it more"),
    (r"ExecutorLostFailure|Slave lost|worker lost|Remote RPC client disassociated",
     "executors were lost again and again; the cluster's logs say why"),
    (r"All masters are unresponsive|Connection refused|stopped SparkContext",
     "the cluster does not answer any more, or Java has ended"),
    (r"Python in worker has different version: (\S+) than that in driver: (\S+?),",
     "the workers run Python {0}, this is {1}: set PYSPARK_PYTHON to the same version"),
    (r"ArrowMemoryError|MemoryError",
     "a Python worker has too little memory: run fewer tasks at a time (--master 'local[1]')"),
)  # fmt: skip

_CAUSE: Final = r"(?:Caused by: |: |Exception in thread \S+ )?(?:[\w$]+\.)*(\w*(?:Error|Exception)): "


@contextmanager
def plain_errors() -> Iterator[None]:
    """What Spark raises inside becomes a LocalError of one line; its own words are the cause, for --debug."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, PicklingError, ConnectionError) as fault:
        interrupt = _interrupt_behind(fault)
        if interrupt is not None:
            # pyspark asks the JVM for something on its way out, on the connection that still waits for an answer.
            raise interrupt from None
        raise LocalError(f"Spark: {hidden(one_line(words_of(fault)))}") from fault


def _interrupt_behind(fault: BaseException) -> KeyboardInterrupt | None:
    """The Ctrl-C that it was raised while, maybe by way of others: py4j makes errors of its own out of a socket's."""
    behind = fault.__context__
    while behind is not None and not isinstance(behind, KeyboardInterrupt):
        behind = behind.__context__
    return behind


def words_of(fault: BaseException) -> str:
    """What an exception says. The words of Java's are asked of the JVM, which may have ended: then none."""
    from py4j.protocol import Py4JError

    try:
        return str(fault)
    except (OSError, Py4JError):
        return ""


def one_line(words: str) -> str:
    """The line out of a trace of Java or Python that says what it is about."""
    for pattern, text in _KNOWN:
        found = re.search(pattern, words)
        if found:
            return text.format(*found.groups())
    told = [line.strip() for line in words.splitlines() if line.strip()]
    causes = [line for line in told if re.match(_CAUSE, line)]
    line = (causes or told or ["it says nothing; --debug shows all it prints"])[-1]
    return re.sub(_CAUSE, r"\1: ", line)
