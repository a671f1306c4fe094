"""Readers of whole captures in windows, for comparison with `read_capture`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pcli.codec.capture.files import Source
from pcli.codec.capture.frames import Note
from pcli.codec.capture.packets import Secrets
from pcli.codec.capture.pcapng import MAGIC
from pcli.codec.capture.reading import Files, ReadOptions, opened
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.frame_columns import Places
from pcli.spark.columnar.reading.capture_reader import DEFAULT, WindowReader
from pcli.spark.columnar.reading.packet_records import Records, pcap_windows
from pcli.spark.columnar.reading.pcapng_blocks import PcapngColumns
from pcli.spark.columnar.reading.window_frames import Notes, WindowFrames


def windows(name: str, source: Source, size: int) -> Iterator[Records | Secrets | Note]:
    """Yield the windows and secrets of a capture, and a note (packet 0) if it is damaged or truncated."""
    try:
        if source.data[:4] == MAGIC:
            yield from PcapngColumns(source).columns_and_secrets(size)
        else:
            yield from pcap_windows(source, size)
    except CaptureError as error:
        yield Note.of_file(name, error.text, error.offset)


def read_places(files: Files, options: ReadOptions = DEFAULT, size: int = 1 << 24) -> Iterator[tuple[Places, Notes]]:
    """Read whole recordings like `read_capture`, in windows of about ``size`` bytes. Stream ends are included."""
    reader = WindowReader(options)
    for name, source, note in opened(files):
        reader.begin_file()
        if source is not None:
            for item in windows(name, source, size):
                if isinstance(item, Note):
                    yield WindowFrames().places()[0], [(0, replace(item, packet=reader.packet))]
                elif isinstance(item, Secrets):
                    reader.add_secrets([item])
                else:
                    yield reader.take(item), reader.notes
            for one in reader.unread(name):
                yield WindowFrames().places()[0], [(0, one)]
        if note is not None:
            yield WindowFrames().places()[0], [(0, note)]
    yield reader.end(), reader.notes
