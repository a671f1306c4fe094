"""Records of topics, subscriptions and keys. The module contains only data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pcli.codec.observe.tracking.records.counters import Occurrences, StateDuration
from pcli.codec.observe.tracking.records.message_counts import DeliveryCounts, PublishCounts

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
    from pcli.codec.observe.tracking.records.scalable_records import SegmentRecord

AGAIN: dict[str, str] = {
    "nack": "the consumer requested it (negative acknowledgement)",
    "ack_timeout": "the consumer requested it because the acknowledgement timeout expired",
    "requested": "the consumer requested it: the acknowledgement timeout expired, or a negative acknowledgement",
    "rewind": "the consumer requested all its messages (REDELIVER without ids)",
    "takeover": "another consumer became active (Failover)",
    "left": "the client closed the consumer that held the message",
    "lost": "the connection of the consumer that held the message broke",
    "unload": "the broker closed the consumer, which subscribed again: unload, restart, deletion",
    "seek": "a SEEK moved the cursor before this delivery",
    "reset": "an administrator reset the cursor or deleted the subscription: the broker closed only its consumers",
    "reopened": "another consumer subscribed after the last consumer had left",
    "aborted": "a transaction with acknowledgements of the subscription was aborted",
    "expired": "a transaction with acknowledgements of the subscription ended without END_TXN: its timeout expired",
    "twice": "the same consumer received it twice without a cause on the wire",
}
"""Causes of redeliveries: the keys of `SubscriptionRecord.again`."""


@dataclass(slots=True)
class TopicRecord:
    """A topic, by its full name."""

    name: str
    system: bool = False
    persistent: bool = True
    subscriptions: dict[str, SubscriptionRecord] = field(default_factory=dict)
    producers: dict[str, ProducerRecord] = field(default_factory=dict)
    """Producers by name; the number is bounded."""
    messages_in: int = 0
    """msgInCounter: messages of SENDs with a response, including -1:-1 and most SEND_ERRORs, in all loads of the
    topic."""
    bytes_in: int = 0
    """bytesInCounter: metadata, payload and their headers."""
    entries_in: int = 0
    """Number of stored entries."""
    last_in_ns: int = -1
    last_id: tuple[int, int] = (-1, -1)
    """The highest (ledger, entry) published or delivered."""
    messages: PublishCounts = field(default_factory=PublishCounts)
    """Messages by their result, in all loads of the topic."""
    segment: SegmentRecord | None = field(default=None, repr=False)
    """The segment of a scalable topic that this topic stores; None for a classic topic."""
    deduplicates: bool = False
    """Whether there was a receipt of -1:-1."""
    unloads: Occurrences = field(default_factory=Occurrences)
    """Times at which the broker closed producers or consumers of the topic without a request."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class SubscriptionRecord:
    """A subscription of a topic."""

    topic: TopicRecord
    name: str
    type: str = ""
    durable: bool = True
    gone: bool = False
    """Whether the broker removed the subscription, after UNSUBSCRIBE or after the last consumer of a non-durable
    subscription left."""
    skipped: Occurrences = field(default_factory=Occurrences)
    """Messages that a durable subscription skipped because it was removed and created again at the latest message: its
    backlog at that time, and the messages stored in between. The frames are those of the UNSUBSCRIBE's response and of
    the SUBSCRIBE's response."""
    key_shared_mode: str = ""
    """AUTO_SPLIT or STICKY; empty if the subscription is not Key_Shared or the mode is unknown."""
    allow_out_of_order: bool = False
    consumers: dict[str, ConsumerRecord] = field(default_factory=dict)
    """All consumers by name, or by ``stream#id`` if unnamed. An attached consumer has a session without an end."""
    backlog: int | None = None
    """Number of published entries that are not acknowledged; None if unknown, because the topic is older than the
    capture."""
    backlog_least: int = 0
    """If the backlog is unknown: the number of entries that were stored after the subscription began and are not
    acknowledged."""
    unacked: int = 0
    """Messages held by attached consumers (Shared, Key_Shared)."""
    delivered: int = 0
    """msgOutCounter: messages to all consumers, including all messages in a batch."""
    entries_out: int = 0
    messages: DeliveryCounts = field(default_factory=DeliveryCounts)
    """Messages by their result, in all loads of the topic."""
    again: dict[str, Occurrences] = field(default_factory=dict)
    """Redelivered messages by key of AGAIN; the frames are those of the delivery and of its cause."""
    again_entries: dict[str, int] = field(default_factory=dict)
    """Redelivered entries by the same keys; a batch is one entry."""
    most_redelivered: list[tuple[int, str, int, int, int]] = field(default_factory=list)
    """The messages with the most redeliveries, at most 8: deliveries, message id, first frame, last frame, time of the
    first delivery in ns."""
    redelivered_per_second: int = 0
    """Maximum number of redelivered entries in one second of the capture."""
    redelivered_peak_ns: int = 0
    """Start of that second."""
    dead_lettered: Occurrences = field(default_factory=Occurrences)
    """Messages that a client sent to its dead letter topic (properties REAL_SUBSCRIPTION or the topic's name)."""
    passed_over: Occurrences = field(default_factory=Occurrences)
    """Messages that were never delivered, although the dispatcher delivered later messages in order. The frames are the
    SEND and the later delivery; the sample is the id."""
    dropped: Occurrences = field(default_factory=Occurrences)
    """Messages of a non-persistent topic that the broker dropped because no attached consumer had permits; the frames
    are those of the SENDs."""
    seeks: Occurrences = field(default_factory=Occurrences)
    admin_resets: list[int] = field(default_factory=list)
    """Frames of the last CLOSE_CONSUMER of each reset or deletion by an administrator; at most 1,000."""
    hash_waits: StateDuration = field(default_factory=StateDuration)
    """Periods in which entries of a key wait because another consumer holds earlier entries (Key_Shared)."""
    hash_holder: str = ""
    """Consumer and key of the longest wait."""
    order_broken: Occurrences = field(default_factory=Occurrences)
    """Messages that were delivered while another consumer held messages of their key, or after a message that was
    published later. See key_order.py."""
    key_batches: int = 0
    """Number of first deliveries of batches with keys (Key_Shared)."""
    mixed_batches: Occurrences = field(default_factory=Occurrences)
    """Those whose messages have different keys. The sample contains the first three keys."""
    split_keys: Occurrences = field(default_factory=Occurrences)
    """Deliveries of a key to a consumer that had received it before another attached consumer (rule 6 of
    key_order.py). The sample is the key."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class KeyRecord:
    """A key of a subscription that moved to another consumer or whose order was violated."""

    subscription: SubscriptionRecord
    key: str
    """As text; base64 for a binary key."""
    hash: int
    """Sticky hash, 0 to 65535."""
    owners: list[str] = field(default_factory=list)
    """Consumers that received the key, in order; at most 8."""
    moved: Occurrences = field(default_factory=Occurrences)
    open_at_two: Occurrences = field(default_factory=Occurrences)
    """Messages delivered to a consumer while another consumer held unacknowledged messages of the key."""
    backwards: Occurrences = field(default_factory=Occurrences)
    """Messages that were first delivered after a message with the same key that was published later."""
    doubts: set[str] = field(default_factory=set)
