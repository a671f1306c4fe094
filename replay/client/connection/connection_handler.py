"""What producers, consumers and watchers have in common: a connection that is found, kept and found again.

Rules of this file (ConnectionHandler, HandlerState; 4.2.4)
1. A link is looked for at most once at a time, and only while the state is CONNECTING or READY.
2. When it is there, the handler is attached before `opened` is called, so that what the broker says at once finds it;
   each link is a new ``epoch``.
3. When it is lost: `lost`, then a new try after the back-off, which is reset when the registration went well.
4. A close by the broker is a loss of that handler alone. With an assigned broker the next try is at once and goes
   there without a lookup; without, it goes the usual way.
5. A topic that migrated is looked up in its new cluster.
6. One that finds no link any more because the engine is closed is closed too.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Literal

from pcli.codec.session import Event
from pcli.replay.client.backoff import Backoff
from pcli.replay.client.connection.client_connection import Link
from pcli.replay.client.connection.errors import Refusal

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext
    from pcli.replay.service_url import ServiceUrl

__all__ = ["Handler", "Kind", "State"]

Kind = Literal["producer", "consumer", "watcher"]


class State(Enum):
    """Where a handler stands (HandlerState.State)."""

    CONNECTING = "Connecting"
    READY = "Ready"
    CLOSING = "Closing"
    CLOSED = "Closed"
    TERMINATED = "Terminated"
    FAILED = "Failed"
    PRODUCER_FENCED = "ProducerFenced"


class Handler:
    """Something that lives on a connection to the broker of its topic."""

    kind: ClassVar[Kind]

    def __init__(self, engine: ClientContext, topic: str, *, stop_ms: int = 0) -> None:
        self.engine = engine
        self.topic = topic
        """Its full name."""
        self.number = engine.next_number(self.kind)
        """Its id on the wire."""
        self.state = State.CONNECTING
        self.link: Link | None = None
        """None: there is none at the moment."""
        self.cluster: ServiceUrl | None = None
        """The cluster that the topic has migrated to; None: it has not."""
        self.epoch = -1
        """How many links there were before this one; -1: not even one."""
        settings = engine.settings
        waits = settings.initialBackoffIntervalMs, settings.maxBackoffIntervalMs
        self.backoff = Backoff(*waits, stop_ms, engine.random)
        """``stop_ms``: its mandatory stop."""
        self._index = engine.pool.any_index()
        self._looking = False
        self._timer: Timer | None = None
        engine.handlers[self] = None

    # -- to be filled ----------------------------------------------------------------------------------------------

    def opened(self, link: Link) -> None:
        """A link is there: register (Java: connectionOpened)."""
        raise NotImplementedError

    def not_opened(self, refusal: Refusal) -> bool:
        """No link came to be (connectionFailed). True: no new try, it has given up."""
        raise NotImplementedError

    def received(self, event: Event) -> None:
        """A command came for it that answers nothing."""
        raise NotImplementedError

    def lost(self) -> None:
        """The link is gone, or the broker closed it; a new try is planned afterwards."""

    def close(self, done: Callable[[Refusal | None], None]) -> None:
        """Take leave of the broker and give up; ``done`` hears None, or why it did not go well."""
        raise NotImplementedError

    # -- offered ---------------------------------------------------------------------------------------------------

    @property
    def lives(self) -> bool:
        """Whether it may have a connection (isValidStateForReconnection)."""
        return self.state in (State.CONNECTING, State.READY)

    def start(self) -> None:
        """Look for a link; then `opened` or `not_opened`."""
        self._look("")

    def ready(self) -> None:
        """The broker has taken the registration."""
        self.backoff.reset()
        self.state = State.READY

    def reconnect(self, *, after_ms: int | None = None, assigned: str = "") -> None:
        """Give up the link and look for another: after this time or the back-off, at the assigned broker if named."""
        self._leave_link()
        if not self.lives:
            return
        self.state = State.CONNECTING
        if self._timer is not None:
            self._timer.cancel()
        engine = self.engine
        delay = self.backoff.next(engine.now) if after_ms is None else after_ms
        self._timer = engine.call_at(engine.now + delay, lambda: self._look(assigned))

    def give_up(self, state: State) -> None:
        """This is its state now, and it has no connection any more."""
        self.state = state
        self.engine.handlers.pop(self, None)
        self._leave_link()
        if self._timer is not None:
            self._timer.cancel()

    # -- what the link and the engine tell ---------------------------------------------------------------------------

    def link_lost(self, link: Link) -> None:
        """The connection is gone."""
        if self.link is link:
            self.lost()
            self.reconnect()

    def closed_by_broker(self, assigned: str) -> None:
        """CLOSE_PRODUCER or CLOSE_CONSUMER; ``assigned``: URL of the broker to go to, empty: none is named."""
        self.lost()
        self.reconnect(after_ms=0 if assigned else None, assigned=assigned)

    def _look(self, assigned: str) -> None:
        if self._looking or self.link is not None or not self.lives:
            return
        self._looking = True
        self.engine.link_for(self.topic, self._found, assigned=assigned, cluster=self.cluster, index=self._index)

    def _found(self, link: Link | Refusal) -> None:
        self._looking = False
        if not self.lives:
            return
        if isinstance(link, Link):
            self.link = link
            self.epoch += 1
            link.attach(self)
            self.opened(link)
        elif self.engine.closed:
            self.close(lambda _: None)
        elif not self.not_opened(link):
            self.reconnect()

    def _leave_link(self) -> None:
        if self.link is not None:
            self.link.detach(self)
            self.link = None
