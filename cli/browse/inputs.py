"""The captures that are shown, read again for reports, comments and copies.

They are opened anew each time, so that several threads can read them. A growing capture is read up to its present end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from pcli.cli.browse.capture_report import Events
from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.capture.comments import packet_comments
from pcli.codec.capture.pcapng import MAGIC
from pcli.codec.errors import LocalError, PcliError
from pcli.replay.sources.capture_sources import open_inputs


@dataclass(frozen=True, slots=True)
class Inputs:
    """Captures and how they are read."""

    files: Sequence[str]
    """Paths as the user specified them."""
    options: ReadOptions = field(default_factory=ReadOptions)

    def named_files(self) -> Iterator[tuple[str, BinaryIO]]:
        """Yield the name and file of each capture in reading order. Raises CaptureError if one cannot be opened."""
        for name in self.files:
            path = Path(name)
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise LocalError(f"{name}: a pipe can be read only once")
        for one in open_inputs(self.files):
            with one:
                yield one.name, one.file

    def events(self) -> Events:
        """Yield the frames, notes and ends of connections."""
        return read_capture(self.named_files(), replace(self.options, ends=True, on_window=None))

    def comments(self) -> Iterator[tuple[int, str]]:
        """Yield the comments on packets; none if no capture is a pcapng file or one cannot be read."""
        with suppress(PcliError, OSError):
            if self.files and any(file.read(4) == MAGIC for _, file in self.named_files()):
                yield from packet_comments(self.named_files())
