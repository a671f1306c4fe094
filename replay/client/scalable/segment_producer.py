"""A producer of one segment of a scalable topic.

Rules of this file (captures of the V5 Java client 5.0.1)
1. PRODUCER has ``txn_enabled``, and a name only if the application gave one: ``<name>-seg-<id>``, which is not marked
   as provided by the user.
2. Each entry bucket of the segment has its own batch. Entries contain the lowest and highest entry hash of their
   messages.
3. When the segment is sealed, the broker first closes the producer. Receipts that arrive afterwards still count; errors
   of SENDs do not, because the messages are sent again, on this segment or on its children.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.codec.scalable import Segment, bucket_of, name_on_segment
from pcli.codec.session import Event
from pcli.codec.wire.message_id import signed
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.batch_container import KeyBasedBatchContainer
from pcli.replay.client.producer.producer import Producer
from pcli.replay.client.settings import ProducerSettings

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

SEALED = ClientFailure("TopicTerminatedError", "the segment was sealed")
"""The failure of the messages of a sealed segment."""


class SegmentProducer(Producer):
    """A producer of a segment. ``created`` is called once, with the producer or the ClientFailure."""

    def __init__(
        self,
        engine: ClientContext,
        topic: str,
        segment: Segment,
        settings: ProducerSettings,
        created: Callable[[Producer | ClientFailure], None],
    ) -> None:
        name = name_on_segment(settings.producerName, segment.id) if settings.producerName else ""
        super().__init__(
            engine, segment.name(topic), dataclasses.replace(settings, producerName=""), created, name=name
        )
        self._writer.hashed = True
        if settings.batchingEnabled:
            limits = settings.batchingMaxMessages, settings.batchingMaxBytes
            self._batch = KeyBasedBatchContainer(*limits, lambda message: bucket_of(segment, message.hashes[1]))

    def command(self) -> pb.CommandProducer:
        """Return PRODUCER for the current state of this producer."""
        body = super().command()
        body.txn_enabled = True
        return body

    def closed_by_broker(self, assigned: str) -> None:
        """Register again, but process the receipts that still arrive."""
        super().closed_by_broker(assigned)
        if self._last_connection is not None and self._last_connection.close_reason is None:
            self._last_connection.attach(self)

    def received(self, event: Event) -> None:
        """Process SEND_RECEIPT or SEND_ERROR."""
        if self.connection is None:
            ops, body = self.pending.ops, event.body
            late = event.name != "SEND_RECEIPT" or not ops or ops[0].sequence_id != body.sequence_id
            if late or body.sequence_id < signed(body.highest_sequence_id) != ops[0].highest:
                return
        super().received(event)

    def seal(self) -> None:
        """End the producer, and fail the messages without a receipt with `SEALED`."""
        if self._last_connection is not None:
            self._last_connection.detach(self)
        self.end(State.TERMINATED, SEALED)
