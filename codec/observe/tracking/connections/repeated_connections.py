"""Connections that repeat another connection of the capture, and whose messages are therefore counted once.

Rules of translations of addresses (DNAT, SNAT, load balancers)
1. A translation changes addresses and ports, but neither the sequence numbers of TCP nor the payload. Two connections
   are copies if their first sequence numbers agree in both directions, and if the first frame of one is among the first
   frames of the other, at most PATIENCE_NS earlier.
2. If a connection began before the capture, the first packets of its copies may be different packets. Its sequence
   numbers agree if they are close in both directions. The capture may begin between the two copies of a frame; then the
   next frame is first captured on the other connection, and the sequence numbers must suffice.
3. If the capture lacks a direction of one copy, the numbers of the other direction must be equal.
4. Random sequence numbers of two connections agree once in 2^32 pairs in one direction. Equal payloads alone prove
   nothing: clients of one application send equal bytes.

Rules of proxies, with one connection from the client to the proxy and one from the proxy to the broker
5. A client sends the broker's address to a Pulsar proxy (CONNECT.proxy_to_broker_url). The proxy connects to that
   broker before it sends CONNECTED to the client, and then forwards bytes (ProxyConnection, DirectProxyHandler). A TCP
   proxy forwards bytes from the start, so the CONNECTs on both connections are equal.
6. The proxy opened a connection if its handshake begins during the handshake of the client's connection, its
   destination is another server, and the frames after the handshake are equal on both connections and were captured on
   the client's connection first.
7. One frame is enough if its source is the host to which the client connected, or its destination is the address in the
   URL. Without this relation (a proxy with several addresses, a sidecar), all frames up to the first PRODUCER or
   SUBSCRIBE must be equal, and those of the broker must have been captured on the proxy's connection first. Two clients
   that send equal bytes to two brokers do not alternate in this way.
8. A proxy_to_broker_url alone proves nothing, because some clients (pulsar-rs) write it without a proxy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, cast
from zlib import crc32

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.capture.frames import Stream
from pcli.codec.observe.observer_state import Facts, ObservedFrame
from pcli.codec.observe.tracking.records.connection_records import MAX_CONNECTIONS, ConnectionRecord
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.texts import as_text

PATIENCE_NS: Final = 1_000_000_000
"""Maximum time in ns between the two captures of a frame."""

_MAX_CONNECTIONS: Final = 256
_MAX_FRAMES: Final = 64
"""Number of new connections, and of their first frames, that are kept for comparison."""

_MISALIGNED: Final = 2
"""Maximum number of frames of a connection before the capture contains frames of its copy."""

_HEAD: Final = 64
"""Number of bytes of a frame that are compared."""

_CLOSE: Final = 1 << 18
"""Maximum difference of the first sequence numbers of connections that began before the capture, in bytes."""

_PLACES: Final = (1 << 32) // _CLOSE

_New = tuple["Leg", Stream]
"""A connection whose first frames are kept."""


@dataclass(slots=True, eq=False, repr=False)
class Leg:
    """A connection that may repeat another."""

    record: ConnectionRecord
    is_new: bool = True
    """Whether the frames of the connection are compared with those of new connections."""
    first_frames: dict[int, int] = field(default_factory=dict)
    """The times of the first frames, by the values of `_key`."""
    after_connect: bool = False
    """Whether the frames since CONNECT are compared with those of a proxied connection."""
    repeats: bool = False
    """Whether the frames repeat the frames of another connection: a proxy opened this connection, or it is the same
    connection with translated addresses."""


class RepeatedConnections:
    """A detector of legs that repeat another leg."""

    def __init__(self) -> None:
        self._translated, self._proxied = _TranslatedConnections(), _ProxiedConnections()

    def begin(self, leg: Leg, frame: ObservedFrame) -> None:
        """Process the first frame of a leg."""
        original = self._translated.begin(leg, cast(Stream, frame.stream), frame)
        if original is not None:
            leg.repeats = leg.record.translated = True
            leg.is_new = False
            _pair_legs(original.record, leg.record)

    def add(self, leg: Leg, frame: ObservedFrame) -> None:
        """Process a frame of a leg with ``is_new``."""
        leg.first_frames.setdefault(_key(frame), frame.time_ns)
        if len(leg.first_frames) >= _MAX_FRAMES:
            leg.is_new = False

    def connect(self, leg: Leg, facts: Facts) -> None:
        """Process a CONNECT whose values are in the record."""
        leg.after_connect = True
        self._proxied.connect(leg, facts)

    def see(self, leg: Leg, facts: Facts) -> bool:
        """Process a frame of a leg with ``after_connect``. Return whether it proves that a proxy opened the leg."""
        if not self._proxied.see(leg, facts):
            return False
        leg.repeats, leg.after_connect = True, False
        return True


class RepeatDetector:
    """A detector for readers that do not track connections."""

    def __init__(self) -> None:
        self._connections = RepeatedConnections()
        self._legs: BoundedDict[int, Leg] = BoundedDict(MAX_CONNECTIONS)
        """Legs by stream; the most recently active leg is last."""
        self._stream: object = None
        self._leg = Leg(ConnectionRecord(-1, ("", 0), ("", 0)))

    @property
    def repeats(self) -> bool:
        """Whether the last frame repeats a frame of another connection."""
        return self._leg.repeats

    def needs(self, frame: ObservedFrame) -> bool:
        """Whether `see` must process this frame: the connection is still compared with others."""
        if frame.stream is not self._stream:
            self._select(frame)
        return self._leg.is_new or self._leg.after_connect

    def is_settled(self, stream: int) -> bool:
        """Whether `see` need not process the frequent frames of a connection, which is in use."""
        leg = self._legs.get(stream)
        if leg is None or leg.is_new or leg.after_connect:
            return False
        self._legs.move_to_end(stream)
        return True

    def see(self, facts: Facts) -> None:
        """Process a frame."""
        frame = facts.frame
        if frame.stream is not self._stream:
            self._select(frame)
        leg = self._leg
        if leg.is_new and not leg.repeats:
            self._connections.add(leg, frame)
        if frame.type == _CONNECT:
            leg.record.proxy_to_broker_url = as_text(frame.command.connect.proxy_to_broker_url)
            self._connections.connect(leg, facts)
        elif leg.after_connect:
            if frame.type == _CONNECTED:
                leg.record.connected_ns = frame.time_ns
            self._connections.see(leg, facts)

    def repeated(self) -> Iterator[ConnectionRecord]:
        """Yield the records of the connections that repeat others."""
        yield from (leg.record for leg in self._legs.values() if leg.repeats)

    def _select(self, frame: ObservedFrame) -> None:
        self._stream = stream = frame.stream
        leg = self._legs.get(stream.number)
        if leg is None:
            record = ConnectionRecord(stream.number, stream.client, stream.server)
            record.first_ns = frame.time_ns
            leg = self._legs[stream.number] = Leg(record)
            self._connections.begin(leg, frame)
        self._legs.move_to_end(stream.number)
        self._leg = leg


class _TranslatedConnections:
    """A detector of connections that repeat another connection."""

    def __init__(self) -> None:
        self._new: OrderedDict[int, _New] = OrderedDict()
        """The last new connections by number."""
        self._exact: dict[int, _New] = {}
        """The last of them with each sequence number of the client, if the capture contains its SYN."""
        self._close: dict[int, _New] = {}
        """The others, by number."""

    def begin(self, leg: Leg, stream: Stream, frame: ObservedFrame) -> Leg | None:
        """Process the first frame of a connection. Return the connection that it repeats, or None."""
        key, base = _key(frame), stream.bases[0]
        exact = base >= 0 and not stream.midstream
        near = (self._exact.get(base), *self._close.values()) if exact else self._new.values()
        for known in filter(None, reversed(tuple(near))):
            other, its_stream = known
            frames = other.first_frames
            time_ns = frames.get(key, -PATIENCE_NS)
            if len(frames) <= _MISALIGNED and its_stream.midstream and stream.midstream and -1 not in stream.bases:
                time_ns = max(time_ns, other.record.first_ns)
            if frame.time_ns - time_ns <= PATIENCE_NS and may_be_copies(its_stream, stream):
                return other
        new = self._new[stream.number] = leg, stream
        if exact:
            self._exact[base] = new
        else:
            self._close[stream.number] = new
        if len(self._new) > _MAX_CONNECTIONS:
            number, oldest = self._new.popitem(last=False)
            oldest[0].is_new, oldest[0].first_frames = False, {}
            self._close.pop(number, None)
            if self._exact.get(oldest[1].bases[0]) is oldest:
                del self._exact[oldest[1].bases[0]]
        return None


def _key(frame: ObservedFrame) -> int:
    """Return a number for the sender and the first bytes of a frame; the bytes would take three times the memory."""
    return crc32(frame.data[:_HEAD]) << 1 | frame.from_client


def may_be_copies(one: Stream, other: Stream) -> bool:
    """Return whether the sequence numbers of two connections between different addresses agree."""
    if (one.client, one.server) == (other.client, other.server):
        return False
    known = [
        (mine - its + 0x80000000 & 0xFFFFFFFF) - 0x80000000
        for mine, its in zip(one.bases, other.bases)
        if mine >= 0 and its >= 0
    ]
    close = _CLOSE if len(known) == 2 and (one.midstream or other.midstream) else 0
    return bool(known) and all(abs(distance) <= close for distance in known)


def possible_copies(streams: Iterable[Stream]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of pairs of connections whose sequence numbers agree.

    Of connections with equal sequence numbers, only the first one is paired with others, so that the number of pairs
    does not grow with the square of their number. The pairs, with those of connections between the same addresses and
    ports, therefore join the same connections as all pairs.
    """
    places: dict[tuple[int, int], list[Stream]] = {}
    known: set[tuple[int, ...]] = set()
    for stream in streams:
        kind = (*stream.bases, stream.midstream)
        is_first = kind not in known
        known.add(kind)
        for side, base in enumerate(stream.bases):
            place = base // _CLOSE
            if base >= 0:
                near = (one for shift in (-1, 0, 1) for one in places.get((side, (place + shift) % _PLACES), ()))
                yield from ((one.number, stream.number) for one in near if may_be_copies(one, stream))
                if is_first:
                    places.setdefault((side, place), []).append(stream)


