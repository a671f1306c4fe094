"""Addresses of brokers, and the address of each broker at the proxy.

Rules of this file
1. Each broker has an address at the proxy. For the broker in ``--to`` it is the listener itself; another broker gets a
   port of its own when a response first contains it. Every client therefore reconnects through the proxy, even after a
   redirect, an assigned broker (PIP-307) or an HTTP lookup.
2. A client that supports ``proxy_through_service_url`` stays on the listener and sends the proxy address in
   ``CONNECT.proxy_to_broker_url``. The broker never receives it: the field is removed, or set to the value that the
   client would send without the proxy.
3. An unknown address in that field is forwarded unchanged to the broker of the connection, which may be a Pulsar proxy.
   The proxy itself connects to no address that a client sends, so it is not an open relay.
4. A standalone broker that advertises a loopback address sets ``proxy_through_service_url``, because a tunnel may lead
   to it (TopicLookupBase): it means itself. Other brokers that set it are reached through a Pulsar proxy, and their
   responses are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from pcli.codec.errors import LocalError
from pcli.replay.service_url import ServiceUrl

__all__ = ["Doors"]


class Doors:
    """The known brokers, and the address of each at the proxy."""

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
        """Return the service URL for clients of a broker's proxy address; empty if it has none."""
        if broker not in self._doors:
            own = self._open(broker)
            if not own:
                return ""
            self._doors[broker] = own
            self._brokers[own] = broker
        return f"pulsar{'+ssl' if self.tls else ''}://{self._doors[broker]}"

    def apart(self, broker: ServiceUrl) -> bool:
        """Return whether a broker differs from the listener's broker."""
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
