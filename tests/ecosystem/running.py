"""A program of the ecosystem: its build, its command line, its output, and the capture of its traffic."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from interop.building import (
    MissingError,
    build_java,
    compile_sources,
    digest,
    fetch,
    is_current,
    lock_folder,
    require_tools,
)

from pcli.replay.proxy import Proxy

HERE = Path(__file__).parent
RUN_SECONDS = 240


class Traffic:
    """A proxy in front of the broker, and the capture of its traffic."""

    def __init__(self, proxy: Proxy, capture: Path, config: pytest.Config) -> None:
        self.service_url, self.http_url, self.capture = proxy.service_url, proxy.http_url, capture
        self._proxy, self._config = proxy, config

    @contextmanager
    def _cache(self, name: str) -> Iterator[Path]:
        """Yield the folder of a program that is built; skip the test if a tool or a package is missing."""
        try:
            with lock_folder(Path(self._config.cache.mkdir(f"ecosystem-{name}"))) as cache:
                yield cache
        except (MissingError, subprocess.TimeoutExpired) as reason:
            pytest.skip(f"{name} is not available: {reason}")

    def java(self, name: str, main: str, *arguments: str, flags: Sequence[str] = ()) -> list[str | Path]:
        """Return the command line of a program in a folder with a pom.xml, compiled if it has sources."""
        folder = HERE / name
        with self._cache(name) as cache:
            java, *rest = build_java(cache, sorted(folder.glob("*.java")), folder / "pom.xml")
        return [java, *flags, *rest, main, *arguments]

    def quarkus(self, name: str, *flags: str) -> list[str | Path]:
        """Return the command line of a Quarkus application, built by its Maven plugin."""
        sources = sorted(path for path in (HERE / name).rglob("*") if path.is_file())
        with self._cache(name) as cache:
            require_tools("java", "mvn")
            if not is_current(cache / "made-of", *sources):
                fetch("mvn", "-q", "-B", "-f", HERE / name / "pom.xml", f"-Dfolder={cache}", "package", cwd=cache)
                (cache / "made-of").write_text(digest(*sources))
        return ["java", "-XX:TieredStopAtLevel=1", *flags, "-jar", cache / "quarkus-app" / "quarkus-run.jar"]

    def go(self, name: str, *arguments: str) -> list[str | Path]:
        """Return the command line of a program in a folder of go/."""
        with self._cache("go") as cache:
            require_tools("go")
            fetch("go", "list", "-mod=readonly", "-deps", f"./{name}", cwd=HERE / "go")
            command_line = ("go", "build", "-mod=readonly", "-buildvcs=false", "-o", cache / name, f"./{name}")
            compile_sources(*command_line, cwd=HERE / "go", CGO_ENABLED="0")
        return [cache / name, *arguments]

    def findings(self) -> dict[str, str]:
        """Stop the proxy, and return the rules and severities of the findings in its capture, without notes."""
        self._proxy.stop()
        assert self._proxy.failures == []
        command_line = [sys.executable, "-m", "pcli.cli", "diagnose", "-r", self.capture, "-T", "json"]
        result = json.loads(run(command_line))
        assert result["looked_at"]["frames"]
        return {one["rule"]: one["severity"] for one in result["findings"] if one["severity"] != "note"}


def run(command_line: Sequence[str | Path]) -> str:
    """Run a program and return its output. The test fails with the program's errors if it fails."""
    process = subprocess.run(command_line, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert process.returncode == 0, f"{process.stdout[-2000:]}\n{process.stderr[-4000:]}"
    return str(process.stdout)
