"""The zip with the code, for workers without it (see tests/spark/jobs/test_cluster.py)."""

import subprocess
import sys
import zipfile
from types import SimpleNamespace

import pytest

from pcli.spark.jobs.code_distribution import code_zip, ship_once, unship

IMPORTS = """
import sys
sys.path.insert(0, sys.argv[1])
import pcli.codec.wire, pcli.codec.proto.pulsar_api_pb2, pcli.spark.jobs.spark_engine, pcli.spark.engine
print(pcli.spark.engine.__file__)
"""


def test_another_python_imports_from_it(tmp_path, bare_python):
    path = code_zip(tmp_path)
    done = subprocess.run([bare_python, "-c", IMPORTS, path], capture_output=True, text=True, check=False)
    assert done.stdout.startswith(str(path)), done.stderr
    without = subprocess.run([bare_python, "-c", IMPORTS, "/"], capture_output=True, text=True, check=False)
    assert "No module named 'pcli'" in without.stderr


def test_the_same_code_gives_the_same_zip(tmp_path):
    (tmp_path / "a").mkdir()
    one, two = code_zip(tmp_path / "a"), code_zip(tmp_path)
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()
    names = zipfile.ZipFile(one).namelist()
    assert "pcli/" in names
    assert not [name for name in names if "cli/cli" in name or "minibroker" in name or "__pycache__" in name]


def test_the_zip_is_removed_from_the_path(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/tmp/x/pcli-code-00.zip", "/lib"])
    unship()
    assert sys.path == ["/lib"]


def test_a_failed_transfer_is_repeated():
    class Context:
        master, applicationId = "yarn", "application_1"  # noqa: N815  (Spark's)

        def __init__(self):
            self.got = []

        def addPyFile(self, path):  # noqa: N802
            if not self.got:
                self.got.append("failed")
                raise OSError("no such host")
            self.got.append(path)

    context = Context()
    session = SimpleNamespace(sparkContext=context)
    with pytest.raises(OSError, match="no such host"):
        ship_once(session)
    ship_once(session)
    ship_once(session)
    assert len(context.got) == 2
