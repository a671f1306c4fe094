"""The end of a server together with the process that started it (`pcli broker --exit-with-parent`).

Rules of this file
1. The kernel closes the pipe of a process that ends, however it ends. If stdin is a pipe or a socket, its end stops the
   server. The wrapper of a command, such as ``sh -c``, may survive its own parent; the pipe ends nevertheless.
2. Linux and macOS give the children of a process that has ended another parent. This change stops the server. Linux
   could send a signal in place of the poll (PR_SET_PDEATHSIG), but sends it when the thread ends that started the
   server, and the threads of Java and Go end earlier than their process.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.common.signals import StopEvent

_STDIN: Final = 0
_POLL_S: Final = 0.5


def stop_with_parent(stop: StopEvent) -> None:
    """Set the event when the parent ends or closes stdin. Raises LocalError on Windows if stdin is not a pipe."""
    # If stdin was closed at the start, sys.stdin is None, and its number may be that of a socket of this process.
    if sys.stdin is not None and _is_pipe(_STDIN):
        threading.Thread(target=_wait_for_end, args=(stop,), daemon=True).start()
    elif sys.platform == "win32":
        raise LocalError("--exit-with-parent: on Windows, the parent must open a pipe to stdin")
    if sys.platform != "win32":  # which keeps the id of a parent that has ended
        threading.Thread(target=_wait_for_change, args=(os.getppid(), stop), daemon=True).start()


def _is_pipe(file: int) -> bool:
    """Return whether a file is a pipe, or a socket, which Node uses as a pipe."""
    try:
        mode = os.fstat(file).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _wait_for_end(stop: StopEvent) -> None:
    try:
        while os.read(_STDIN, 1 << 12):
            pass
    except OSError:  # a socket that the parent has reset
        pass
    stop.set()


def _wait_for_change(parent: int, stop: StopEvent) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    stop.set()
