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

_MAX_FRONTS: Final = 256


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
        self._fronts: dict[int, _ClientConnection] = {}
        """By stream; the oldest first."""
        self._suspects: dict[int, list[_ClientConnection]] = {}
        """What a connection may be the second leg of."""

    def connect(self, link: ConnectionState, facts: Facts) -> None:
        """A CONNECT, whose record is filled."""
        record, data = link.record, facts.frame.data
        suspects = [front for front in self._fronts.values() if _may_be(front, record, data)]
        if suspects:
            self._suspects[record.stream] = suspects
        self._fronts[record.stream] = _ClientConnection(record, data)
        if len(self._fronts) > _MAX_FRONTS:
            gone = next(iter(self._fronts))
            del self._fronts[gone]
            self._suspects.pop(gone, None)

    def first(self, link: ConnectionState, facts: Facts) -> bool:
        """The client's first frame behind its CONNECT; whether it shows that this is a second leg."""
        record, data = link.record, facts.frame.data
        for front in self._suspects.pop(record.stream, []):
            if front.first == data and front.record.other_leg is None:
                record.leg_of = front.record.stream
                record.other_leg, front.record.other_leg = front.record, record
                self._fronts.pop(record.stream, None)
                return True
        if record.stream in self._fronts:
            self._fronts[record.stream].first = data
        return False


def _may_be(front: _ClientConnection, back: ConnectionRecord, connect: bytes) -> bool:
    """Whether a connection that begins now may be the second leg of another."""
    record = front.record
    if record.connected_ns >= 0 or record.server == back.server:
        return False
    url = record.proxy_to_broker_url.rpartition("/")[2]
    address = f"{back.server[0]}:{back.server[1]}"
    passes = record.server[0] == back.client[0] or url == address
    return passes and (bool(url) or front.connect == connect)
