"""The session of a consumer to which a FLOW or MESSAGE belongs, and the balance at the start of each part of a session.

Rules of this file
1. pcli.codec.observe.tracking (sessions.py) defines a session in the same way. SUBSCRIBE begins a session, unless its
   id belongs to a consumer that is ready. CLOSE_CONSUMER, a failed SUBSCRIBE and UNSUBSCRIBE end the session. A
   session's number is the number of its SUBSCRIBE frame, or 0 if this frame was not captured. After the end of a
   session, FLOWs are not counted, but MESSAGEs are counted.
2. A part of a recording (a cut) contributes only the sums between one event of a connection and the next event. This
   module combines all parts using only these sums, so the number of rows depends on consumers and cuts, not on traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.observe.observer_state import Facts, open_frame
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.topic_name import full_name
from pcli.spark.columnar.frame_columns import Frames, Longs
from pcli.spark.columnar.table_schema import BOOL, LONG, TEXT, column

EVENTS: Final = pa.schema(
    [
        column("place", LONG, "number of the frame"),
        column("stream", LONG, "tcp.stream"),
        column("event", TEXT, "name of the command"),
        column("owner", LONG, "consumer_id; -1 if none"),
        column("request", LONG, "request_id; -1 if none"),
        column("topic", TEXT, "topic of a SUBSCRIBE"),
        column("subscription", TEXT, "subscription of a SUBSCRIBE"),
        column("consumer", TEXT, "consumer name of a SUBSCRIBE"),
    ]
)
"""The events that begin and end sessions."""

TOTALS: Final = pa.schema(
    [
        column("cut", LONG, "number of the part of the recording"),
        column("stream", LONG, "tcp.stream"),
        column("owner", LONG, "consumer_id"),
        column("segment", LONG, "number of earlier events of the connection in the cut"),
        column("first_frame", LONG, "time of the first frame"),
        column("granted", LONG, "permits of the FLOWs"),
        column("used", LONG, "messages of the MESSAGEs"),
    ]
)
"""A row of sums between two events."""

STARTS: Final = pa.schema(
    [
        *(TOTALS.field(name) for name in ("cut", "stream", "owner", "segment")),
        column("start", LONG, "the balance before the part"),
        column("counts", BOOL, "whether FLOWs are counted, because the session has not ended"),
        column("session", LONG, "frame of the SUBSCRIBE; 0 if it was not captured"),
        column("topic", TEXT, "name; null if it is unknown"),
        column("subscription", TEXT, "name; null if it is unknown"),
        column("consumer", TEXT, "name; null if there is none or it is unknown"),
    ]
)
"""A row of the state at the start of each part of a session."""

_EVENTS: Final = ("SUBSCRIBE", "UNSUBSCRIBE", "CLOSE_CONSUMER", "SUCCESS", "ERROR")
_TYPES: Final = np.array([BY_NAME[name].number for name in _EVENTS], np.int64)


def event_rows(frames: Frames) -> Longs:
    """Return the indices of the frames that are events."""
    return np.flatnonzero(np.isin(frames.type, _TYPES))


def events_of(frames: Frames, numbers: Longs) -> pa.RecordBatch:
    """Return the events of a window."""
    return pa.RecordBatch.from_pylist([_event(frames, numbers, row) for row in event_rows(frames).tolist()], EVENTS)


def _event(frames: Frames, numbers: Longs, row: int) -> dict[str, Any]:
    name = COMMANDS[int(frames.type[row])].name
    found: dict[str, Any] = {"place": int(numbers[row]), "stream": int(frames.places.stream[row]), "event": name}
    found |= {"owner": int(frames.owner[row]), "request": int(frames.request[row])}
    if name == "SUBSCRIBE":
        values = Facts(Frame.of(frames.head(row)), open_frame).command  # type: ignore[arg-type]  # only its bytes
        found["topic"] = full_name(values.get("pulsar.subscribe.topic", ""))
        found["subscription"] = values.get("pulsar.subscribe.subscription", "")
        found["consumer"] = values.get("pulsar.subscribe.consumer_name", "")
    return found


class _Session:
    """The current state of a session."""

    __slots__ = ("balance", "ended", "names", "number", "ready")

    def __init__(self, number: int = 0, names: tuple[str, ...] = ()) -> None:
        self.number = number
        self.names = names
        self.balance = 0
        self.ready = self.ended = False

    def end(self) -> None:
        self.ended, self.ready = True, False


class _Connection:
    """The consumers of a connection."""

    def __init__(self) -> None:
        self._sessions: dict[int, _Session] = {}
        self._asked: dict[int, tuple[str, _Session]] = {}

    def part(self, total: dict[str, Any]) -> dict[str, Any]:
        """Apply the sums between two events and return the state before them."""
        session = self._sessions.setdefault(total["owner"], _Session())
        start = {name: total[name] for name in ("cut", "stream", "owner", "segment")}
        start |= {"start": session.balance, "counts": not session.ended, "session": session.number}
        for name, value in zip(("topic", "subscription", "consumer"), session.names):
            start[name] = value or None
        if not session.ended:
            session.balance += total["granted"]
            session.ready = True
        session.balance -= total["used"]
        return start

    def event(self, row: dict[str, Any]) -> None:
        """Apply an event."""
        owner, request = row["owner"], row["request"]
        session = self._sessions.get(owner)
        match row["event"]:
            case "SUBSCRIBE":
                if session is None or not session.number or not session.ready:
                    names = (row["topic"], row["subscription"], row["consumer"])
                    session = self._sessions[owner] = _Session(row["place"], names)
                self._asked[request] = ("SUBSCRIBE", session)
            case "UNSUBSCRIBE" if session is not None:
                self._asked[request] = ("UNSUBSCRIBE", session)
            case "CLOSE_CONSUMER" if session is not None:
                session.end()
            case "SUCCESS" | "ERROR" as answer:
                self._answered(*self._asked.pop(request, ("", _Session())), good=answer == "SUCCESS")

    def _answered(self, asked: str, session: _Session, *, good: bool) -> None:
        if asked == "SUBSCRIBE" and good:
            session.ready = True
        elif (asked == "SUBSCRIBE" and not session.ready) or (asked == "UNSUBSCRIBE" and good):
            session.end()


class PermitSessions:
    """The consumers of all connections, after a number of frames."""

    def __init__(self) -> None:
        self._connections: dict[int, _Connection] = {}

    def starts(self, totals: Iterable[pa.RecordBatch], events: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        """Process further parts of the connections; return rows of STARTS, one for each row of TOTALS.

        All parts of a connection must be processed in order. Places and streams are global; the order of the batches
        does not matter. The caller excludes a stream whose frames are counted on a different stream (the forwarded
        connection of a proxy).
        """
        rows = [(row["first_frame"], row) for batch in totals for row in batch.to_pylist()]
        rows += [(row["place"], row) for batch in events for row in batch.to_pylist()]
        rows.sort(key=lambda pair: pair[0])
        return pa.RecordBatch.from_pylist(list(self._scan(row for _, row in rows)), STARTS)

    def _scan(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            connection = self._connections.setdefault(row["stream"], _Connection())
            if "event" in row:
                connection.event(row)
            else:
                yield connection.part(row)
