"""Records of connections, hosts, exchanges and the capture, updated frame by frame.

Rules of this file
1. The work for every frame is a few lookups in this module. Each command type has its own function for the rest; the
   functions for the most frequent commands do almost nothing.
2. The connection from a proxy to the broker (repeated_connections.py) has a separate record of its end, checksums and
   sizes. This record shows on which side of the proxy a fault occurred. Its requests repeat the requests of the
   client's connection and are not counted.
3. The broker's own traffic has connection records but no exchange records.
4. A connection with translated addresses (repeated_connections.py) has a record, of which only the times and the
   numbers of frames are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, Final, cast

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.capture.frames import RESYNC, Note, Stream, StreamEnd
from pcli.codec.observe.observer_state import Facts, ObservedFrame, Producer
from pcli.codec.observe.tracking.connections import handshake
from pcli.codec.observe.tracking.connections.capture_notes import NO_KEY, OPENING, apply_note
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.connections.connection_table import ConnectionTable
from pcli.codec.observe.tracking.connections.exchanges import (
    MAX_OPEN,
    RESPONSES,
    count_receipt,
    count_request,
    count_response,
    count_unanswered,
)
from pcli.codec.observe.tracking.connections.frame_checks import check_checksum, deprecated, oversize
from pcli.codec.observe.tracking.connections.hosts import Hosts
from pcli.codec.observe.tracking.connections.non_pulsar_streams import NonPulsarStreams
from pcli.codec.observe.tracking.connections.repeated_connections import RepeatedConnections
from pcli.codec.observe.tracking.connections.topic_list_watchers import TopicListWatchers
from pcli.codec.observe.tracking.records.connection_records import MAX_LOSSES, CaptureRecord, ConnectionRecord
from pcli.codec.observe.tracking.transactions import MAX_TRANSACTIONS
from pcli.codec.wire.commands import BY_NAME, name_of
from pcli.codec.wire.frame import SEND

_ONE_WAY: Final = 16
"""Number of frames from one side, with none from the other, after which the capture is known to lack a direction."""

_PROBLEM_DOUBTS: Final = {"gap": "gap", "cut": "cut", "overlap": "gap"}


class ConnectionTracker:
    """All connections of a capture."""

    def __init__(
        self,
        capture: CaptureRecord,
        *,
        on_end: Callable[[int, str, int, int], None],
        on_done: Callable[[str, Any], None] | None = None,
        hosts: Hosts | None = None,
        servers: Iterable[tuple[str, int]] = (),
    ) -> None:
        """Create a tracker without connections.

        ``on_end`` receives each end: stream, key of ENDS, time in ns, number of the last frame. ``on_done`` receives
        evicted records. ``hosts`` replaces the tracker's own `Hosts`. ``servers`` are addresses of Pulsar servers.
        """
        self.changed_streams: set[int] = set()
        """Streams whose doubts have changed because of frames. The caller that propagates the doubts empties the
        set."""
        self._capture = capture
        self._on_end = on_end
        self._table = ConnectionTable(capture, self._end_silently, on_done)
        self._hosts = Hosts(capture, on_done) if hosts is None else hosts
        self._repeated, self._watchers = RepeatedConnections(), TopicListWatchers()
        self._non_pulsar = NonPulsarStreams(servers)
        self._ended_transactions: BoundedDict[tuple[int, int], None] = BoundedDict(MAX_TRANSACTIONS)
        """Transactions that clients have ended."""
        self._stream: object = None
        self._connection = ConnectionState(ConnectionRecord(-1, ("", 0), ("", 0)))

    @property
    def repeats(self) -> bool:
        """Whether the last frame repeats a frame of another connection."""
        return self._connection.repeats

    @property
    def open_count(self) -> int:
        """The number of open Pulsar connections of applications."""
        records = (one.record for one in self._table)
        return sum(
            one.kind == "pulsar" and not (one.end or one.system or one.translated or one.leg_of >= 0) for one in records
        )

    def add_pulsar_servers(self, servers: Iterable[tuple[str, int]]) -> None:
        """Add the addresses of Pulsar servers that became known before the tracker saw a connection to them."""
        self._non_pulsar.pulsar.update(servers)

    # -- frames

    def see(self, facts: Facts) -> bool:
        """Process a frame; return False if it belongs to a proxy's connection to the broker."""
        frame = facts.frame
        if frame.stream is not self._stream:
            self._select(frame)
        connection, capture = self._connection, self._capture
        record, side = connection.record, frame.from_client
        record.last_ns = capture.last_ns = time_ns = frame.time_ns
        record.last_frame = capture.frames = number = frame.number
        if side:
            record.client_frames += 1
        else:
            record.broker_frames += 1
        if record.translated:
            return False
        if connection.is_new:
            self._repeated.add(connection, frame)
        last_ns, length = connection.last_frame_ns, frame.length
        if time_ns - last_ns[side] > handshake.PATIENCE_NS:
            connection.silences[side] = (last_ns[side], time_ns)
        last_ns[side] = time_ns
        connection.recent[side].append((frame.offset + length, number, time_ns))
        if frame.capture_problems or frame.sync == RESYNC:
            self._doubt_frame(connection, frame)
        if length > connection.limit and frame.type not in _SMALL:
            oversize(connection, facts)
        step = _HOT_STEPS.get(frame.type)
        if step is not None:
            step(self, connection, facts)
        else:
            self._see_other(connection, facts)
        return not connection.repeats

    def _select(self, frame: ObservedFrame) -> None:
        stream = cast(Stream, frame.stream)
        self._stream = stream
        connection = self._table.touch(stream.number)
        if connection is None:
            connection = self._table.add(stream, frame.time_ns)
            self._non_pulsar.add_pulsar_server(connection.record.server)
        record = connection.record
        if not record.first_frame:
            record.first_ns, record.first_frame, record.kind = frame.time_ns, frame.number, "pulsar"
            self._capture.first_ns = self._capture.first_ns or frame.time_ns
            self._repeated.begin(connection, frame)
            if not connection.repeats:
                self._doubt_start(connection, stream, frame)
        self._connection = connection

    def _doubt_start(self, connection: ConnectionState, stream: Stream, frame: ObservedFrame) -> None:
        if stream.midstream:
            self._doubt(connection, "start")
        elif frame.type != _CONNECT and self._capture.evicted:
            self._doubt(connection, "evicted")
        elif len(stream.opening) == 1:  # a handshake has packets in both directions
            self._doubt(connection, "one_way")
            self._capture.one_way += 1

    def _doubt_frame(self, connection: ConnectionState, frame: ObservedFrame) -> None:
        for problem in frame.capture_problems:
            if problem.kind == "cut" and not self._capture.cut:
                self._capture.unfinished += 1  # truncated by the end of the connection or of the capture
            elif problem.kind in _PROBLEM_DOUBTS:
                self._doubt(connection, _PROBLEM_DOUBTS[problem.kind])
        if frame.sync == RESYNC and "start" not in connection.record.doubts:
            self._doubt(connection, "weak_sync")

    def _doubt(self, connection: ConnectionState, word: str) -> None:
        if word not in connection.record.doubts:
            connection.record.doubts.add(word)
            self.changed_streams.add(connection.record.stream)

    # -- frequent commands

    def _send(self, connection: ConnectionState, facts: Facts) -> None:
        self._message(connection, facts)
        if facts.system or connection.repeats:
            return
        sends = connection.sends
        if sends is None:
            sends = connection.sends = connection.exchange(SEND)
        sends.asked += 1
        if facts.peer is not connection.producer and isinstance(facts.peer, Producer):
            connection.producer = facts.peer
            _remember_producer(connection, facts.peer)

    def _receipt(self, connection: ConnectionState, facts: Facts) -> None:
        if not (facts.system or connection.repeats):
            count_receipt(connection, facts)

    def _message(self, connection: ConnectionState, facts: Facts) -> None:
        peer = facts.peer
        if (
            connection.record.midstream
            and not (connection.has_unnamed_peers or facts.system)
            and (peer is None or not peer.topic)
        ):
            connection.has_unnamed_peers = True
            self._capture.midstream += 1
        if facts.frame.checksum != "good":
            check_checksum(connection, facts)

    def _ack(self, connection: ConnectionState, facts: Facts) -> None:
        if not (facts.system or connection.repeats) and facts.frame.body.HasField("request_id"):
            count_request(connection, facts)

    def _flow(self, _link: ConnectionState, _facts: Facts) -> None:
        """Ignore a FLOW."""

    # -- other commands

    def _see_other(self, connection: ConnectionState, facts: Facts) -> None:
        frame = facts.frame
        handshake.end_open_ping(connection, facts)
        if connection.after_connect and frame.type != _CONNECT and self._repeated.see(connection, facts):
            connection.exchanges.clear()
            connection.open_requests.clear()
        self._update_system(connection, facts)
        step = _STEPS.get(frame.type)
        if step is not None:
            step(self, connection, facts)
        if facts.system or connection.repeats:
            return
        if frame.type in RESPONSES:
            count_response(connection, facts, with_error=not self._is_repeated_end(facts))
            self._denied(connection, facts)
        count_request(connection, facts)

    def _update_system(self, connection: ConnectionState, facts: Facts) -> None:
        """Update whether a connection belongs to the broker's own client, and correct the counts of the capture."""
        if not facts.system:
            if facts.frame.type in _OPENINGS:
                connection.used_by_application, connection.record.system = True, False
        elif not (connection.used_by_application or connection.record.system):
            connection.record.system = True
            self._capture.midstream -= connection.has_unnamed_peers

    def _connect(self, connection: ConnectionState, facts: Facts) -> None:
        handshake.connect(connection, facts)
        self._repeated.connect(connection, facts)
        self._hosts.attempt(connection.record, facts.frame.time_ns, facts.frame.number)

    def _connected(self, connection: ConnectionState, facts: Facts) -> None:
        handshake.connected(connection, facts)
        self._hosts.connected(connection.record, facts.frame.time_ns, facts.frame.number)

    def _is_repeated_end(self, facts: Facts) -> bool:
        """Return whether a response refuses to end a transaction that a client has ended before.

        A client that recovers ends the transactions of its last checkpoint again.
        """
        if facts.frame.type != _END_TXN_RESPONSE:
            return False
        response, (error, _) = facts.frame.command.endTxnResponse, facts.error
        transaction = response.txnid_most_bits, response.txnid_least_bits
        if not error:
            self._ended_transactions[transaction] = None
        return error == "TransactionNotFound" and transaction in self._ended_transactions

    def _denied(self, connection: ConnectionState, facts: Facts) -> None:
        error, message = facts.error
        if error:
            command = name_of(facts.request.type) if facts.request is not None else ""
            frames = (facts.request_number, facts.frame.number)
            self._hosts.denied(connection.record, facts.frame.time_ns, frames, command, error, message)

    # -- notes of the capture reader

    def note(self, note: Note) -> int:
        """Apply a note; return the number of the stream whose records have a new doubt, or -1."""
        stream = note.stream
        connection = None if stream is None else self._table.get(stream.number)
        if connection is None and stream is not None and note.kind in OPENING:
            connection = self._table.add(stream, self._capture.last_ns)
        if connection is not None and note.kind == "unacknowledged":
            self._lose(connection, note)
        word = apply_note(self._capture, self._non_pulsar, connection, note)
        if word is None or connection is None:
            return -1
        if word != NO_KEY:
            connection.record.doubts.add(word)
        return connection.record.stream

    def add_doubt(self, word: str) -> None:
        """Add a doubt to the records of all connections and hosts."""
        for connection in self._table:
            connection.record.doubts.add(word)
            for exchange in connection.exchanges.values():
                exchange.doubts.add(word)
        for host in self._hosts.records.values():
            host.doubts.add(word)

    def _lose(self, connection: ConnectionState, note: Note) -> None:
        losses, side = self._capture.losses, bool(note.from_client)
        loss = connection.loss(note.offset or 0, from_client=side)
        if loss is not None and len(losses) < MAX_LOSSES:
            losses[connection.record.stream, side] = loss

    def doubts_of(self, stream: int) -> set[str]:
        """Return a copy of the doubts of a connection."""
        connection = self._table.get(stream)
        return set() if connection is None else set(connection.record.doubts)

    # -- ends

    def ended(self, end: StreamEnd) -> None:
        """Record the end of a TCP connection."""
        self._capture.packets = max(self._capture.packets, end.packet)
        connection = self._table.get(end.stream.number)
        if connection is None:
            if end.refused:
                self._hosts.refused(end)
        elif not connection.record.end:
            self._end(connection, handshake.end_cause(connection, end), end.time_ns)

    def _end_silently(self, connection: ConnectionState) -> None:
        self._end(connection, "silence", connection.record.last_ns)

    def _end(self, connection: ConnectionState, word: str, time_ns: int) -> None:
        record = connection.record
        record.end, record.ended_ns = word, time_ns
        self._table.ended(connection)
        self._watchers.forget(record)
        self._check_directions(connection)
        count_unanswered(connection, connection.exchanges, time_ns)
        if record.kind == "pulsar" and not record.system and not record.translated:
            self._hosts.ended(record)
        if record.first_frame and not connection.repeats:
            self._on_end(record.stream, word, time_ns, record.last_frame)

    def _check_directions(self, connection: ConnectionState) -> None:
        """Mark a connection that began before the capture as one-way if one side sent no frames."""
        record = connection.record
        fewer, more = sorted((record.client_frames, record.broker_frames))
        if record.midstream and more and not fewer:
            self._doubt(connection, "one_way")
            self._capture.one_way += more >= _ONE_WAY

    def finish(self, now_ns: int) -> None:
        """Mark the connections that are still open when the capture ends."""
        for connection in self._table:
            if not connection.record.end:
                self._check_directions(connection)
                self._doubt(connection, "end")
                count_unanswered(connection, connection.exchanges, now_ns)

    def repeated(self) -> Iterator[ConnectionRecord]:
        """Yield the records of the connections that repeat others: behind a proxy, or with translated addresses."""
        yield from (one.record for one in self._table if one.record.leg_of >= 0)

    def records(self, now_ns: int | None = None) -> Iterator[tuple[str, Any]]:
        """Yield every connection, host and exchange record with the name of its group.

        At a time, the exchanges of open connections are copies in which open requests have no response.
        """
        for connection in list(self._table):
            record, exchanges = connection.record, connection.exchanges
            if now_ns is not None and not record.end:
                exchanges = {number: copy(one) for number, one in exchanges.items()}
                count_unanswered(connection, exchanges, now_ns)
            if record.kind == "pulsar" or record.first_bytes:
                yield "connection", record
            if not record.system:
                for exchange in list(exchanges.values()):
                    yield "exchange", exchange
        for host in list(self._hosts.records.values()):
            yield "host", host


