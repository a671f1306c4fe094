"""Conversion of captures to frame positions, one window at a time: the columnar counterpart of `read_capture`.

Rules of this file
1. The result is equal to the result of `read_capture`: the same frames in the same order, with the same notes and
   stream ends between them. Ordinary packets are processed together, and the objects of codec.capture are then set to
   the state that `read_capture` would produce. These objects process all other packets.
2. The result does not depend on where windows begin and end.
3. The state between two windows can be pickled, and a different reader can continue from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pcli.codec.capture import fast_path
from pcli.codec.capture.frame_extraction import FrameExtractor
from pcli.codec.capture.frames import Note, Stream
from pcli.codec.capture.output import Output
from pcli.codec.capture.packets import TLS_KEY_LOG, Secrets
from pcli.codec.capture.reading import ReadOptions
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.streams import TcpReassembly
from pcli.codec.capture.tls import KeyLog
from pcli.spark.columnar.frame_columns import Places
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.recent_segments import RecentSegments
from pcli.spark.columnar.reading.tcp_segments import read_segments
from pcli.spark.columnar.reading.window_decoder import WindowDecoder
from pcli.spark.columnar.reading.window_frames import Notes, WindowFrames

DEFAULT: Final = ReadOptions(ends=True)

SMALL: Final = 32
"""Minimum number of packets in a window that are processed together."""


class WindowReader:
    """A reader of one recording that converts windows, in order, to frame positions."""

    def __init__(
        self, options: ReadOptions = DEFAULT, carried: fast_path.Reader | None = None, tcp: TcpReassembly | None = None
    ) -> None:
        """``carried`` is `fast` of the reader to continue, with its options. ``tcp`` contains connections to use."""
        self.fast = _new_connections(tcp or new_tcp(options), options) if carried is None else carried
        """The reader of the object path, with all open connections: the state that the next window needs. Pickle it
        before you continue."""
        if carried is not None:
            self.tcp.extractor.key_log.add(options.key_log)
        self.notes: Notes = []
        """Notes and stream ends of the last window, each with the row of `Places` that it precedes."""
        self.note_turns: list[int] = []
        """The packet at which each note was produced."""
        self.streams: dict[int, Stream] = {}
        """Streams that began since the caller last cleared this dict, by number. Open streams continue to change."""

    @property
    def tcp(self) -> TcpReassembly:
        """The TCP connections."""
        return self.fast.tcp

    @property
    def fed(self) -> int:
        """Number of data packets delivered so far, across all connections; valid only between windows."""
        return self._recent.fed

    @property
    def packet(self) -> int:
        """Number of packets so far. It may be set before the first window."""
        return self.fast.packet

    @packet.setter
    def packet(self, number: int) -> None:
        """Set the number of packets before the next window."""
        self.fast.packet = number

    @property
    def _recent(self) -> RecentSegments:
        past = self.fast.tcp.history
        assert isinstance(past, RecentSegments)
        return past

    def begin_file(self) -> None:
        """Begin a new file of the recording: truncated packets are reported only once for each file."""
        self.fast.tcp.extractor.snapped = False

    def unread(self, source: str) -> list[Note]:
        """Return the notes about packets that cannot be decoded, at the end of a file."""
        return self.fast.unread.take(source, self.packet)

    def add_secrets(self, secrets: Iterable[Secrets]) -> None:
        """Add the secrets of a pcapng file, before the window that was read with them."""
        for one in secrets:
            if one.kind == TLS_KEY_LOG:
                self.tcp.extractor.key_log.add(one.data)

    def take(self, records: Records) -> Places:
        """Return the frames that these packets complete."""
        count, base, past = len(records), self.fast.packet, self._recent
        found = WindowFrames(records.time_ns, base + 1)
        segments = None if count < SMALL or self.fast.careful else read_segments(records)
        if segments is not None:
            WindowDecoder(self.fast, past, found, records, segments).run()
        else:
            self._one_by_one(records, past, found)
        self.fast.packet = base + count
        past.end(count)
        return self._places(found)

    def end(self) -> Places:
        """Return the frames that remain in connections at the end of the input."""
        found = WindowFrames(base=self.fast.packet)
        self.fast.tcp.end(self.fast.packet)
        found.collect(self.tcp, self.fast.packet, self.tcp.table.count)
        return self._places(found)

    def _one_by_one(self, records: Records, past: RecentSegments, found: WindowFrames) -> None:
        for index in range(len(records)):
            past.turn, streams = index, self.tcp.table.count
            self.fast.packets(records.data, [records.record(index)])
            found.collect(self.tcp, self.fast.packet, streams)

    def _places(self, found: WindowFrames) -> Places:
        places, self.notes = found.places()
        self.note_turns = found.note_turns()
        self.streams.update((stream.number, stream) for stream in found.streams)
        self.fast.output.count += len(places)
        return places


def new_tcp(options: ReadOptions) -> TcpReassembly:
    """Return the connections for a new `WindowReader`, together with the objects that they need."""
    output, classifier = Output(), StreamClassifier(options.decode_as)
    output.ends = True
    extractor = FrameExtractor(output, classifier, KeyLog(options.key_log))
    tcp = TcpReassembly(output, extractor, classifier, options.max_frame_size)
    tcp.history = RecentSegments()
    return tcp


def _new_connections(tcp: TcpReassembly, options: ReadOptions) -> fast_path.Reader:
    reader = fast_path.Reader(tcp, tcp.output)
    reader.careful = options.careful
    return reader
