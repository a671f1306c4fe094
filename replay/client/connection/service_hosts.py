"""The hosts of a service URL in rotation (PulsarServiceNameResolver).

Rules of this file
1. A client starts with a random host, to spread the load, and uses the next host for each request.
2. A host that does not respond remains in the rotation. The Java client skips it for at least a minute
   (``serviceUrlQuarantineInitDurationMs``). If there is only one host, this makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable

from pcli.codec.errors import LocalError
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.service_url import ServiceUrl

__all__ = ["ServiceHosts", "address_of"]


class ServiceHosts:
    """The hosts of a service URL in rotation."""

    def __init__(self, hosts: tuple[tuple[str, int], ...], random: Callable[[], float]) -> None:
        self._hosts = hosts
        self._index = int(random() * len(hosts))

    def next(self) -> tuple[str, int]:
        """Return the next host."""
        self._index = (self._index + 1) % len(self._hosts)
        return self._hosts[self._index]


def address_of(url: str) -> tuple[str, int] | ClientFailure:
    """Return host and port from a broker's service URL."""
    try:
        return ServiceUrl.parse(url).hosts[0]
    except LocalError as fault:
        return ClientFailure("InvalidServiceURL", f"the broker's response contains no address: {fault.text}")
