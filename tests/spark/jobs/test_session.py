"""The start of Spark: settings and errors."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from pcli.codec.errors import LocalError
from pcli.spark.jobs.machine_resources import cpus, memory_mb
from pcli.spark.jobs.session import open_spark, parsed_conf
from pcli.spark.jobs.settings import driver_memory_mb, results_mb, settings_for


def test_confs_are_keys_and_values():
    assert parsed_conf(["spark.a=1", " spark.b =x=y"]) == {"spark.a": "1", "spark.b": "x=y"}
    for bad in ("spark.a", "=1"):
        with pytest.raises(LocalError, match="KEY=VALUE"):
            parsed_conf([bad])


@pytest.mark.parametrize(("machine", "driver"), [(1000, 1024), (8192, 2048), (100_000, 4096)])
def test_java_gets_a_part_of_the_memory(machine, driver):
    assert driver_memory_mb(machine) == driver


@pytest.mark.parametrize(
    ("master", "tried"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local[x]", "local[x]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_local_tasks_are_repeated(master, tried):
    assert settings_for(master, 8192)["spark.master"] == tried


def test_only_local_masters_bind_to_the_loopback():
    assert settings_for("local[*]", 8192)["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" in settings_for("spark://127.0.0.1:7077", 8192)
    for master in ("yarn", "spark://host:7077", "k8s://https://127.0.0.1:6443", "k8s://https://host:443"):
        assert "spark.driver.host" not in settings_for(master, 8192)


@pytest.mark.parametrize(("memory", "results"), [("4096m", 3072), ("2g", 1536), ("1024", 768), ("1048576K", 768)])
def test_results_are_limited_to_three_quarters_of_the_drivers_memory(memory, results):
    assert results_mb(memory) == results
    values = settings_for("yarn", 8192, {"spark.driver.memory": memory})
    assert values["spark.driver.maxResultSize"] == f"{results}m"


def test_settings_of_the_user_take_precedence():
    values = settings_for("local[1]", 8192, {"spark.driver.maxResultSize": "5g", "spark.ui.enabled": "true"})
    assert (values["spark.driver.maxResultSize"], values["spark.ui.enabled"]) == ("5g", "true")


def test_our_own_parent_of_workers_is_for_this_python_on_this_machine(monkeypatch):
    key = "spark.python.daemon.module"
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert key in settings_for("local[2]", 8192)
    assert key not in settings_for("local-cluster[2,1,512]", 8192)
    assert key not in settings_for("spark://127.0.0.1:7077", 8192)
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/another")
    assert key not in settings_for("local[2]", 8192)


def test_containers_of_yarn_find_the_configuration_of_hadoop():
    """In the folder to which Spark copies the files of the driver's HADOOP_CONF_DIR."""
    key = "spark.executorEnv.HADOOP_CONF_DIR"
    assert settings_for("yarn", 8192)[key] == "__spark_conf__/__hadoop_conf__"
    assert settings_for("yarn", 8192, {key: "/etc/hadoop"})[key] == "/etc/hadoop"
    assert key not in settings_for("local[2]", 8192)


def test_memory_is_that_of_the_container(tmp_path):
    limit = tmp_path / "max"
    limit.write_text(f"{100 << 20}\n")
    assert memory_mb((str(limit),)) == 100
    limit.write_text("max\n")
    assert memory_mb((str(limit), str(tmp_path / "none"))) == memory_mb(()) > 100
    assert cpus() >= 1


def test_the_workers_are_this_python_and_the_terminal_is_quiet(spark, capfd):
    def interpreter(_):
        yield sys.executable, "pcli.spark.analysis" in sys.modules, pa.default_memory_pool().backend_name

    ((found, loaded, pool),) = spark.sparkContext.parallelize([0], 1).mapPartitions(interpreter).collect()
    assert found == sys.executable
    assert loaded, "the daemon has imported it"
    assert pool == "system"
    assert capfd.readouterr() == ("", "")


STARTS = """
import json, sys
from pcli.codec.errors import LocalError
from pcli.spark.jobs.session import open_context
outcomes = []
for master, conf in json.loads(sys.argv[1]):
    try:
        with open_context(master, conf) as spark:
            outcomes.append(spark.parallelize(range(3)).count())
    except LocalError as error:
        outcomes.append(str(error))
print(json.dumps(outcomes))
"""


@pytest.mark.slow
def test_errors_of_the_start_are_reported_in_one_line():
    """A process of its own runs the attempts in one JVM each. The last one succeeds: failures leave no state."""
    tries = [
        ("nonsense", {}),
        ("spark://127.0.0.1:1", {}),
        ("local[1]", {"spark.driver.memory": "much"}),
        ("local[1]", {"spark.local.dir": "/dev/null/x"}),
        ("local[1]", {}),
    ]
    command = [sys.executable, "-c", STARTS, json.dumps(tries)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert json.loads(done.stdout) == [
        "Spark does not start: SparkException: Master must either be yarn or start with spark, k8s, or local",
        "--master spark://127.0.0.1:1: no Spark master responds at this address",
        "Spark does not start: Java does not accept much as a memory size: write 512m or 4g",
        "Spark does not start: no folder for Spark's temporary files can be created: set --conf spark.local.dir "
        "(or SPARK_LOCAL_DIRS)",
        3,
    ]
    assert done.stderr == ""


def test_without_pyspark_the_remedy_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(LocalError, match=r"pip install 'pulsar-pcli\[spark\]'"), open_spark("local[1]"):
        pass
