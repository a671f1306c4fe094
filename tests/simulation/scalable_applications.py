"""Programs that consume a scalable topic with a stream, queue or checkpoint consumer.

Rules of this file
1. Each message that an application receives is a delivery, which the history keeps in the order of time.
2. An acknowledgement of a stream consumer covers all messages that the application received before. A checkpoint
   consumer acknowledges by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simulation.applications import ConsumerApplication
from simulation.clients import Client

from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId
from pcli.replay.client.settings import ConsumerSettings

JUDGE = "judge"
"""The subscription of the consumer that reads the whole topic at the end of a run."""


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that an application received."""

    subscription: str
    consumer: int
    """The number of the application."""
    start: int
    """The number of starts of its process."""
    text: bytes
    time: int
    acknowledged: bool = False


class ScalableConsumerApplication(ConsumerApplication):
    """A program with one consumer of a scalable topic. The ``type`` of its step is stream, queue or checkpoint."""

    def __init__(self, client: Client, number: int, topic: str, step: dict[str, Any], log: list[Delivery]) -> None:
        self._log = log
        self._unacked: dict[ClientMessageId, Delivery] = {}
        self._starts = 0
        super().__init__(client, number, topic, step)

    @property
    def kind(self) -> str:
        """The kind of the consumer."""
        return str(self.step["type"])

    @property
    def name(self) -> str:
        """The name of the consumer."""
        return f"c{self.number}"

    @property
    def is_registered(self) -> bool:
        """Whether the consumer exists and is registered at the controller of the topic."""
        by_controller = self.kind == "stream" or (self.kind == "checkpoint" and bool(self.step["subscription"]))
        return by_controller and self.is_live and self._consumer is not None

    @property
    def is_compacted(self) -> bool:
        """Return False: no consumer of a scalable topic reads the compacted topic."""
        return False

    def settings(self) -> ConsumerSettings:
        """Return the settings of the consumer."""
        step = self.step
        position = None
        if self.kind == "checkpoint":
            position = EARLIEST if step["position"] == "Earliest" else LATEST
        return ConsumerSettings(
            topicNames=(self.topic,),
            subscriptionName=step["subscription"],
            scalableType=step["type"],
            subscriptionInitialPosition=step["position"],
            startMessageId=position,
            consumerName=self.name,
            receiverQueueSize=step["queue"],
            acknowledgementsGroupTimeMicros=step["group_ms"] * 1000,
            batchIndexAckEnabled=step["batch_acks"],
            ackReceiptEnabled=step["receipts"],
            negativeAckRedeliveryDelayMicros=200_000,
            negativeAckPrecisionBitCnt=4,
        )

    def _open(self) -> None:
        self._starts += 1
        self._unacked.clear()
        super()._open()

    def _receive(self) -> None:
        if not self.closed:
            super()._receive()

    def _handle(self, message: Any) -> None:
        one = Delivery(self.step["subscription"], self.number, self._starts, message.data, self.client.network.now)
        self._log.append(one)
        if self.kind == "checkpoint":
            one.acknowledged = True
            return
        self._unacked[message.id] = one
        super()._handle(message)

    def _acknowledge(self, id_: ClientMessageId) -> None:
        if self.kind == "stream":
            while id_ in self._unacked:
                self._unacked.pop(next(iter(self._unacked))).acknowledged = True
            self.held = [message for message in self.held if message.id in self._unacked]
        elif id_ in self._unacked:
            self._unacked.pop(id_).acknowledged = True
        self._consumer.acknowledge(id_)

    def acknowledge(self, count: int) -> None:
        """Acknowledge messages that are held, oldest first."""
        some, self.held = self.held[:count], self.held[count:]
        self._call(lambda: [self._acknowledge(message.id) for message in some])

    def redeliver_if_outdated(self) -> None:
        """Do nothing: the consumers of segments have no epochs of redelivery."""
