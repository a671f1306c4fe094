"""What a client says before it is known which broker it means: its first frame.

Rules of this file
1. Nearly always that is CONNECT. What is no frame at all goes to the broker of the door as it is, which deals with it
   as it does without us; only of TLS and HTTP we know better where they belong.
2. A first frame that is larger than any CONNECT is not waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.capture.sniff import sniff
from pcli.replay.proxy.address_rewriting import rewritten_connect

if TYPE_CHECKING:
    from pcli.replay.proxy.broker_addresses import Doors
    from pcli.replay.service_url import ServiceUrl

__all__ = ["Opening"]

_LARGEST: Final = 1 << 20
"""Bytes of a first frame. Tokens and signed tickets have a few thousand."""
_STRANGERS: Final = {
    "tls": "speaks TLS; --listen-cert and --listen-key are for that",
    "http": "speaks HTTP; --http-listen is for that",
}


class Opening:
    """The first bytes of one client."""

    __slots__ = ("_asked", "_doors", "data")

    def __init__(self, doors: Doors, asked: ServiceUrl) -> None:
        self._doors = doors
        self._asked = asked
        self.data = bytearray()
        """All that has come; the caller adds to it."""

    @property
    def whole(self) -> bool:
        """Whether there is enough to go on with."""
        kind = self._kind
        return bool(kind) and (kind != "pulsar" or len(self.data) >= min(self._size, _LARGEST))

    @property
    def stranger(self) -> str:
        """What is wrong with a client of another protocol; empty: nothing."""
        return _STRANGERS.get(self._kind, "")

    def broker(self) -> ServiceUrl:
        """The broker that is meant; ``data`` is then what that is to get."""
        size = self._size
        if self._kind != "pulsar" or size > len(self.data):
            return self._asked
        self.data[:size], broker = rewritten_connect(bytes(self.data[:size]), self._doors, self._asked)
        return broker

    @property
    def _kind(self) -> str:
        return sniff(bytes(self.data[:4096]), final=False)

    @property
    def _size(self) -> int:
        return 4 + int.from_bytes(self.data[:4])
