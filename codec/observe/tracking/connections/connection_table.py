"""The connections that are remembered: by number and by their ends, and bounded.

Rules of this file
1. Of too many, those that have ended go first, then the one that was silent longest.
2. A connection on the ports of an older one, whose end the capture does not show, has replaced it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pcli.codec.capture.frames import Stream
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord, ConnectionRecord

__all__ = ["MAX_CONNECTIONS", "ConnectionTable"]

MAX_CONNECTIONS: Final = 10_000
"""Connections remembered, ended ones included."""


class ConnectionTable:
    """All connections that are remembered."""

    def __init__(
        self,
        capture: CaptureRecord,
        on_silence: Callable[[ConnectionState], None],
        on_done: Callable[[str, Any], None] | None,
    ) -> None:
        """``on_silence`` is called for those whose end was not seen; it has to call `ended`."""
        self._capture = capture
        self._on_silence, self._on_done = on_silence, on_done
        self._connections: dict[int, ConnectionState] = {}
        self._ended: dict[int, None] = {}
        self._ports: dict[tuple[tuple[str, int], tuple[str, int]], int] = {}
        """The stream that has an address and port on both ends."""

    def __iter__(self) -> Iterator[ConnectionState]:
        return iter(self._connections.values())

    def get(self, number: int) -> ConnectionState | None:
        """The connection of this ``tcp.stream``."""
        return self._connections.get(number)

    def touch(self, number: int) -> ConnectionState | None:
        """The same, which speaks now."""
        connection = self._connections.pop(number, None)
        if connection is not None:
            self._connections[number] = connection  # the last is the one heard last
        return connection

    def add(self, stream: Stream, time_ns: int) -> ConnectionState:
        """A connection that is new."""
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
        """A connection has ended; it is remembered for a while."""
        record = connection.record
        self._ended[record.stream] = None
        if self._ports.get((record.client, record.server)) == record.stream:
            del self._ports[record.client, record.server]

    def _evict(self) -> None:
        number = next(iter(self._ended), next(iter(self._connections)))
        connection = self._connections.pop(number)
        self._capture.evicted["connection"] = self._capture.evicted.get("connection", 0) + 1
        if not connection.record.end:
            connection.record.doubts.add("evicted")
            self._on_silence(connection)
        del self._ended[number]
        if self._on_done is not None:
            self._on_done("connection", connection.record)
            for exchange in () if connection.record.system else connection.exchanges.values():
                self._on_done("exchange", exchange)
