"""Check of `pcli spark-analyze` on YARN and HDFS: a cluster of Hadoop on this machine, as in docs/spark.md.

    python bench/yarn.py [--size 40MB] [--parts run,kill,errors]

``run`` compares the tables of a run on two node managers with those of `pcli analyze`. ``kill`` does the same while an
executor is killed. ``errors`` prints the output of runs with a wrong configuration, which must be one line each. Maven
fetches Hadoop (120 MB) and pip the packages of the workers (60 MB) once. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass, replace
from pathlib import Path

import pyspark
from load.load_writer import write_load
from load.settings import WORKLOADS, bytes_of

from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import open_store

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from tests.spark.hadoop.cluster import hadoop, yarn  # noqa: E402

WORKER_PACKAGES = {
    "argcomplete", "cramjam", "fsspec", "google-crc32c", "hdfs-native", "numpy", "protobuf", "pyarrow",
    "typing-extensions",
}  # fmt: skip
"""The packages that docs/spark.md names for the workers, hdfs-native, and what these need."""
EXECUTOR = b"YarnCoarseGrainedExecutorBackend"
PATIENCE_S = 600


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster, and the client's folder: ``environment.tar.gz`` and the Hadoop configuration ``conf``."""

    folder: Path

    def start(self, out: str, more: list[str], environment: dict[str, str | None]) -> subprocess.Popen[str]:
        """Start `pcli spark-analyze`; None removes an environment variable."""
        words = [sys.executable, "-m", "pcli.cli", "spark-analyze", "hdfs:///captures", "-o", out, "--master", "yarn"]
        conf = {
            "spark.yarn.dist.archives": "environment.tar.gz#environment",
            # All nodes are this machine, so that Spark's jars need no upload.
            "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.yarn.am.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
        words += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        ours = {"HADOOP_CONF_DIR": str(self.folder / "conf"), "PYSPARK_PYTHON": "./environment/bin/python"}
        env = {key: value for key, value in (os.environ | ours | environment).items() if value is not None}
        return subprocess.Popen(
            [*words, *more], cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(
        self, out: str, more: list[str] | None = None, environment: dict[str, str | None] | None = None
    ) -> tuple[int, str, float]:
        """Run `pcli spark-analyze`; return the exit code, the output, and the seconds."""
        began = time.perf_counter()
        process = self.start(out, more or [], environment or {})
        output = process.communicate(timeout=PATIENCE_S)[0]
        return process.returncode, output, time.perf_counter() - began


def pack_environment(folder: Path) -> None:
    """Write ``environment.tar.gz``: a virtual environment with the locked packages of the workers."""
    home = folder / "environment"
    venv.create(home, with_pip=True)
    locked = re.split(r"\n(?=\S)", (ROOT / "requirements" / "all.txt").read_text())
    chosen = folder / "requirements.txt"
    chosen.write_text("\n".join(one for one in locked if one.partition("==")[0] in WORKER_PACKAGES) + "\n")
    pip = [home / "bin" / "pip", "-q", "--disable-pip-version-check", "install", "--require-hashes", "-r", chosen]
    subprocess.run(pip, check=True)
    subprocess.run(["tar", "-czf", folder / "environment.tar.gz", "-C", home, "."], check=True)


def rows_of(out: str) -> dict[str, list[str]]:
    """Return the rows of each table, sorted."""
    tables = StoredTables(out)
    return {name: sorted(map(repr, tables.read(name).to_pylist())) for name in tables.names}


def check(what: str, detail: str, *, good: bool) -> bool:
    print(f"{what:40} {'ok' if good else 'FAILED'}  {detail}", flush=True)
    return good


def compared(cluster: Cluster, out: str, wanted: dict[str, list[str]], what: str) -> bool:
    """Run and compare the tables."""
    code, output, seconds = cluster.run(out)
    if code:
        return check(what, output, good=False)
    return check(what, f"{len(wanted)} tables, {seconds:.0f} s", good=rows_of(out) == wanted)


def killed(cluster: Cluster, out: str, wanted: dict[str, list[str]]) -> bool:
    """Kill an executor as soon as one of its Python workers runs, then compare the tables."""
    what = "an executor is killed"
    process = cluster.start(out, [], {})
    victim = None
    while victim is None and process.poll() is None:
        time.sleep(0.05)
        victim = working_executor()
    if victim is not None:
        os.kill(victim, signal.SIGKILL)
    output = process.communicate(timeout=PATIENCE_S)[0]
    if process.returncode or victim is None:
        return check(what, output, good=False)
    return check(what, f"process {victim} with SIGKILL", good=rows_of(out) == wanted)


def working_executor() -> int | None:
    """Return the process of an executor of YARN with a Python worker that has used a second of CPU time."""
    ticks, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            parents[int(entry.name)], ticks[int(entry.name)] = int(fields[1]), int(fields[11])
    for worker, used in ticks.items():
        executor = parents.get(parents.get(worker, 0), 0)  # the parent of a worker is the daemon that forks workers
        if used > os.sysconf("SC_CLK_TCK") // 2 and executor and is_executor(executor):
            return executor
    return None


def is_executor(process: int) -> bool:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"java") and any(EXECUTOR in word for word in words)


def errors(cluster: Cluster) -> bool:
    """Run with wrong configurations."""
    conf = "--conf"
    cases: dict[str, tuple[list[str], dict[str, str | None]]] = {
        "no HADOOP_CONF_DIR": ([], {"HADOOP_CONF_DIR": None}),
        "HADOOP_CONF_DIR is not a folder": ([], {"HADOOP_CONF_DIR": "nowhere"}),
        "no resource manager": ([conf, "spark.hadoop.yarn.resourcemanager.address=127.0.0.1:1"], {}),
        "deploy mode cluster": ([conf, "spark.submit.deployMode=cluster"], {}),
        "no archive": ([conf, "spark.yarn.dist.archives=missing.tar.gz#environment"], {}),
        "no Python in the archive": ([], {"PYSPARK_PYTHON": "./nowhere/bin/python"}),
        "too much memory": ([conf, "spark.executor.memory=100g"], {}),
        "unknown queue": ([conf, "spark.yarn.queue=nobody"], {}),
    }
    good = True
    for what, (more, environment) in cases.items():
        code, output, seconds = cluster.run("hdfs:///refused", more, environment)
        lines = output.splitlines()
        fine = code == 2 and len(lines) == 1 and lines[0].startswith("pcli: ")
        good &= check(what, f"{seconds:.0f} s: {output.strip()}", good=fine)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=bytes_of, default=bytes_of("40MB"))
    parser.add_argument("--parts", default="run,kill,errors", help="which of these three")
    options = parser.parse_args()
    parts, good = options.parts.split(","), True
    with tempfile.TemporaryDirectory() as name, hadoop(Path(name)) as name_node, yarn(Path(name), name_node):
        folder = Path(name)
        (folder / "conf").mkdir()
        for site in ("core-site.xml", "yarn-site.xml"):
            (folder / site).rename(folder / "conf" / site)
        os.environ["HADOOP_CONF_DIR"] = str(folder / "conf")
        pack_environment(folder)
        load = replace(WORKLOADS["mixed"], size=options.size, rotate=options.size // 3)
        for path in write_load(load, folder / "load"):
            with open_store("hdfs:///captures").create(path.name) as file:
                file.write(path.read_bytes())
        here, cluster = str(folder / "here"), Cluster(folder)
        one_process = [sys.executable, "-m", "pcli.cli", "analyze", "hdfs:///captures", "-o", here]
        subprocess.run(one_process, check=True, stdout=subprocess.DEVNULL)
        wanted = rows_of(here)
        if "run" in parts:
            good &= compared(cluster, "hdfs:///out", wanted, "the tables equal those of one process")
        if "kill" in parts:
            good &= killed(cluster, "hdfs:///killed", wanted)
        if "errors" in parts:
            good &= errors(cluster)
    sys.exit(not good)


if __name__ == "__main__":
    main()
