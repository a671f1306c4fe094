"""Records per client address and server: connection attempts, ends, refused logins.

Rules of this file
1. A host is a client address with a server address and port. Client ports change with each attempt.
2. An outage begins when the server closes or resets a connection, or when an attempt fails, and ends with the next
   CONNECTED. It is kept if attempts failed in between (Outage.certain).
3. A broker that shuts down refuses lookups before it closes its connections. Such lookups belong to the outage if less
   than PAUSE_NS separates them from each other and from the outage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe.tracking.records.connection_records import (
    LOST,
    CaptureRecord,
    ConnectionRecord,
    HostRecord,
    Outage,
)
from pcli.codec.observe.tracking.records.counters import Occurrences

MAX_HOSTS: Final = 10_000
"""Maximum number of hosts; the oldest are evicted first."""

PAUSE_NS: Final = 10_000_000_000
"""Maximum time in ns between a lookup that a broker refuses because it shuts down and the next event of the outage."""

_PATIENCE_NS: Final = 1_000_000_000
"""Minimum time in ns that a client waits for a response before its attempt counts as failed."""

_RECENT: Final = 64
_DENIALS: Final = ("AuthenticationError", "AuthorizationError")
_NOT_READY: Final = ("MetadataError", "ServiceNotReady")
_LOOKUPS: Final = ("LOOKUP", "PARTITIONED_METADATA")

Exchange = tuple[int, int]
"""Frames of a request (0 if unknown) and of its response."""


class Hosts:
    """All hosts."""

    def __init__(self, capture: CaptureRecord, on_done: Callable[[str, Any], None] | None) -> None:
        self.records: dict[tuple[str, tuple[str, int]], HostRecord] = {}
        self._capture = capture
        self._on_done = on_done

    def of(self, client: tuple[str, int], server: tuple[str, int]) -> HostRecord:
        """Return the record of a host; create it if necessary."""
        key = (client[0], server)
        host = self.records.get(key)
        if host is None:
            host = self.records[key] = HostRecord(client[0], server)
            if len(self.records) > MAX_HOSTS:
                self._evict()
        return host

    def _evict(self) -> None:
        host = self.records.pop(next(iter(self.records)))
        host.doubts.add("evicted")
        self._capture.evicted["host"] = self._capture.evicted.get("host", 0) + 1
        if self._on_done is not None:
            self._on_done("host", host)

    def attempt(self, connection: ConnectionRecord, time_ns: int, frame: int) -> None:
        """Count a CONNECT."""
        host = self.of(connection.client, connection.server)
        host.attempts.add(time_ns, frame)
        host.attempt_times.append(time_ns)
        del host.attempt_times[:-_RECENT]

    def connected(self, connection: ConnectionRecord, time_ns: int, frame: int) -> None:
        """Process a CONNECTED, which ends an outage."""
        host = self.of(connection.client, connection.server)
        outage, host.outage = host.outage, None
        if outage is not None and outage.certain and len(host.outages) < _RECENT:
            outage.until_ns, outage.until_frame = time_ns, frame
            host.outages.append(outage)

    def refused(self, end: StreamEnd) -> None:
        """Count a refused TCP connection."""
        host = self.of(end.stream.client, end.stream.server)
        packet = f"packet {end.packet}"
        host.refused.add(end.time_ns, sample=packet)
        _outage(host, end.time_ns).refused.add(end.time_ns, sample=packet)
        self._ended(host, end.time_ns, "refused", 0)

    def ended(self, connection: ConnectionRecord) -> None:
        """Count the end of a connection."""
        host = self.of(connection.client, connection.server)
        host.doubts |= connection.doubts
        if is_unanswered(connection):
            _outage(host, connection.first_ns).unanswered.add(connection.ended_ns, connection.last_frame)
        elif connection.end in LOST:
            _outage(host, connection.ended_ns).lost.add(connection.ended_ns, connection.last_frame)
        self._ended(host, connection.ended_ns, connection.end, connection.last_frame)

    def _ended(self, host: HostRecord, time_ns: int, end: str, frame: int) -> None:
        host.ends.setdefault(end, Occurrences()).add(time_ns, frame)
        host.recent_ends.append((time_ns, end, frame))
        del host.recent_ends[:-_RECENT]

    def denied(
        self, connection: ConnectionRecord, time_ns: int, frames: Exchange, command: str, error: str, message: str
    ) -> None:
        """Count an error response that denies access, or that shows that the server is not ready."""
        if error in _NOT_READY and command in _LOOKUPS:
            host = self.of(connection.client, connection.server)
            _outage(host, time_ns).not_ready.add(time_ns, *frames, sample=message)
        elif error in _DENIALS:
            host = self.of(connection.client, connection.server)
            denied = host.denied.setdefault(f"{error} {command}", Occurrences())
            denied.add(time_ns, *frames, sample=message)


def is_unanswered(connection: ConnectionRecord) -> bool:
    """Return whether a connection that has ended was a failed attempt: the server sent no frame.

    A client of another protocol is no attempt: the server closes its connection (see first-bytes).
    """
    long = connection.ended_ns - connection.first_ns >= _PATIENCE_NS
    return long and not connection.broker_frames and not connection.first_bytes


def _outage(host: HostRecord, time_ns: int) -> Outage:
    """Return the current outage of a host; begin one if there is none, or if it only has lookups long before."""
    outage = host.outage
    if outage is None or (0 < outage.not_ready.last_ns < time_ns - PAUSE_NS and not outage.attempts):
        outage = host.outage = Outage(time_ns)
    return outage
