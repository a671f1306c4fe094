"""Connections, hosts, exchanges, and the capture itself: what is kept of them, frame by frame.

Rules of this file
1. What every frame needs is done here, in a few look-ups; one step per command type does the rest, and the commands of
   which traffic consists cost next to nothing.
2. A second leg (legs.py) is a connection with ends, checksums and sizes of its own, since that shows on which side of
   the proxy something went wrong; its requests are those of the first leg, and are not counted.
3. The broker's own traffic has connections, but no exchanges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from pcli.codec.capture.frames import RESYNC, Note, Stream, StreamEnd
from pcli.codec.observe.observer_state import Facts, ObservedFrame, Producer
from pcli.codec.observe.tracking.connections import handshake
from pcli.codec.observe.tracking.connections.capture_notes import NAMELESS, OPENING, take_note
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.connections.connection_table import ConnectionTable
from pcli.codec.observe.tracking.connections.exchanges import ANSWERS, MAX_OPEN, answer, ask, error_of, receipt, recount
from pcli.codec.observe.tracking.connections.frame_checks import check_checksum, check_size, deprecated
from pcli.codec.observe.tracking.connections.hosts import Hosts
from pcli.codec.observe.tracking.connections.non_pulsar_streams import NonPulsarStreams
from pcli.codec.observe.tracking.connections.proxied_connections import ProxiedConnections
from pcli.codec.observe.tracking.connections.topic_list_watchers import TopicListWatchers
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord, ConnectionRecord
from pcli.codec.wire.commands import BY_NAME, name_of
from pcli.codec.wire.frame import SEND

__all__ = ["ConnectionTracker"]

_ONE_WAY: Final = 16
"""Frames of one side, and none of the other, from which on that side is certainly missing in the capture."""

_PROBLEM_DOUBTS: Final = {"gap": "gap", "cut": "cut", "overlap": "gap"}


class ConnectionTracker:
    """All connections of a recording."""

    def __init__(
        self,
        capture: CaptureRecord,
        *,
        on_end: Callable[[int, str, int, int], None],
        on_done: Callable[[str, Any], None] | None = None,
        hosts: Hosts | None = None,
        servers: Iterable[tuple[str, int]] = (),
    ) -> None:
        """``on_end`` is told when a connection ends: stream, word of ENDS, time in ns, its last frame's number.

        ``on_done`` is given the records that are forgotten; ``hosts`` hears what happens to hosts, instead of our own;
        ``servers`` are known to speak Pulsar.
        """
        self.changed_streams: set[int] = set()
        """Streams whose doubts have grown by frames; whoever passes them on empties it."""
        self._capture = capture
        self._on_end = on_end
        self._table = ConnectionTable(capture, lambda link: self._end(link, "silence", link.record.last_ns), on_done)
        self._hosts = Hosts(capture, on_done) if hosts is None else hosts
        self._proxied, self._watchers = ProxiedConnections(), TopicListWatchers()
        self._non_pulsar = NonPulsarStreams(servers)
        self._stream: object = None
        self._link = ConnectionState(ConnectionRecord(-1, ("", 0), ("", 0)))

    # -- frames

    def see(self, facts: Facts) -> bool:
        """Take in a frame. False: it belongs to the second leg of a conversation through a proxy."""
        frame = facts.frame
        if frame.stream is not self._stream:
            self._enter(frame)
        link = self._link
        record, capture = link.record, self._capture
        record.last_ns = capture.last_ns = time_ns = frame.time_ns
        record.last_frame = capture.frames = frame.number
        if frame.from_client:
            record.client_frames += 1
            link.heard[1] = time_ns
        else:
            record.broker_frames += 1
            link.heard[0] = time_ns
        if frame.capture_problems or frame.sync == RESYNC:
            self._doubt_frame(link, frame)
        step = _HOT_STEPS.get(frame.type)
        if step is not None:
            step(self, link, facts)
        else:
            self._see_other(link, facts)
        return not link.is_leg

    def _enter(self, frame: ObservedFrame) -> None:
        stream = cast(Stream, frame.stream)
        self._stream = stream
        link = self._table.touch(stream.number)
        if link is None:
            link = self._table.add(stream, frame.time_ns)
            self._non_pulsar.speaks_pulsar(link.record.server)
        record = link.record
        if not record.first_frame:
            record.first_ns, record.first_frame, record.kind = frame.time_ns, frame.number, "pulsar"
            self._capture.first_ns = self._capture.first_ns or frame.time_ns
            if stream.midstream:
                self._doubt(link, "start")
            elif frame.type != _CONNECT and self._capture.evicted:
                self._doubt(link, "evicted")
            elif len(stream.opening) == 1:  # a handshake has a packet of each side
                self._doubt(link, "one_way")
                self._capture.one_way += 1
        self._link = link

    def _doubt_frame(self, link: ConnectionState, frame: ObservedFrame) -> None:
        for problem in frame.capture_problems:
            if problem.kind == "cut" and not self._capture.cut:
                self._capture.unfinished += 1  # by the end of the connection or of the capture
            elif problem.kind in _PROBLEM_DOUBTS:
                self._doubt(link, _PROBLEM_DOUBTS[problem.kind])
        if frame.sync == RESYNC and "start" not in link.record.doubts:
            self._doubt(link, "weak_sync")

    def _doubt(self, link: ConnectionState, word: str) -> None:
        if word not in link.record.doubts:
            link.record.doubts.add(word)
            self.changed_streams.add(link.record.stream)

    # -- the commands of which traffic consists

    def _send(self, link: ConnectionState, facts: Facts) -> None:
        self._message(link, facts)
        if facts.system or link.is_leg:
            return
        sends = link.sends
        if sends is None:
            sends = link.sends = link.exchange(SEND)
        sends.asked += 1
        if facts.peer is not link.producer and isinstance(facts.peer, Producer):
            link.producer = facts.peer
            _keep(link, facts.peer)

    def _receipt(self, link: ConnectionState, facts: Facts) -> None:
        if not (facts.system or link.is_leg):
            receipt(link, facts)

    def _message(self, link: ConnectionState, facts: Facts) -> None:
        peer = facts.peer
        if link.record.midstream and not (link.nameless or facts.system) and (peer is None or not peer.topic):
            link.nameless = True
            self._capture.midstream += 1
        frame = facts.frame
        if frame.length > link.limit:
            check_size(link, facts)
        if frame.checksum != "good":
            check_checksum(link, facts)

    def _ack(self, link: ConnectionState, facts: Facts) -> None:
        hot = facts.hot
        if (hot is None or hot[3] >= 0) and not (facts.system or link.is_leg):
            ask(link, facts)

    def _flow(self, _link: ConnectionState, _facts: Facts) -> None:
        """Nothing is kept of it here."""

    # -- everything else

    def _see_other(self, link: ConnectionState, facts: Facts) -> None:
        frame = facts.frame
        check_size(link, facts)
        handshake.spoke(link, facts)
        if link.fresh and frame.from_client and frame.type not in _LOGIN:
            link.fresh = False
            link.is_leg = self._proxied.first(link, facts)
        self._learn_whose(link, facts)
        step = _STEPS.get(frame.type)
        if step is not None:
            step(self, link, facts)
        if facts.system or link.is_leg:
            return
        if frame.type in ANSWERS:
            answer(link, facts)
            self._denied(link, facts)
        ask(link, facts)

    def _learn_whose(self, link: ConnectionState, facts: Facts) -> None:
        """Whether it is a connection of the broker's own client; also of what it has carried before."""
        if not facts.system:
            if facts.frame.type in _OPENINGS:
                link.application, link.record.system = True, False
        elif not (link.application or link.record.system):
            link.record.system = True
            self._capture.midstream -= link.nameless

    def _connect(self, link: ConnectionState, facts: Facts) -> None:
        handshake.connect(link, facts)
        self._proxied.connect(link, facts)
        self._hosts.attempt(link.record, facts.frame.time_ns, facts.frame.number)

    def _denied(self, link: ConnectionState, facts: Facts) -> None:
        error, message = error_of(facts)
        if error:
            command = name_of(facts.request.type) if facts.request is not None else ""
            frames = (facts.request_number, facts.frame.number)
            self._hosts.denied(link.record, facts.frame.time_ns, frames, command, error, message)

    def _lookup_response(self, link: ConnectionState, facts: Facts) -> None:
        redirected = facts.command.get("pulsar.lookupTopicResponse.response") == "Redirect" and not facts.system
        if redirected and facts.request is not None:
            frames = (facts.request_number, facts.frame.number)
            self._hosts.redirected(link.record, facts.frame.time_ns, frames, str(facts.request.topic))

    # -- what the capture says

    def note(self, note: Note) -> int:
        """Take in a note; the number of the stream whose records are in doubt now, else -1."""
        stream = note.stream
        link = None if stream is None else self._table.get(stream.number)
        if link is None and stream is not None and note.kind in OPENING:
            link = self._table.add(stream, self._capture.last_ns)
        word = take_note(self._capture, self._non_pulsar, link, note)
        if word is None or link is None:
            return -1
        if word != NAMELESS:
            link.record.doubts.add(word)
        return link.record.stream

    def doubts_of(self, stream: int) -> set[str]:
        """What was not seen of a connection; a copy."""
        link = self._table.get(stream)
        return set() if link is None else set(link.record.doubts)

    # -- ends

    def ended(self, end: StreamEnd) -> None:
        """A TCP connection has ended."""
        self._capture.packets = max(self._capture.packets, end.packet)
        link = self._table.get(end.stream.number)
        if link is None:
            if end.refused:
                self._hosts.refused(end)
        elif not link.record.end:
            self._end(link, handshake.end_word(link, end), end.time_ns)

    def _end(self, link: ConnectionState, word: str, time_ns: int) -> None:
        record = link.record
        record.end, record.ended_ns = word, time_ns
        self._table.ended(link)
        self._watchers.forget(record)
        self._judge_ways(link)
        recount(link, time_ns)
        if record.kind == "pulsar" and not record.system:
            self._hosts.ended(record)
        if record.first_frame and not link.is_leg:
            self._on_end(record.stream, word, time_ns, record.last_frame)

    def _judge_ways(self, link: ConnectionState) -> None:
        """Of a connection that began before, a side that never spoke may not be in the capture."""
        record = link.record
        fewer, more = sorted((record.client_frames, record.broker_frames))
        if record.midstream and more and not fewer:
            self._doubt(link, "one_way")
            self._capture.one_way += more >= _ONE_WAY

    def finish(self, now_ns: int) -> None:
        """The capture is over: connections that are open have not ended, but no more is known of them."""
        for link in self._table:
            if not link.record.end:
                self._judge_ways(link)
                self._doubt(link, "end")
                recount(link, now_ns)

    def records(self) -> Iterator[tuple[str, Any]]:
        """Every connection, host and exchange, with the name of its group."""
        for link in self._table:
            record = link.record
            if not record.end:
                recount(link, self._capture.last_ns)
            if record.kind == "pulsar" or record.first_bytes:
                yield "connection", record
            if not record.system:
                for exchange in link.exchanges.values():
                    yield "exchange", exchange
        for host in self._hosts.records.values():
            yield "host", host


