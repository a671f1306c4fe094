"""The table of TCP connections by addresses and ports, with timers and a size limit.

Rules of this file
1. Streams are numbered as in tshark: in the order of their first packets. A new SYN on the same ports is a new stream.
2. A closed connection is kept for a while, so that late packets do not open a new stream.
3. Timers count packets of the input, so the same file always produces the same frames.
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
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.tunnels import ACK, SYN, Segment

MAX_CONNECTIONS: Final = 1 << 16
"""Maximum number of connections in the table. If it is exceeded, a quarter of the connections are evicted."""

MAX_CLOSED: Final = 4096
"""Maximum number of closed connections that are kept for late packets."""

NEVER: Final = 1 << 62

_ports = Struct(">HH").unpack_from


class Table:
    """All connections that are currently tracked."""

    def __init__(self) -> None:
        self.directions: dict[bytes, Direction] = {}
        """Directions by addresses and ports (``Segment.key``)."""
        self.living: dict[Connection, None] = {}
        """All tracked connections, in order of their first packets."""
        self.count = 0
        """Number of connections so far."""
        self.ports: dict[int, None] = {}
        """Server ports of all connections so far."""
        self.timer = NEVER
        """Packet number of the next timer."""
        self._timers: list[tuple[int, int, Connection]] = []
        self._ticket = 0
        self._closed: deque[Connection] = deque()

    def create(self, segment: Segment, packet: int, limit: int, classifier: StreamClassifier) -> Direction:
        """Add a connection and return the direction of its first packet."""
        key = segment.key
        half = (len(key) - 4) // 2
        source, target = _ports(key, len(key) - 4)
        near, far = (_text(key[:half]), source), (_text(key[half:-4]), target)
        syn = bool(segment.flags & SYN)
        if syn:
            client = not segment.flags & ACK
        else:
            client = not classifier.server_first(source, target)
        stream = Stream(self.count, *((near, far) if client else (far, near)), midstream=not syn)
        stream.opening = (packet,)
        self.ports[stream.server[1]] = None
        self.count += 1
        back = key[half:-4] + key[:half] + key[-2:] + key[-4:-2]
        connection = Connection(stream, limit, (key, back), first_is_client=client)
        connection.oriented = syn
        self.directions[back] = connection.back
        self.directions[key] = connection.there
        self.living[connection] = None
        return connection.there

    def forget(self, connection: Connection) -> None:
        """Remove a connection from the table."""
        self.living.pop(connection, None)
        for key, direction in zip(connection.keys, (connection.there, connection.back)):
            if self.directions.get(key) is direction:
                del self.directions[key]

    def retire(self, connection: Connection) -> None:
        """Keep a closed connection for late packets. If the limit is exceeded, remove the oldest closed connection."""
        self._closed.append(connection)
        if len(self._closed) > MAX_CLOSED:
            self.forget(self._closed.popleft())

    def surplus(self) -> list[Connection]:
        """Return the connections to evict: those that are not Pulsar first, then the longest inactive."""
        if len(self.living) < MAX_CONNECTIONS:
            return []
        order = sorted(self.living, key=lambda each: (each.stream.kind == "pulsar" and not each.finished, each.last))
        return order[: MAX_CONNECTIONS // 4]

    def set_timer(self, connection: Connection, due: int, packet: int) -> None:
        """Set the connection's timer to packet number ``due``, or to the packet after ``packet`` if that is later.

        An earlier pending timer is kept.
        """
        if due == NEVER:
            return
        due = max(due, packet + 1)
        if packet < connection.timer <= due:
            return
        connection.timer = due
        self._ticket += 1
        heappush(self._timers, (due, self._ticket, connection))
        self.timer = self._timers[0][0]

    def with_timers(self) -> list[Connection]:
        """Return the connections with timers, in the order in which the timers were set."""
        timers = sorted((ticket, due, connection) for due, ticket, connection in self._timers)
        return [one for _, due, one in timers if one.timer == due and not one.finished]

    def due(self, packet: int) -> Iterator[Connection]:
        """Yield the connections whose timers are due, in the order of the timers."""
        while self._timers and self._timers[0][0] <= packet:
            due, _, connection = heappop(self._timers)
            if connection.timer == due and not connection.finished:
                connection.timer = -1
                yield connection
        self.timer = self._timers[0][0] if self._timers else NEVER


def _text(address: bytes) -> str:
    return ".".join(map(str, address)) if len(address) == 4 else str(IPv6Address(address))
