"""Inputs that contain captures: files, globs, folders of rotated files, stdin, or a live interface.

Rules of this file
1. Only this module opens inputs; ``codec.capture`` receives binary file objects.
2. An input that cannot be opened is reported as one CaptureError before any work starts, with the path and the remedy.
3. Several files are parts of one capture and are sorted by their first packet (codec.capture.rotated).
4. If tcpdump or dumpcap is installed, it captures live packets, because it loses fewer packets than Python. Otherwise
   scapy captures them.
5. A regular file is open only while it is read (lazy_file), because a capture may have more files than a process may
   open.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self, cast

from pcli.codec.errors import CaptureError, LocalError
from pcli.replay.sources.lazy_file import LazyFile, OpenFileSlot, reason_of
from pcli.replay.sources.scapy_capture import has_scapy, open_with_scapy


@dataclass(slots=True)
class Input:
    """One opened input."""

    name: str
    """The path that the user specified; ``-`` for stdin."""
    file: BinaryIO
    size: int | None
    """Size of the raw file in bytes, or None if unknown (a pipe)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def open_inputs(paths: Sequence[str], *, rewindable: bool = False) -> list[Input]:
    """Open every path. Globs and folders are expanded, and several files are sorted into reading order.

    ``-`` is stdin. If ``rewindable`` is set, stdin and other pipes are copied to a temporary file first. Raises
    CaptureError if a path does not exist or is not readable, and LocalError if there is no path.
    """
    names = [name for path in paths for name in _expand(path)]
    if not names:
        raise LocalError("no capture to read: give files with -r, or an interface with -i")
    slot = OpenFileSlot()
    with ExitStack() as opened:
        inputs = [opened.enter_context(_open(name, slot)) for name in names]
        opened.pop_all()  # all inputs are open, and the caller closes them
    if rewindable:
        inputs = [one if one.size is not None else _spooled(one) for one in inputs]
    return inputs if len(inputs) == 1 else _in_order(inputs)


def _expand(path: str) -> list[str]:
    if path == "-":
        return ["-"]
    if Path(path).is_dir():
        children = sorted(child for child in Path(path).iterdir() if child.is_file() and child.name[0] != ".")
        if not children:
            raise CaptureError(f"{path}: the folder is empty")
        # A folder may also contain notes and truth files. They are skipped, but they are read if the user names them.
        found = [str(child) for child in children if _may_be_capture(child)]
        if not found:
            raise CaptureError(f"{path}: no capture in this folder")
        return found
    if not Path(path).exists() and glob.has_magic(path):
        found = sorted(glob.glob(path))  # noqa: PTH207  (Path.glob refuses absolute patterns)
        if not found:
            raise CaptureError(f"{path}: no file matches")
        return found
    return [path]


def _may_be_capture(path: Path) -> bool:
    """Return False only if the file has a different type. Unreadable or damaged files are reported later."""
    from pcli.codec.capture.reading import is_other_file

    try:
        with path.open("rb", buffering=0) as file:
            return not is_other_file(cast(BinaryIO, file))
    except OSError:
        return True


def _open(name: str, slot: OpenFileSlot) -> Input:
    if name == "-":
        return Input("-", sys.stdin.buffer, None)
    path = Path(name)
    try:
        # The file is unbuffered, because a buffer would delay the data of a pipe.
        file = path.open("rb", buffering=0)
    except OSError as error:
        raise CaptureError(f"{name}: {reason_of(error)}") from None
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        return Input(name, cast(BinaryIO, file), None)
    file.close()
    return Input(name, cast(BinaryIO, LazyFile(path, slot)), status.st_size)


def _spooled(source: Input) -> Input:
    import tempfile

    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (closed with the other inputs)
    shutil.copyfileobj(source.file, file)
    size = file.tell()
    file.seek(0)
    return Input(source.name, file, size)


def _in_order(inputs: list[Input]) -> list[Input]:
    from pcli.codec.capture.rotated import Part, order_parts, pull_first_time

    if any(source.size is None for source in inputs):
        return inputs  # the first packet of a pipe cannot be read without consuming it
    found = {}
    for source in inputs:
        part = Part(source.name, pull_first_time(source.file))
        source.file.seek(0)
        found[id(part)] = (part, source)
    return [found[id(part)][1] for part in order_parts(part for part, _ in found.values())]


@contextmanager
def open_interface(interface: str, capture_filter: str = "") -> Iterator[BinaryIO]:
    """Yield a live capture as a file that grows until the block ends. Raises CaptureError if the program fails."""
    import tempfile

    command = capture_command(interface, capture_filter, "-")
    if command is None:
        with open_with_scapy(interface, capture_filter) as live:
            yield live
        return
    with (
        tempfile.TemporaryFile() as errors,
        # The file is unbuffered: reading a raw file returns the available bytes and does not wait for more.
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, bufsize=0) as process,  # noqa: S603
    ):
        try:
            yield cast(BinaryIO, process.stdout)
        except CaptureError:
            # A failed program leaves an empty capture; its error message states the cause.
            output = ""
            if process.wait():
                errors.seek(0)
                output = refusal(errors.read())
            if output:
                raise CaptureError(f"{interface}: {output}") from None
            raise
        finally:
            process.terminate()


def refusal(output: bytes) -> str:
    """Return the reason why a capture program failed: its stderr output up to an empty line, without progress lines."""
    reason: list[str] = []
    for line in map(str.strip, output.decode(errors="replace").splitlines()):
        if line and not _PROGRESS.match(line):
            reason.append(line)
        elif reason:
            break
    return " ".join(reason)


_PROGRESS = re.compile(r"Capturing on|File: |Packets|\d+ packets?\b|tcpdump: (listening|data link)|Running as user")


def capture_command(interface: str, capture_filter: str, output: str, ring: Sequence[str] = ()) -> list[str] | None:
    """Return the command line of the best installed capture program, or None if only scapy is installed.

    ``output`` is a path or ``-``; ``ring`` contains the values of dumpcap's ``-b`` (``filesize:1000``, ``files:5``).
    Raises LocalError with the remedy if no suitable program is installed.
    """
    dumpcap, tcpdump = shutil.which("dumpcap"), shutil.which("tcpdump")
    if dumpcap and (ring or output != "-" or not tcpdump):
        chosen = ["-f", capture_filter] if capture_filter else []
        limits = [word for value in ring for word in ("-b", value)]
        return [dumpcap, "-i", interface, *chosen, *limits, "-w", output]
    if ring:
        raise LocalError("a ring of files (-b) needs dumpcap: Debian has it in wireshark-common")
    if tcpdump:
        # -U writes every packet immediately; some versions do not support --immediate-mode.
        return [tcpdump, "-n", "-s", "0", "-U", "-i", interface, "-w", output, *capture_filter.split()]
    if has_scapy():
        return None
    raise LocalError("no capture program is installed: install tcpdump or dumpcap, or pulsar-pcli[capture] for scapy")
