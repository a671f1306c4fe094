"""A stream consumer: a controller distributes the segments over the consumers of the subscription.

Rules of this file (ScalableStreamConsumer, 5.0.1)
1. A segment is Exclusive, and acknowledged cumulatively. If several consumers share it, the assignment contains its
   entry buckets: the segment is then Key_Shared with these ranges, and messages are acknowledged one by one.
2. An acknowledgement covers all messages that the application received before, on all segments.
3. A segment that is assigned to another consumer is released: no message of it is received any more, except the rest of
   a batch, which the next consumer would receive as a whole. When all received messages are acknowledged at two checks
   in a row, 50 ms apart, its consumer is closed. This has no time limit, because the next consumer would otherwise
   receive messages twice or out of order.
4. A message that the application has is not received again if the broker delivers it again, nor is one at or before the
   last acknowledged message of an Exclusive segment. The last acknowledgement is sent again on each new connection: it
   can be lost with the former one, and on a sealed segment no later acknowledgement replaces it.
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

_CHECK_MS: Final = 50
"""Time between two checks whether a segment can be released."""


class StreamConsumer(ScalableConsumer):
    """A stream consumer. ``created`` is called once, with the consumer or the ClientFailure."""

    kind = pb.STREAM

    def __init__(self, engine: ClientContext, settings: ConsumerSettings, created: Created) -> None:
        super().__init__(engine, settings, created)
        request = pb.CommandScalableTopicSubscribe(
            topic=self.topic, subscription=settings.subscriptionName, consumer_name=self.name, consumer_type=self.kind
        )
        self._controller = ControllerSession(engine, request, self._assigned, self.fail)
        self._unacked: dict[ClientMessageId, None] = {}
        self._acked: dict[str, ClientMessageId] = {}
        self._latest: dict[str, ClientMessageId] = {}

    def begin(self) -> None:
        """Register at the controller."""
        self._controller.start()

    def leave(self, done: SeekDone) -> None:
        """Leave the group of consumers."""
        self._controller.close(done)

    def seek(self, target: ClientMessageId | int, done: SeekDone) -> None:
        """Move the cursors of the assigned segments (`MultiTopicsConsumer.seek`)."""
        self._unacked.clear()
        self._acked.clear()
        super().seek(target, done)

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

    def resubscribed(self, child: Consumer) -> None:
        """Repeat the last acknowledgement of an Exclusive segment."""
        last = self._acked.get(child.topic)
        if last is not None:
            child.acks.flush_and_clean()
            child.acknowledge_cumulative(last)

    # -- releasing ---------------------------------------------------------------------------------------------------

    def release(self, topic: str) -> None:
        """Close the consumer of a segment when all received messages are acknowledged."""
        self.forget(self.consumers[topic], self._latest.get(topic))
        self._check(topic, before=False)

    def _check(self, topic: str, *, before: bool) -> None:
        if self.state is State.CLOSED or self.engine.closed:
            return
        settled = not any(id_.topic == topic for id_ in self._unacked) and not any(
            message.topic == topic for message in self.queue.messages
        )
        if settled and before:
            self._acked.pop(topic, None)
            self._latest.pop(topic, None)
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
        while (message := super().receive()) is not None:
            acked = self._acked.get(message.topic)
            if message.id not in self._unacked and (acked is None or acked < message.id):
                self._unacked[message.id] = None
                self._latest[message.topic] = message.id
                break
        return message

    def acknowledge(self, id_: ClientMessageId, done: AckDone | None = None) -> None:
        """Acknowledge a message, and all messages that were received before it."""
        self.acknowledge_cumulative(id_, done)

    def acknowledge_cumulative(
        self, id_: ClientMessageId, done: AckDone | None = None, properties: Mapping[str, int] | None = None
    ) -> None:
        """Acknowledge a message, and all messages that were received before it on any segment."""
        if id_ not in self._unacked:
            super().acknowledge_cumulative(id_, done, properties)
            return
        last: dict[str, ClientMessageId] = {}
        while id_ in self._unacked:
            one = next(iter(self._unacked))
            del self._unacked[one]
            child = self.consumers.get(one.topic)
            if child is None or not child.individual:
                last[one.topic] = one
            else:
                child.acknowledge(one, done if one == id_ else None)
        self._acked |= last
        for topic, one in last.items():
            super().acknowledge_cumulative(one, done if topic == id_.topic else None, properties)

    def negative_acknowledge(self, id_: ClientMessageId, redelivery_count: int = 0) -> None:
        """Raise LocalError: only a queue consumer acknowledges negatively."""
        raise LocalError("a stream consumer cannot acknowledge negatively; use a queue consumer")
