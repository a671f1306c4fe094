"""The inputs of `pcli browse`: captures with a cached index, and inputs that are indexed while they are read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pcli.cli.browse.index_build import IndexBuild
from pcli.cli.browse.index_cache import cache_folder, index_key, open_index
from pcli.cli.browse.inputs import Inputs
from pcli.cli.browse.stored_frames import StoredFrames
from pcli.cli.common.output import Exit, say

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.observe.payload_contents import Contents


@dataclass(slots=True)
class Source:
    """An opened input."""

    frames: StoredFrames
    build: IndexBuild | None
    """The building of the index; None if the index is from the cache."""
    reading: CaptureReading
    on_close: Callable[[], None] | None = None
    """A function that ends a live input; None for files that do not grow."""

    @property
    def inputs(self) -> Inputs:
        """The captures."""
        return Inputs(self.reading.files, self.reading.read_options())

    @property
    def is_empty(self) -> bool:
        """Whether the input was read to its end and contains no frame."""
        return self.frames.index.count == 0 and self.on_close is None and (self.build is None or self.build.over)

    def close(self) -> Exit:
        """Stop reading, print the notes about the input, and return the exit code."""
        if self.on_close is not None:
            self.on_close()
        if self.build is not None:
            self.build.stop()
            return self.reading.finish() if self.on_close is None else Exit.FINE
        tables = self.frames.index.tables
        self.frames.index.close()
        for note in tables.notes[:1]:
            say(f"{note}; {len(tables.notes) - 1} more notes" if len(tables.notes) > 1 else note)
        self.reading.finish()
        return Exit.DAMAGED if tables.damaged else Exit.FINE


def open_files(reading: CaptureReading, contents: Contents, *, cache: bool) -> Source:
    """Open captures: with their index from the cache, or while it is built.

    Raises CaptureError if a file cannot be read.
    """
    inputs = reading.inputs()
    folder: Path | None = None
    if cache and all(one.size is not None for one in inputs):
        options = reading.read_options()
        with suppress(OSError):
            names = [one.name for one in inputs]
            folder = cache_folder() / index_key(names, dict(options.decode_as), options.key_log)
    index = open_index(folder) if folder is not None else None
    if index is not None:
        return Source(StoredFrames(index, contents), None, reading)
    build = IndexBuild(reading, folder)
    try:
        build.wait()
    except BaseException:
        build.stop()
        raise
    build.refresh()
    return Source(StoredFrames(build.index, contents), build, reading)
