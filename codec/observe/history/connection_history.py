"""The history of a connection: handshake, producers and consumers, refused and slow requests, silences, and the end."""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.observe.history.event_log import Bursts, Event, Log
from pcli.codec.observe.history.object_history import LONG_NS, ObjectHistory, State, because
from pcli.codec.observe.observer_state import Facts, StreamLike
from pcli.codec.observe.rules.connection_text import about_connection, place
from pcli.codec.observe.rules.finding import Finding
from pcli.codec.observe.rules.finding_text import at, count_of, span
from pcli.codec.observe.text_format import latency_text, printable, short_topic
from pcli.codec.observe.tracking.connections.connection_tracker import ConnectionTracker
from pcli.codec.observe.tracking.records.connection_records import ENDS, ConnectionRecord
from pcli.codec.wire.commands import BY_NAME, name_of
from pcli.codec.wire.texts import as_text

_QUIET_NS: Final = 10 * LONG_NS
"""Minimum time in ns without a frame that is reported."""

_CONNECT: Final = BY_NAME["CONNECT"].number
_CONNECTED: Final = BY_NAME["CONNECTED"].number
_PRODUCER: Final = BY_NAME["PRODUCER"].number
_SUBSCRIBE: Final = BY_NAME["SUBSCRIBE"].number


class ConnectionHistory(ObjectHistory):
    """The history of one connection."""

    kind = "connection"

    def __init__(self, stream: StreamLike, tracker: ConnectionTracker, log: Log) -> None:
        super().__init__(log)
        self._stream = stream
        records = (record for group, record in tracker.records() if group == "connection")
        self.record: ConnectionRecord | None = next((one for one in records if one.stream == stream.number), None)
        """The record of the connection; None if the tracker does not keep it."""
        self._last_ns = -1
        self._last_frame = 0
        self._frames = [0, 0]
        self._connect: tuple[int, int] = (-1, 0)
        self._refusals = Bursts(log, _refusal)
        self._ended = False
        self._opened: dict[int, int] = {_PRODUCER: 0, _SUBSCRIBE: 0}

    @property
    def name(self) -> str:
        """The number of the connection (``tcp.stream``)."""
        return str(self._stream.number)

    def title(self) -> str:
        """Return the connection with its addresses and the client's version."""
        if self.record is not None:
            return about_connection(self.record)
        return f"connection {self.name} ({place(self._stream.client)} to {place(self._stream.server)})"

    def see(self, facts: Facts) -> None:
        """Process a frame of the connection."""
        frame = facts.frame
        self._frames[frame.from_client] += 1
        if self._last_ns >= 0 and frame.time_ns - self._last_ns >= _QUIET_NS:
            lasted = frame.time_ns - self._last_ns
            text = f"No frame in either direction for {span(lasted)}, until {at(frame.number)}."
            self.log.add(Event("idle", self._last_ns, self._last_frame, text, frame.time_ns, frame.number, lasted))
        self._last_ns, self._last_frame = frame.time_ns, frame.number
        if frame.type == _CONNECT:
            self._connect = (frame.time_ns, frame.number)
        elif frame.type == _CONNECTED:
            self._connected(facts)
        elif frame.type in self._opened and frame.from_client:
            self._open(facts)
        self._response(facts)

    def _connected(self, facts: Facts) -> None:
        frame = facts.frame
        since_ns, number = self._connect if self._connect[1] else (frame.time_ns, frame.number)
        version = printable(as_text(frame.command.connected.server_version))
        text = f"Connected; the broker ({version or 'unknown version'}) accepted it"
        text += f" {latency_text(frame.time_ns - since_ns)} later." if self._connect[1] else "."
        self.log.add(Event("opened", since_ns, number, text))

    def _open(self, facts: Facts) -> None:
        frame, peer = facts.frame, facts.peer
        self._opened[frame.type] += 1
        topic = short_topic(getattr(peer, "topic", "")) or "an unknown topic"
        name = printable(getattr(peer, "name", "")) or f"#{getattr(peer, 'id', '?')}"
        if frame.type == _PRODUCER:
            text = f"The client opened producer {name} on {topic}."
        else:
            subscription = printable(getattr(peer, "subscription", ""))
            text = f"The client opened consumer {name} of subscription {subscription} on {topic}."
        self.log.add(Event("first message", frame.time_ns, frame.number, text))

    def _response(self, facts: Facts) -> None:
        frame, request = facts.frame, facts.request
        error, message = facts.error
        if error:
            kind = name_of(request.type) if request is not None else name_of(frame.type)
            self._refusals.add(f"{kind}\0{error}\0{message}", frame.time_ns, frame.number)
        if facts.latency_ns >= LONG_NS:
            kind = name_of(request.type) if request is not None else "SEND"
            text = f"The response to {kind} took {span(facts.latency_ns)}, until {at(frame.number)}."
            since_ns = frame.time_ns - facts.latency_ns
            self.log.add(
                Event("slow", since_ns, facts.request_number, text, frame.time_ns, frame.number, facts.latency_ns)
            )

    def settle(self, time_ns: int) -> None:
        """Record the end of the connection."""
        record = None if self._ended else self.record
        if record is None or not record.end:
            return
        self._ended = True
        kind = "lost" if record.end in ("keep_alive", "reset_client", "reset_broker", "auth", "silence") else "closed"
        ending = ENDS.get(record.end, record.end)
        text = f"{ending[:1].upper()}{ending[1:]}."
        self.log.add(Event(kind, record.ended_ns, record.last_frame, text))

    def finish(self, now_ns: int) -> State:
        """Complete the history, and return the state at a time."""
        self.settle(now_ns)
        self._refusals.finish()
        record = self.record
        end = record.end if record is not None else ""
        frames = f"{count_of(self._frames[1], 'frame')} from the client, {self._frames[0]} from the broker"
        producers, consumers = self._opened[_PRODUCER], self._opened[_SUBSCRIBE]
        opened = f"{count_of(producers, 'producer')} and {count_of(consumers, 'consumer')} opened"
        quiet = now_ns - self._last_ns
        silent = f" No frame for {span(quiet)} so far." if not end and self._last_ns >= 0 and quiet >= LONG_NS else ""
        figures = {
            "open": not end, "client_frames": self._frames[1], "broker_frames": self._frames[0],
            "producers_opened": producers, "consumers_opened": consumers,
        }  # fmt: skip
        return State(f"{'Closed' if end else 'Open'}. {frames}; {opened}.{silent}", figures)

    def doubts(self) -> set[str]:
        """Return why the history may be incomplete."""
        return set() if self.record is None else self.record.doubts

    def relation(self, group: str, record: Any, finding: Finding) -> str | None:
        """Return how a finding about a record concerns the connection."""
        number = self._stream.number
        if group in ("connection", "exchange", "transaction") and record.stream == number:
            return ""
        if group == "host" and (record.client, record.server) == (self._stream.client[0], self._stream.server):
            return "its client and server"
        session = record.session if group in ("producer", "consumer") else None
        return f"its {group}" if session is not None and session.stream == number else None


def _refusal(key: str, count: int, until: int) -> tuple[str, str]:
    request, error, message = key.split("\0", 2)
    again = f" {count} times, until {at(until)}," if count > 1 and until else ""
    return "refused", f"The broker refused {request}{again} with {printable(error)}{because(message)}."
