"""What is kept of topics, their subscriptions, and the keys of these. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pcli.codec.observe.tracking.records.counters import Occurrences, StateDuration

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord

__all__ = ["AGAIN", "KeyRecord", "SubscriptionRecord", "TopicRecord"]

AGAIN: dict[str, str] = {
    "nack": "the consumer requested it (negative acknowledgement)",
    "ack_timeout": "the consumer requested it, always at the same age: its acknowledgement timeout",
    "rewind": "the consumer requested all its messages (REDELIVER without ids)",
    "takeover": "another consumer became active (Failover)",
    "left": "the consumer that held it closed",
    "lost": "the connection of the consumer that held it broke",
    "unload": "the broker closed the consumer, which subscribed again: unload, restart, deletion",
    "seek": "a SEEK, or a reset through the admin API, moved the cursor before it",
    "reopened": "another consumer subscribed after the last one had left",
    "aborted": "the transaction that acknowledged it was aborted",
    "twice": "the same consumer received it twice without a cause on the wire",
}
"""Why an entry was delivered again, as far as frames tell: a key of `SubscriptionRecord.again`."""


@dataclass(slots=True)
class TopicRecord:
    """A topic, by its full name."""

    name: str
    system: bool = False
    persistent: bool = True
    subscriptions: dict[str, SubscriptionRecord] = field(default_factory=dict)
    producers: dict[str, ProducerRecord] = field(default_factory=dict)
    """By name; bounded like all."""
    messages_in: int = 0
    """msgInCounter: messages of SENDs with an answer, -1:-1 and most SEND_ERRORs included, over all loads of it."""
    bytes_in: int = 0
    """bytesInCounter: metadata, payload and their headers."""
    entries_in: int = 0
    """Those that were stored."""
    last_in_ns: int = -1
    last_id: tuple[int, int] = (-1, -1)
    """The highest (ledger, entry) seen, published or delivered."""
    deduplicates: bool = False
    """Whether a receipt of -1:-1 was seen."""
    unloads: Occurrences = field(default_factory=Occurrences)
    """Moments at which the broker closed producers or consumers of it unasked."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class SubscriptionRecord:
    """A subscription of a topic."""

    topic: TopicRecord
    name: str
    type: str = ""
    durable: bool = True
    gone: bool = False
    """Whether the broker knows it no more: unsubscribed, or not durable and its last consumer has left."""
    key_shared_mode: str = ""
    """AUTO_SPLIT, STICKY; empty: not Key_Shared, or unknown."""
    allow_out_of_order: bool = False
    consumers: dict[str, ConsumerRecord] = field(default_factory=dict)
    """Those that were ever seen, by name (unnamed: by ``stream#id``); the attached ones have a session without end."""
    backlog: int | None = None
    """Entries published and not acknowledged; None: cannot be known (the capture began later than the topic)."""
    unacked: int = 0
    """Messages held by attached consumers (Shared, Key_Shared)."""
    delivered: int = 0
    """msgOutCounter: messages, batches in full, over all consumers."""
    entries_out: int = 0
    again: dict[str, Occurrences] = field(default_factory=dict)
    """Entries delivered again, by AGAIN; frames are those of the delivery and of what asked for it."""
    most_redelivered: list[tuple[int, str, int, int]] = field(default_factory=list)
    """The messages that came most often, at most 8: (deliveries, message id, first frame, last frame)."""
    redelivered_per_second: int = 0
    """The most redeliveries in one second of the capture."""
    redelivered_peak_ns: int = 0
    """When that second began."""
    dead_lettered: Occurrences = field(default_factory=Occurrences)
    """Messages of it that a client sent to its dead letter topic (properties REAL_SUBSCRIPTION or the topic's name)."""
    seeks: Occurrences = field(default_factory=Occurrences)
    hash_waits: StateDuration = field(default_factory=StateDuration)
    """While entries of a key wait since another consumer holds earlier ones of it (Key_Shared)."""
    hash_holder: str = ""
    """Which consumer held, and which key: of the longest wait."""
    large_batches: Occurrences = field(default_factory=Occurrences)
    """Batches of more messages than the consumer had permits for while another consumer with permits got nothing."""
    order_broken: Occurrences = field(default_factory=Occurrences)
    """Keys open at two consumers at once, or delivered in another order than published; see keys.py."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class KeyRecord:
    """A key of a subscription whose order was broken, or that moved from one consumer to another."""

    subscription: SubscriptionRecord
    key: str
    """As text; base64 of binary ones."""
    hash: int
    """Sticky hash, 0 to 65535."""
    owners: list[str] = field(default_factory=list)
    """The consumers that were given it, in order, at most 8."""
    moved: Occurrences = field(default_factory=Occurrences)
    open_at_two: Occurrences = field(default_factory=Occurrences)
    """Deliveries to a consumer while another held unacked entries of the same key."""
    backwards: Occurrences = field(default_factory=Occurrences)
    """First deliveries of an entry after one that was published later, of the same key."""
    doubts: set[str] = field(default_factory=set)
