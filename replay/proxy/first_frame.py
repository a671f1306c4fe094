"""The first frame of a client, which determines its broker.

Rules of this file
1. The first frame is normally CONNECT. Bytes that are not a frame are passed unchanged to the address's broker, which
   handles them as without a proxy. For TLS and HTTP the proxy reports the right port.
2. A first frame that is larger than any CONNECT is forwarded before it is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.capture.stream_kind_by_bytes import sniff
from pcli.replay.proxy.address_rewriting import rewritten_connect

if TYPE_CHECKING:
    from pcli.replay.proxy.broker_addresses import BrokerAddresses
    from pcli.replay.service_url import ServiceUrl

__all__ = ["FirstFrame"]

_LARGEST: Final = 1 << 20
"""Maximum bytes of a first frame. Tokens and signed tickets have a few thousand bytes."""
_OTHER_PROTOCOLS: Final = {
    "tls": "uses TLS: give --listen-cert and --listen-key",
    "http": "uses HTTP: give --http-listen",
}


class FirstFrame:
    """The first bytes of one client."""

    __slots__ = ("_addresses", "_current", "data")

    def __init__(self, addresses: BrokerAddresses, current: ServiceUrl) -> None:
        self._addresses = addresses
        self._current = current
        self.data = bytearray()
        """The received bytes; the caller appends to it."""

    @property
    def complete(self) -> bool:
        """Whether the bytes suffice to choose the broker."""
        kind = self._kind
        return bool(kind) and (kind != "pulsar" or len(self.data) >= min(self._size, _LARGEST))

    @property
    def wrong_protocol(self) -> str:
        """The note for a client with another protocol, or empty."""
        return _OTHER_PROTOCOLS.get(self._kind, "")

    def broker(self) -> ServiceUrl:
        """Return the client's broker, and set ``data`` to the bytes for it."""
        size = self._size
        if self._kind != "pulsar" or size > len(self.data):
            return self._current
        self.data[:size], broker = rewritten_connect(bytes(self.data[:size]), self._addresses, self._current)
        return broker

    @property
    def _kind(self) -> str:
        return sniff(bytes(self.data[:4096]), final=False)

    @property
    def _size(self) -> int:
        return 4 + int.from_bytes(self.data[:4])
