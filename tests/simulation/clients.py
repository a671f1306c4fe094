"""Clients of the simulated network.

Rules of this file
1. A client runs its engine (pcli.replay.client) without sockets: each input is one turn, and its actions are executed
   at the end of the turn.
2. A paused client processes nothing until the pause ends; then it processes what has arrived. A crashed client is
   replaced by a new engine after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from simulation.links import Link
from simulation.network import Network

from pcli.replay.client.actions import Connect, Disconnect, Write
from pcli.replay.client.engine import Engine
from pcli.replay.client.settings import ClientSettings
from pcli.replay.service_url import ServiceUrl

_URL = ServiceUrl.parse("pulsar://127.0.0.1:6650")
_SETTINGS = ClientSettings(maxBackoffIntervalMs=5000)


class Client:
    """One client process with its applications."""

    def __init__(self, network: Network, number: int) -> None:
        self.network = network
        self.random = Random(network.seed * 7919 + number)
        self.paused_until = 0
        self.failures: list[Exception] = []
        """Exceptions of the engine, which are bugs."""
        self.on_start: list[Callable[[], None]] = []
        """Functions of the applications, called after each start of the process."""
        self.down = False
        self._links: dict[Any, Link] = {}
        self._start()
        network.clients.append(self)

    def _start(self) -> None:
        self.down = False
        self.engine = Engine(_URL, _SETTINGS, now=self.network.now, random=self.random.random)

    # -- time ----------------------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> int | None:
        """The time of the next timer, or the end of the pause, or None."""
        if self.down:
            return None
        due = self.engine.deadline
        return due if due is None else max(due, self.paused_until)

    def advance(self) -> None:
        """Run the timers that are due."""
        self.turn(lambda: None)

    def turn(self, action: Callable[[], object]) -> None:
        """Run one turn of the engine."""
        if self.down:
            return
        try:
            self.engine.advance(self.network.now)
            action()
            self._flush()
        except Exception as fault:
            self.failures.append(fault)

    def pause(self, milliseconds: int) -> None:
        """Process nothing for a time."""
        self.paused_until = self.network.now + milliseconds
        for link in self._links.values():
            link.to_client.hold(self.paused_until)

    def crash(self, after_ms: int) -> None:
        """End the process without closing anything, and start it again after a time."""
        self.down = True
        links, self._links = self._links, {}
        for link in links.values():
            link.client_open = False
            self.network.at(self.network.now + link.random.randrange(50), lambda link=link: link.cut(client=False))
        self.network.at(self.network.now + after_ms, self._restart)

    def _restart(self) -> None:
        if self.down:
            self._start()
            for action in self.on_start:
                action()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        while actions := self.engine.take():
            for action in actions:
                match action:
                    case Connect(connection):
                        self._links[connection] = self.network.connect(self, (self.engine, connection))
                    case Write(connection, data) if connection in self._links:
                        self._links[connection].write(data, from_client=True)
                    case Disconnect(connection) if connection in self._links:
                        self._links.pop(connection).close(from_client=True)

    def opened(self, link: Link) -> None:
        """Start the handshake."""
        self._report(link, lambda connection, now: self.engine.connected(connection, now))

    def received(self, link: Link, data: bytes) -> None:
        """Process bytes of the broker."""
        self._report(link, lambda connection, now: self.engine.received(connection, data, now))

    def ended(self, link: Link, reason: str) -> None:
        """Handle the end of a connection."""
        self._links.pop(link.handle[1], None)
        self._report(link, lambda connection, now: self.engine.disconnected(connection, now, reason))

    def _report(self, link: Link, action: Callable[[Any, int], None]) -> None:
        engine, connection = link.handle
        if engine is self.engine:
            self.turn(lambda: action(connection, self.network.now))

    def live_links(self) -> list[Link]:
        """Return the client's open connections."""
        return [link for link in self._links.values() if link.client_open and link.broker_open]
