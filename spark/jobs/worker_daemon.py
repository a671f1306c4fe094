"""The parent process of Python workers on one machine: it imports everything, then forks.

Spark's own daemon imports nothing before it forks. Each worker would then import numpy, pyarrow and pcli. This import
takes a second of CPU time. Each replacement of a killed worker would also import them.

Rules of this file
1. This daemon is used only for ``local[…]``, where workers run this Python with this pcli (`pcli.spark.jobs.session`).
   A cluster uses Spark's own daemon, because a cluster receives the code of pcli later, as a zip.
2. Imported objects are frozen, so the garbage collector does not modify them and workers share their memory pages.
3. No other thread may run when the daemon forks. Spark sets OMP_NUM_THREADS for its workers, which keeps numpy's
   library from starting threads. pyarrow starts its threads when they are needed, and its allocator supports forks.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module
from typing import Final

from pyspark import daemon

_WANTED: Final = ("pyspark.worker", "pcli.spark.jobs.spark_engine", "pcli.spark.analysis")


def main() -> None:
    """Import the modules, then run Spark's daemon."""
    with suppress(ImportError):  # the task that needs the module reports the error
        for name in _WANTED:
            import_module(name)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