def _remember_producer(connection: ConnectionState, producer: Producer) -> None:
    """Record a producer with open SENDs; if there are too many producers, drop producers without open SENDs."""
    connection.producers[producer] = None
    if len(connection.producers) > MAX_OPEN:
        connection.producers = {one: None for one in connection.producers if one.sends}


_LOGIN: Final = frozenset(BY_NAME[name].number for name in ("CONNECT", "AUTH_RESPONSE", "PING", "PONG"))
_END_TXN_RESPONSE: Final = BY_NAME["END_TXN_RESPONSE"].number
_CONNECT: Final = BY_NAME["CONNECT"].number
_OPENINGS: Final = frozenset(BY_NAME[name].number for name in ("PRODUCER", "SUBSCRIBE"))

_SMALL: Final = frozenset(BY_NAME[name].number for name in ("SEND_RECEIPT", "SEND_ERROR", "ACK", "FLOW"))
"""Frames whose size is not checked."""

_Step = Callable[[ConnectionTracker, ConnectionState, Facts], None]

_HOT_STEPS: Final[dict[int, _Step]] = {
    BY_NAME[name].number: step
    for name, step in (
        ("SEND", ConnectionTracker._send),
        ("SEND_RECEIPT", ConnectionTracker._receipt),
        ("SEND_ERROR", ConnectionTracker._receipt),
        ("MESSAGE", ConnectionTracker._message),
        ("ACK", ConnectionTracker._ack),
        ("FLOW", ConnectionTracker._flow),
    )
}

