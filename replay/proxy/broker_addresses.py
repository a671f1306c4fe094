"""Where each broker is found at the proxy: addresses of brokers, and the addresses of our own that stand for them.

Rules of this file
1. Every broker has a door, which is an address of the proxy. That of ``--to`` is the listener itself; another broker
   gets a port of its own when an answer names it for the first time. So every client comes back, also one that knows
   nothing of proxies, and by a redirect, an assigned broker (PIP-307) or an HTTP lookup.
2. A client that knows ``proxy_through_service_url`` stays at the one listener and names the door in
   ``CONNECT.proxy_to_broker_url``. The broker never sees that name: the field goes, or becomes what the client would
   have said without us.
3. A name that is no door's goes on, untouched, to the broker that the client is connected to: that may be a Pulsar
   proxy, which knows it. We ourselves connect to no address that a client names, so this is no open relay.
4. A standalone that calls itself by a loopback address says ``proxy_through_service_url``, because a tunnel may lead
   to it (TopicLookupBase): it means itself. Others that say so stand behind a Pulsar proxy, and are left to it.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from pcli.codec.errors import LocalError
from pcli.replay.service_url import ServiceUrl

__all__ = ["Doors"]


class Doors:
    """The brokers that are known, and the address of each at the proxy."""

    def __init__(self, to: ServiceUrl, own: str, *, tls: bool, open_door: Callable[[ServiceUrl], str]) -> None:
        """``own``: ``host:port`` of the listener, which leads to ``to``; ``tls``: whether clients speak TLS to us.

        ``open_door`` begins to listen for another broker, and says where: ``host:port``; empty: it can't.
        """
        self.tls = tls
        """Whether clients speak TLS to us, so that URLs for them stand in the fields for TLS."""
        self._own = own
        self._open = open_door
        self._doors = {to: own}
        self._brokers = {own: to}
        self._names: dict[ServiceUrl, str] = {}
        """What brokers call themselves that guess a tunnel: ``host:port``."""

    def find(self, plain: str, tls: str, asked: ServiceUrl, *, tunnel: bool = False) -> ServiceUrl | None:
        """The broker that the two URLs of an answer name; ``asked`` is who gave the answer.

        ``tunnel``: it said ``proxy_through_service_url``. None: they name nobody, or somebody who is not our business.
        """
        try:
            named = ServiceUrl.parse((tls if asked.tls else plain) or tls or plain)
        except LocalError:
            return None
        if not tunnel:
            return asked if _same(named, asked) else named
        if not _is_loopback(named.hosts[0][0]):
            return None
        self._names[asked] = str(named).partition("://")[2]
        return asked

    def url(self, broker: ServiceUrl) -> str:
        """The service URL of a broker's door, for clients; empty when there can be none."""
        if broker not in self._doors:
            own = self._open(broker)
            if not own:
                return ""
            self._doors[broker] = own
            self._brokers[own] = broker
        return f"pulsar{'+ssl' if self.tls else ''}://{self._doors[broker]}"

    def apart(self, broker: ServiceUrl) -> bool:
        """Whether a broker is another one than that of the listener."""
        return self._doors.get(broker) != self._own

    def meant(self, name: str, asked: ServiceUrl) -> tuple[ServiceUrl, str]:
        """The broker that ``proxy_to_broker_url`` names to the door of ``asked``, and what the field becomes."""
        broker = self._brokers.get(name.rpartition("://")[2])
        return (asked, name) if broker is None else (broker, self._names.get(broker, ""))


def _same(named: ServiceUrl, asked: ServiceUrl) -> bool:
    """Whether who was asked has named itself: by the same word, or by another one for this machine."""
    host, port = named.hosts[0]
    loopback = _is_loopback(host)
    return any(port == port_ and (host == host_ or (loopback and _is_loopback(host_))) for host_, port_ in asked.hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
