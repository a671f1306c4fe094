"""A cluster of Hadoop in one process: HDFS, and YARN if it is wanted. Maven fetches 110 MB once."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pcli.spark.jobs.java import find_java, java_home
from tests.interop.building import MissingError, fetch, lock_folder, require_tools

_POM = Path(__file__).parent / "pom.xml"
_MAIN = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
_START_S = 120


def class_path() -> str:
    """Return the class path of the cluster. Raises MissingError if Maven or the packages are not available."""
    require_tools("mvn")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "pcli-hadoop" / "3.5.0"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "class-path"
    with lock_folder(folder):
        if not path.exists() or not all(map(os.path.exists, path.read_text().split(os.pathsep))):
            plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
            fetch("mvn", "-q", "-B", "-f", _POM, plugin, f"-Dmdep.outputFile={path}", cwd=folder)
    return path.read_text()


@contextmanager
def hadoop(folder: Path, *options: str) -> Iterator[str]:
    """Start a cluster whose files are in a folder. Yield the URL of its name node."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    java = java_home(find_java(), folder) / "bin" / "java"
    command = [java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", class_path(), _MAIN]
    command += ["-format", "-nnport", str(port), "-writeConfig", str(folder / "core-site.xml"), *options]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        until = time.monotonic() + _START_S
        while not (folder / "core-site.xml").exists():
            if process.poll() is not None or time.monotonic() > until:
                raise MissingError(f"Hadoop does not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.2)
        yield f"hdfs://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
