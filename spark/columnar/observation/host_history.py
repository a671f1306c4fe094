"""Events of hosts, recorded by group, and the records of hosts that are made from the events of all groups.

Rules of this file
1. The connections of a client address may be in many groups. Groups therefore do not keep records of hosts. Each group
   writes events as rows, and one task replays the rows of all groups in order (`play`).
2. The Hosts class of pcli.codec.observe.tracking fills the records in the same way as for a whole recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import Stream, StreamEnd
from pcli.codec.observe.tracking.connections.hosts import Exchange, Hosts, is_unanswered
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord, ConnectionRecord, HostRecord
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, column, many

HOST_EVENTS: Final = pa.schema(
    [
        column("place", LONG, "number of the frame, or of the last frame before the note or end"),
        column("order", LONG, "0 for a frame; for notes and ends their order, from 1"),
        column("event", TEXT, "attempt, connected, refused, ended or denied"),
        column("client", TEXT, "address of the client"),
        column("client_port", INT, "port of the client"),
        column("server", TEXT, "address of the server"),
        column("server_port", INT, "port of the server"),
        column("time_ns", LONG, "time of the event"),
        column("asked", LONG, "frame of the request; 0 if none"),
        column("frame", LONG, "frame that shows the event, 0 if none; for refused, the packet"),
        column("word", TEXT, "for ended, how the connection ended; for denied, the error"),
        column("command", TEXT, "the denied command"),
        column("answered", BOOL, "for ended, whether the attempt did not fail for lack of a response"),
        column("text", TEXT, "the message of the broker"),
        column("doubts", many(TEXT), "keys of tracking.doubts"),
    ]
)
"""One row for each event that a host's record counts."""

_Address = tuple[str, int]


class HostLog(Hosts):
    """A replacement for Hosts that records events in a group."""

    def __init__(self) -> None:
        super().__init__(CaptureRecord(), None)
        self.place = self.order = 0
        """The observer's position in the recording."""
        self._rows: list[dict[str, Any]] = []

    def attempt(self, connection: ConnectionRecord, time_ns: int, frame: int) -> None:
        """Record a CONNECT."""
        self._write("attempt", connection.client, connection.server, time_ns, frame=frame)

    def connected(self, connection: ConnectionRecord, time_ns: int, frame: int) -> None:
        """Record a CONNECTED."""
        self._write("connected", connection.client, connection.server, time_ns, frame=frame)

    def refused(self, end: StreamEnd) -> None:
        """Record a refused connection."""
        self._write("refused", end.stream.client, end.stream.server, end.time_ns, frame=end.packet)

    def ended(self, connection: ConnectionRecord) -> None:
        """Record the end of a connection."""
        end, at, frame = connection.end, connection.ended_ns, connection.last_frame
        doubts = sorted(connection.doubts)
        reported = {"frame": frame, "word": end, "doubts": doubts, "answered": not is_unanswered(connection)}
        self._write("ended", connection.client, connection.server, at, **reported)

    def denied(
        self, connection: ConnectionRecord, time_ns: int, frames: Exchange, command: str, error: str, message: str
    ) -> None:
        """Record an error response."""
        reported = {"word": error, "command": command, "text": message}
        self._write(
            "denied", connection.client, connection.server, time_ns, asked=frames[0], frame=frames[1], **reported
        )

    def _write(self, event: str, client: _Address, server: _Address, time_ns: int, **reported: Any) -> None:
        blank = {"asked": 0, "frame": 0, "word": "", "command": "", "text": "", "doubts": [], "answered": False}
        ends = {"client": client[0], "client_port": client[1], "server": server[0], "server_port": server[1]}
        place = {"place": self.place, "order": self.order, "event": event, "time_ns": time_ns}
        self._rows.append({**blank, **place, **ends, **reported})

    def rows(self) -> pa.RecordBatch:
        """Return all events."""
        return pa.RecordBatch.from_pylist(self._rows, HOST_EVENTS)


def play(batches: Iterable[pa.RecordBatch], capture: CaptureRecord) -> list[HostRecord]:
    """Return the records of all hosts from the rows of all groups; ``capture`` counts hosts above the limit."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    evicted: list[HostRecord] = []
    hosts = Hosts(capture, lambda _, record: evicted.append(record))
    for row in sorted(rows, key=lambda row: (row["place"], row["order"])):
        _STEPS[row["event"]](hosts, _connection(row), row)
    return [*evicted, *hosts.records.values()]


def _connection(row: dict[str, Any]) -> ConnectionRecord:
    record = ConnectionRecord(-1, (row["client"], row["client_port"]), (row["server"], row["server_port"]))
    record.end, record.ended_ns, record.last_frame = row["word"], row["time_ns"], row["frame"]
    record.doubts, record.broker_frames = set(row["doubts"]), int(row["answered"])
    return record


def _refused(hosts: Hosts, record: ConnectionRecord, row: dict[str, Any]) -> None:
    stream, how = Stream(-1, record.client, record.server, midstream=False), {"reset": True, "refused": True}
    hosts.refused(StreamEnd(stream, row["frame"], row["time_ns"], from_client=False, silent=True, **how))


def _denied(hosts: Hosts, record: ConnectionRecord, row: dict[str, Any]) -> None:
    frames = (row["asked"], row["frame"])
    hosts.denied(record, row["time_ns"], frames, row["command"], row["word"], row["text"])


_STEPS: Final[dict[str, Callable[[Hosts, ConnectionRecord, dict[str, Any]], None]]] = {
    "attempt": lambda hosts, record, row: hosts.attempt(record, row["time_ns"], row["frame"]),
    "connected": lambda hosts, record, row: hosts.connected(record, row["time_ns"], row["frame"]),
    "refused": _refused,
    "ended": lambda hosts, record, _: hosts.ended(record),
    "denied": _denied,
}
