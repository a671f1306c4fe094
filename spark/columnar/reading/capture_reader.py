"""Captures to places of frames, a window at a time: `read_capture` by columns.

Rules of this file
1. Everything is equal to what `read_capture` gives: the same frames in the same order, the same notes and ends between
   them. It is so by construction: what is ordinary is taken together and leaves the very objects of codec.capture as
   they would be, and everything else goes through these objects.
2. Nothing depends on where windows begin and end.
3. The state between two windows can be pickled, and another reader carries on with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from pcli.codec.capture import fast
from pcli.codec.capture.frames import Note, Stream
from pcli.codec.capture.judge import Judge
from pcli.codec.capture.output import Output
from pcli.codec.capture.reading import Files, ReadOptions, opened
from pcli.codec.capture.streams import Tcp
from pcli.codec.capture.walk import Walker
from pcli.spark.columnar.frame_columns import Places
from pcli.spark.columnar.reading.capture_windows import WINDOW, windows
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.recent_segments import Past
from pcli.spark.columnar.reading.tcp_segments import read_segments
from pcli.spark.columnar.reading.window_decoder import WindowDecoder
from pcli.spark.columnar.reading.window_frames import Found, Notes

__all__ = ["DEFAULT", "SMALL", "Reader", "State", "new_tcp", "read_places"]

DEFAULT: Final = ReadOptions(ends=True)

SMALL: Final = 32
"""A window of fewer packets goes one by one."""


@dataclass(slots=True)
class State:
    """All living connections and the counters. It holds the reader's own objects: pickle it before reading on."""

    fast: fast.Reader
    """The object path's reader, with its tables."""


class Reader:
    """Windows of one recording, one after the other, to places."""

    def __init__(self, options: ReadOptions = DEFAULT, carried: State | None = None, tcp: Tcp | None = None) -> None:
        """``carried``: go on from there, the options are those of then. ``tcp``: work on these connections."""
        self.fast = _fresh(tcp or new_tcp(options), options) if carried is None else carried.fast
        """The object path's reader."""
        self.notes: Notes = []
        """Notes and ends of the last window, each with the row of its `Places` before which it stands."""
        self.note_turns: list[int] = []
        """The packet at which each of them was given."""
        self.streams: dict[int, Stream] = {}
        """The streams that began since somebody cleared this, by number; the living ones go on changing."""

    @property
    def tcp(self) -> Tcp:
        """The connections."""
        return self.fast.tcp

    @property
    def fed(self) -> int:
        """Packets whose bytes were delivered, of all connections; true between windows."""
        return self._past.fed

    @property
    def packet(self) -> int:
        """Packets so far; before the first window it may be set."""
        return self.fast.packet

    @packet.setter
    def packet(self, number: int) -> None:
        """Count from here on."""
        self.fast.packet = number

    @property
    def _past(self) -> Past:
        past = self.fast.tcp.history
        assert isinstance(past, Past)
        return past

    def begin_file(self) -> None:
        """A new file of the recording begins: cut packets are told once for each."""
        self.fast.tcp.walker.snapped = False

    def take(self, records: Records) -> Places:
        """The frames that became known with these packets."""
        count, base, past = len(records), self.fast.packet, self._past
        found = Found(records.time_ns, base + 1)
        segments = None if count < SMALL or self.fast.careful else read_segments(records)
        if segments is not None:
            WindowDecoder(self.fast, past, found, records, segments).run()
        else:
            self._one_by_one(records, past, found)
        self.fast.packet = base + count
        past.end(count)
        return self._places(found)

    def end(self) -> Places:
        """The input is over: what was left in connections."""
        found = Found(base=self.fast.packet)
        self.fast.tcp.end(self.fast.packet)
        found.collect(self.tcp, self.fast.packet, self.tcp.table.count)
        return self._places(found)

    def state(self) -> State:
        """Everything that the next window needs."""
        return State(self.fast)

    def _one_by_one(self, records: Records, past: Past, found: Found) -> None:
        for index in range(len(records)):
            past.turn, streams = index, self.tcp.table.count
            self.fast.packets(records.data, [records.record(index)])
            found.collect(self.tcp, self.fast.packet, streams)

    def _places(self, found: Found) -> Places:
        places, self.notes = found.places()
        self.note_turns = found.note_turns()
        self.streams.update((stream.number, stream) for stream in found.streams)
        self.fast.output.count += len(places)
        return places


def read_places(files: Files, options: ReadOptions = DEFAULT, size: int = WINDOW) -> Iterator[tuple[Places, Notes]]:
    """Whole recordings as `read_capture` takes them, in windows of about ``size`` bytes. Stream ends are always given.

    Raises CaptureError when no file is a capture.
    """
    reader = Reader(options)
    for name, source, note in opened(files):
        reader.begin_file()
        if source is not None:
            for item in windows(name, source, size):
                if isinstance(item, Note):
                    yield Found().places()[0], [(0, replace(item, packet=reader.packet))]
                else:
                    yield reader.take(item), reader.notes
        if note is not None:
            yield Found().places()[0], [(0, note)]
    yield reader.end(), reader.notes


def new_tcp(options: ReadOptions) -> Tcp:
    """Connections for a new `Reader`, with everything that belongs to them."""
    output, judge = Output(), Judge(options.decode_as)
    output.ends = True
    tcp = Tcp(output, Walker(output, judge), judge, options.max_frame_size)
    tcp.history = Past()
    return tcp


def _fresh(tcp: Tcp, options: ReadOptions) -> fast.Reader:
    reader = fast.Reader(tcp, tcp.output)
    reader.careful = options.careful
    return reader
