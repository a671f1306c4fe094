"""A stream consumer: a controller distributes the segments over the consumers of the subscription.

Rules of this file (ScalableStreamConsumer, 5.0.1)
1. A segment is Exclusive, and acknowledged cumulatively. If several consumers share it, the assignment contains its
   entry buckets: the segment is then Key_Shared with these ranges, and messages are acknowledged one by one.
2. An acknowledgement covers all messages that the application received before, on all segments.
3. A segment that is assigned to another consumer is released: no message of it is received any more, and when all
   received messages are acknowledged at two checks in a row, 50 ms apart, its consumer is closed. This has no time
   limit, because the next consumer would otherwise receive messages twice or out of order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.consumer.ack_grouping_tracker import AckDone
from pcli.replay.client.consumer.consumer import Consumer
from pcli.replay.client.consumer.cursor_requests import SeekDone
from pcli.replay.client.consumer.incoming_entry import IncomingMessage
from pcli.replay.client.consumer.multi_topics_consumer import Created
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.scalable.controller_session import ControllerSession
from pcli.replay.client.scalable.scalable_consumer import Held, ScalableConsumer
from pcli.replay.client.settings import ConsumerSettings, KeySharedPolicy

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

__all__ = ["StreamConsumer"]

_CHECK_MS: Final = 50
"""Time between two checks whether a segment can be released."""


class StreamConsumer(ScalableConsumer):
    """A stream consumer. ``created`` is called once, with the consumer or the ClientFailure."""

    kind = pb.STREAM

    def __init__(self, engine: ClientContext, settings: ConsumerSettings, created: Created) -> None:
        super().__init__(engine, settings, created)
        request = pb.CommandScalableTopicSubscribe(
            topic=self.topic,
            subscription=settings.subscriptionName,
            consumer_name=self.name,
            consumer_type=self.kind,
        )
        self._controller = ControllerSession(engine, request, self._assigned, self.fail)
        self._unacked: dict[ClientMessageId, None] = {}

    def begin(self) -> None:
        """Register at the controller."""
        self._controller.start()

    def leave(self, done: SeekDone) -> None:
        """Leave the group of consumers."""
        self._controller.close(done)

    def child_settings(self, topic: str, held: Held) -> ConsumerSettings:
        """Return the settings of the consumer of a segment."""
        settings = super().child_settings(topic, held)
        if not held.ranges:
            return settings
        policy = KeySharedPolicy(held.ranges, entryBucketDispatch=True)
        return dataclasses.replace(settings, subscriptionType="Key_Shared", keySharedPolicy=policy)

    def _assigned(self, assignment: pb.ScalableConsumerAssignment) -> None:
        self.want(
            {
                one.segment_topic: Held(one.segment_id, tuple((part.start, part.end) for part in one.bucket_ranges))
                for one in assignment.segments
            }
        )

    # -- releasing ---------------------------------------------------------------------------------------------------

    def release(self, topic: str) -> None:
        """Close the consumer of a segment when all received messages are acknowledged."""
        self.forget(topic)
        self._check(topic, before=False)

    def _check(self, topic: str, *, before: bool) -> None:
        if self.state is State.CLOSED or self.engine.closed:
            return
        settled = not any(id_.topic == topic for id_ in self._unacked)
        if settled and before:
            self.close_segment(topic)
        else:
            self.engine.call_at(self.engine.now + _CHECK_MS, lambda: self._check(topic, before=settled))

    def arrived(self, child: Consumer) -> None:
        """Process new messages of a child, unless its segment is being released."""
        if child.topic not in self._releasing:
            super().arrived(child)

    # -- receiving and acknowledging ---------------------------------------------------------------------------------

    def receive(self) -> IncomingMessage | None:
        """Return the next message. If it is None, `on_message` is called later."""
        message = super().receive()
        if message is not None:
            self._unacked[message.id] = None
        return message

    def acknowledge(self, id_: ClientMessageId, done: AckDone | None = None) -> None:
        """Acknowledge a message, and all messages that were received before it."""
        self.acknowledge_cumulative(id_, done)

    def acknowledge_cumulative(
        self, id_: ClientMessageId, done: AckDone | None = None, properties: Mapping[str, int] | None = None
    ) -> None:
        """Acknowledge a message, and all messages that were received before it on any segment."""
        last: dict[str, ClientMessageId] = {}
        while id_ in self._unacked:
            one = next(iter(self._unacked))
            del self._unacked[one]
            last[one.topic] = one
            child = self.consumers.get(one.topic)
            if child is not None and child.individual and one != id_:
                child.acknowledge(one)
        for topic, one in last.items():
            if topic != id_.topic and topic in self.consumers and not self.consumers[topic].individual:
                self.consumers[topic].acknowledge_cumulative(one, None, properties)
        child = self.consumers.get(id_.topic)
        if child is not None and child.individual:
            child.acknowledge(id_, done)
        else:
            super().acknowledge_cumulative(id_, done, properties)

    def negative_acknowledge(self, id_: ClientMessageId, redelivery_count: int = 0) -> None:
        """Raise LocalError: only a queue consumer acknowledges negatively."""
        raise LocalError("a stream consumer cannot acknowledge negatively; use a queue consumer")
