"""The memory and processors of this machine that this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with a container's memory limit, for cgroups 2 and 1."""

_UNKNOWN_MB: Final = 8192


def memory_mb(limits: tuple[str, ...] = _LIMITS) -> int:
    """Return the megabytes of memory of the machine or its container; 8192 if unknown."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # not available on this system
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in limits:
        with suppress(OSError, ValueError):  # there is no container, or no limit ("max")
            found.append(int(Path(name).read_text()))
    return min(found) >> 20 if found else _UNKNOWN_MB


def cpus() -> int:
    """Return the number of processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
