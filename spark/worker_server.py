"""The start of the server process from which worker processes are forked (`processes`).

The server imports the analysis once for all workers, which takes as long as in this process. A command that knows that
it needs workers therefore starts the server before it imports the analysis itself.

Rules of this file
1. It imports no package, so that it is loaded at once.
2. The server and its children ignore Ctrl-C from their start; only this process receives it.
3. Where forking is not safe (macOS) or missing (Windows), there is no server: each worker is a new process.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

SMALL_BYTES: int = 32 << 20
"""Size of captures below which one process is faster."""

_PRELOADED: Final = ["pcli.spark.analysis", "pcli.spark.diagnosis", "pcli.spark.processes"]


def start_server() -> Any:
    """Start the server, if there is one and it does not run; return the multiprocessing context of the workers.

    The function does not wait until the server has imported the analysis.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver, resource_tracker

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    with ignored_interrupts():
        resource_tracker.ensure_running()
        forkserver.ensure_running()
    return context


@contextmanager
def ignored_interrupts() -> Iterator[None]:
    """Let processes that are started in the block ignore Ctrl-C. Signals can be set in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def has_tables() -> bool:
    """Whether the packages that columns need are installed; they are optional."""
    return all(find_spec(name) is not None for name in ("numpy", "pyarrow"))


def local_size(paths: Iterable[str]) -> int:
    """Return the size in bytes of local files, and of the files in local folders. Other paths count as empty."""
    places = [Path(path) for path in paths]
    files = (one for place in places for one in (place.rglob("*") if place.is_dir() else (place,)))
    return sum(one.stat().st_size for one in files if one.is_file())
