"""A Spark Connect server on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from pcli.spark.jobs.java import find_java, java_home

_START_S = 120


@contextmanager
def connect_server(folder: Path, python: Path, conf: Mapping[str, str] | None = None) -> Iterator[str]:
    """Start a server with two tasks at a time, whose workers run this Python. Yield its URL; ``folder`` gets its log.

    Raise OSError with the log if the server does not start.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {
        "JAVA_HOME": str(java_home(find_java(), folder)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
    }
    options = {"spark.master": "local[2]", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    options |= {"spark.connect.grpc.binding.port": str(port)} | dict(conf or {})
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    command += [word for key, value in options.items() for word in ("--conf", f"{key}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        until = time.monotonic() + _START_S
        while not _listens(port):
            if server.poll() is not None or time.monotonic() > until:
                raise OSError((folder / "log").read_text())
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
