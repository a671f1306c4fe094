"""The checks of `pcli doctor`, part by part.

Rules of this file
1. Packages are not imported. Their metadata is checked, which takes milliseconds. Only Java is run.
2. Capture permissions are tested by opening a raw socket.
3. A failed check includes one line with the remedy.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    part: str
    name: str
    good: bool
    found: str
    """The version, path or amount that was found, or the reason why the check failed."""
    get: str
    """The remedy; empty if the check passed."""


LEAST: Final = {
    "spark": {"pyspark": "4.1", "numpy": "2", "pyarrow": "18"},
    "tables": {"numpy": "2", "pyarrow": "18"},
    "report": {"jinja2": "3.1", "vl-convert-python": "1.9"},
    "crypto": {"cryptography": "43"},
    "tui": {"textual": "1"},
}
"""For each extra, its packages and their minimum versions, as in pyproject.toml."""

_LEAST_MB: Final = 3072
"""Megabytes for a JVM of 1 GB and two Python workers of 650 MB, with a margin."""

_LEAST_TEMPORARY_MB: Final = 1024


def _packages(part: str) -> Iterator[Check]:
    for name, least in LEAST[part].items():
        get = f"pip install 'pulsar-pcli[{part}]'"
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Check(part, name, False, "not installed", get)  # noqa: FBT003
            continue
        good = _numbers(found) >= _numbers(least)
        yield Check(part, name, good, found if good else f"{found} is older than {least}", "" if good else get)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", text)[:2])


def _spark(part: str) -> Iterator[Check]:
    from pcli.spark.jobs import missing_packages

    if missing_packages.FROZEN:
        yield Check(part, "pyspark", False, "not part of the executable", "pip install 'pulsar-pcli[spark]'")  # noqa: FBT003
        return
    yield _java(part)
    yield from _packages(part)
    from pcli.spark.jobs.machine_resources import cpus, memory_mb

    memory = memory_mb()
    more = "a machine or container with more memory; or a cluster: --master"
    yield Check(part, "memory", memory >= _LEAST_MB, f"{memory} MB", "" if memory >= _LEAST_MB else more)
    yield Check(part, "processors", True, f"{cpus()} for local[*]", "")  # noqa: FBT003
    yield _temporary(part)


def _java(part: str) -> Check:
    from pcli.spark.jobs.java import java_candidates

    passed_over: list[str] = []
    for look in java_candidates():
        if look.found is not None:
            java = look.found
            because = f" ({'; '.join(passed_over)})" if passed_over else ""
            return Check(part, "Java", True, f"{java.version} from {java.source}: {java.home}{because}", "")  # noqa: FBT003
        passed_over.append(f"{look.source}: {look.why_not}")
    return Check(part, "Java", False, "; ".join(passed_over), "pip install 'pulsar-pcli[spark]'")  # noqa: FBT003


def _temporary(part: str) -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free >> 20
    good = free >= _LEAST_TEMPORARY_MB
    get = "" if good else "free space in that folder, or --conf spark.local.dir=FOLDER and TMPDIR=FOLDER"
    return Check(part, "temporary files", good, f"{free} MB free in {folder}", get)


_PROGRAMS: Final = ("dumpcap", "tcpdump")


def _capture(part: str) -> Iterator[Check]:
    paths = {name: shutil.which(name) for name in _PROGRAMS}
    for name, path in paths.items():
        if path:
            yield Check(part, name, True, path, "")  # noqa: FBT003
    scapy = next(_scapy(part))
    if scapy.good or not any(paths.values()):
        yield scapy
    yield _rights(part, [path for path in paths.values() if path])


def _scapy(part: str) -> Iterator[Check]:
    try:
        yield Check(part, "scapy", True, f"{version('scapy')} (slow: it loses packets that tcpdump keeps)", "")  # noqa: FBT003
    except PackageNotFoundError:
        get = (
            "apt install tcpdump (or dnf, brew); dumpcap is in wireshark-common; or pip install 'pulsar-pcli[capture]'"
        )
        yield Check(part, "capture program", False, "dumpcap, tcpdump and scapy are not installed", get)  # noqa: FBT003


def _rights(part: str, programs: list[str]) -> Check:
    name = "right to capture"
    if _may_capture():
        return Check(part, name, True, "granted to this process", "")  # noqa: FBT003
    able = [program for program in programs if _has_capabilities(program)]
    if able:
        return Check(part, name, True, f"granted to {able[0]}", "")  # noqa: FBT003
    program = programs[0] if programs else sys.executable
    # Linux ignores the path of the executable's libraries if the program has capabilities.
    frozen = program == sys.executable and getattr(sys, "frozen", False)
    get = "sudo" if frozen else f"sudo, or once: sudo setcap cap_net_raw,cap_net_admin+eip {program}"
    return Check(part, name, False, "raw sockets are refused", get)  # noqa: FBT003


def _may_capture() -> bool:
    if hasattr(socket, "AF_PACKET"):
        try:
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
        except OSError:
            return False
        return True
    # On BSD and macOS, read permission for the devices is sufficient.
    return any(os.access(device, os.R_OK) for device in Path("/dev").glob("bpf*"))


def _has_capabilities(program: str) -> bool:
    """Return whether the program can be executed and has file capabilities. Debian's dumpcap has them."""
    try:
        return bool(os.getxattr(program, "security.capability")) and os.access(program, os.X_OK)
    except (AttributeError, OSError):
        return False


PARTS: Final[dict[str, Callable[[str], Iterator[Check]]]] = {
    "spark": _spark,
    "tables": _packages,
    "report": _packages,
    "capture": _capture,
    "crypto": _packages,
    "tui": _packages,
}
"""All parts by name."""
