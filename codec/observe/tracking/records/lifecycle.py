"""The life of a message: sent, stored, delivered, acknowledged, with the frame and time of each step. Data only.

Rules of this file
1. A life is that of an entry, as brokers store it; the messages of a batch share it and differ by the bits of acks.
   The chunks of one message are one life, that of the last chunk's id, the others in `chunks`.
2. Times are ns since 1970, -1: not seen; frames ``pulsar.number``, 0: not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
    from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord

__all__ = ["MOST_CHUNKS", "STATES", "Ack", "Delivery", "Lifecycle"]

MOST_CHUNKS: Final = 64
"""Chunks of one message that are listed."""

STATES: Final[dict[str, str]] = {
    "in_flight": "sent, without a receipt so far",
    "stored": "has a receipt; no known subscription has requested it yet",
    "never_delivered": "stored; subscriptions existed, but none received it",
    "unacked": "delivered; at least one subscription that received it has not acknowledged all of it",
    "acked": "acknowledged by all subscriptions that received it",
    "refused": "refused with SEND_ERROR",
    "duplicate": "dropped by deduplication (receipt -1:-1)",
    "lost": "sent; its connection ended before the receipt",
    "non_persistent": "published to a non-persistent topic, where acknowledgements are not sent to the broker",
}
"""What became of a message, as far as the capture goes."""


@dataclass(slots=True)
class Ack:
    """One acknowledgement that covers the entry or a part of it."""

    frame: int
    time_ns: int
    kind: str
    """individual, cumulative, batch (an ack set came with it), transaction."""
    left: int = 0
    """Messages of the entry that it leaves unacked."""
    answer_frame: int = 0
    answer_ns: int = -1
    error: str = ""
    """Of the ACK_RESPONSE."""
    validation_error: str = ""
    effective: bool = True
    """Whether it acknowledged anything: not one of a rolled back transaction, nor a second one."""


@dataclass(slots=True)
class Delivery:
    """One MESSAGE frame with the entry."""

    consumer: ConsumerRecord
    frame: int
    time_ns: int
    stream: int
    redelivery_count: int = 0
    messages: int = 1
    """Messages that it brought: those that its ack set does not exclude."""
    chunk: int = -1
    """Which chunk it brought, of a chunked message; -1: it is none."""
    why: str = ""
    """For a second delivery to the same subscription: a key of topics.AGAIN; empty for the first."""
    why_frame: int = 0
    """The frame that asked for it or caused it; 0: none."""
    acks: tuple[Ack, ...] = ()
    again: tuple[int, int] = (0, -1)
    """The REDELIVER that named it: frame, time."""
    held: int = 0
    """Messages of it that are with the consumer still."""
    taken: tuple[str, int] = ("", 0)
    """Why the broker took it back, a key of topics.AGAIN, and the frame that made it do so; empty: it did not."""


@dataclass(slots=True)
class Lifecycle:
    """A message, or an entry of several. What a SEND tells comes first: one is made for each."""

    topic: TopicRecord | None
    producer: ProducerRecord | None = None
    producer_name: str = ""
    """Of the metadata."""
    sequence_id: int = -1
    highest_sequence_id: int = -1
    partition: int = -1
    stream: int = -1
    """Of the last SEND."""
    sent_frame: int = 0
    sent_ns: int = -1
    """The first SEND."""
    messages: int = 1
    """In the batch, else 1."""
    batch: bool = False
    size: int = 0
    """Bytes of the payload as it is on the wire."""
    key: str = ""
    """Ordering key, else partition key, of the entry; see keys.py."""
    publish_ms: int = 0
    deliver_at_ms: int = 0
    ledger: int = -1
    entry: int = -1
    receipt_frame: int = 0
    receipt_ns: int = -1
    error: str = ""
    """Of SEND_ERROR."""
    resent: tuple[tuple[int, int, int], ...] = ()
    """Later SENDs of the same: (stream, frame, time)."""
    other_ids: tuple[tuple[int, int], ...] = ()
    """Further ids that a resend was given: it is stored more than once."""
    uuid: str = ""
    """Of a chunked message."""
    num_chunks: int = 0
    chunks: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Of a chunked message: (chunk id, frame, ledger, entry) as sent, at most MOST_CHUNKS."""
    txn: tuple[int, int] | None = None
    marker: bool = False
    """Whether it is no message but a broker's marker (transaction end)."""
    deliveries: dict[str, list[Delivery]] = field(default_factory=dict)
    """By subscription, in order of time."""
    unacked: dict[str, int] = field(default_factory=dict)
    """Messages of the entry that a subscription has not acknowledged, by subscription that got it."""
    dead_letters: tuple[tuple[str, int, int], ...] = ()
    """SENDs with which a client moved it, or messages of it, away: topic, frame, time; at most 64."""
    state: str = "in_flight"
    """A key of STATES."""
    evicted: bool = False
    """Whether it was given out because of too many lives, before its end."""
    doubts: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        """``ledger:entry``; empty: not known."""
        return f"{self.ledger}:{self.entry}" if self.ledger >= 0 else ""

    def subscription(self, name: str) -> SubscriptionRecord | None:
        """The record of one that got it."""
        return None if self.topic is None else self.topic.subscriptions.get(name)
