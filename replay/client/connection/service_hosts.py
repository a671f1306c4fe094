"""The hosts of a service URL, one after the other (PulsarServiceNameResolver).

Rules of this file
1. A client begins with any of them, so that many clients spread, and goes on with the next each time it asks.
2. One that does not answer is asked again in its turn. The Java client keeps away from it for a minute and longer
   (``serviceUrlQuarantineInitDurationMs``), which nobody sees who has one host.
"""

from __future__ import annotations

from collections.abc import Callable

from pcli.codec.errors import LocalError
from pcli.replay.client.connection.errors import Refusal
from pcli.replay.service_url import ServiceUrl

__all__ = ["Hosts", "address_of"]


class Hosts:
    """Hosts in turn."""

    def __init__(self, hosts: tuple[tuple[str, int], ...], random: Callable[[], float]) -> None:
        self._hosts = hosts
        self._index = int(random() * len(hosts))

    def next(self) -> tuple[str, int]:
        """The host to ask now."""
        self._index = (self._index + 1) % len(self._hosts)
        return self._hosts[self._index]


def address_of(url: str) -> tuple[str, int] | Refusal:
    """Host and port of a broker's URL, as a broker named it."""
    try:
        return ServiceUrl.parse(url).hosts[0]
    except LocalError as fault:
        return Refusal("InvalidServiceURL", f"the broker names no address: {fault.text}")
