"""The consumers of the segments of a scalable topic, as one consumer (ScalableStreamConsumer and others, 5.0.1).

Rules of this file
1. Each segment has a consumer of its own, ``<name>-seg-<id>``, which requests messages as soon as it is subscribed.
2. The set of segments changes over time. Segments that are new are subscribed at once. A segment whose entry buckets
   changed is released and subscribed again.
3. While another consumer still has a segment, SUBSCRIBE fails with ConsumerBusy or ConsumerAssignError. All such
   segments are tried again together, with new consumer ids, after a back-off of 100 ms or more. The first subscription
   is tried again until ``operationTimeoutMs`` has passed, and other failures end it.
4. When the broker closes the consumer of a segment, its messages that the application has not received yet are dropped,
   because the broker delivers them again.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pcli.codec.scalable import Layout, name_on_segment
from pcli.replay.client.backoff import Backoff
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.consumer import Consumer
from pcli.replay.client.consumer.cursor_requests import SeekDone
from pcli.replay.client.consumer.multi_topics_consumer import Created, MultiTopicsConsumer
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.scalable.layout_session import LayoutSession
from pcli.replay.client.settings import ConsumerSettings

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

_BUSY: Final = ("ConsumerBusy", "ConsumerAssignError")
"""Failures of SUBSCRIBE while another consumer still has the segment."""

_LONGEST_RETRY: Final = 30_000


class Held(NamedTuple):
    """A segment that a consumer has or should have."""

    id: int
    ranges: tuple[tuple[int, int], ...] = ()
    """The entry buckets if several consumers share the segment; empty if this consumer has the whole segment."""


class SegmentConsumer(Consumer):
    """The consumer of a segment."""

    parent: ScalableConsumer

    def prepare(self) -> int:
        """Drop the messages of the previous subscription."""
        waited = super().prepare()
        self.parent.forget(self)
        return waited

    def begin(self, *, first: bool, waited: int) -> None:
        """Start requesting messages. After a reconnection, the parent repeats acknowledgements before."""
        if not first:
            self.parent.resubscribed(self)
        super().begin(first=first, waited=waited)


class ScalableConsumer(MultiTopicsConsumer):
    """A consumer of a scalable topic. Subclasses decide which segments are consumed, and call `want`."""

    def __init__(self, engine: ClientContext, settings: ConsumerSettings, created: Created) -> None:
        super().__init__(engine, dataclasses.replace(settings, autoUpdatePartitions=False), created)
        self.topic = settings.topicNames[0]
        self._wanted: Mapping[str, Held] | None = None
        self._held: dict[str, Held] = {}
        self._releasing: set[str] = set()
        self._subscribed: set[str] = set()
        self._backoff = Backoff(100, _LONGEST_RETRY, 0, engine.random)
        self._retry: Timer | None = None
        self._deadline = engine.now + engine.settings.operationTimeoutMs

    # -- for subclasses ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Find the segments to consume, and call `want`."""
        raise NotImplementedError

    def leave(self, done: SeekDone) -> None:
        """Close the session that reports the segments."""
        raise NotImplementedError

    def child_settings(self, topic: str, held: Held) -> ConsumerSettings:
        """Return the settings of the consumer of a segment."""
        del topic
        return dataclasses.replace(self.settings, consumerName=name_on_segment(self.name, held.id))

    def release(self, topic: str) -> None:
        """Close the consumer of a segment that is not wanted any more, now or later."""
        self.close_segment(topic)

    def resubscribed(self, child: Consumer) -> None:
        """Handle the subscription of a segment on a new connection."""

    # -- segments ----------------------------------------------------------------------------------------------------

    def want(self, wanted: Mapping[str, Held]) -> None:
        """Consume these segments, which are keyed by the names of their topics, and no others."""
        self._wanted = wanted
        self._converge()

    def fail(self, failure: ClientFailure) -> None:
        """Report a failure to the application, and close the consumer."""
        if self._created is not None:
            self.close(lambda _: self._tell(failure))
        elif self.on_fault is not None:
            self.on_fault(failure)

    def close_segment(self, topic: str) -> None:
        """Close the consumer of a segment."""
        self._releasing.add(topic)

        def closed(_: ClientFailure | None) -> None:
            self._held.pop(topic, None)
            self._releasing.discard(topic)
            self._subscribed.discard(topic)
            self._converge()

        self._remove_child(topic, closed)

    def forget(self, child: Consumer, started: ClientMessageId | None = None) -> None:
        """Drop the messages of a segment that the application has not received, and make room for other segments.

        Messages of the entry of ``started`` are kept.
        """
        whole = None if started is None else started.whole
        self.queue.remove_child(child)
        while child.queue.messages and child.queue.messages[0].id.whole == whole:
            message = child.receive()
            assert message is not None
            self.queue.messages.append(message)
        self.queue.messages = deque(
            one for one in self.queue.messages if one.topic != child.topic or one.id.whole == whole
        )
        self.queue.go_on()
        if self.queue.messages and self.on_message is not None:
            self.on_message()

    def _converge(self) -> None:
        if self.state is State.CLOSED or self.engine.closed or self._wanted is None:
            return
        wanted = self._wanted
        for topic, held in wanted.items():
            if topic not in self._held:
                self._open(topic, held)
        for topic, held in list(self._held.items()):
            if wanted.get(topic) != held and topic in self._subscribed - self._releasing:
                self._releasing.add(topic)
                self.release(topic)
        if self._created is not None and self._subscribed >= wanted.keys():
            self.state = State.READY
            self._tell(self)

    def _open(self, topic: str, held: Held) -> None:
        def created(result: Consumer | ClientFailure) -> None:
            if isinstance(result, ClientFailure):
                self.consumers.pop(topic, None)
                self._held.pop(topic, None)
                self._refused(result)
            else:
                self._subscribed.add(topic)
                self._backoff.reset()
                self._ask_all((result,))
                self._converge()

        child = SegmentConsumer(self.engine, topic, self.child_settings(topic, held), created, parent=self)
        child.on_fault = self.fail
        self.consumers[topic] = child
        self._held[topic] = held
        child.start()

    def _refused(self, failure: ClientFailure) -> None:
        if self.state is State.CLOSED or self.engine.closed:
            return
        first = self._created is not None
        if first and (failure.error not in _BUSY or self.engine.now >= self._deadline):
            self.fail(failure)
        elif self._retry is None:
            self._retry = self.engine.call_at(self.engine.now + self._backoff.next(self.engine.now), self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._converge()

    # -- closing -----------------------------------------------------------------------------------------------------

    def has_message_available(self, done: Callable[[bool | ClientFailure], None]) -> None:
        """Call ``done`` with True if a segment has a message that was not received, or ended and may have children."""
        ended = any(child.ended for child in self.consumers.values())
        if ended:
            done(ended)
        else:
            super().has_message_available(done)

    def close(self, done: SeekDone) -> None:
        """Leave the session, and close the consumers of all segments."""
        if self.state is State.CLOSED:
            done(None)
            return
        self._stop()
        if self._retry is not None:
            self._retry.cancel()
        self.leave(lambda _: None)
        super().close(done)


class QueueConsumer(ScalableConsumer):
    """A Shared consumer of all segments of the layout, sealed segments as well."""

    def __init__(self, engine: ClientContext, settings: ConsumerSettings, created: Created) -> None:
        super().__init__(engine, dataclasses.replace(settings, subscriptionType="Shared"), created)
        self._session = LayoutSession(engine, self.topic, self._changed, self.fail)

    def begin(self) -> None:
        """Request the layout."""
        self._session.start()

    def leave(self, done: SeekDone) -> None:
        """Close the session of the layout."""
        self._session.close(done)

    def _changed(self, layout: Layout) -> None:
        self.want({one.name(self.topic): Held(one.id) for one in layout.segments.values()})
