"""Facts about a whole recording: the owners of ids by frame, ends of transactions, gaps.

The facts contain only data and are small enough to be sent to all tasks. `collect_facts` computes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.row_operations import Intervals

_NONE: Final = np.zeros(0, np.int64)
_LAST: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Publisher:
    """A producer on a connection, with the names in its PRODUCER and the response."""

    topic: str
    """Full name of the topic."""
    name: str
    partition: int
    """-1 if none."""
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
    """Whether the consumer belongs to the broker's own client."""

    @property
    def individual(self) -> bool:
        """Whether messages are acknowledged individually (Subscription.isIndividualAckMode)."""
        return self.type in ("Shared", "Key_Shared")


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction."""

    number: int
    commit: bool
    topic: str
    """The topic; empty for all topics."""
    subscription: str
    """The subscription; empty for all subscriptions of the topic."""


@dataclass(frozen=True, slots=True)
class RedeliveryCause:
    """An event, other than a REDELIVER with ids, after which the broker redelivers messages of a subscription."""

    number: int
    cause: str
    """A key of pcli.codec.observe.tracking.records.topic_records.AGAIN."""
    stream: int
    consumer_id: int
    """Together with ``stream``, this id identifies the consumer whose messages are redelivered; -1 for all consumers.
    If ``all_but`` is set, the messages of all other consumers are redelivered."""
    all_but: bool = False


@dataclass(slots=True)
class ConnectionGaps:
    """The gaps in one connection."""

    last_number: int = 0
    """The last frame of the connection."""
    ended: bool = False
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Each gap as two frames: the last frame of its direction before the gap, and the last frame of any connection
    before the gap was reported."""
    weak: list[tuple[int, int]] = field(default_factory=list)
    """Runs of resynchronized frames: from the first frame to the frame at which the run is certain."""


@dataclass(slots=True)
class SubscriptionEvidence:
    """A subscription of a topic, with the values that evidence depends on."""

    sub: int
    """A key of `RecordingFacts.cumulative_acks`."""
    since: int
    """The first frame of the subscription's first consumer; 0 if the consumer was opened before the capture."""
    attached_at_end: bool
    """Whether a consumer is attached at the end of the capture."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Gaps in the connections of the subscription's consumers."""


@dataclass(slots=True)
class TopicEvidence:
    """The subscriptions of a topic, and gaps in the connections of its clients."""

    subscriptions: list[SubscriptionEvidence] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Gaps in the connections of the topic's producers."""


@dataclass(slots=True)
class CumulativeAcks:
    """The effective cumulative ACKs of one subscription, by position."""

    ledger: Longs
    entry: Longs
    number: Longs
    time_ns: Longs
    earliest: Longs
    """For each row, the usual row at or after it with the lowest frame number; -1 if none."""
    odd: dict[int, bytes | None]
    """Unusual ACKs by row, with transaction and ack set (`split_deliveries.pack_ack`). ACKs whose response has an error
    are also unusual; their value may be None."""
    last: Longs
    """For each row, the last frame of the ACKs that the row represents: the ACK itself, or all usual ACKs of later
    blocks (`cumulative_acks.acks_of_bucket`)."""

    def unknown(self, ledger: int, entry: int, since: Iterable[int]) -> bool:
        """Return whether the first ACK that covers a position after one of these frames is not in the rows."""
        begin = position_of(self, ledger, entry)
        many = np.flatnonzero(self.last[begin:] > self.number[begin:]) + begin
        return any(bool(((self.number[many] <= one) & (one < self.last[many])).any()) for one in since)

    @property
    def plain(self) -> bool:
        """Whether all ACKs are usual."""
        return not self.odd


def position_of(acks: CumulativeAcks, ledger: int, entry: int) -> int:
    """Return the first row that covers a position."""
    low, high = np.searchsorted(acks.ledger, [ledger, ledger + 1 if ledger < _LAST else ledger]).tolist()
    if ledger == _LAST:
        high = len(acks.ledger)
    return int(low + np.searchsorted(acks.entry[low:high], entry))


@dataclass(slots=True)
class LaterAcks:
    """The usual cumulative ACKs of a subscription between two cursor resets, by block of entries."""

    ledger: Longs
    block: Longs
    """Number of the block in the ledger (row_operations.ENTRY_BLOCK)."""
    number: Longs
    """The earliest frame of the ACKs in this block and in later blocks."""
    time_ns: Longs
    """Time of that frame."""
    last: Longs
    """The last frame of these ACKs."""


@dataclass(slots=True)
class RecordingFacts:
    """Facts about a recording."""

    producers: Intervals
    publishers: list[Publisher]
    publisher: Longs
    """Index into ``publishers`` for each row of ``producers``."""
    consumers: Intervals
    sessions: list[Session]
    session: Longs
    """Index into ``sessions`` for each row of ``consumers``."""
    ready: Bools
    """Whether the consumer's ACKs are effective, for each row of ``consumers``."""
    until: Longs
    """The frame from which the next row of the same consumer applies, for each row of ``consumers``."""
    duplicate_connections: frozenset[int] = frozenset()
    """Second connections of proxied conversations, whose frames are ignored."""
    system: frozenset[int] = frozenset()
    """Connections of the broker's own client."""
    subscribed_topics: frozenset[str] = frozenset()
    """Topics that have a subscription at the end."""
    cumulative_acks: dict[int, CumulativeAcks] = field(default_factory=dict)
    """The cumulative ACKs that a bucket needs, by the subscription number or substitute number that
    `cumulative_acks.subscriptions_of` returns. Empty in the facts that all tasks share."""
    transactions: dict[tuple[int, int], list[TransactionEnd]] = field(default_factory=dict)
    failed_acks: frozenset[int] = frozenset()
    """ACK frames whose response has an error."""
    redelivery_causes: dict[int, list[RedeliveryCause]] = field(default_factory=dict)
    """Causes by subscription number, in order."""
    cursor_resets: dict[int, list[int]] = field(default_factory=dict)
    """Frames that close all deliveries of a subscription, by subscription number, in order: a SEEK, or a SUBSCRIBE that
    creates the subscription again under the same name. A later cumulative ACK does not cover earlier deliveries."""
    ledger_topics: dict[int, str] = field(default_factory=dict)
    """Topic by ledger."""
    connection_gaps: dict[int, ConnectionGaps] = field(default_factory=dict)
    """Gaps by connection, including connections without gaps."""
    topic_evidence: dict[str, TopicEvidence] = field(default_factory=dict)
    """Subscriptions and gaps by topic. The empty name is for clients whose topic is unknown."""
    labels: dict[int, str] = field(default_factory=dict)
    """Rows of LABELS."""
    resend_candidates: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    """Ranges of rows of ``published`` that may be resends or have been resent: stream, producer_id, lowest and highest
    sequence id (signed), lowest and highest publish_time."""
    later_acks: dict[int, list[LaterAcks]] = field(default_factory=dict)
    """A summary of all usual cumulative ACKs by subscription number, and the unusual ones:"""
    odd_acks: pa.Table | None = None
    """Rows of cumulative_acks.EFFECTIVE."""
    session_ends: Intervals = field(default_factory=lambda: Intervals(_NONE, _NONE, _NONE))
    """The ends of producers' sessions, one row for each: from this frame on, no receipts of earlier SENDs follow."""
    forwarded_requests: frozenset[tuple[int, int]] = frozenset()
    """Connection and request id of ACKs that `exchanges_of_requests` matches, because the columns lack their response.
    """
