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
        self._links: dict[int, ConnectionState] = {}
        self._ended: dict[int, None] = {}
        self._ports: dict[tuple[tuple[str, int], tuple[str, int]], int] = {}
        """The stream that has an address and port on both ends."""

    def __iter__(self) -> Iterator[ConnectionState]:
        return iter(self._links.values())

    def get(self, number: int) -> ConnectionState | None:
        """The connection of this ``tcp.stream``."""
        return self._links.get(number)

    def touch(self, number: int) -> ConnectionState | None:
        """The same, which speaks now."""
        link = self._links.pop(number, None)
        if link is not None:
            self._links[number] = link  # the last is the one heard last
        return link

    def add(self, stream: Stream, time_ns: int) -> ConnectionState:
        """A connection that is new."""
        ports = (stream.client, stream.server)
        older = self._links.get(self._ports.get(ports, -1))
        if older is not None and not older.record.end:
            self._on_silence(older)
        record = ConnectionRecord(stream.number, *ports, stream.kind, stream.midstream)
        record.first_ns = record.last_ns = time_ns
        self._ports[ports] = stream.number
        link = self._links[stream.number] = ConnectionState(record)
        if len(self._links) > MAX_CONNECTIONS:
            self._evict()
        return link

    def ended(self, link: ConnectionState) -> None:
        """A connection has ended; it is remembered for a while."""
        record = link.record
        self._ended[record.stream] = None
        if self._ports.get((record.client, record.server)) == record.stream:
            del self._ports[record.client, record.server]

    def _evict(self) -> None:
        number = next(iter(self._ended), next(iter(self._links)))
        link = self._links.pop(number)
        self._capture.evicted["connection"] = self._capture.evicted.get("connection", 0) + 1
        if not link.record.end:
            link.record.doubts.add("evicted")
            self._on_silence(link)
        del self._ended[number]
        if self._on_done is not None:
            self._on_done("connection", link.record)
            for exchange in () if link.record.system else link.exchanges.values():
                self._on_done("exchange", exchange)
