"""The first frame from a client. It determines the client's broker.

Rules of this file
1. The first frame is normally CONNECT. Bytes that are not a frame are passed unchanged to the listener's broker, which
   processes them as it would without a proxy. If the client uses TLS or HTTP, a note states the remedy.
2. A first frame that is larger than any CONNECT is forwarded before it is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.capture.stream_kind_by_bytes import sniff
from pcli.replay.proxy.address_rewriting import rewritten_connect

if TYPE_CHECKING:
    from pcli.replay.proxy.broker_addresses import BrokerAddresses
    from pcli.replay.service_url import ServiceUrl

_LARGEST: Final = 1 << 20
"""Maximum size of a first frame in bytes. Tokens and signed tickets contain a few thousand bytes."""
_OTHER_PROTOCOLS: Final = {
    "tls": "uses TLS: give --listen-cert and --listen-key",
    "http": "uses HTTP: give --http-listen",
}


class FirstFrame:
    """The first bytes of one client."""

    def __init__(self, addresses: BrokerAddresses, current: ServiceUrl) -> None:
        self._addresses = addresses
        self._current = current
        self.data = bytearray()
        """The received bytes. The caller appends to them."""

    @property
    def complete(self) -> bool:
        """Whether the bytes suffice to choose the broker."""
        kind = self._kind
        return bool(kind) and (kind != "pulsar" or len(self.data) >= min(self._size, _LARGEST))

    @property
    def wrong_protocol(self) -> str:
        """The note about a client that uses a different protocol, or an empty string."""
        return _OTHER_PROTOCOLS.get(self._kind, "")

    def broker(self) -> ServiceUrl:
        """Return the client's broker, and set ``data`` to the bytes to send to it."""
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
