"""A watcher of the topics of a namespace: the broker says which ones come and go (TopicListWatcher).

Rules of this file (TopicListWatcher, PIP-145; 4.2.4)
1. It lives on the broker of a topic named like the pattern; its link is found and found again like everybody's.
2. A broker without ``supports_topic_watchers`` ends it (NotAllowed): then only asking again and again helps.
3. A registration that fails is tried again while that may help and ``operationTimeoutMs`` are not over, and for ever
   once it had been registered. Finding no link is tried again for ever.
4. Each registration names the hash of what is known by then, and its answer says what changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.replay.client.connection.client_connection import Link
from pcli.replay.client.connection.connection_handler import Handler, Kind, State
from pcli.replay.client.connection.errors import Refusal

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

__all__ = ["TopicListWatcher"]

Listed = Callable[[pb.CommandWatchTopicListSuccess], None]


class TopicListWatcher(Handler):
    """Watches what matches a pattern. `start` begins, ``done`` hears once whether it was registered."""

    kind: ClassVar[Kind] = "watcher"

    def __init__(
        self,
        engine: ClientContext,
        namespace: str,
        pattern: str,
        *,
        known_hash: Callable[[], str],
        on_list: Listed,
        on_update: Callable[[pb.CommandWatchTopicUpdate], None],
        done: Callable[[TopicListWatcher | Refusal], None],
    ) -> None:
        super().__init__(engine, pattern)
        self._namespace = namespace
        self._pattern = pattern
        self._known_hash = known_hash
        self._on_list = on_list
        self._on_update = on_update
        self._done: Callable[[TopicListWatcher | Refusal], None] | None = done
        self._deadline: int | None = None

    def opened(self, link: Link) -> None:
        """Register."""
        if not link.features.supports_topic_watchers:
            self.give_up(State.CLOSED)
            self._tell(Refusal("NotAllowed", "the broker does not evaluate patterns"))
            return
        if self._deadline is None:
            self._deadline = self.engine.now + self.engine.settings.operationTimeoutMs
        self._ask(link, self._registered)

    def _ask(self, link: Link, done: Callable[[Event | Refusal], None]) -> None:
        body = pb.CommandWatchTopicList(watcher_id=self.number, namespace=self._namespace, topics_pattern=self._pattern)
        known = self._known_hash()
        if known:
            body.topics_hash = known
        link.request(body, done)

    def _registered(self, answer: Event | Refusal) -> None:
        if not self.lives:
            return
        if isinstance(answer, Event):
            self.ready()
            self._on_list(answer.body)
            self._tell(self)
        elif self.link is None:
            return  # the link was lost: a new try is planned already
        elif self._done is None or (answer.retriable and self.engine.now < (self._deadline or 0)):
            self.reconnect()
        else:
            self.give_up(State.FAILED)
            self._tell(answer)

    def not_opened(self, refusal: Refusal) -> bool:
        """No link; given up when no second try helps and it was never registered."""
        if refusal.retriable or self._done is None:
            return False
        self.give_up(State.FAILED)
        self._tell(refusal)
        return True

    def received(self, event: Event) -> None:
        """WATCH_TOPIC_UPDATE."""
        self._on_update(event.body)

    @property
    def can_reconcile(self) -> bool:
        """Whether `reconcile` may be used now."""
        return (
            self.state is State.READY and self.link is not None and self.link.features.supports_topic_watcher_reconcile
        )

    def reconcile(self, done: Callable[[pb.CommandWatchTopicListSuccess | Refusal], None]) -> None:
        """Ask once more what changed since the known hash; only while `can_reconcile`."""
        assert self.link is not None
        self._ask(self.link, lambda answer: done(answer if isinstance(answer, Refusal) else answer.body))

    def close(self, done: Callable[[Refusal | None], None]) -> None:
        """Say that it watches no more."""
        link, ready = self.link, self.state is State.READY
        self.give_up(State.CLOSED)
        if link is None or not ready:
            done(None)
        else:
            body = pb.CommandWatchTopicListClose(watcher_id=self.number)
            link.request(body, lambda answer: done(answer if isinstance(answer, Refusal) else None))

    def _tell(self, result: TopicListWatcher | Refusal) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(result)
