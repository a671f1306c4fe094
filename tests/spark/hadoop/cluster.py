"""A cluster of Hadoop on this machine: HDFS in one process, YARN in another. Maven fetches 120 MB once."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pcli.spark.jobs.java import find_java, java_home
from tests.interop.building import MissingError, digest, fetch, is_current, lock_folder, require_tools

_FOLDER = Path(__file__).parent
_POM = _FOLDER / "pom.xml"
_HDFS = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
_START_S = 120


def class_path() -> str:
    """Return the class path of the cluster. Raises MissingError if Maven or the packages are not available."""
    require_tools("mvn")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "pcli-hadoop"
    folder.mkdir(parents=True, exist_ok=True)
    path, made_of = folder / "class-path", folder / "made-of"
    with lock_folder(folder):
        if not is_current(made_of, _POM) or not all(map(os.path.exists, path.read_text().split(os.pathsep))):
            plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
            fetch("mvn", "-q", "-B", "-f", _POM, plugin, f"-Dmdep.outputFile={path}", cwd=folder)
            made_of.write_text(digest(_POM))
    return path.read_text()


@contextmanager
def hadoop(folder: Path) -> Iterator[str]:
    """Start a name node and a data node whose files are in a folder. Yield the URL of the name node.

    The configuration of a client is ``core-site.xml`` in the folder.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [_HDFS, "-nomr", "-format", "-nnport", str(port), "-writeConfig", str(folder / "core-site.xml")]
    with _running(folder, folder / "core-site.xml", words):
        yield f"hdfs://127.0.0.1:{port}"


@contextmanager
def yarn(folder: Path, name_node: str) -> Iterator[None]:
    """Start a resource manager and two node managers on this HDFS. Their files are in a folder.

    The configuration of a client is ``yarn-site.xml`` in the folder. The source YarnCluster.java requires a JDK.
    """
    require_tools("javac")
    words = [str(_FOLDER / "YarnCluster.java"), name_node, str(folder / "yarn-site.xml")]
    with _running(folder, folder / "yarn-site.xml", words, {"MALLOC_ARENA_MAX": "2"}):
        yield


@contextmanager
def _running(folder: Path, ready: Path, words: list[str], environment: Mapping[str, str] = {}) -> Iterator[None]:
    """Run Java until the end of the block. The block begins when the file ``ready`` exists."""
    home = java_home(find_java(), folder)
    command = [str(home / "bin" / "java"), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", class_path(), *words]
    log = folder / f"{ready.stem}.log"
    with log.open("wb") as output:
        env = os.environ | {"JAVA_HOME": str(home)} | environment
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=output, stderr=output)
    try:
        until = time.monotonic() + _START_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > until:
                raise MissingError(f"Hadoop does not start: {log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()
