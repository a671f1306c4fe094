"""What a whole recording says of ids: whose they are, from which frame on; what ends transactions; what is missing.

Data only, small enough to be sent to whoever merges; `learning.know` makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.interval_join import Intervals

__all__ = [
    "ConnectionGaps",
    "CumulativeAcks",
    "Publisher",
    "RecordingFacts",
    "RedeliveryCause",
    "Session",
    "SubscriptionEvidence",
    "TopicEvidence",
    "TransactionEnd",
]


@dataclass(frozen=True, slots=True)
class Publisher:
    """A producer on a connection, as its PRODUCER and the answer name it."""

    topic: str
    """Full name."""
    name: str
    partition: int
    """-1: none."""
    persistent: bool


@dataclass(frozen=True, slots=True)
class Session:
    """A consumer on a connection."""

    stream: int
    consumer_id: int
    topic: str
    subscription: str
    name: str
    type: str
    persistent: bool
    sub: int
    """Number of the subscription."""
    system: bool
    """Whether it is the broker's own."""

    @property
    def individual(self) -> bool:
        """Whether messages are acknowledged one by one (Subscription.isIndividualAckMode)."""
        return self.type in ("Shared", "Key_Shared")


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """A transaction has ended."""

    number: int
    commit: bool
    topic: str
    """Empty: on all."""
    subscription: str
    """Empty: on all of the topic."""


@dataclass(frozen=True, slots=True)
class RedeliveryCause:
    """The broker took messages of a subscription back, not for an ACK or REDELIVER of their own."""

    number: int
    cause: str
    """A key of pcli.codec.observe.tracking.records.topic_records.AGAIN."""
    stream: int
    consumer_id: int
    """Whose messages, on which connection; -1: of all; with ``all_but`` of all others."""
    all_but: bool = False


@dataclass(slots=True)
class ConnectionGaps:
    """What is missing of one connection."""

    last_number: int = 0
    """Its last frame."""
    ended: bool = False
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Each between two frames: the last of its direction before it, and the last of all when it was told."""
    weak: list[tuple[int, int]] = field(default_factory=list)
    """Where frames were found by search: from the first to the one with which their chain is proof enough."""


@dataclass(slots=True)
class SubscriptionEvidence:
    """A subscription of a topic, as far as evidence needs it."""

    sub: int
    """As Marks are keyed."""
    since: int
    """The frame with which its first consumer began; 0: before the capture."""
    attached_at_end: bool
    """Whether a consumer is attached when the capture ends."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Of the connections of its consumers."""


@dataclass(slots=True)
class TopicEvidence:
    """Who might have told of the messages of a topic."""

    subscriptions: list[SubscriptionEvidence] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Of the connections of its producers."""


@dataclass(slots=True)
class CumulativeAcks:
    """The cumulative ACKs of one subscription, by position; those that count."""

    ledger: Longs
    entry: Longs
    number: Longs
    time_ns: Longs
    earliest: Longs
    """Of this row and all behind it, the row of the usual one with the lowest frame number; -1: none."""
    odd: dict[int, bytes]
    """By row what is unusual of it, see `consuming.pack_ack`: a transaction, an ack set. Most have nothing."""

    @property
    def plain(self) -> bool:
        """Whether all are usual."""
        return not self.odd


@dataclass(slots=True)
class RecordingFacts:
    """What a recording says."""

    producers: Intervals
    publishers: list[Publisher]
    publisher: Longs
    """Index into ``publishers`` for each row of ``producers``."""
    consumers: Intervals
    sessions: list[Session]
    session: Longs
    """Index into ``sessions`` for each row of ``consumers``."""
    ready: Bools
    """Whether its ACKs count, for each row of ``consumers``."""
    until: Longs
    """The frame from which on another row of the same consumer holds, for each row of ``consumers``."""
    duplicate_connections: frozenset[int] = frozenset()
    """Connections that are second legs of others: nothing on them counts."""
    system: frozenset[int] = frozenset()
    """Connections of the broker's own client."""
    subscribed_topics: frozenset[str] = frozenset()
    """Topics that have a subscription at the end."""
    cumulative_acks: dict[int, CumulativeAcks] = field(default_factory=dict)
    """By number of the subscription; of consumers without a name by that of `marking.subscriptions_of`."""
    transactions: dict[tuple[int, int], list[TransactionEnd]] = field(default_factory=dict)
    failed_acks: frozenset[int] = frozenset()
    """ACK frames that were answered with an error."""
    redelivery_causes: dict[int, list[RedeliveryCause]] = field(default_factory=dict)
    """By number of the subscription, in order."""
    cursor_resets: dict[int, list[int]] = field(default_factory=dict)
    """By number of the subscription, in order: frames at which it let go of all that was open (SEEK, or it is a new one
    with an old name). A cumulative ACK behind does not reach what was delivered before."""
    ledger_topics: dict[int, str] = field(default_factory=dict)
    """Topics of ledgers."""
    connection_gaps: dict[int, ConnectionGaps] = field(default_factory=dict)
    """By connection; those with nothing missing too."""
    topic_evidence: dict[str, TopicEvidence] = field(default_factory=dict)
    """By topic; an empty name: of those whose topic no frame tells."""
    labels: dict[int, str] = field(default_factory=dict)
    """Of LABELS."""
    resend_candidates: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    """Rows of ``published`` that may be resends, or have been sent again: stream, producer_id, least and highest
    sequence id (as signed numbers), least and highest publish_time."""
