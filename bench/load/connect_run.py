"""Run `pcli spark-analyze` on a Spark Connect server that exists only during the run.

    python bench/load/connect_run.py PATH -o OUT [option …]

The server has the settings, the daemon of workers and the Java options that pcli uses for ``local[2]``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from pcli.spark.jobs.machine_resources import memory_mb
from pcli.spark.jobs.settings import settings_for
from tests.spark.connect_server import connect_server

if __name__ == "__main__":
    settings = settings_for("local[2]", memory_mb()) | {"spark.log.level": "ERROR"}
    with (
        tempfile.TemporaryDirectory() as folder,
        connect_server(Path(folder), Path(sys.executable), settings) as url,
    ):
        command = [sys.executable, "-m", "pcli.cli", "spark-analyze", *sys.argv[1:], "--master", url]
        code = subprocess.run(command, check=False).returncode
    sys.exit(code)
