"""Pairs of connections through a proxy: from the client to the proxy, and from the proxy to the broker.

Rules of this file
1. A client sends the broker's address to a Pulsar proxy (CONNECT.proxy_to_broker_url). The proxy connects to that
   broker before it sends CONNECTED to the client, and then forwards bytes (ProxyConnection, DirectProxyHandler). A TCP
   proxy forwards bytes from the start, so the CONNECTs on both connections are equal.
2. The proxy opened a connection if four conditions are met. Its handshake begins during the handshake of the client's
   connection. Its source is the host to which the client connected, or its destination is the address in the URL. Its
   destination is another server. The first client frame after the handshake is equal on both connections and was
   captured on the client's connection first.
3. A proxy_to_broker_url alone proves nothing, because some clients (pulsar-rs) write it without a proxy.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

__all__ = ["ProxiedConnections"]

_MAX_CLIENT_SIDES: Final = 256


class _ClientConnection:
    """A connection that may be the client's: its CONNECT, and its first frame after the handshake."""

    __slots__ = ("connect", "first", "record")

    def __init__(self, record: ConnectionRecord, connect: bytes) -> None:
        self.record = record
        self.connect = connect
        self.first = b""


class ProxiedConnections:
    """A detector of connections from a proxy to a broker."""

    def __init__(self) -> None:
        self._client_sides: dict[int, _ClientConnection] = {}
        """Possible client connections by stream; the oldest first."""
        self._candidates: dict[int, list[_ClientConnection]] = {}
        """Possible client connections for each stream that a proxy may have opened."""

    def connect(self, connection: ConnectionState, facts: Facts) -> None:
        """Process a CONNECT after `handshake.connect`."""
        record, data = connection.record, facts.frame.data
        candidates = [front for front in self._client_sides.values() if _may_be_proxied(front, record, data)]
        if candidates:
            self._candidates[record.stream] = candidates
        self._client_sides[record.stream] = _ClientConnection(record, data)
        if len(self._client_sides) > _MAX_CLIENT_SIDES:
            oldest = next(iter(self._client_sides))
            del self._client_sides[oldest]
            self._candidates.pop(oldest, None)

    def first(self, connection: ConnectionState, facts: Facts) -> bool:
        """Process the client's first frame after CONNECT.

        Return whether it proves that a proxy opened the connection.
        """
        record, data = connection.record, facts.frame.data
        for front in self._candidates.pop(record.stream, []):
            if front.first == data and front.record.other_leg is None:
                record.leg_of = front.record.stream
                record.other_leg, front.record.other_leg = front.record, record
                self._client_sides.pop(record.stream, None)
                return True
        client = self._client_sides.get(record.stream)
        if client is not None:
            client.first = data
            if record.connected_ns >= 0:
                del self._client_sides[record.stream]  # its handshake is over, so no further proxy can have opened it
        return False


def _may_be_proxied(front: _ClientConnection, back: ConnectionRecord, connect: bytes) -> bool:
    """Return whether the proxy of another connection may have opened a new connection."""
    record = front.record
    if record.connected_ns >= 0 or record.server == back.server:
        return False
    url = record.proxy_to_broker_url.rpartition("/")[2]
    address = f"{back.server[0]}:{back.server[1]}"
    passes = record.server[0] == back.client[0] or url == address
    return passes and (bool(url) or front.connect == connect)
