"""A network of namespaces: a router between two hosts with applications and the broker, which drops or translates.

    broker, proxy (.1) -- uplink -- (.2) router (.129) -- bridge -- near (.130), far (.131)

The addresses are in 198.18.0.0/15 (RFC 2544). The router translates another address (.100) to that of the broker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final, Self

DIRECTIONS: Final = {"to broker": "ip saddr", "from broker": "ip daddr"}
"""What the router compares with the address of the far host, to drop the packets of a direction."""

_RULES: Final = """
table ip scenario {{
  chain losses {{ type filter hook forward priority 0; }}
  chain destinations {{ type nat hook prerouting priority -100; {dnat} }}
  chain sources {{ type nat hook postrouting priority 100; {snat} }}
}}
"""


class NetworkMissingError(Exception):
    """Namespaces cannot be created. The text is one line."""


@dataclass(frozen=True)
class Route:
    """The path of all packets between the applications and the broker."""

    point: str
    """Where packets are captured: on the side of the `clients`, on the side of the `broker`, or at `any` interface."""
    dnat: bool = False
    """Whether the applications connect to another address, which the router translates."""
    snat: bool = False
    """Whether the router replaces the addresses of the applications."""


class Network:
    """The namespaces of one scenario, during a ``with`` block."""

    def __init__(self, route: Route) -> None:
        """Raises NetworkMissingError if namespaces cannot be created."""
        self._route = route
        self._name, number = _new_namespace()
        self._net = f"198.18.{number}"
        self._outer = f"pcli{number}"
        """The broker's end of the uplink."""
        self.broker_address = f"{self._net}.1"
        self.address = f"{self._net}.100" if route.dnat else self.broker_address
        """The address of the broker for the applications."""
        try:
            self._build()
        except NetworkMissingError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the namespaces with their interfaces."""
        with suppress(NetworkMissingError):
            _run("ip", "link", "del", self._outer)  # the end of a namespace removes its interfaces later
        for name in (f"{self._name}-near", f"{self._name}-far", self._name):
            with suppress(NetworkMissingError):
                _run("ip", "netns", "del", name)

    def on_host(self, host: str) -> list[str]:
        """Return the start of a command line for a process on the host `near` or `far`."""
        return ["ip", "netns", "exec", f"{self._name}-{host}"]

    @property
    def capture_point(self) -> tuple[list[str], str]:
        """The start of the command line that captures, and the interface."""
        interface = {"clients": "bridge", "broker": "uplink", "any": "any"}[self._route.point]
        return ["ip", "netns", "exec", self._name], interface

    def drop(self, direction: str) -> None:
        """Drop the packets of the far host: `to broker`, `from broker`, or `both`."""
        for match in [DIRECTIONS[direction]] if direction in DIRECTIONS else DIRECTIONS.values():
            self._nft(f"add rule ip scenario losses {match} {self._net}.131 drop")

    def restore(self) -> None:
        """Drop nothing any more."""
        self._nft("flush chain ip scenario losses")

    def _build(self) -> None:
        name, net, outer = self._name, self._net, self._outer
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "uplink", "netns", name)
        _run("ip", "addr", "add", f"{net}.1/30", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        inside = ["ip", "-n", name]
        _run(*inside, "link", "add", "bridge", "type", "bridge")
        for host, number in (("near", 130), ("far", 131)):
            _run("ip", "netns", "add", f"{name}-{host}")
            peer = ("peer", "name", "eth0", "netns", f"{name}-{host}")
            _run(*inside, "link", "add", host, "type", "veth", *peer)
            _run(*inside, "link", "set", host, "master", "bridge", "up")
            of_host = ["ip", "-n", f"{name}-{host}"]
            _run(*of_host, "addr", "add", f"{net}.{number}/25", "dev", "eth0")
            for interface in ("lo", "eth0"):
                _run(*of_host, "link", "set", interface, "up")
            _run(*of_host, "route", "add", "default", "via", f"{net}.129")
        _run(*inside, "addr", "add", f"{net}.129/25", "dev", "bridge")
        _run(*inside, "addr", "add", f"{net}.2/30", "dev", "uplink")
        for interface in ("lo", "bridge", "uplink"):
            _run(*inside, "link", "set", interface, "up")
        _run("ip", "route", "add", f"{net}.128/25", "via", f"{net}.2")
        _run("ip", "netns", "exec", name, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        dnat = f"ip daddr {self.address} dnat to {self.broker_address};" if self._route.dnat else ""
        snat = 'oifname "uplink" masquerade;' if self._route.snat else ""
        self._nft(_RULES.format(dnat=dnat, snat=snat))

    def _nft(self, text: str) -> None:
        _run("ip", "netns", "exec", self._name, "nft", "-f", "-", text=text)


def _new_namespace() -> tuple[str, int]:
    """Create the namespace of a router; return its name and a number that no other running scenario has."""
    fault = ""
    for number in range(256):
        name = f"pcli-scenario-{number}"
        try:
            _run("ip", "netns", "add", name)
        except NetworkMissingError as error:
            fault = str(error)
            if "exists" not in fault:
                break
        else:
            return name, number
    raise NetworkMissingError(fault)


def _run(*command: str, text: str | None = None) -> None:
    process = subprocess.run(command, input=text, capture_output=True, text=True, timeout=20)
    if process.returncode:
        reason = process.stderr.strip().splitlines()
        raise NetworkMissingError(f"{' '.join(command)}: {reason[-1] if reason else 'failed'}")


@cache
def network_fault() -> str:
    """Return why networks cannot be created, or an empty string."""
    if os.geteuid() != 0:
        return "network namespaces require root"
    missing = [tool for tool in ("ip", "nft") if shutil.which(tool) is None]
    if missing:
        return f"{missing[0]} is not installed"
    try:
        Network(Route("any", dnat=True, snat=True)).close()
    except NetworkMissingError as fault:
        return str(fault)
    return ""
