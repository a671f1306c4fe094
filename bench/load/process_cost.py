"""The cost of a command and its child processes: CPU seconds of the process tree, wall seconds, memory of Python.

Rules of this file
1. This process adopts orphans (Linux, PR_SET_CHILD_SUBREAPER) and waits for all of them. The kernel's resource usage of
   children then covers the whole tree, except processes that are never reaped.
2. Children of a process that ignores SIGCHLD (pyspark's daemon, for all its workers) are never reaped, and the kernel
   drops their usage. It is sampled many times a second, and the last sample is used.
3. The peak memory of a process is sampled in the same way (VmHWM, which never decreases).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_INTERVAL_S = 0.05
"""Seconds between two samples."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Cost:
    """The cost of a command."""

    cpu: float
    """CPU seconds, user and system, of all processes."""
    wall: float
    worker_mb: float = 0.0
    """Peak memory of a Python process that the command started; 0 if none."""
    driver_mb: float = 0.0
    """Peak memory of the command itself."""
    java_cpu: float = 0.0
    """CPU seconds of JVMs, according to the last samples."""


@dataclass(slots=True)
class _ProcessMonitor:
    """Samples running processes."""

    first: int
    over: threading.Event = field(default_factory=threading.Event)
    workers: dict[int, float] = field(default_factory=dict)
    driver: float = 0.0
    java: dict[int, float] = field(default_factory=dict)
    unreaped: dict[int, float] = field(default_factory=dict)
    """CPU seconds of processes that are never reaped."""

    def run(self) -> None:
        """Sample until ``over`` is set."""
        while not self.over.wait(_INTERVAL_S):
            for one in _tree(self.first):
                self._sample(one)

    def _sample(self, one: int) -> None:
        try:
            name = Path(f"/proc/{one}/comm").read_text().strip()
            status = Path(f"/proc/{one}/status").read_text()
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            return
        peak = next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)
        if one == self.first:
            self.driver = max(self.driver, peak)
        elif name == "java":
            self.java[one] = (int(fields[11]) + int(fields[12])) / _TICKS
        elif "python" in name:
            self.workers[one] = max(self.workers.get(one, 0.0), peak)
        if one in self.unreaped or _ignores_children(int(fields[1])):
            self.unreaped[one] = (int(fields[11]) + int(fields[12])) / _TICKS


def cost_of(command: list[str]) -> Cost:
    """Run a command and discard its output; raise SystemExit with the end of stderr if it fails."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, began = _spent(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        watch = _ProcessMonitor(process.pid)
        thread = threading.Thread(target=watch.run, daemon=True)
        thread.start()
        assert process.stderr is not None
        output = process.stderr.read()
        code = process.wait()
    wall = time.perf_counter() - began
    _wait_for_all()
    watch.over.set()
    thread.join()
    if code:
        sys.exit(f"{' '.join(command)} failed:\n{output.decode(errors='replace')[-2000:]}")
    spent = _spent() - before + sum(watch.unreaped.values())
    return Cost(spent, wall, max(watch.workers.values(), default=0.0), watch.driver, sum(watch.java.values()))


def _ignores_children(one: int) -> bool:
    """Return whether a process ignores SIGCHLD."""
    try:
        status = Path(f"/proc/{one}/status").read_text()
    except OSError:
        return False
    masks = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn"))
    return any(mask >> (signal.SIGCHLD - 1) & 1 for mask in masks)


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_all() -> None:
    """Wait for processes that outlive the command, for at most a minute."""
    for _ in range(int(60 / _INTERVAL_S)):
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(_INTERVAL_S)
        except ChildProcessError:
            return
    sys.exit("a process that the command has started does not end")


def _tree(first: int) -> list[int]:
    """Return the descendants of this process: those of the command, and adopted ones."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
            except OSError:
                continue
    found, more = {first}, True
    roots = {first, os.getpid()}
    while more:
        fresh = {one for one, parent in parents.items() if parent in found | roots and one not in found}
        found |= fresh
        more = bool(fresh)
    return list(found)
