"""Addresses of brokers, and the address of each broker at the proxy.

Rules of this file
1. Each broker has an address at the proxy. For the broker in ``--to``, this address is the listener's address. Every
   other broker is assigned a port when a response first contains the broker's address. Every client therefore
   reconnects through the proxy, even after a redirect, the assignment of a different broker (PIP-307) or an HTTP
   lookup.
2. A client that supports ``proxy_through_service_url`` keeps using the listener and sends the proxy address in
   ``CONNECT.proxy_to_broker_url``. The broker never receives it: the field is removed, or set to the value that the
   client would send without the proxy.
3. An unknown address in that field is forwarded unchanged to the broker of the connection, which may be a Pulsar proxy.
   The proxy itself connects to no address that a client sends, and is therefore not an open relay.
4. A standalone broker that advertises a loopback address sets ``proxy_through_service_url``, because clients may reach
   it through a tunnel (TopicLookupBase). The advertised address is then the address of the broker itself. Other brokers
   that set this flag are reached through a Pulsar proxy, and their responses are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from pcli.codec.errors import LocalError
from pcli.replay.service_url import ServiceUrl


class BrokerAddresses:
    """The known brokers, and the address of each broker at the proxy."""

    def __init__(self, to: ServiceUrl, own: str, *, tls: bool, open_listener: Callable[[ServiceUrl], str]) -> None:
        """``own`` is the listener's ``host:port`` for the broker ``to``; ``tls`` is true if clients use TLS.

        ``open_listener`` opens a listener for a further broker and returns its ``host:port``, or an empty string.
        """
        self.tls = tls
        """Whether clients use TLS. If they do, their URLs are in the TLS fields."""
        self._own = own
        self._open = open_listener
        self._addresses = {to: own}
        self._brokers = {own: to}
        self._names: dict[ServiceUrl, str] = {}
        """Brokers that set ``proxy_through_service_url``, with their advertised ``host:port``."""

    def find(self, plain: str, tls: str, current: ServiceUrl, *, tunnel: bool = False) -> ServiceUrl | None:
        """Return the broker identified by the two URLs in a response from the broker ``current``.

        ``tunnel`` is the response's ``proxy_through_service_url``. Returns None if there is no valid URL, or if clients
        reach the broker through a Pulsar proxy (rule 4).
        """
        try:
            named = ServiceUrl.parse((tls if current.tls else plain) or tls or plain)
        except LocalError:
            return None
        if not tunnel:
            return current if _same(named, current) else named
        if not is_loopback(named.hosts[0][0]):
            return None
        self._names[current] = str(named).partition("://")[2]
        return current

    def url(self, broker: ServiceUrl) -> str:
        """Return the service URL of a broker at the proxy, or an empty string if no listener can be opened for it."""
        if broker not in self._addresses:
            own = self._open(broker)
            if not own:
                return ""
            self._addresses[broker] = own
            self._brokers[own] = broker
        return f"pulsar{'+ssl' if self.tls else ''}://{self._addresses[broker]}"

    def is_other_broker(self, broker: ServiceUrl) -> bool:
        """Return whether a broker differs from the listener's broker."""
        return self._addresses.get(broker) != self._own

    def resolve(self, name: str, current: ServiceUrl) -> tuple[ServiceUrl, str]:
        """Return the broker for the value of ``proxy_to_broker_url``, and the new value of that field."""
        broker = self._brokers.get(name.rpartition("://")[2])
        return (current, name) if broker is None else (broker, self._names.get(broker, ""))


def _same(named: ServiceUrl, current: ServiceUrl) -> bool:
    """Return whether a URL refers to the current broker, by its address or by a different loopback address."""
    host, port = named.hosts[0]
    loopback = is_loopback(host)
    return any(port == port_ and (host == host_ or (loopback and is_loopback(host_))) for host_, port_ in current.hosts)


def is_loopback(host: str) -> bool:
    """Return whether a host is an address of this host that other hosts cannot reach."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
