"""What pcli sets of Spark's settings, and why.

Rules of this file
1. What the user says with --conf wins over everything here; a conf that runs against how pcli works (another Python,
   say) is the user's own affair.
2. Payload never crosses the JVM, so the JVM stays small: what memory there is belongs to the Python workers.
3. On one machine nothing is asked of the network: Spark binds to the loopback and looks up no host names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final

__all__ = ["driver_memory_mb", "is_local", "results_mb", "settings_for", "stays_here"]

_TRIES: Final = 4
"""Times that a task is tried, as on a cluster: a worker that was killed is no reason to give up the others."""


def driver_memory_mb(machine_mb: int) -> int:
    """Megabytes for the driver's JVM, on one machine also that of all tasks: a quarter, from 1 to 4 GB."""
    return max(1024, min(4096, machine_mb // 4))


def results_mb(memory: str) -> int:
    """Megabytes of results that tasks may have given to a driver of this memory (``2g``, ``2048m``): three quarters."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", memory.strip().lower())
    if found is None:  # Java will say so
        return 1024
    return max(1, int(found[1]) * _UNITS_KB[found[2]] * 3 // 4 >> 10)


_UNITS_KB: Final = {"k": 1, "": 1 << 10, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}
"""Kilobytes of the units of Spark's settings of memory; megabytes are meant without."""


def settings_for(master: str, machine_mb: int, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Spark's settings for a master on a machine of so much memory; ``conf`` are those of the user."""
    settings = {
        "spark.master": _retrying(master),
        "spark.app.name": "pcli",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # What is shuffled is packed by the tasks.
        "spark.shuffle.compress": "false",
        # Workers take and give back tables of megabytes: malloc holds a fifth less then than Arrow's own allocator.
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
        # A task that nobody wants any more has nothing to bring to an end.
        "spark.python.task.killTimeout": "100ms",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": f"{driver_memory_mb(machine_mb)}m",
    }
    if stays_here(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if is_local(master) and os.environ.get("PYSPARK_PYTHON") in (None, "", sys.executable):
        # Workers are this Python with this pcli: so all of it can be there before the first of them.
        settings["spark.python.daemon.module"] = "pcli.spark.jobs.worker_daemon"
    settings |= conf or {}
    # What comes back is small for each task, but there may be many: Spark's own 1 GB is no bound of ours.
    return {"spark.driver.maxResultSize": f"{results_mb(settings['spark.driver.memory'])}m"} | settings


def _retrying(master: str) -> str:
    """On one machine Spark gives up with the first task that fails, unless the master says how often it may."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return f"local[{found[1] or 1},{_TRIES}]" if found else master


def is_local(master: str) -> bool:
    """Whether the JVM of the driver runs the tasks: ``local``, ``local[4]``; not ``local-cluster[…]``."""
    return master == "local" or master.startswith("local[")


def stays_here(master: str) -> bool:
    """Whether all of it is on this machine. Where Kubernetes is asked says nothing of where its pods are."""
    return is_local(master) or master.startswith(("local-cluster[", "spark://127.0.0.1:"))