_STEPS: Final[dict[int, _Step]] = {
    BY_NAME[name].number: step
    for name, step in (
        ("CONNECT", ConnectionTracker._connect),
        ("CONNECTED", ConnectionTracker._connected),
        ("AUTH_CHALLENGE", lambda _, connection, facts: handshake.auth_challenge(connection, facts)),
        ("AUTH_RESPONSE", lambda _, connection, facts: handshake.auth_response(connection, facts)),
        ("ERROR", lambda _, connection, facts: handshake.error(connection, facts)),
        ("PING", lambda _, connection, facts: handshake.ping(connection, facts)),
        ("CONSUMER_STATS", lambda _, connection, facts: deprecated(connection, facts, "CONSUMER_STATS")),
        ("SUBSCRIBE", lambda tracker, connection, facts: tracker._watchers.subscribe(connection, facts)),
        ("WATCH_TOPIC_LIST", lambda tracker, connection, facts: tracker._watchers.watch(connection, facts)),
        ("WATCH_TOPIC_LIST_SUCCESS", lambda tracker, connection, facts: tracker._watchers.success(connection, facts)),
        ("WATCH_TOPIC_UPDATE", lambda tracker, connection, facts: tracker._watchers.update(connection, facts)),
        ("WATCH_TOPIC_LIST_CLOSE", lambda tracker, connection, facts: tracker._watchers.close(connection, facts)),
    )
}
