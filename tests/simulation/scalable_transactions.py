"""A client that runs one transaction on several segments of a scalable topic with raw commands.

The commands and their order are those of the V5 Java client 5.0.1 (capture transaction-across-segments).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from simulation.network import Network
from simulation.transactions import TransactionClient

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout

QUEUE = "q"
"""The subscription with the acknowledgements of transactions."""
_COORDINATORS = 3


class ScalableTransactionClient(TransactionClient):
    """A process that opens a transaction, sends to each segment, acknowledges messages, and ends the transaction."""

    fields: ClassVar[dict[str, Any]] = {"scalable": True}

    def __init__(self, network: Network, number: int, topic: str, step: dict[str, Any]) -> None:
        self.coordinator = number % _COORDINATORS
        super().__init__(network, number, topic, step)

    def _run(self) -> Generator[Any, Any, None]:
        yield
        self.session.send(pb.CommandScalableTopicLookup(session_id=1, topic=self.topic))
        update = yield "SCALABLE_TOPIC_UPDATE"
        if update.body.HasField("error"):
            return
        segments = [one.name(self.topic) for one in Layout.of(update.body.dag).active]
        bits = yield from self._begin()
        if not bits:
            return
        count = self.step["messages"]
        for place, segment in enumerate(segments if count else ()):
            yield pb.CommandLookupTopic(topic=segment), b""
            indexes = range(place * count, (place + 1) * count)
            if not (yield from self._send(segment, place + 1, indexes, bits)):
                return
        if self.step["acks"]:
            segment = segments[self.number % len(segments)]
            yield pb.CommandLookupTopic(topic=segment), b""
            yield from self._acknowledge(segment, QUEUE, "Shared", bits)
        yield from self._finish(bits)

    def _connect_to_coordinator(self) -> Generator[Any, Any, None]:
        yield pb.CommandTcClientConnectRequest(tc_id=self.coordinator, **self.fields), b""