class _YoungConnection:
    """A connection whose producers and consumers are not open yet: its CONNECT, and its frames after that."""

    __slots__ = ("connect", "received", "record", "sent")

    def __init__(self, record: ConnectionRecord, connect: bytes) -> None:
        self.record = record
        self.connect = connect
        self.sent: list[bytes] = []
        self.received: list[bytes] = []

    def precedes(self, back: _YoungConnection) -> bool:
        """Return whether all frames of a proxy's connection so far were captured on this side of it in the right order.

        The client's frames are captured first on this connection, the broker's on the other.
        """
        sent, received = self.sent[: len(back.sent)], back.received[: len(self.received)]
        return sent == back.sent and received == self.received != []


class _ProxiedConnections:
    """A detector of connections from a proxy to a broker."""

    def __init__(self) -> None:
        self._young: dict[int, _YoungConnection] = {}
        """Possible client connections by stream; the oldest first."""
        self._connecting: dict[int, _YoungConnection] = {}
        """Those that had no CONNECTED at the last CONNECT."""
        self._candidates: dict[int, list[_YoungConnection]] = {}
        """Possible client connections for each stream that a proxy may have opened."""

    def connect(self, leg: Leg, facts: Facts) -> None:
        """Process a CONNECT whose values are in the record."""
        record, data = leg.record, facts.frame.data
        self._connecting = {key: one for key, one in self._connecting.items() if one.record.connected_ns < 0}
        candidates = [front for front in self._connecting.values() if _may_be_proxied(front, record, data)]
        if candidates:
            self._candidates[record.stream] = candidates
        self._young[record.stream] = self._connecting[record.stream] = _YoungConnection(record, data)
        if len(self._young) > _MAX_CONNECTIONS:
            oldest = next(iter(self._young))
            del self._young[oldest]
            self._connecting.pop(oldest, None)
            self._candidates.pop(oldest, None)

    def see(self, leg: Leg, facts: Facts) -> bool:
        """Process a frame after CONNECT, up to the first producer or consumer.

        Return whether it proves that a proxy opened the connection.
        """
        frame, young = facts.frame, self._young.get(leg.record.stream)
        if young is None:
            leg.after_connect = False
            return False
        if not frame.from_client:
            young.received.append(frame.data)
        elif frame.type not in _LOGIN:
            young.sent.append(frame.data)
            if self._is_proxied(young, last=frame.type in _OPENINGS):
                return True
        if frame.type in _OPENINGS or len(young.sent) + len(young.received) >= _MAX_FRAMES:
            leg.after_connect = False
            self._candidates.pop(leg.record.stream, None)
        return False

    def _is_proxied(self, back: _YoungConnection, *, last: bool) -> bool:
        """Return whether a proxy opened this connection. ``last`` is whether the decision is due."""
        record = back.record
        for front in self._candidates.get(record.stream, ()):
            near = _is_near(front.record, record)
            proven = front.sent[:1] == back.sent if near else last and front.precedes(back)
            if proven and front.record.other_leg is None:
                _pair_legs(front.record, record)
                del self._young[record.stream], self._candidates[record.stream]
                self._connecting.pop(record.stream, None)
                return True
        return False


