"""Pairs of connections through a proxy: from the client to the proxy, and from the proxy to the broker.

Rules of this file
1. A client sends the broker's address to a Pulsar proxy (CONNECT.proxy_to_broker_url). The proxy connects to that
   broker before it sends CONNECTED to the client, and then forwards bytes (ProxyConnection, DirectProxyHandler). A TCP
   proxy forwards bytes from the start, so the CONNECTs on both connections are equal.
2. The proxy opened a connection if its handshake begins during the handshake of the client's connection, its
   destination is another server, and the frames after the handshake are equal on both connections and were captured on
   the client's connection first.
3. One frame is enough if its source is the host to which the client connected, or its destination is the address in the
   URL. Without this relation (a proxy with several addresses, a sidecar), all frames up to the first PRODUCER or
   SUBSCRIBE must be equal, and those of the broker must have been captured on the proxy's connection first. Two clients
   that send equal bytes to two brokers do not alternate in this way.
4. A proxy_to_broker_url alone proves nothing, because some clients (pulsar-rs) write it without a proxy.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.codec.wire.commands import BY_NAME

__all__ = ["ProxiedConnections", "pair_legs"]

_MAX_YOUNG: Final = 256
_MAX_FRAMES: Final = 64
"""Maximum number of frames of a connection before its first producer or consumer that are compared."""


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


class ProxiedConnections:
    """A detector of connections from a proxy to a broker."""

    def __init__(self) -> None:
        self._young: dict[int, _YoungConnection] = {}
        """Possible client connections by stream; the oldest first."""
        self._candidates: dict[int, list[_YoungConnection]] = {}
        """Possible client connections for each stream that a proxy may have opened."""

    def connect(self, connection: ConnectionState, facts: Facts) -> None:
        """Process a CONNECT after `handshake.connect`."""
        record, data = connection.record, facts.frame.data
        candidates = [front for front in self._young.values() if _may_be_proxied(front, record, data)]
        if candidates:
            self._candidates[record.stream] = candidates
        self._young[record.stream] = _YoungConnection(record, data)
        if len(self._young) > _MAX_YOUNG:
            oldest = next(iter(self._young))
            del self._young[oldest]
            self._candidates.pop(oldest, None)

    def see(self, connection: ConnectionState, facts: Facts) -> bool:
        """Process a frame after CONNECT, up to the first producer or consumer.

        Return whether it proves that a proxy opened the connection.
        """
        frame, young = facts.frame, self._young.get(connection.record.stream)
        if young is None:
            connection.after_connect = False
            return False
        if not frame.from_client:
            young.received.append(frame.data)
        elif frame.type not in _LOGIN:
            young.sent.append(frame.data)
            if self._is_proxied(young, last=frame.type in _OPENINGS):
                return True
        if frame.type in _OPENINGS or len(young.sent) + len(young.received) >= _MAX_FRAMES:
            connection.after_connect = False
            self._candidates.pop(connection.record.stream, None)
        return False

    def _is_proxied(self, back: _YoungConnection, *, last: bool) -> bool:
        """Return whether a proxy opened this connection. ``last`` is whether the decision is due."""
        record = back.record
        for front in self._candidates.get(record.stream, ()):
            near = _is_near(front.record, record)
            proven = front.sent[:1] == back.sent if near else last and front.precedes(back)
            if proven and front.record.other_leg is None:
                pair_legs(front.record, record)
                del self._young[record.stream], self._candidates[record.stream]
                return True
        return False


def pair_legs(first: ConnectionRecord, second: ConnectionRecord) -> None:
    """Record that a connection repeats another."""
    second.leg_of = first.stream
    second.other_leg, first.other_leg = first, second


def _may_be_proxied(front: _YoungConnection, back: ConnectionRecord, connect: bytes) -> bool:
    """Return whether the proxy of another connection may have opened a new connection."""
    record = front.record
    if record.connected_ns >= 0 or record.server == back.server:
        return False
    return front.connect == connect or (bool(record.proxy_to_broker_url) and _is_near(record, back))


def _is_near(front: ConnectionRecord, back: ConnectionRecord) -> bool:
    """Return whether the addresses show that a proxy of one connection may have opened the other."""
    url = front.proxy_to_broker_url.rpartition("/")[2]
    return front.server[0] == back.client[0] or url == f"{back.server[0]}:{back.server[1]}"


_LOGIN: Final = frozenset(BY_NAME[name].number for name in ("CONNECT", "AUTH_RESPONSE", "PING", "PONG"))
_OPENINGS: Final = frozenset(BY_NAME[name].number for name in ("PRODUCER", "SUBSCRIBE"))
