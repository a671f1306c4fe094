"""The connection of a consumer: SUBSCRIBE over each new link, and what becomes of it when it is refused.

Rules of this file (ConsumerImpl.connectionOpened, connectionFailed, isUnrecoverableError; 4.2.4)
1. Without a link, or when its SUBSCRIBE is refused, it is tried again while that may help and ``lookupTimeoutMs`` are
   not over since it was asked for; once it stood, for ever, unless the topic is gone. (Java's subscribeDeadline, of
   ``operationTimeoutMs``, decides nothing: what it lets pass is judged by connectionFailed all the same.)
2. One that was not answered in time is closed, lest it stands after all.
3. A consumer that was closed while its SUBSCRIBE was on its way closes the connection: nothing else makes the broker
   let go of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.replay.client.connection.client_connection import Link
from pcli.replay.client.connection.connection_handler import Handler, Kind, State
from pcli.replay.client.connection.errors import Refusal

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

__all__ = ["Subscription"]

_GONE: Final = ("TopicNotFound", "NotFound")
"""After these a subscription that stood is not tried again (isUnrecoverableError)."""


class Subscription(Handler):
    """Half of a consumer. ``created`` is told once that it stands, or why it never will."""

    kind: ClassVar[Kind] = "consumer"

    def __init__(self, engine: ClientContext, topic: str, created: Callable[[Any], None]) -> None:
        super().__init__(engine, topic)
        self.on_fault: Callable[[Refusal], None] | None = None
        """Called when what stood can't go on: the topic is gone."""
        self._created: Callable[[Any], None] | None = created
        self._deadline = engine.now + engine.settings.lookupTimeoutMs

    # -- to be filled ----------------------------------------------------------------------------------------------

    def prepare(self) -> int:
        """Forget what belongs to the link before; how many messages waited."""
        raise NotImplementedError

    def command(self, version: int) -> pb.CommandSubscribe:
        """SUBSCRIBE for a link of this protocol version."""
        raise NotImplementedError

    def begin(self, *, first: bool, waited: int) -> None:
        """It stands: ask for messages. ``waited``: how many were there before."""
        raise NotImplementedError

    def end(self, state: State) -> None:
        """Nothing is done any more; this is the state now."""
        raise NotImplementedError

    # -- the connection ----------------------------------------------------------------------------------------------

    @property
    def connected(self) -> Link | None:
        """The link, while the subscription stands."""
        return self.link if self.state is State.READY else None

    def opened(self, link: Link) -> None:
        """Subscribe."""
        waited = self.prepare()
        link.request(self.command(link.version), lambda answer: self._answered(link, answer, waited))

    def not_opened(self, refusal: Refusal) -> bool:
        """No link, or no subscription over it; True: given up."""
        hopeless = not refusal.retriable or self.engine.now >= self._deadline
        if hopeless and (self._created is not None or refusal.error in _GONE):
            self._fail(refusal)
            return True
        return False

    def _answered(self, link: Link, answer: Event | Refusal, waited: int) -> None:
        if not self.lives:
            link.close(Refusal("Disconnected", "a consumer was closed while it subscribed"))
        elif self.link is not link:
            return
        elif isinstance(answer, Refusal):
            self._refused(link, answer)
        else:
            self.ready()
            first = self._tell(self)
            self.begin(first=first, waited=waited)

    def _refused(self, link: Link, refusal: Refusal) -> None:
        if refusal.error == "TimeOut":
            link.request(pb.CommandCloseConsumer(consumer_id=self.number), lambda _: None)
        if not self.not_opened(refusal):
            self.lost()
            self.reconnect()

    def _fail(self, refusal: Refusal) -> None:
        self.end(State.FAILED)
        if not self._tell(refusal) and self.on_fault is not None:
            self.on_fault(refusal)

    def _tell(self, result: Subscription | Refusal) -> bool:
        """Tell whoever waits for the creation; whether somebody did."""
        created, self._created = self._created, None
        if created is None:
            return False
        created(result)
        return True
