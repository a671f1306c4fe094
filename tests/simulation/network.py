"""The simulated network: virtual time, the broker, and the connections of all clients.

Rules of this file
1. Time passes only in `run`. Events at the same time run in the order in which they were scheduled.
2. After each turn of the broker, its output is sent and the history and the checks of the turn are updated.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Protocol

from simulation.history import History
from simulation.links import Endpoint, Link

from pcli.minibroker.broker import Broker
from pcli.minibroker.settings import Settings

__all__ = ["START", "Network", "Timed"]

START = 1_700_000_000_000
_CONNECT_MS = 2


class Timed(Protocol):
    """A client with timers."""

    @property
    def deadline(self) -> int | None:
        """The time of its next timer, or None."""

    def advance(self) -> None:
        """Run the timers that are due."""


class Network:
    """One broker and its clients."""

    def __init__(self, settings: dict[str, Any], seed: int) -> None:
        self.now = START
        self.seed = seed
        self.links: list[Link] = []
        self.clients: list[Timed] = []
        self.refuses_until = 0
        """The time until which the broker accepts no connections."""
        self.broker = Broker(
            Settings(**settings), service_url="pulsar://127.0.0.1:6650", http_url="http://127.0.0.1:8080", now=START
        )
        self.history = History(self.broker)
        self.on_turn: Callable[[], None] = lambda: None
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0

    # -- time ----------------------------------------------------------------------------------------------------------

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Call a function at a time."""
        self._scheduled += 1
        heapq.heappush(self._queue, (max(time, self.now), self._scheduled, action))

    def run(self, milliseconds: int) -> None:
        """Advance the time."""
        end = self.now + milliseconds
        while (due := self._next_time()) <= end:
            self.now = max(self.now, due)
            self._run_due()
        self.now = end

    def _next_time(self) -> int:
        times = [self._queue[0][0]] if self._queue else []
        for one in (self.broker, *self.clients):
            deadline = one.deadline
            if deadline is not None:
                times.append(deadline)
        return min(times, default=1 << 62)

    def _run_due(self) -> None:
        while self._queue and self._queue[0][0] <= self.now:
            heapq.heappop(self._queue)[2]()
        deadline = self.broker.deadline
        if deadline is not None and deadline <= self.now:
            self.broker.advance(self.now)
            self.finish_turn()
        for client in list(self.clients):
            due = client.deadline
            if due is not None and due <= self.now:
                client.advance()

    # -- connections ---------------------------------------------------------------------------------------------------

    def connect(self, client: Endpoint, handle: Any) -> Link:
        """Open a connection of a client. The client is notified later."""
        link = Link(len(self.links), self, client, self, self.seed * 1009 + len(self.links))
        link.handle = handle
        self.links.append(link)
        link.client_open = True
        self.at(self.now + _CONNECT_MS, lambda: self._accept(link))
        return link

    def _accept(self, link: Link) -> None:
        if not link.client_open:
            return
        if self.now < self.refuses_until:
            link.client_open = False
            link.client.ended(link, "connection refused")
            return
        link.broker_connection = self.broker.connect(("10.0.0.1", 40000 + link.number % 20000), self.now)
        link.broker_connection.client_socket = link
        link.broker_open = True
        self.history.opened(link, self.now)
        self.finish_turn()
        link.client.opened(link)

    def live_links(self) -> list[Link]:
        """Return the connections that are open on both sides."""
        return [link for link in self.links if link.client_open and link.broker_open]

    # -- the broker ----------------------------------------------------------------------------------------------------

    def opened(self, link: Link) -> None:
        """Do nothing: the broker has accepted the connection."""

    def received(self, link: Link, data: bytes) -> None:
        """Process bytes of a client."""
        self.history.bytes_passed(link, data, self.now, from_client=True)
        self.broker.receive(link.broker_connection, data, self.now)
        self.finish_turn()

    def ended(self, link: Link, reason: str) -> None:
        """Release a connection whose socket was closed."""
        del reason
        self.history.closed(link, self.now, from_client=True)
        self.broker.disconnected(link.broker_connection, self.now)
        self.finish_turn()

    def change(self, action: Callable[[Broker], object]) -> None:
        """Run an administrative change as one turn of the broker."""
        self.broker.begin_turn(self.now)
        action(self.broker)
        self.broker.finish_turn()
        self.finish_turn()

    def finish_turn(self) -> None:
        """Send the output of the broker, and check the turn."""
        self.history.read_ledgers(self.now)
        while pieces := self.broker.drain():
            for connection, data in pieces:
                link: Link = connection.client_socket
                if link.broker_open:
                    self.history.bytes_passed(link, data, self.now, from_client=False)
                    link.write(data, from_client=False)
                    if connection.closing:
                        self.history.closed(link, self.now, from_client=False)
                        link.close(from_client=False)
            self.broker.finish_turn()
            self.history.read_ledgers(self.now)
        self.history.turn += 1
        self.on_turn()
