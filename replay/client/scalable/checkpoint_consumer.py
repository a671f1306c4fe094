"""Checkpoint consumers: readers of the segments of a scalable topic (ScalableCheckpointConsumer, 5.0.1).

Rules of this file
1. Each segment has a non-durable, Exclusive subscription ``reader-`` and ten hexadecimal digits. Messages are
   acknowledged when they are received.
2. Without a group, a consumer reads all segments of the layout. The controller distributes the segments over the
   consumers of a group, sealed segments and their children at once.
3. Segments of the first layout or assignment begin at the start position. Later ones begin with their first message in
   a consumer without group, and at the start position again in a group.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout
from pcli.replay.client.consumer.consumer import Consumer
from pcli.replay.client.consumer.cursor_requests import SeekDone
from pcli.replay.client.consumer.incoming_entry import IncomingMessage
from pcli.replay.client.consumer.multi_topics_consumer import Created
from pcli.replay.client.message_ids import EARLIEST, LATEST
from pcli.replay.client.random_names import alphanumeric, hexadecimal
from pcli.replay.client.scalable.layout_session import LayoutSession
from pcli.replay.client.scalable.scalable_consumer import Held, ScalableConsumer
from pcli.replay.client.scalable.stream_consumer import StreamConsumer
from pcli.replay.client.settings import ConsumerSettings

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext


class CheckpointConsumer(ScalableConsumer):
    """A reader of all segments. ``startMessageId`` of the settings is ``EARLIEST``, ``LATEST`` (default) or an id."""

    def __init__(self, engine: ClientContext, settings: ConsumerSettings, created: Created) -> None:
        super().__init__(engine, settings, created)
        self._session = LayoutSession(engine, self.topic, self._changed, self.fail)

    def begin(self) -> None:
        """Request the layout."""
        self._session.start()

    def leave(self, done: SeekDone) -> None:
        """Close the session of the layout."""
        self._session.close(done)

    def child_settings(self, topic: str, held: Held) -> ConsumerSettings:
        """Return the settings of the reader of a segment."""
        del topic, held
        settings = _reader(self.settings, self.engine)
        settings = dataclasses.replace(settings, consumerName=alphanumeric(self.engine.random))
        if self._created is None:
            return dataclasses.replace(settings, startMessageId=EARLIEST, startMessageRollbackDurationSec=0)
        return settings

    def _changed(self, layout: Layout) -> None:
        self.want({one.name(self.topic): Held(one.id) for one in layout.segments.values()})

    def receive(self) -> IncomingMessage | None:
        """Return the next message, and acknowledge it. If it is None, `on_message` is called later."""
        message = super().receive()
        _settle(message, self.consumers.get(message.topic) if message is not None else None)
        return message


class CheckpointGroupConsumer(StreamConsumer):
    """A checkpoint consumer of a group, whose name is ``subscriptionName``."""

    kind = pb.CHECKPOINT

    def child_settings(self, topic: str, held: Held) -> ConsumerSettings:
        """Return the settings of the reader of a segment."""
        return _reader(super().child_settings(topic, held), self.engine)

    def receive(self) -> IncomingMessage | None:
        """Return the next message, and acknowledge it. If it is None, `on_message` is called later."""
        message = ScalableConsumer.receive(self)
        _settle(message, self.consumers.get(message.topic) if message is not None else None)
        return message


def _reader(settings: ConsumerSettings, engine: ClientContext) -> ConsumerSettings:
    return dataclasses.replace(
        settings,
        subscriptionName=f"reader-{hexadecimal(engine.random)}",
        subscriptionMode="NonDurable",
        subscriptionInitialPosition="Latest",
        startMessageId=settings.startMessageId or LATEST,
    )


def _settle(message: IncomingMessage | None, child: Consumer | None) -> None:
    if message is not None and child is not None:
        child.acknowledge_cumulative(message.id)
