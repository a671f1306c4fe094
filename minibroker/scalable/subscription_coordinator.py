"""The stream or checkpoint consumers of one subscription of a scalable topic, and the segments assigned to them.

Rules of this file (measured on 5.0.1)
1. A consumer is identified by its name. A second registration with the name takes over its place; the first client is
   not notified. A consumer whose connection ends keeps its segments, also in assignments that are made meanwhile, for
   ``scalableTopicConsumerSessionGracePeriodSeconds``. The end of the first client's connection also starts this period,
   and the second client is then removed. The drained segments are kept after the last consumer was lost, and not after
   it left.
2. After each registration, departure and change of the layout, the segments are assigned again, and every connected
   consumer is told, even if its segments are the same. A new consumer is told in the response to its registration.
3. While consumers read a sealed segment, checks find out whether it is drained. The first check is two seconds after
   the change of the layout or the registration; the delay doubles with each check, up to 30 seconds. Only a different
   assignment is sent then. Before its check, a sealed segment counts as not drained.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout, Segment
from pcli.minibroker.scalable.assignment import Assignment, assign, message_of, readable

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from pcli.codec.session.timers import Timer
    from pcli.minibroker.scheduler import Scheduler

_FIRST_CHECK_MS: Final = 2000
_LONGEST_DELAY_MS: Final = 30_000


class Client(Protocol):
    """The connection of a client."""

    def send_command(self, body: Message, entry: bytes = b"") -> None:
        """Queue a command."""


class AssignedTopic(Protocol):
    """The topic whose segments are assigned."""

    name: str
    """``topic://tenant/namespace/name``."""
    layout: Layout


class RegisteredConsumer:
    """A stream or checkpoint consumer."""

    __slots__ = ("client", "grace", "id", "kind", "name")

    def __init__(self, name: str, client: Client | None, consumer_id: int, kind: int) -> None:
        """``kind`` is STREAM or CHECKPOINT."""
        self.name = name
        self.client = client
        """Its connection; None after the connection ended."""
        self.id = consumer_id
        self.kind = kind
        self.grace: Timer | None = None
        """The timer after which a consumer without connection is removed."""


class SubscriptionCoordinator:
    """The consumers of one subscription."""

    def __init__(
        self, topic: AssignedTopic, subscription: str, scheduler: Scheduler, drained: Callable[[Segment], bool]
    ) -> None:
        """``drained`` returns whether the subscription has read a sealed segment."""
        self.topic = topic
        self.subscription = subscription
        self.consumers: dict[str, RegisteredConsumer] = {}
        """The consumers by name."""
        self.assignment: Assignment = {}
        self._finished: set[int] = set()
        """Ids of the sealed segments that were drained at a check."""
        self._scheduler = scheduler
        self._drained = drained
        self._check: Timer | None = None

    @property
    def stream(self) -> bool:
        """Whether a stream consumer is registered. If so, all consumers read parents before children."""
        return any(one.kind == pb.STREAM for one in self.consumers.values())

    def register(self, consumer: RegisteredConsumer) -> pb.ScalableConsumerAssignment:
        """Add a consumer, or replace the one with its name. Return its segments; the others are told theirs."""
        former = self.consumers.get(consumer.name)
        self.consumers[consumer.name] = consumer
        if former is None:
            self.layout_changed(new=consumer)
            return self._message(consumer)
        if former.grace is not None:
            former.grace.cancel()
        self.wait_for_drained()
        return self._message(consumer)

    def remove(self, name: str) -> None:
        """Remove a consumer, and tell the others their segments."""
        gone = self.consumers.pop(name)
        if gone.grace is not None:
            gone.grace.cancel()
        self.layout_changed()

    def disconnected(self, name: str, grace_ms: int, on_end: Callable[[], None]) -> None:
        """Keep a consumer whose connection ended. ``on_end`` is called after the grace period."""
        consumer = self.consumers[name]
        consumer.client = None
        if consumer.grace is not None:
            consumer.grace.cancel()
        consumer.grace = self._scheduler.call_later(grace_ms, on_end)

    def layout_changed(self, *, new: RegisteredConsumer | None = None) -> None:
        """Assign the segments again, and tell all consumers but a new one."""
        self.assignment = self._assign()
        for one in self.consumers.values():
            if one is not new:
                self._tell(one)
        self.wait_for_drained()

    def wait_for_drained(self, delay_ms: int = _FIRST_CHECK_MS) -> None:
        """Check after a delay whether parents are drained, if segments wait for them."""
        if self._check is not None:
            self._check.cancel()
            self._check = None
        if self.stream and self._assigned() != self._final():
            self._check = self._scheduler.call_later(delay_ms, partial(self._check_drained, delay_ms))

    def close(self) -> None:
        """Stop all timers, because the topic is deleted."""
        for timer in (self._check, *(one.grace for one in self.consumers.values())):
            if timer is not None:
                timer.cancel()

    def _check_drained(self, delay_ms: int) -> None:
        sealed = [one for one in self.topic.layout.sealed if one.id not in self._finished]
        new = [one.id for one in sealed if self._drained(one)]
        self._finished.update(new)
        if new:
            self.layout_changed()
        else:
            self.wait_for_drained(min(2 * delay_ms, _LONGEST_DELAY_MS))

    @property
    def waiting(self) -> set[int]:
        """The ids of the segments that stream consumers do not read before their parents are drained."""
        if not self.stream:
            return set()
        return self.topic.layout.segments.keys() - self._finished - self._assigned()

    def _assigned(self) -> set[int]:
        return {segment.id for segments in self.assignment.values() for segment, _ in segments}

    def _final(self) -> set[int]:
        return {one.id for one in self.topic.layout.active}

    def _assign(self) -> Assignment:
        layout = self.topic.layout
        if self.stream:
            segments = readable(layout, self._finished)
        else:
            segments = list(layout.segments.values())
        share = all(one.kind == pb.STREAM for one in self.consumers.values())
        return assign(segments, self.consumers, share=share)

    def _message(self, consumer: RegisteredConsumer) -> pb.ScalableConsumerAssignment:
        return message_of(self.topic.layout, self.topic.name, self.assignment[consumer.name])

    def _tell(self, consumer: RegisteredConsumer) -> None:
        if consumer.client is not None:
            consumer.client.send_command(
                pb.CommandScalableTopicAssignmentUpdate(consumer_id=consumer.id, assignment=self._message(consumer))
            )
