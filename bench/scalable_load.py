"""Measurements of a broker's scalable topics, with the V5 Java client (load/ScalableLoad.java)."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
sys.path.insert(0, str(TESTS))  # the builds of Java programs are those of the tests

from interop.building import MissingError, build_java  # noqa: E402

SEGMENTS = 4


def program(folder: Path) -> list[str | Path] | None:
    """Compile the load in a folder. Return its command line, or None without the tools or packages of the client."""
    pom = TESTS / "scenarios" / "diagnosis" / "pom-v5.xml"
    try:
        return [*build_java(folder, [HERE / "load" / "ScalableLoad.java"], pom), "ScalableLoad"]
    except MissingError as missing:
        print(f"no scalable topics: {missing}")
        return None


def measure(
    command: list[str | Path], url: str, http_url: str, cpu: Callable[[], float], seconds: int
) -> dict[str, str]:
    """Return the figures of the scalable topics of a broker, for a stream and a queue consumer.

    ``cpu`` returns the CPU seconds of the broker so far.
    """

    def run(measurement: str, name: str, segments: int, kind: str) -> dict[str, str]:
        topic = f"{http_url}/admin/v2/scalable/public/default/{name}"
        put = urllib.request.Request(f"{topic}?numInitialSegments={segments}", method="PUT")
        urllib.request.urlopen(put, timeout=60).close()
        words = [measurement, url, f"topic://public/default/{name}", kind, str(seconds), f"{topic}/split/0"]
        process = subprocess.run([*command, *words], check=False, text=True, capture_output=True)
        if process.returncode:
            sys.exit(f"ScalableLoad {' '.join(words)}: {process.stderr}")
        return dict(re.findall(r"^(.+)\t(.+)$", process.stdout, re.MULTILINE))

    figures = {}
    for kind in ("stream", "queue"):
        prefix = f"scalable, {kind}"
        for name, value in run("latency", f"latency-{kind}", SEGMENTS, kind).items():
            figures[f"{prefix}, {name}"] = value
        before = cpu()
        rates = {name: float(value) for name, value in run("rate", f"rate-{kind}", SEGMENTS, kind).items()}
        spent = (cpu() - before) / (rates["received"] * seconds)
        published, received = rates["published"] / 1000, rates["received"] / 1000
        figures[f"{prefix}, published / consumed"] = f"{published:.1f} k / {received:.1f} k msg/s"
        figures[f"{prefix}, CPU time per message"] = f"{spent * 1e6:.1f} us"
        for name, value in run("split", f"split-{kind}", 1, kind).items():
            figures[f"{prefix}, split to {name}"] = value
    return figures
