"""Two connections that carry one conversation: to a proxy, and from it to the broker.

Rules of this file
1. A Pulsar proxy is told by the client which broker is meant (CONNECT.proxy_to_broker_url), connects there while its
   client waits for CONNECTED, and from then on passes on bytes (ProxyConnection, DirectProxyHandler). A TCP proxy does
   so from the first byte: both CONNECTs are equal.
2. So the second leg begins its handshake within the first one's, comes from the host that the first one goes to (or
   goes where the url says), to another server; and the client's first frame behind the handshake is equal on both,
   the first leg's first. All of this must be so.
3. Some clients write a proxy_to_broker_url without any proxy (pulsar-rs): it proves nothing alone.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

__all__ = ["ProxiedConnections"]

_MAX_CLIENT_SIDES: Final = 256


class _ClientConnection:
    """A connection that may be the first leg: its CONNECT, and the frame behind its handshake."""

    __slots__ = ("connect", "first", "record")

    def __init__(self, record: ConnectionRecord, connect: bytes) -> None:
        self.record = record
        self.connect = connect
        self.first = b""


class ProxiedConnections:
    """Finds second legs."""

    def __init__(self) -> None:
        self._client_sides: dict[int, _ClientConnection] = {}
        """By stream; the oldest first."""
        self._candidates: dict[int, list[_ClientConnection]] = {}
        """What a connection may be the second leg of."""

    def connect(self, connection: ConnectionState, facts: Facts) -> None:
        """A CONNECT, whose record is filled."""
        record, data = connection.record, facts.frame.data
        suspects = [front for front in self._client_sides.values() if _may_be_proxied(front, record, data)]
        if suspects:
            self._candidates[record.stream] = suspects
        self._client_sides[record.stream] = _ClientConnection(record, data)
        if len(self._client_sides) > _MAX_CLIENT_SIDES:
            gone = next(iter(self._client_sides))
            del self._client_sides[gone]
            self._candidates.pop(gone, None)

    def first(self, connection: ConnectionState, facts: Facts) -> bool:
        """The client's first frame behind its CONNECT; whether it shows that this is a second leg."""
        record, data = connection.record, facts.frame.data
        for front in self._candidates.pop(record.stream, []):
            if front.first == data and front.record.other_leg is None:
                record.leg_of = front.record.stream
                record.other_leg, front.record.other_leg = front.record, record
                self._client_sides.pop(record.stream, None)
                return True
        if record.stream in self._client_sides:
            self._client_sides[record.stream].first = data
        return False


def _may_be_proxied(front: _ClientConnection, back: ConnectionRecord, connect: bytes) -> bool:
    """Whether a connection that begins now may be the second leg of another."""
    record = front.record
    if record.connected_ns >= 0 or record.server == back.server:
        return False
    url = record.proxy_to_broker_url.rpartition("/")[2]
    address = f"{back.server[0]}:{back.server[1]}"
    passes = record.server[0] == back.client[0] or url == address
    return passes and (bool(url) or front.connect == connect)
