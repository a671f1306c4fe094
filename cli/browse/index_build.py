"""Building of a frame index in a thread, while the application shows the rows that are complete.

Rules of this file
1. A complete index of regular files is moved to the cache. All other indexes are in a temporary folder that is removed
   at the end.
2. An unreadable input is reported before the application opens: `wait` returns after the first frames.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pcli.cli.browse.frame_index import FrameIndex, Tables
from pcli.cli.browse.index_cache import remove_old, save_tables
from pcli.cli.browse.index_writer import IndexWriter
from pcli.codec.errors import LocalError, PcliError

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.capture import Note
    from pcli.replay.sources.capture_sources import Input

_PATIENCE: Final = 1.0
"""Seconds to wait for the end of the capture, or for an error, before the application opens."""
_FLUSH_NS: Final = 200_000_000


class IndexBuild:
    """The reading of some inputs into an index."""

    def __init__(self, reading: CaptureReading, cached: Path | None) -> None:
        """``cached`` is the folder to which the complete index is moved; None if it is not kept. Raises OSError."""
        self.tables = Tables()
        if cached is None:
            self._folder = Path(tempfile.mkdtemp(prefix="pcli-browse-"))
        else:
            self._folder = Path(tempfile.mkdtemp(prefix="new-", dir=cached.parent))
        self._cached = cached
        self._kept = False
        """Whether the index is in the cache."""
        self._writer = IndexWriter(self._folder, self.tables)
        self.index = FrameIndex(self._folder, self.tables)
        self.over = False
        """Whether the inputs were read to their end, or reading has stopped."""
        self.fault: PcliError | None = None
        self._reading = reading
        reading.system, reading.silent, reading.on_note = True, True, self._take_note
        reading.options = replace(reading.read_options(), on_window=self._writer.positions.on_window)
        self._inputs: list[Input] = reading.inputs()
        self._stop = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait a short time for the end of the inputs. Raise the PcliError of an input that cannot be read."""
        self._end.wait(_PATIENCE)
        if self.fault is not None and not self.index.count and not self._writer.count:
            raise self.fault

    def join(self) -> None:
        """Wait for the end of the inputs."""
        self._end.wait()

    def refresh(self) -> bool:
        """Make the rows that were written since available. Return whether there are any."""
        before = self.index.count
        self.index.refresh(self._writer.count)
        return self.index.count != before

    def flush(self) -> None:
        """Make all rows available to `refresh`. It is called in the thread that reads the inputs."""
        self._writer.flush()

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes read of the inputs and their total size; a size of 0 is unknown."""
        if any(one.size is None for one in self._inputs):
            return 0, 0
        done = sum((one.size or 0) if one.file.closed else one.file.tell() for one in self._inputs)
        return done, sum(one.size or 0 for one in self._inputs)

    def stop(self) -> None:
        """Stop reading and remove a temporary index."""
        self._stop.set()
        self._thread.join(2)
        self.index.close()
        if not self._kept:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- in the thread

    def _read(self) -> None:
        try:
            self._take_frames()
        except PcliError as fault:
            self.fault = fault
        except (OSError, ValueError) as fault:
            if not self._stop.is_set():  # the inputs may be closed during a read
                self.fault = LocalError(str(fault))
        finally:
            with suppress(OSError):
                self._writer.close()
            self.over = True
            self._end.set()

    def _take_frames(self) -> None:
        writer, last = self._writer, time.monotonic_ns()
        often = 0 if any(one.size is None for one in self._inputs) else 63
        for facts in self._reading.facts():
            if self._stop.is_set():
                return
            writer.add(facts)
            if not facts.frame.number & often and time.monotonic_ns() - last > _FLUSH_NS:
                writer.flush()
                last = time.monotonic_ns()
        writer.flush()
        if self._cached is not None and writer.count:
            self._keep(self._cached)

    def _keep(self, cached: Path) -> None:
        """Move the complete index to the cache. The open files remain valid."""
        save_tables(self._folder, self.tables, self._writer.count, self._writer.checksums())
        with suppress(OSError):  # another process may have built the same index
            self._folder.rename(cached)
            self._folder = self.index.folder = cached
            self._kept = True
            remove_old(cached.parent)

    def _take_note(self, note: Note) -> None:
        from pcli.cli.common.input_notes import placed_note

        self.tables.damaged |= note.kind == "file"
        if len(self.tables.notes) < _MAX_NOTES:
            self.tables.notes.append(placed_note(note))


_MAX_NOTES: Final = 10_000