def _keep(link: ConnectionState, producer: Producer) -> None:
    """Remember a producer for its open SENDs; of too many those without any go."""
    link.producers[producer] = None
    if len(link.producers) > MAX_OPEN:
        link.producers = {one: None for one in link.producers if one.sends}


_LOGIN: Final = frozenset(BY_NAME[name].number for name in ("CONNECT", "AUTH_RESPONSE", "PING", "PONG"))
_CONNECT: Final = BY_NAME["CONNECT"].number
_OPENINGS: Final = frozenset(BY_NAME[name].number for name in ("PRODUCER", "SUBSCRIBE"))

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
        ("CONNECTED", lambda _, link, facts: handshake.connected(link, facts)),
        ("AUTH_CHALLENGE", lambda _, link, facts: handshake.auth_challenge(link, facts)),
        ("AUTH_RESPONSE", lambda _, link, facts: handshake.auth_response(link, facts)),
        ("ERROR", lambda _, link, facts: handshake.error(link, facts)),
        ("PING", lambda _, link, facts: handshake.ping(link, facts)),
        ("LOOKUP_RESPONSE", ConnectionTracker._lookup_response),
        ("CONSUMER_STATS", lambda _, link, facts: deprecated(link, facts, "CONSUMER_STATS")),
        ("SUBSCRIBE", lambda links, link, facts: links._watchers.subscribe(link, facts)),
        ("WATCH_TOPIC_LIST", lambda links, link, facts: links._watchers.watch(link, facts)),
        ("WATCH_TOPIC_LIST_SUCCESS", lambda links, link, facts: links._watchers.success(link, facts)),
        ("WATCH_TOPIC_UPDATE", lambda links, link, facts: links._watchers.update(link, facts)),
        ("WATCH_TOPIC_LIST_CLOSE", lambda links, link, facts: links._watchers.close(link, facts)),
    )
}
