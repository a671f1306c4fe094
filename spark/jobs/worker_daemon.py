"""Where Python workers come from on one machine: a process that has imported everything, and forks.

Spark's own imports nothing before it forks, so each worker would import numpy, pyarrow and pcli for itself: a second of
CPU time each, and again for each that was killed.

Rules of this file
1. It is for ``local[…]`` alone, where workers run this Python with this pcli (`pcli.spark.jobs.session`). A cluster has
   Spark's own: there our code comes later, as a zip.
2. What was imported is frozen: no collection of garbage looks at it, so its pages stay shared.
3. Nothing may be running here when it forks. Spark sets OMP_NUM_THREADS for its workers, which keeps numpy's library
   from starting threads; pyarrow starts its own when they are needed, and its allocator's knows of forks.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module
from typing import Final

from pyspark import daemon

__all__ = ["main"]

_WANTED: Final = ("pyspark.worker", "pcli.spark.jobs.spark_engine", "pcli.spark.analysis")


def main() -> None:
    """Import, then do what Spark's does."""
    with suppress(ImportError):  # the task that needs it says so
        for name in _WANTED:
            import_module(name)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
