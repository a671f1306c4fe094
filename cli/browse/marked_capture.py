"""The capture that `w` writes: all packets of the inputs, with the marks as comments."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pcli.cli.browse.thread_job import ThreadJob
from pcli.cli.common.output import complete_file
from pcli.codec.capture import read_packets
from pcli.codec.capture.packets import Packet, Secrets
from pcli.codec.capture.writer import PcapngWriter
from pcli.codec.errors import PcliError
from pcli.replay.sources.lazy_file import reason_of

_Files = Iterable[tuple[str, BinaryIO]]


def output_error(path: str, inputs: Sequence[str], written: Container[str] = ()) -> str:
    """Return why a file cannot be written, or an empty string. ``written`` are files that may be replaced."""
    if not path.strip():
        return "write the name of a file"
    for name in inputs:
        with suppress(OSError):
            if Path(name).samefile(path):
                return f"{path}: this file is an input"
    if Path(path).exists() and path not in written:
        return f"{path}: the file exists"
    return "" if Path(path).absolute().parent.is_dir() else f"{path}: the folder does not exist"


class MarkedCapture(ThreadJob):
    """The writing of a capture, in a thread."""

    def __init__(
        self,
        path: str,
        files: Callable[[], _Files],
        comments: Mapping[int, Sequence[str]],
        packets: int,
        on_end: Callable[[str], None],
    ) -> None:
        """``comments`` are given by packet, ``packets`` is the expected number of packets.

        ``on_end`` receives an error, or an empty string if the file was written. It is called in the thread.
        """
        self._path, self._files, self._comments = path, files, comments
        self._on_end = on_end
        self._start(packets)

    def _run(self) -> None:
        try:
            with complete_file(self._path) as part, part.open("wb") as file:
                self._copy(PcapngWriter(file))
            error = ""
        except PcliError as fault:
            error = str(fault)
        except OSError as fault:
            error = f"{self._path}: {reason_of(fault)}"
        self._on_end(error)

    def _copy(self, writer: PcapngWriter) -> None:
        for item in read_packets(self._files()):
            if self._stop.is_set():
                raise InterruptedError(None, "stopped")
            if isinstance(item, Secrets):
                writer.secrets(item)
            elif isinstance(item, Packet):
                writer.packet(item, self._comments.get(item.number, ()))
                self._done += 1
