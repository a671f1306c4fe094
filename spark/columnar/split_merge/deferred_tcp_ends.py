"""TCP that does not know when connections of others begin, and so says of ends when they might have been told.

`Tcp` tells the end of a reset connection when another one begins, if it is not told before (rule 5 there). A split, or
a replay of one key, sees only some of these beginnings, or some that turn out to be none. So here such ends wait for
their connection's own time, and remember since when they could have been told, and how; `stitch.join` puts them in
their place. An end that would have been told only so is given all the same, for `stitch.join` to keep or to drop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pcli.codec.capture.flows import Connection, Direction
from pcli.codec.capture.frames import StreamEnd
from pcli.codec.capture.judge import Judge
from pcli.codec.capture.output import Output
from pcli.codec.capture.streams import Tcp
from pcli.codec.capture.tunnels import RST, Segment
from pcli.codec.capture.walk import Walker

__all__ = ["AT_ONCE", "PatientOutput", "PatientTcp", "Ready", "Time"]


@dataclass(frozen=True, slots=True)
class Time:
    """A time at which an end could have been told."""

    start: int
    """From this packet on,"""
    end: int
    """and before this one; 0: it lasts."""
    refused: bool
    silent: bool
    """As the `StreamEnd` would have had it."""

    def moved(self, packets: int) -> Time:
        """The same, so many packets later."""
        return replace(self, start=self.start + packets, end=self.end and self.end + packets)


@dataclass(frozen=True, slots=True)
class Ready:
    """When an end could have been told."""

    closing: int = -1
    """`Connection.closing`: by it ends at one packet are put in order."""
    times: tuple[Time, ...] = ()
    only: bool = False
    """Without one of these times it would not have been told."""

    def moved(self, packets: int) -> Ready:
        """Another, so many packets later."""
        return Ready(self.closing + packets, tuple(one.moved(packets) for one in self.times), self.only)


AT_ONCE: Final = Ready()
"""Of what does not wait."""

_Ended = tuple[Direction, int, int, int]


class PatientOutput(Output):
    """Always tells ends, and of each when it could have been told."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = True
        self.open: dict[Connection, list[Time]] = {}
        """Of connections whose end waits."""
        self._ended: dict[Connection, _Ended] = {}
        """And that end."""
        self._ready: dict[int, Ready] = {}

    def take_up(self, connection: Connection, times: list[Time]) -> None:
        """A connection whose end has waited elsewhere."""
        if connection.ended is not None:
            self.open[connection], self._ended[connection] = times, connection.ended

    def look(self, connection: Connection, packet: int) -> None:
        """Write down whether the end of a connection that is over could be told from this packet on."""
        self._replaced(connection)
        if connection.ended is None:
            return
        self._ended[connection] = connection.ended
        times = self.open.setdefault(connection, [])
        able = not any(way.held or way.run or way.partial for way in (connection.there, connection.back))
        told = _told(connection, connection.ended)
        if times and not times[-1].end and not (able and (times[-1].refused, times[-1].silent) == told):
            times[-1] = replace(times[-1], end=packet)
        if able and (not times or times[-1].end):
            times.append(Time(packet, 0, *told))

    def _replaced(self, connection: Connection) -> None:
        """An end that waited and was not told, because there is another: only somebody's beginning can tell it."""
        ended = self._ended.get(connection)
        if ended is None or ended is connection.ended:
            return
        way, packet, time_ns, flags = self._ended.pop(connection)
        times = self.open.pop(connection, [])
        if times:
            last = times[-1]
            how = bool(flags & RST), last.refused, last.silent
            told = StreamEnd(way.stream, packet, time_ns, way.from_client, *how)
            self.out.append(told)
            now = connection.ended[1] if connection.ended is not None else 0
            times[-1] = replace(last, end=last.end or now)
            self._ready[id(told)] = Ready(connection.closing, tuple(times), only=True)

    def end(self, connection: Connection) -> None:
        """Deliver the end of a connection."""
        self._replaced(connection)
        before = len(self.out)
        super().end(connection)
        times = self.open.pop(connection, None)
        self._ended.pop(connection, None)
        if times and len(self.out) > before:
            self._ready[id(self.out[-1])] = Ready(connection.closing, tuple(times))

    def ready(self, item: object) -> Ready:
        """When an end that was delivered could have been told; asked once."""
        return self._ready.pop(id(item), AT_ONCE)


def _told(connection: Connection, ended: _Ended) -> tuple[bool, bool]:
    """Refused and silent, as `Output.end` has them."""
    way, _, _, flags = ended
    silent = not way.offset and not way.peer.offset
    return bool(flags & RST) and silent and way.isn < 0 <= way.peer.isn, silent


class PatientTcp(Tcp):
    """All connections of an input that is a part of another."""

    def __init__(self, walker: Walker, judge: Judge, limit: int) -> None:
        """The walker's output must be a PatientOutput."""
        assert isinstance(walker.output, PatientOutput)
        super().__init__(walker.output, walker, judge, limit)
        self.patient = walker.output
        self.alarmed: dict[Connection, int] = {}
        """The packet at which a connection's alarm was set: of those that ring together the oldest is the first."""

    def segment(self, segment: Segment, packet: int, time_ns: int) -> None:
        """Take a segment in the general way."""
        super().segment(segment, packet, time_ns)
        self.look(packet)

    def ring(self, packet: int) -> None:
        """The packet of the next alarm has come."""
        super().ring(packet)
        self.look(packet)

    def look(self, packet: int) -> None:
        """Write down which ends could be told from this packet on."""
        for connection in self.closing:
            self.patient.look(connection, packet)

    def _set_alarm(self, connection: Connection, packet: int) -> None:
        before = connection.alarm
        super()._set_alarm(connection, packet)
        if connection.alarm != before:
            self.alarmed[connection] = packet

    def _new(self, segment: Segment, packet: int, old: Direction | None) -> Direction:
        closing = self.closing
        if old is not None:
            self._finish(old.connection, packet, "the connection ends")
        self.closing = {}
        way = super()._new(segment, packet, old)
        self.closing = closing
        return way
