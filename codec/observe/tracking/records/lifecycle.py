"""The lifecycle of a message: sent, stored, delivered, acknowledged, with the frame and time of each step.

Rules of this file
1. A lifecycle belongs to one entry in the broker. The messages of a batch share it; ack sets distinguish them. The
   chunks of a message also share a lifecycle, whose id is the id of the last chunk; `chunks` contains the other ids.
2. A V5 client sends the messages of a sealed segment again on other segments, possibly in other batches. These are
   earlier attempts of the messages in the later entry; see `earlier`.
3. Times are ns since 1970, -1 if unknown. Frames are ``pulsar.number``, 0 if unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
    from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord

MOST_CHUNKS: Final = 64
"""Maximum number of chunks in a lifecycle."""

MOST_EARLIER: Final = 1_000
"""Maximum number of earlier attempts in a lifecycle: a batch of V5 clients has at most 1,000 messages by default."""

STATES: Final[dict[str, str]] = {
    "in_flight": "sent, without a receipt so far",
    "stored": "has a receipt; the capture contains no current subscription of its topic",
    "never_delivered": "stored; subscriptions existed, but none received it",
    "unacked": "delivered; at least one subscription that received it has not acknowledged all of it",
    "acked": "acknowledged by all subscriptions that received it",
    "refused": "refused with SEND_ERROR",
    "duplicate": "dropped by deduplication (receipt -1:-1)",
    "lost": "sent; its connection ended before the receipt",
    "non_persistent": "published to a non-persistent topic, where acknowledgements are not sent to the broker",
}
"""Final states of messages, according to the capture."""


@dataclass(slots=True)
class Ack:
    """An acknowledgement of the entry or a part of it."""

    frame: int
    time_ns: int
    kind: str
    """The kind: individual, cumulative, batch (with an ack set) or transaction."""
    left: int = 0
    """Messages in the entry that remain unacknowledged."""
    bits: int = 0
    """The messages that the ACK does not acknowledge."""
    answer_frame: int = 0
    answer_ns: int = -1
    error: str = ""
    """Error of the ACK_RESPONSE."""
    validation_error: str = ""
    effective: bool = True
    """Whether the ACK acknowledged anything; False for a repeated ACK or an aborted transaction."""


@dataclass(slots=True)
class Delivery:
    """A MESSAGE frame with the entry."""

    consumer: ConsumerRecord
    frame: int
    time_ns: int
    stream: int
    redelivery_count: int = 0
    messages: int = 1
    """Messages in the entry that the ack set does not exclude."""
    chunk: int = -1
    """Chunk number, or -1 if the message is not chunked."""
    why: str = ""
    """Cause of a redelivery, a key of topic_records.AGAIN; empty for the first delivery."""
    why_frame: int = 0
    """Frame that requested or caused the redelivery, or 0."""
    acks: tuple[Ack, ...] = ()
    again: tuple[int, int] = (0, -1)
    """Frame and time of the REDELIVER with the entry's id."""
    held: int = 0
    """Number of messages in the delivery that the consumer has not acknowledged."""
    taken: tuple[str, int] = ("", 0)
    """The reason why the broker took the delivery back (a key of topic_records.AGAIN), and the frame that caused this.
    Both are empty if the delivery was not taken back."""
    further_request: tuple[str, int] = ("", 0)
    """Cause and frame of a second request for redelivery that arrived before the redelivery for the first request."""