def _pair_legs(first: ConnectionRecord, second: ConnectionRecord) -> None:
    """Record that a connection repeats another."""
    second.leg_of = first.stream
    second.other_leg, first.other_leg = first, second


def _may_be_proxied(front: _YoungConnection, back: ConnectionRecord, connect: bytes) -> bool:
    """Return whether the proxy of another connection, which has no CONNECTED yet, may have opened a new connection."""
    record = front.record
    if record.server == back.server:
        return False
    return front.connect == connect or (bool(record.proxy_to_broker_url) and _is_near(record, back))


def _is_near(front: ConnectionRecord, back: ConnectionRecord) -> bool:
    """Return whether the addresses show that a proxy of one connection may have opened the other."""
    url = front.proxy_to_broker_url.rpartition("/")[2]
    return front.server[0] == back.client[0] or url == f"{back.server[0]}:{back.server[1]}"


_CONNECT: Final = BY_NAME["CONNECT"].number
_CONNECTED: Final = BY_NAME["CONNECTED"].number
_LOGIN: Final = frozenset(BY_NAME[name].number for name in ("CONNECT", "AUTH_RESPONSE", "PING", "PONG"))
_OPENINGS: Final = frozenset(BY_NAME[name].number for name in ("PRODUCER", "SUBSCRIBE"))
