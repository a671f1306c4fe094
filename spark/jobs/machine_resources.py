"""What this machine has: memory and processors, as far as this process may have them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["cpus", "memory_mb"]

_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container's limit stands, of cgroups 2 and 1."""

_UNKNOWN_MB: Final = 8192


def memory_mb(limits: tuple[str, ...] = _LIMITS) -> int:
    """Megabytes of memory: the machine's, or what its container may have; 8192 where nobody says."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # not on this system
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in limits:
        with suppress(OSError, ValueError):  # no container; "max"
            found.append(int(Path(name).read_text()))
    return min(found) >> 20 if found else _UNKNOWN_MB


def cpus() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
