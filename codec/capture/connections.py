"""The table of TCP connections by addresses and ports, with alarms and a size limit.

Rules of this file
1. Streams are numbered as in tshark: in the order of their first packets. A new SYN on the same ports is a new stream.
2. A closed connection is kept for a while, so that late packets do not open a new stream.
3. Time is counted in packets of the input, so the same file always gives the same frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from ipaddress import IPv6Address
from struct import Struct
from typing import Final

from pcli.codec.capture.flows import Connection, Direction
from pcli.codec.capture.frames import Stream
from pcli.codec.capture.stream_kind import Judge
from pcli.codec.capture.tunnels import ACK, SYN, Segment

__all__ = ["MAX_CLOSED", "MAX_CONNECTIONS", "NEVER", "Table"]

MAX_CONNECTIONS: Final = 1 << 16
"""Maximum number of connections in the table. Above it, a quarter of them is evicted."""

MAX_CLOSED: Final = 4096
"""Maximum number of closed connections that are kept for late packets."""

NEVER: Final = 1 << 62

_ports = Struct(">HH").unpack_from


class Table:
    """All connections that are currently tracked."""

    def __init__(self) -> None:
        self.ways: dict[bytes, Direction] = {}
        """Direction by its addresses and ports, see ``Segment.key``."""
        self.living: dict[Connection, None] = {}
        """All tracked connections, in order of their first packets."""
        self.count = 0
        """Number of connections so far."""
        self.ports: dict[int, None] = {}
        """Server ports of all connections so far."""
        self.alarm = NEVER
        """Packet number of the next alarm."""
        self._alarms: list[tuple[int, int, Connection]] = []
        self._ticket = 0
        self._closed: deque[Connection] = deque()

    def create(self, segment: Segment, packet: int, limit: int, judge: Judge) -> Direction:
        """Add a connection and return the direction of its first packet."""
        key = segment.key
        half = (len(key) - 4) // 2
        source, target = _ports(key, len(key) - 4)
        near, far = (_text(key[:half]), source), (_text(key[half:-4]), target)
        syn = bool(segment.flags & SYN)
        if syn:
            client = not segment.flags & ACK
        else:
            client = not judge.server_first(source, target)
        stream = Stream(self.count, *((near, far) if client else (far, near)), midstream=not syn)
        stream.opening = (packet,)
        self.ports[stream.server[1]] = None
        self.count += 1
        back = key[half:-4] + key[:half] + key[-2:] + key[-4:-2]
        connection = Connection(stream, limit, (key, back), first_is_client=client)
        connection.oriented = syn
        self.ways[back] = connection.back
        self.ways[key] = connection.there
        self.living[connection] = None
        return connection.there

    def forget(self, connection: Connection) -> None:
        """Remove a connection from the table."""
        self.living.pop(connection, None)
        for key, way in zip(connection.keys, (connection.there, connection.back)):
            if self.ways.get(key) is way:
                del self.ways[key]

    def retire(self, connection: Connection) -> None:
        """Keep a closed connection for late packets. Above the limit, remove the oldest closed one."""
        self._closed.append(connection)
        if len(self._closed) > MAX_CLOSED:
            self.forget(self._closed.popleft())

    def surplus(self) -> list[Connection]:
        """Return the connections to evict when the table is full: non-Pulsar ones first, then the longest inactive."""
        if len(self.living) < MAX_CONNECTIONS:
            return []
        order = sorted(self.living, key=lambda each: (each.stream.kind == "pulsar" and not each.finished, each.last))
        return order[: MAX_CONNECTIONS // 4]

    def set_alarm(self, connection: Connection, due: int, packet: int) -> None:
        """Set the connection's alarm to the packet ``due``. An earlier pending alarm is kept."""
        if due == NEVER or packet < connection.alarm <= due:
            return
        connection.alarm = due
        self._ticket += 1
        heappush(self._alarms, (due, self._ticket, connection))
        self.alarm = self._alarms[0][0]

    def due(self, packet: int) -> Iterator[Connection]:
        """Yield the connections whose alarms are due, in the order of the alarms."""
        while self._alarms and self._alarms[0][0] <= packet:
            due, _, connection = heappop(self._alarms)
            if connection.alarm == due and not connection.finished:
                connection.alarm = -1
                yield connection
        self.alarm = self._alarms[0][0] if self._alarms else NEVER


def _text(address: bytes) -> str:
    return ".".join(map(str, address)) if len(address) == 4 else str(IPv6Address(address))
