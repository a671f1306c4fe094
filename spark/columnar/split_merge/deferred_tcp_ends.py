"""TCP reassembly of some connections that records when the end of each connection could have been reported.

`TcpReassembly` reports the end of a reset connection when a different connection starts, unless the end was reported
before (rule 5 in its module). A split, or the replay of one connection, contains only some of these starts. Each end is
therefore reported at a time that depends only on its connection, together with the intervals in which a start would
have caused the report; `merge_splits` moves the end to this start. An end that only the start of a different connection
could have caused is also reported; `merge_splits` keeps or drops it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pcli.codec.capture.connections import Table
from pcli.codec.capture.flows import Connection, Direction
from pcli.codec.capture.frame_extraction import FrameExtractor
from pcli.codec.capture.frames import StreamEnd
from pcli.codec.capture.output import Output
from pcli.codec.capture.streams import TcpReassembly
from pcli.codec.capture.tunnels import RST, Segment


@dataclass(frozen=True, slots=True)
class ReportInterval:
    """An interval in which the end of a connection could have been reported."""

    start: int
    """The first packet of the interval."""
    end: int
    """The packet after the interval; 0 if it is unlimited."""
    refused: bool
    silent: bool
    """The values of the `StreamEnd` in this interval, including `refused`."""

    def shifted_by(self, packets: int) -> ReportInterval:
        """Return a copy with ``packets`` added to the packet numbers."""
        return replace(self, start=self.start + packets, end=self.end and self.end + packets)


@dataclass(frozen=True, slots=True)
class ReportIntervals:
    """The intervals in which an end could have been reported."""

    closing: int = -1
    """`Connection.closing`, by which ends at the same packet are sorted."""
    times: tuple[ReportInterval, ...] = ()
    only: bool = False
    """Whether the end is reported only in one of these intervals."""

    def shifted_by(self, packets: int) -> ReportIntervals:
        """Return a copy with ``packets`` added to the packet numbers."""
        return ReportIntervals(self.closing + packets, tuple(one.shifted_by(packets) for one in self.times), self.only)


IMMEDIATE: Final = ReportIntervals()
"""The value for items that are reported immediately."""


def first_start(times: Iterable[ReportInterval], starts: Sequence[int], end: int) -> tuple[int, ReportInterval] | None:
    """Return the first of the starts of connections that is in an interval and before the packet ``end``.

    Return it with its interval, or return None if there is none. ``starts`` is sorted.
    """
    for time in times:
        index = bisect_left(starts, time.start)
        if index < len(starts) and starts[index] < (time.end or end):
            return starts[index], time
    return None


_Ended = tuple[Direction, int, int, int]


class DeferredEndsOutput(Output):
    """An output that reports all ends, each with the intervals in which it could have been reported."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = True
        self.open: dict[Connection, list[ReportInterval]] = {}
        """Connections whose end is not reported yet, with the intervals of the end."""
        self._ended: dict[Connection, _Ended] = {}
        """The ends that are not reported yet."""
        self._ready: dict[int, ReportIntervals] = {}

    def take_up(self, connection: Connection, times: list[ReportInterval]) -> None:
        """Add a connection whose end was not reported in earlier splits."""
        if connection.ended is not None:
            self.open[connection], self._ended[connection] = times, connection.ended

    def record_intervals(self, connection: Connection, packet: int) -> None:
        """Record whether the end of a finished connection could be reported at this packet or later."""
        self._replaced(connection)
        if connection.ended is None:
            return
        self._ended[connection] = connection.ended
        times = self.open.setdefault(connection, [])
        able = not (connection.there.waiting or connection.back.waiting)
        reported = _reported(connection, connection.ended)
        if times and not times[-1].end and not (able and (times[-1].refused, times[-1].silent) == reported):
            times[-1] = replace(times[-1], end=packet)
        if able and (not times or times[-1].end):
            times.append(ReportInterval(packet, 0, *reported))

    def _replaced(self, connection: Connection) -> None:
        """Report an end that was replaced by a later end. Only the start of a connection can cause this report."""
        ended = self._ended.get(connection)
        if ended is None or ended is connection.ended:
            return
        direction, packet, time_ns, flags = self._ended.pop(connection)
        times = self.open.pop(connection, [])
        if times:
            last = times[-1]
            how = bool(flags & RST), last.refused, last.silent
            reported = StreamEnd(direction.stream, packet, time_ns, direction.from_client, *how)
            self.out.append(reported)
            now = connection.ended[1] if connection.ended is not None else 0
            times[-1] = replace(last, end=last.end or now)
            self._ready[id(reported)] = ReportIntervals(connection.closing, tuple(times), only=True)

    def end(self, connection: Connection) -> None:
        """Report the end of a connection."""
        self._replaced(connection)
        before = len(self.out)
        super().end(connection)
        times = self.open.pop(connection, None)
        self._ended.pop(connection, None)
        if times and len(self.out) > before:
            self._ready[id(self.out[-1])] = ReportIntervals(connection.closing, tuple(times))

    def ready(self, item: object) -> ReportIntervals:
        """Return the intervals of an end that was reported. Each end can be looked up once."""
        return self._ready.pop(id(item), IMMEDIATE)


def _reported(connection: Connection, ended: _Ended) -> tuple[bool, bool]:
    """Return the values ``refused`` and ``silent``, which `Output.end` computes in the same way."""
    direction, _, _, flags = ended
    silent = not direction.offset and not direction.peer.offset
    return bool(flags & RST) and silent and direction.isn < 0 <= direction.peer.isn, silent


class TimedTable(Table):
    """A table that records when timers were set: of timers that fire at the same time, the first set fires first."""

    def __init__(self) -> None:
        super().__init__()
        self.timers_set_at: dict[Connection, int] = {}
        """The packet at which the timer of each connection was set."""

    def set_timer(self, connection: Connection, due: int, packet: int) -> None:
        """Set the connection's timer."""
        before = connection.timer
        super().set_timer(connection, due, packet)
        if connection.timer != before:
            self.timers_set_at[connection] = packet


class DeferredEndsTcp(TcpReassembly):
    """TCP reassembly of one part of a capture."""

    table: TimedTable

    def __init__(self, extractor: FrameExtractor, limit: int, table: TimedTable) -> None:
        """Create the reassembly; the extractor's output must be a DeferredEndsOutput."""
        assert isinstance(extractor.output, DeferredEndsOutput)
        super().__init__(extractor.output, extractor, extractor.classifier, limit)
        self.deferred = extractor.output
        self.table = table

    def segment(self, segment: Segment, packet: int, time_ns: int) -> None:
        """Process a segment in the general way."""
        super().segment(segment, packet, time_ns)
        self.record_intervals(packet)

    def run_timers(self, packet: int) -> None:
        """Process a timer that is due at this packet."""
        super().run_timers(packet)
        self.record_intervals(packet)

    def record_intervals(self, packet: int) -> None:
        """Record which ends could be reported at this packet or later."""
        for connection in self.closing:
            self.deferred.record_intervals(connection, packet)

    def end_closed(self) -> None:
        """Report nothing: `merge_splits` knows the starts of all connections and reports these ends."""
