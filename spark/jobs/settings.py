"""The Spark settings that pcli changes, with the reasons.

Rules of this file
1. A value of --conf overrides every setting of this module, even if pcli does not work with this value (a different
   Python, for example).
2. Payloads never pass through the JVM, so it needs little memory. Most memory is left for the Python workers.
3. On one machine no network is used: Spark binds to the loopback address and resolves no host names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final

_TRIES: Final = 4
"""Number of attempts for each task, the default of clusters. A job therefore does not fail if one worker is killed."""


def driver_memory_mb(machine_mb: int) -> int:
    """Return the megabytes for the driver's JVM if it runs all tasks: a quarter of the memory, from 1 to 4 GB."""
    return max(1024, min(4096, machine_mb // 4))


def results_mb(memory: str) -> int:
    """Return the maximum megabytes of task results: three quarters of the driver's memory (``2g``, ``2048m``)."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", memory.strip().lower())
    if found is None:  # Java will report the error
        return 1024
    return max(1, int(found[1]) * _UNITS_KB[found[2]] * 3 // 4 >> 10)


_UNITS_KB: Final = {"k": 1, "": 1 << 10, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}
"""Kilobytes per unit of Spark's memory settings; the default unit is megabytes."""


def settings_for(master: str, machine_mb: int, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return Spark's settings for a master and for this machine's memory; ``conf`` contains the user's settings."""
    settings = {
        "spark.master": _retrying(master),
        "spark.app.name": "pcli",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Tasks already compress the data that is shuffled.
        "spark.shuffle.compress": "false",
        # Workers allocate and free tables of megabytes. They hold a fifth less memory if they use malloc instead of
        # Arrow's allocator.
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
        # A cancelled task needs no time to clean up.
        "spark.python.task.killTimeout": "100ms",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": f"{driver_memory_mb(machine_mb)}m",
    }
    if runs_locally(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if master == "yarn":
        # Spark copies the files of the driver's HADOOP_CONF_DIR to this folder of each container.
        settings["spark.executorEnv.HADOOP_CONF_DIR"] = "__spark_conf__/__hadoop_conf__"
    if is_local(master) and os.environ.get("PYSPARK_PYTHON") in (None, "", sys.executable):
        # Workers use this Python and this pcli, so the daemon can import everything before it forks the first worker.
        settings["spark.python.daemon.module"] = "pcli.spark.jobs.worker_daemon"
    settings |= conf or {}
    # Each task returns few bytes, but there may be so many tasks that Spark's default limit of 1 GB is too low.
    return {"spark.driver.maxResultSize": f"{results_mb(settings['spark.driver.memory'])}m"} | settings


def _retrying(master: str) -> str:
    """Return the master with a number of attempts, because otherwise a local Spark stops at the first failed task."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return f"local[{found[1] or 1},{_TRIES}]" if found else master


def is_local(master: str) -> bool:
    """Return whether the JVM of the driver runs the tasks: ``local``, ``local[4]``; not ``local-cluster[…]``."""
    return master == "local" or master.startswith("local[")


def runs_locally(master: str) -> bool:
    """Return whether everything runs on this machine; False for Kubernetes, whose address does not show this."""
    return is_local(master) or master.startswith(("local-cluster[", "spark://127.0.0.1:"))
