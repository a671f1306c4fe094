"""A cluster of Spark: a master and two workers with one core each, started by the scripts in pyspark's wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from pcli.spark.jobs.java import find_java, java_home

SPARK = Path(pyspark.__file__).parent


@dataclass
class Cluster:
    """A cluster, and a method that runs a driver in its own process."""

    url: str
    environment: dict[str, str]

    def run(self, script: str, *words: object) -> subprocess.CompletedProcess[str]:
        """Run this Python as the driver, with these arguments after the master's."""
        command = [sys.executable, "-c", script, self.url, *map(str, words)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture(scope="session")
def cluster(tmp_path_factory, bare_python) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    environment = os.environ | {
        "JAVA_HOME": str(java_home(find_java(), folder)),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": str(bare_python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    log = folder / "log"
    with log.open("wb") as output:

        def start(role: str, *words: str) -> subprocess.Popen[bytes]:
            name = f"org.apache.spark.deploy.{role.lower()}.{role}"
            command = [str(SPARK / "bin" / "spark-class"), name, "--host", "127.0.0.1", "--webui-port", "0", *words]
            return subprocess.Popen(command, env=environment, stdout=output, stderr=output)

        running = [start("Master", "--port", "0")]
        try:
            (url,) = told(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)", 1)
            for name in ("one", "two"):
                work = ["--work-dir", str(folder / name), "--cores", "1", "--memory", "1g"]
                running.append(start("Worker", *work, url))
            told(log, r"Registering worker (\S+) with 1 cores", 2)
            yield Cluster(url, environment)
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()


def told(log: Path, pattern: str, count: int) -> set[str]:
    """Wait until a group of the pattern has this number of values in the log; return them."""
    for _ in range(1800):
        found = set(re.findall(pattern, log.read_text()))
        if len(found) == count:
            return found
        time.sleep(0.1)
    pytest.fail(log.read_text())
