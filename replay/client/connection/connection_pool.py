"""The connections that an engine has, and shares (ConnectionPool).

Rules of this file (ConnectionPool, 4.2.4)
1. A connection is known by the broker that it leads to, by where its socket goes, and by a number below
   ``connectionsPerBroker``; with 0 connections per broker nothing is shared. A handler draws its number once, a
   lookup each time.
2. Who asks for one that is being opened waits for it. One handshake each.
3. A connection that could not be opened, or is gone, is forgotten: the next one who asks opens another. A client that
   is closed opens nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.replay.client.actions import Connect
from pcli.replay.client.connection.client_connection import Link
from pcli.replay.client.connection.errors import Refusal

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

__all__ = ["Address", "Pool"]

Address = tuple[str, int]
"""Host and port."""


class Pool:
    """All connections of one engine."""

    def __init__(self, engine: ClientContext) -> None:
        self._engine = engine
        self._links: dict[tuple[Address, Address, int], Link] = {}
        self._opened = 0

    @property
    def links(self) -> list[Link]:
        """Those that live or are being opened, the oldest first."""
        return list(self._links.values())

    def any_index(self) -> int:
        """One of the connections to a broker, by chance (genRandomKeyToSelectCon)."""
        return int(self._engine.random() * self._engine.settings.connectionsPerBroker)

    def link_to(
        self,
        broker: Address,
        done: Callable[[Link | Refusal], None],
        *,
        through: Address | None = None,
        index: int | None = None,
    ) -> None:
        """A connection to this broker, ``through`` a proxy or straight; ``index``: the one to be used, None: any."""
        if self._engine.closed:
            done(Refusal("Closed", "the client is closed"))
            return
        if index is None:
            index = self.any_index()
        if self._engine.settings.connectionsPerBroker <= 0:
            index = self._opened
        place = (broker, through or broker, index)
        link = self._links.get(place)
        if link is None:
            link = self._open(place)
        link.when_ready(done)

    def _open(self, place: tuple[Address, Address, int]) -> Link:
        broker, socket, _ = place
        engine = self._engine
        target = f"{broker[0]}:{broker[1]}" if broker != socket else ""
        link = self._links[place] = Link(engine, self._opened, socket, target)
        self._opened += 1
        engine.actions.append(Connect(link, *socket, tls=engine.url.tls))
        return link

    def forget(self, link: Link) -> None:
        """It is gone."""
        self._links = {place: one for place, one in self._links.items() if one is not link}
