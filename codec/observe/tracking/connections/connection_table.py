"""A bounded table of connections, by stream number and by addresses.

Rules of this file
1. The records of ended connections are complete. The last MAX_ENDED are kept, if a function receives the others.
2. If there are too many connections, ended connections are evicted first, then the connection that has been idle for
   the longest time.
3. A new connection with the addresses and ports of an older connection replaces it, even if the end of the older
   connection was not captured.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from pcli.codec.capture.frames import Stream
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.records.connection_records import MAX_CONNECTIONS, CaptureRecord, ConnectionRecord

MAX_ENDED: Final = 1_000
"""Maximum number of ended connections, of which a late frame or note may follow. They occupy about 10 MB."""


class ConnectionTable:
    """The connections that are in memory."""

    def __init__(
        self,
        capture: CaptureRecord,
        on_silence: Callable[[ConnectionState], None],
        on_done: Callable[[str, Any], None] | None,
    ) -> None:
        """``on_silence`` receives each connection that is replaced or evicted before it ended; it must call `ended`."""
        self._capture = capture
        self._on_silence, self._on_done = on_silence, on_done
        self._connections: dict[int, ConnectionState] = {}
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._ports: dict[tuple[tuple[str, int], tuple[str, int]], int] = {}
        """Stream numbers by the address and port of both ends."""

    def __iter__(self) -> Iterator[ConnectionState]:
        return iter(self._connections.values())

    def get(self, number: int) -> ConnectionState | None:
        """Return the connection with this ``tcp.stream``, or None."""
        return self._connections.get(number)

    def touch(self, number: int) -> ConnectionState | None:
        """Return the connection with this ``tcp.stream``, or None; mark it as the most recently active connection."""
        connection = self._connections.pop(number, None)
        if connection is not None:
            self._connections[number] = connection  # dict order: the most recently active connection is last
        return connection

    def add(self, stream: Stream, time_ns: int) -> ConnectionState:
        """Add a connection and evict an old connection if there are too many."""
        ports = (stream.client, stream.server)
        older = self._connections.get(self._ports.get(ports, -1))
        if older is not None and not older.record.end:
            self._on_silence(older)
        record = ConnectionRecord(stream.number, *ports, stream.kind, stream.midstream)
        record.first_ns = record.last_ns = time_ns
        self._ports[ports] = stream.number
        connection = self._connections[stream.number] = ConnectionState(record)
        if len(self._connections) > MAX_CONNECTIONS:
            self._evict()
        return connection

    def ended(self, connection: ConnectionState) -> None:
        """Mark a connection as ended, so that it is evicted first."""
        record = connection.record
        self._ended[record.stream] = None
        if self._on_done is not None and len(self._ended) > MAX_ENDED:
            self._drop(next(iter(self._ended)))
        if self._ports.get((record.client, record.server)) == record.stream:
            del self._ports[record.client, record.server]

    def _evict(self) -> None:
        number = next(iter(self._ended), next(iter(self._connections)))
        connection = self._connections[number]
        self._capture.evicted["connection"] = self._capture.evicted.get("connection", 0) + 1
        if not connection.record.end:
            connection.record.doubts.add("evicted")
            self._on_silence(connection)
        self._drop(number)

    def _drop(self, number: int) -> None:
        connection = self._connections.pop(number)
        del self._ended[number]
        if self._on_done is not None:
            self._on_done("connection", connection.record)
            for exchange in () if connection.record.system else connection.exchanges.values():
                self._on_done("exchange", exchange)
