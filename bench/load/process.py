"""What a command costs with all that it starts: CPU seconds of the whole tree, wall seconds, memory of its Pythons.

Rules of this file
1. This process adopts whoever loses its parent (Linux, PR_SET_CHILD_SUBREAPER) and waits for all of them. So the
   kernel's own account of children is that of the tree, exactly, but for those that nobody waits for.
2. Nobody waits for children of who ignores SIGCHLD (pyspark's daemon does: all its workers): the kernel forgets what
   they took. They are asked for it many times a second, and what they said last counts.
3. The largest memory of a process is asked for in the same way (VmHWM, which never falls).
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

__all__ = ["Cost", "cost_of"]

_PR_SET_CHILD_SUBREAPER = 36
_OFTEN = 0.05
"""Seconds between two looks."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Cost:
    """What a command took."""

    cpu: float
    """CPU seconds, user and system, of all processes."""
    wall: float
    worker_mb: float = 0.0
    """Largest memory of a Python that the command has started; 0: none."""
    driver_mb: float = 0.0
    """Largest memory of the command itself."""
    java_cpu: float = 0.0
    """CPU seconds of JVMs, as far as they were seen."""


@dataclass(slots=True)
class _Watch:
    """Looks at processes while they live."""

    first: int
    over: threading.Event = field(default_factory=threading.Event)
    workers: dict[int, float] = field(default_factory=dict)
    driver: float = 0.0
    java: dict[int, float] = field(default_factory=dict)
    forgotten: dict[int, float] = field(default_factory=dict)
    """CPU seconds of those that nobody waits for."""

    def run(self) -> None:
        """Look until it is over."""
        while not self.over.wait(_OFTEN):
            for one in _tree(self.first):
                self._look(one)

    def _look(self, one: int) -> None:
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
        if one in self.forgotten or _ignores_children(int(fields[1])):
            self.forgotten[one] = (int(fields[11]) + int(fields[12])) / _TICKS


def cost_of(command: list[str]) -> Cost:
    """Run a command to its end; its output goes nowhere. SystemExit with its last words when it fails."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, began = _spent(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        watch = _Watch(process.pid)
        thread = threading.Thread(target=watch.run, daemon=True)
        thread.start()
        assert process.stderr is not None
        said = process.stderr.read()
        code = process.wait()
    wall = time.perf_counter() - began
    _wait_for_all()
    watch.over.set()
    thread.join()
    if code:
        sys.exit(f"{' '.join(command)} failed:\n{said.decode(errors='replace')[-2000:]}")
    spent = _spent() - before + sum(watch.forgotten.values())
    return Cost(spent, wall, max(watch.workers.values(), default=0.0), watch.driver, sum(watch.java.values()))


def _ignores_children(one: int) -> bool:
    """Whether a process has SIGCHLD ignored."""
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
    """Wait for those that outlived the command, a minute at most."""
    for _ in range(int(60 / _OFTEN)):
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(_OFTEN)
        except ChildProcessError:
            return
    sys.exit("a process that the command has started does not end")


def _tree(first: int) -> list[int]:
    """This process's descendants: the command's, and those that we adopted."""
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
