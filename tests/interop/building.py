"""Builds of the programs with official clients, in a folder that keeps them for the next run."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_POM = Path(__file__).parent / "java" / "pom.xml"
_GO = Path(__file__).parent / "go"
BUILD_SECONDS = 300


class MissingError(Exception):
    """A tool or a package of a client is not available."""


def fetch(*command_line: str | Path, cwd: Path) -> None:
    """Run a tool that fetches packages; raise MissingError if it fails."""
    process = subprocess.run(command_line, cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS)
    if process.returncode:
        raise MissingError(
            f"{command_line[0]} {command_line[1]}: {(process.stderr.strip() or process.stdout.strip())[-500:]}"
        )


def require_tools(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            raise MissingError(f"{tool} is not installed")


def compile_sources(*command_line: str | Path, cwd: Path, **environment: str) -> None:
    """Compile a source file of the tests. A failure is an error, not a reason to skip."""
    env = os.environ | environment
    process = subprocess.run(command_line, cwd=cwd, env=env, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert process.returncode == 0, process.stderr


def is_current(digest_file: Path, *sources: Path) -> bool:
    """Return whether the results of these sources exist and are up to date."""
    return digest_file.exists() and digest_file.read_text() == digest(*sources)


def digest(*sources: Path) -> str:
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def build_java(cache: Path, sources: Sequence[Path], pom: Path = _POM) -> list[str | Path]:
    """Return the start of a command line; the main class and its arguments follow.

    Maven determines the class path of the pom and fetches missing packages. ``cache`` contains the classes.
    """
    require_tools("java", "javac", "mvn")
    path, digest_file = cache / "class-path", cache / "made-of"
    if not is_current(digest_file, pom, *sources) or not all(map(os.path.exists, path.read_text().split(os.pathsep))):
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
        fetch("mvn", "-q", "-B", "-f", pom, plugin, f"-Dmdep.outputFile={path}", cwd=cache)
        if sources:
            options = ("-proc:none", "-parameters", "-d", cache, "-cp", path.read_text())
            compile_sources("javac", *options, *sources, cwd=cache)
        digest_file.write_text(digest(pom, *sources))
    return ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", f"{cache}{os.pathsep}{path.read_text()}"]


def build_go(cache: Path, source: Path) -> list[str | Path]:
    """Return the command line of a Go program with the client's modules. ``source`` is its only file.

    Without cgo, the client uses a zstd in Go: the build needs no C compiler and takes half the time.
    """
    require_tools("go")
    digest_file, sources = cache / "made-of", [*(_GO / name for name in ("go.mod", "go.sum")), source]
    if not is_current(digest_file, *sources):
        folder = cache / "go"
        folder.mkdir(exist_ok=True)
        for one in sources:
            shutil.copy(one, folder)
        fetch("go", "list", "-mod=readonly", "-deps", ".", cwd=folder)
        options = ("-mod=readonly", "-buildvcs=false", "-o", cache / "program")
        compile_sources("go", "build", *options, ".", cwd=folder, CGO_ENABLED="0")
        digest_file.write_text(digest(*sources))
    return [cache / "program"]


@contextmanager
def lock_folder(folder: Path) -> Iterator[Path]:
    """Hold the lock of a folder, because the workers of pytest-xdist build the same programs."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield folder
