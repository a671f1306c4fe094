"""Spark with the Delta connector reads the tables. No connector supports the PySpark of pcli, so it has its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.jobs.java import find_java
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables
from tests.interop.building import MissingError, fetch, lock_folder, require_tools

PYSPARK = "pyspark==4.2.0"
JARS = ("delta-spark_4.2_2.13", "delta-storage")
DELTA = "4.4.0"

READ = """
import json, sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars", sys.argv[2]).config("spark.databricks.delta.snapshotPartitions", "1")
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
spark = builder.config("spark.sql.catalog.spark_catalog", catalog).getOrCreate()
found = {}
for version in (0, 1):
    rows = spark.read.format("delta").option("versionAsOf", version).load(sys.argv[1] + "/messages").collect()
    found[version] = [json.dumps(row.asDict(recursive=True), sort_keys=True, default=str) for row in rows]
found["comment"] = spark.read.format("delta").load(sys.argv[1] + "/messages").schema["state"].metadata["comment"]
with open(sys.argv[3], "w") as file:
    json.dump(found, file)
"""


def environment() -> tuple[Path, list[Path]]:
    """Return the Python with PySpark and the files of the connector. Raises MissingError if they are not available."""
    require_tools("mvn")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "pcli-delta-spark" / f"{PYSPARK}-{DELTA}"
    folder.mkdir(parents=True, exist_ok=True)
    python, jars = folder / "venv" / "bin" / "python", [folder / f"{name}-{DELTA}.jar" for name in JARS]
    with lock_folder(folder):
        if not (folder / "complete").exists():
            fetch(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
            fetch(python, "-m", "pip", "-q", "--disable-pip-version-check", "install", PYSPARK, cwd=folder)
            plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
            for name in JARS:
                fetch("mvn", "-q", "-B", plugin, f"-Dartifact=io.delta:{name}:{DELTA}",
                      f"-DoutputDirectory={folder}", cwd=folder)  # fmt: skip
            (folder / "complete").touch()
    return python, jars


def rows(table):
    return [json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist()]


@pytest.mark.slow
def test_spark_reads_both_versions_of_a_table(tmp_path, small_captures):
    try:
        python, jars = environment()
    except MissingError as reason:
        pytest.skip(f"Spark with the Delta connector is not available: {reason}")
    out = tmp_path / "out"
    for name in ("java/schemas.pcap", "go/nack.pcap"):
        analyze(Request((str(small_captures / name),), str(out), only=("messages",)), InProcess())
    java = {"JAVA_HOME": str(find_java().home)}
    words = [python, "-c", READ, out, ",".join(map(str, jars)), tmp_path / "found.json"]
    done = subprocess.run(words, env=os.environ | java, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    for version in (0, 1):
        wanted = rows(StoredTables(str(out), run=version + 1).read("messages"))
        assert sorted(found[str(version)]) == sorted(wanted)
    assert found["comment"] == "final state (see docs/tables.md)"