@dataclass(slots=True, eq=False)
class Lifecycle:
    """A message, or an entry with several messages. The fields that every SEND sets are first."""

    topic: TopicRecord | None
    producer: ProducerRecord | None = None
    producer_name: str = ""
    """The name in the metadata."""
    sequence_id: int = -1
    highest_sequence_id: int = -1
    partition: int = -1
    stream: int = -1
    """``tcp.stream`` of the last SEND."""
    sent_frame: int = 0
    sent_ns: int = -1
    """Time of the first SEND."""
    messages: int = 1
    """Number of messages in the batch, or 1."""
    batch: bool = False
    size: int = 0
    """Bytes of the payload on the wire."""
    key: str = ""
    """Ordering key of the entry, or else its partition key; see key_order.py."""
    publish_ms: int = 0
    deliver_at_ms: int = 0
    ledger: int = -1
    entry: int = -1
    receipt_frame: int = 0
    receipt_ns: int = -1
    error: str = ""
    """Error of SEND_ERROR."""
    resent: tuple[tuple[int, int, int], ...] = ()
    """Resends: (stream, frame, time)."""
    other_ids: tuple[tuple[int, int], ...] = ()
    """Further ids assigned to resends: the entry is stored more than once."""
    earlier: tuple[Lifecycle, ...] = ()
    """Earlier attempts to send messages of this entry to segments that were sealed, at most MOST_EARLIER."""
    moved: int = 0
    """Number of messages (of a chunked message: chunks) that were sent again on another segment."""
    uuid: str = ""
    """The uuid of a chunked message."""
    num_chunks: int = 0
    chunks: tuple[tuple[int, int, int, int], ...] = ()
    """Chunks of a chunked message: (chunk id, frame, ledger, entry) as sent, at most MOST_CHUNKS."""
    txn: tuple[int, int] | None = None
    marker: bool = False
    """Whether the entry is a marker that the broker wrote (transaction end), not a message."""
    deliveries: dict[str, list[Delivery]] = field(default_factory=dict)
    """Deliveries by subscription, in chronological order."""
    unacked: dict[str, int] = field(default_factory=dict)
    """Number of unacknowledged messages in the entry, for each subscription that received it."""
    without_permits: tuple[str, ...] = ()
    """Subscriptions of a non-persistent topic whose consumers had no permits when the message was stored."""
    dead_letters: tuple[tuple[str, int, int], ...] = ()
    """SENDs to dead letter topics: topic, frame, time; at most 64."""
    state: str = "in_flight"
    """A key of STATES."""
    evicted: bool = False
    """Whether the lifecycle was evicted before it was complete, because there were too many lifecycles."""
    doubts: frozenset[str] = frozenset()
    """Keys of DOUBTS. An empty set per message would occupy a fifth of its memory."""
    checksum: int = -1
    """CRC-32C in the frame; of a chunked message, in its first frame. -1 if unknown."""

    @property
    def id(self) -> str:
        """``ledger:entry``; empty if unknown."""
        return f"{self.ledger}:{self.entry}" if self.ledger >= 0 else ""

    @property
    def published_as(self) -> tuple[str, int, int]:
        """What distinguishes messages without an id: producer name, sequence id, and publish time.

        Producers of the same name can use the same sequence ids one after another.
        """
        return self.producer_name, self.sequence_id, self.publish_ms

    @property
    def continued(self) -> bool:
        """Whether the lifecycle continues in others: it has no id, and all its messages were sent again elsewhere."""
        return self.ledger < 0 and self.moved >= max(self.messages, self.num_chunks)

    def add_earlier(self, attempt: Lifecycle) -> None:
        """Add an attempt, and the attempts before it, to send a message of this entry."""
        if self.earlier and self.earlier[-1] is attempt:
            return  # another message of the same batch
        new = [one for one in (*attempt.earlier, attempt) if all(one is not known for known in self.earlier)]
        self.earlier = (*self.earlier, *new)[:MOST_EARLIER]

    def copy(self) -> Lifecycle:
        """Return a copy that shares the dictionaries. It takes a third of the time of copy.copy."""
        return Lifecycle(*_values(self))

    def subscription(self, name: str) -> SubscriptionRecord | None:
        """Return the record of a subscription of its topic, or None."""
        return None if self.topic is None else self.topic.subscriptions.get(name)


_values: Final = attrgetter(*(one.name for one in fields(Lifecycle)))
