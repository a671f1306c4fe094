"""Producers and consumers from their registration to their end, and subscriptions. The module contains only data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb

if TYPE_CHECKING:
    from simulation.history import WireFrame

_PERSISTENT = "persistent:", "segment:"


class SubscriptionLog:
    """One subscription, from its creation to its deletion."""

    def __init__(self, topic: str, name: str, durable: bool, created: WireFrame, start: int) -> None:
        self.topic, self.name, self.durable = topic, name, durable
        self.created = created
        self.start = start
        """The offset of the first entry that it must deliver; -1 if unknown."""
        self.ended: WireFrame | None = None
        self.sessions: list[ConsumerSession] = []
        self.attached: list[ConsumerSession] = []
        self.frames: list[WireFrame] = []
        """The frames of all its sessions, and the events of the administration, in order."""
        self.closings: dict[int, list[ConsumerSession]] = {}
        """The sessions that ended with a frame, by the index of the frame."""

    @property
    def is_persistent(self) -> bool:
        """Whether the topic is persistent."""
        return self.topic.startswith(_PERSISTENT)

    @property
    def reads_compacted(self) -> bool:
        """Whether a consumer reads the compacted topic. Such reads contain acknowledged entries (verified on 4.2.4)."""
        return any(session.request.body.read_compacted for session in self.sessions)

    def __str__(self) -> str:
        return f"subscription {self.name} of {self.topic}"


class ConsumerSession:
    """A consumer on one connection, from the response to SUBSCRIBE."""

    def __init__(self, request: WireFrame, response: WireFrame, subscription: SubscriptionLog) -> None:
        self.request, self.response, self.subscription = request, response, subscription
        self.type = pb.CommandSubscribe.SubType.Name(request.body.subType)
        self.name = request.body.consumer_name
        self.id = request.body.consumer_id
        self.link = request.link
        self.frames: list[WireFrame] = []
        self.ended: WireFrame | None = None

    @property
    def individual(self) -> bool:
        """Whether entries are acknowledged individually."""
        return self.type in ("Shared", "Key_Shared")

    @property
    def divided_batch(self) -> tuple[int, int] | None:
        """Ledger id and entry id of the batch within which a non-durable consumer starts, or None."""
        start = self.request.body.start_message_id
        return (start.ledgerId, start.entryId) if start.batch_index > 0 else None

    def __str__(self) -> str:
        return f"consumer {self.id} ({self.name}) of connection {self.link}, {self.subscription}"


class ProducerSession:
    """A producer on one connection, from PRODUCER_SUCCESS."""

    def __init__(self, request: WireFrame, response: WireFrame) -> None:
        self.request, self.response = request, response
        self.topic = request.body.topic
        self.id = request.body.producer_id
        self.name = response.body.producer_name
        self.access = pb.ProducerAccessMode.Name(request.body.producer_access_mode)
        self.link = request.link
        self.frames: list[WireFrame] = []
        self.ended: WireFrame | None = None

    @property
    def is_persistent(self) -> bool:
        """Whether the topic is persistent."""
        return self.topic.startswith(_PERSISTENT)

    def __str__(self) -> str:
        return f"producer {self.id} ({self.name}) of connection {self.link}, topic {self.topic}"
