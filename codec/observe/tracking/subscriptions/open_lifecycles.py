"""All lives that go on, by topic; each leaves when nothing more is expected of it, or when there are too many.

Rules of this file
1. A life is settled when every subscription that the broker knows has acknowledged it; one of a non-persistent topic
   when LINGER newer ones have come.
2. Too many lives: the oldest leaves, whatever becomes of it, and is counted.
3. A consumer whose SUBSCRIBE was not seen has no topic. The ledger of its messages may tell it (a ledger belongs to one
   topic); else its lives are those of the topic with the empty name.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.observe.system_topics import is_system_topic
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState
from pcli.codec.wire.topic_name import TopicName

__all__ = ["LINGER", "MAX_LIVES", "OpenLifecycles", "full_name"]

MAX_LIVES: Final = 100_000
"""Lives in memory: some 150 MB, when each was delivered once."""

LINGER: Final = 1_000
"""Lives of a non-persistent topic in memory: nothing says that they are over."""


class OpenLifecycles:
    """The books of all topics."""

    def __init__(
        self,
        capture: CaptureRecord,
        on_life: Callable[[Lifecycle], None] | None,
        on_done: Callable[[str, Any], None] | None,
        max_lives: int,
    ) -> None:
        self.capture = capture
        self.on_done = on_done
        self.topics: dict[str, TopicState] = {}
        self.owners: dict[int, TopicState] = {}
        """Ledgers, and whose they are."""
        self._on_life = on_life
        self._max_lives = max_lives
        self._alive: dict[int, tuple[TopicState, Lifecycle]] = {}
        self._names: dict[str, str] = {}

    def topic(self, name: str) -> TopicState:
        """The book of a topic, made when new; any way to write its name will do."""
        book = self.topics.get(name)
        if book is not None:
            return book
        full = self._names.get(name)
        if full is None:
            full = self._names[name] = full_name(name)
        if full not in self.topics:
            persistent = not full.startswith("non-persistent:")
            self.topics[full] = TopicState(TopicRecord(full, is_system_topic(full), persistent))
        return self.topics[full]

    def subscription(self, topic: TopicState, name: str) -> SubscriptionState:
        """The book of a subscription, made when new."""
        book = topic.subscriptions.get(name)
        if book is None:
            record = topic.record.subscriptions.get(name)
            if record is None:
                record = topic.record.subscriptions[name] = SubscriptionRecord(topic.record, name)
            book = topic.subscriptions[name] = SubscriptionState(topic, record)
            book.base = record.delivered
            record.gone = False
        return book

    def adopt(self, book: SubscriptionState, topic: TopicState) -> TopicState:
        """A stranger was given an entry of this topic: it belongs there."""
        name, old = book.record.name, book.topic
        if old is not topic:
            del old.subscriptions[name], old.record.subscriptions[name]
            topic.subscriptions[name], topic.record.subscriptions[name] = book, book.record
            book.topic, book.record.topic = topic, topic.record
            for consumer in book.record.consumers.values():
                consumer.topic = topic.record.name
        return topic

    def put(self, topic: TopicState, at: Position, life: Lifecycle) -> None:
        """A life has a position."""
        topic.lives[at] = life
        if topic.record.name:
            self.owners[at[0]] = topic
        if id(life) not in self._alive:
            self.add(topic, life)

    def add(self, topic: TopicState, life: Lifecycle) -> None:
        """A life begins; the oldest may have to leave."""
        self._alive[id(life)] = (topic, life)
        if len(self._alive) > self._max_lives:
            self._evict()

    def _evict(self) -> None:
        """The oldest leave, some at once: to look for the first one of a dict takes long when many have gone."""
        evicted = self.capture.evicted
        for other, oldest in list(islice(self._alive.values(), 1 + self._max_lives // 100)):
            oldest.evicted = True
            evicted["lives"] = evicted.get("lives", 0) + 1
            self.leave(other, oldest)

    def leave(self, topic: TopicState, life: Lifecycle) -> None:
        """A life leaves memory and is given out."""
        if self._alive.pop(id(life), None) is None:
            return
        for at in positions(life):
            topic.lives.pop(at, None)
        for name in (life.uuid, (life.producer_name, life.sequence_id)):
            if topic.loose.get(name) is life:
                del topic.loose[name]
        life.state = state_of(life)
        if self._on_life is not None:
            self._on_life(life)

    def give(self, life: Lifecycle) -> None:
        """Give out a life that was never stored."""
        if self._on_life is not None:
            self._on_life(life)

    def drop(self, life: Lifecycle) -> None:
        """Forget a life that another one has taken in."""
        self._alive.pop(id(life), None)

    def settle(self, topic: TopicState, at: Position) -> None:
        """Let the life there go, if all subscriptions have acknowledged it."""
        life = topic.lives.get(at)
        if life is None:
            return
        places = positions(life)
        for book in topic.subscriptions.values():
            for place in places:
                if place in book.open if book.stranger else book.opened and not book.is_acked(place):
                    return
        self.leave(topic, life)

    def settle_all(self, topic: TopicState) -> None:
        """The same for all lives of a topic: a subscription has moved, or is gone."""
        for at in list(topic.lives):
            self.settle(topic, at)

    def finish(self) -> None:
        """No more will come: give out what is left."""
        for topic, life in list(self._alive.values()):
            self.leave(topic, life)


def positions(life: Lifecycle) -> list[Position]:
    """Where a life stands: one entry, or those of all its chunks that have an id."""
    if life.chunks:
        found = [(ledger, entry) for _, _, ledger, entry in life.chunks if ledger >= 0]
        if found:
            return found
    return [(life.ledger, life.entry)] if life.ledger >= 0 else []


def state_of(life: Lifecycle) -> str:
    """What has become of a life that has an id or was delivered: a key of life.STATES."""
    if life.topic is not None and not life.topic.persistent:
        return "non_persistent"
    if life.unacked:
        return "unacked" if any(life.unacked.values()) else "acked"
    if life.topic is not None and any(not one.gone for one in life.topic.subscriptions.values()):
        return "never_delivered"
    return "stored"


def full_name(name: str) -> str:
    """A topic's name in full, whichever way it was written; empty stays empty."""
    try:
        return str(TopicName.parse(name)) if name else ""
    except LocalError:
        return name  # a client may ask for anything
