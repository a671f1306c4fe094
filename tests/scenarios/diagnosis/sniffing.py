"""Captures by tcpdump, on the loopback interface or in a namespace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_START_S = 10
_FLUSH_S = 0.2
_SNAP_LENGTH = 66_000
_BUFFER_KIB = 65_536
"""In immediate mode each packet occupies the snap length in the buffer; the default has room for eight packets."""


class Tcpdump:
    """A running tcpdump for one TCP port."""

    def __init__(self, port: int, capture: Path, prefix: Sequence[str] = (), interface: str = "lo") -> None:
        """Start it and wait until it captures. Raises OSError if it ends at once.

        ``prefix`` is the start of the command line, which selects a namespace.
        """
        size = ["-s", str(_SNAP_LENGTH), "-B", str(_BUFFER_KIB)]
        command = ["tcpdump", "-i", interface, "-n", "-U", "--immediate-mode", *size]
        command += ["-w", str(capture), f"tcp port {port}"]
        if os.geteuid() == 0:
            command[1:1] = ["-Z", "root"]
        self._process = subprocess.Popen([*prefix, *command], stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        while line and "listening on" not in line:
            line = self._process.stderr.readline()
        if not line:
            self.stop()
            raise OSError(f"tcpdump cannot capture on the interface {interface}")

    def stop(self) -> None:
        """End the capture after the packets so far. A second call has no effect."""
        if self._process.poll() is None:
            time.sleep(_FLUSH_S)
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=_START_S)
        if self._process.stderr is not None:
            self._process.stderr.close()


@cache
def can_sniff() -> bool:
    """Return whether tcpdump exists and may capture."""
    if shutil.which("tcpdump") is None:
        return False
    try:
        Tcpdump(1, Path(os.devnull)).stop()
    except OSError:
        return False
    return True
