"""What is kept of producers and consumers, each across its reconnects. Data only.

Rules of this file
1. A producer is known by topic and name, a consumer by topic, subscription and name, whatever connection carries it.
   Without a name (its PRODUCER or SUBSCRIBE is not in the capture) it is known by connection and id, with the doubt
   "start".
2. A time on one connection is a Session. Those that are over are counted by how they ended; the last one is kept.
3. Permits and unacked messages are counted in messages, as the broker does (Consumer.java); they begin anew with
   each session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pcli.codec.observe.tracking.records.counters import Occurrences, StateDuration

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord

__all__ = ["ConsumerRecord", "PermitLedger", "ProducerRecord", "Session"]


@dataclass(slots=True)
class Session:
    """A producer or consumer on one connection."""

    stream: int
    """``tcp.stream``."""
    id: int
    """producer_id or consumer_id."""
    number: int
    """Frame of PRODUCER or SUBSCRIBE; 0: not seen."""
    began_ns: int
    """Of that frame; without it of the first that speaks of it."""
    ready_ns: int = -1
    """When it was answered with success; -1: not (yet)."""
    ready_frame: int = 0
    ended_ns: int = -1
    ended_frame: int = 0
    """The CLOSE, or the last frame of its connection; 0: it lasts."""
    end: str = ""
    """A key of links.ENDS; empty: it lasts."""


@dataclass(slots=True)
class PermitLedger:
    """The permits of a consumer's present session, as the broker counts them, and what went wrong with them."""

    known: bool = False
    """Whether its SUBSCRIBE was seen, and a FLOW before its first MESSAGE, so that the balance is right and not only
    relative."""
    balance: int = 0
    flowed: int = 0
    """Σ FLOW.messagePermits."""
    delivered: int = 0
    """Messages that cost permits: batch size less what the ack set excludes; a chunk counts one."""
    queue: int = 0
    """The first FLOW of the session: the receiver queue size, or 1 and the like for a zero queue."""
    last_flow_ns: int = -1
    last_flow_frame: int = 0
    flows: int = 0
    """How many FLOWs."""
    able_ns: int = -1
    """When the balance rose above 0 last."""
    lowest: int = 0
    lowest_frame: int = 0
    overshoot: Occurrences = field(default_factory=Occurrences)
    """Batches that were sent although fewer permits were left: normal, the broker sends an entry whole."""
    exhausted: StateDuration = field(default_factory=StateDuration)
    """While the balance is 0 or less (from SUBSCRIBE on, before the first FLOW, too)."""
    before_flow_ns: int = -1
    """Duration from SUBSCRIBE to the first FLOW, which `exhausted` counts once; -1: no such time, or no FLOW yet."""
    doubled: Occurrences = field(default_factory=Occurrences)
    """FLOWs after which the client has asked for more than its queue and what it was sent can explain."""
    surplus: int = 0
    """By how much the balance was above what the queue and excluded messages explain, at most."""
    short: Occurrences = field(default_factory=Occurrences)
    """FLOWs, not the first, after which more than half of the queue was owed still (Shared, Key_Shared, with a queue of
    more than one): queue less balance less unacked messages. Clients send a FLOW for all that they owe."""
    corrupt: Occurrences = field(default_factory=Occurrences)
    """MESSAGE frames with a wrong checksum; count is that of messages in them (their permits, PIP-491)."""
    corrupt_returned: int = 0
    """Permits that came back for those, as far as FLOWs tell."""
    excluded: int = 0
    """Messages of batches that were acknowledged already when the batch was sent: they cost nothing, but a client that
    counts what it throws away returns permits for them."""
    unspent: int = 0
    """Permits of the FLOWs since the last MESSAGE, part of the balance: if it is blocked on unacked messages the broker
    has put them by, and adds them when it unblocks."""
    points: list[tuple[int, int, int]] = field(default_factory=list)
    """Balance over time for a chart: (time ns, frame, balance), thinned out to at most 512 evenly kept points."""
    stride: int = 1
    """Every how manieth change of the balance is a point."""
    changes: int = 0
    """How often the balance has changed."""


@dataclass(slots=True)
class ConsumerRecord:
    """A consumer of a subscription."""

    topic: str
    subscription_name: str
    name: str
    """As given in SUBSCRIBE; the broker gives none, an unnamed one stays empty."""
    type: str
    """Exclusive, Shared, Failover, Key_Shared; empty: unknown."""
    subscription: SubscriptionRecord | None
    system: bool = False
    priority: int = 0
    durable: bool = True
    """Whether the subscription is; readers make ones that are not."""
    start_id: tuple[int, int] | None = None
    """start_message_id of its last SUBSCRIBE: counts for a new subscription that is not durable. -1:-1: earliest."""
    initial_position: str = ""
    """Latest or Earliest: where its subscription begins if it is new."""
    rollback_seconds: int = 0
    """start_message_rollback_duration_sec."""
    read_compacted: bool = False
    key_ranges: tuple[tuple[int, int], ...] = ()
    """Of a STICKY consumer, inclusive."""
    allow_out_of_order: bool = False
    session: Session | None = None
    """The present one, or the last."""
    sessions: int = 0
    first_ns: int = 0
    last_ns: int = 0
    ends: dict[str, Occurrences] = field(default_factory=dict)
    """How sessions ended, by links.ENDS."""
    double_subscribe: Occurrences = field(default_factory=Occurrences)
    """SUBSCRIBE with the id of a consumer that lives on the same connection."""
    refused: dict[str, Occurrences] = field(default_factory=dict)
    """SUBSCRIBE answered by an error, by its ServerError; the sample is the message."""
    permits: PermitLedger = field(default_factory=PermitLedger)
    active: bool | None = None
    """By the last ACTIVE_CONSUMER_CHANGE; None: never told."""
    active_frame: int = 0
    active_ns: int = -1
    unacked: int = 0
    """Messages that it holds (Shared, Key_Shared), as unackedMessages of the statistics."""
    blocked: StateDuration = field(default_factory=StateDuration)
    """While unacked messages seem to keep the broker from sending: it holds at least as many as the highest number at
    which it was seen to stop before, or as is known from the settings; see ledger.py."""
    blocked_at: int = 0
    """The number of unacked messages at which that began; 0: never."""
    silent: StateDuration = field(default_factory=StateDuration)
    """While it has permits, is not blocked, the subscription has entries that it may get, and nothing comes."""
    received: int = 0
    """msgOutCounter of the present session: messages, batches in full."""
    received_entries: int = 0
    bytes_out: int = 0
    last_message_ns: int = -1
    last_message_frame: int = 0
    acked: int = 0
    """Messages acknowledged in frames of this consumer."""
    last_ack_ns: int = -1
    last_ack_frame: int = 0
    acks_unanswered: Occurrences = field(default_factory=Occurrences)
    """ACKs with a request id that had no ACK_RESPONSE when the consumer, its connection or the capture ended."""
    acks_failed: dict[str, Occurrences] = field(default_factory=dict)
    """ACK_RESPONSEs with an error, by it."""
    acked_but_back: Occurrences = field(default_factory=Occurrences)
    """Messages delivered again although an ACK had been sent that covers them; not after seeks and not for batches of
    which a part was left."""
    validation: dict[str, Occurrences] = field(default_factory=dict)
    """ACKs with a validation_error, by it (ChecksumMismatch, DecryptionError, …)."""
    asked_again: Occurrences = field(default_factory=Occurrences)
    """REDELIVER with ids; count is that of ids."""
    asked_all: Occurrences = field(default_factory=Occurrences)
    """REDELIVER without ids."""
    hold_ages: list[int] = field(default_factory=list)
    """How long the messages were held that were asked again by ids, ns; at most 64, those of first deliveries."""
    ack_ages: Occurrences = field(default_factory=Occurrences)
    """Entries acked; `ack_age_max_ns` is the longest time from MESSAGE to ACK."""
    ack_age_max_ns: int = 0
    ack_age_total_ns: int = 0
    never_acked: Occurrences = field(default_factory=Occurrences)
    """Messages held at the end (of the session, or of the capture): its last look, not a sum over sessions. Those that
    were delivered first come first; the sample is the id of the oldest."""
    never_acked_oldest_ns: int = 0
    """When the oldest of them was delivered."""
    whole_batches_again: Occurrences = field(default_factory=Occurrences)
    """Batches delivered again in full although the consumer went on with a part of them: see settings rules."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class ProducerRecord:
    """A producer of a topic."""

    topic: str
    name: str
    """As asked for, or as the broker gave it."""
    topic_record: TopicRecord | None
    system: bool = False
    access_mode: str = ""
    session: Session | None = None
    sessions: int = 0
    first_ns: int = 0
    last_ns: int = 0
    ends: dict[str, Occurrences] = field(default_factory=dict)
    """How sessions ended, by links.ENDS."""
    refused: dict[str, Occurrences] = field(default_factory=dict)
    """PRODUCER answered by an error, by its ServerError."""
    waiting: StateDuration = field(default_factory=StateDuration)
    """Between PRODUCER_SUCCESS with producer_ready = false and the true one (WaitForExclusive)."""
    sent: int = 0
    """Messages, batches in full; a chunked message counts when its last chunk is sent."""
    sent_entries: int = 0
    """SEND frames: resends and chunks, too."""
    receipts: int = 0
    open_sends: int = 0
    """SENDs of the present session without an answer."""
    oldest_open_ns: int = -1
    oldest_open_frame: int = 0
    no_receipt: StateDuration = field(default_factory=StateDuration)
    """While at least one SEND waits and no receipt comes, for a second or longer: begins at the oldest open SEND or the
    last receipt, the later of them."""
    unreceipted: Occurrences = field(default_factory=Occurrences)
    """SENDs that stayed without an answer when their connection or producer ended."""
    lost: Occurrences = field(default_factory=Occurrences)
    """Of these, those that nobody sent again, as far as that is settled: see senders.py."""
    heard_ns: int = -1
    """The last frame from the broker on the connection of the present session, whatever it was; -1: none."""
    heard_frame: int = 0
    send_errors: dict[str, Occurrences] = field(default_factory=dict)
    """SEND_ERROR by its ServerError; the sample is the message."""
    out_of_order: Occurrences = field(default_factory=Occurrences)
    """Receipts that came before that of an earlier SEND of the session."""
    skipped: Occurrences = field(default_factory=Occurrences)
    """SENDs without an answer when their session ended, though a later one had its receipt: SEND, that receipt."""
    unexpected: Occurrences = field(default_factory=Occurrences)
    """Receipts for a sequence id that is not open."""
    gaps: Occurrences = field(default_factory=Occurrences)
    """SENDs whose sequence id leaves out some, seen from the highest before it (batches by their highest id)."""
    ids_vague: bool = False
    """Whether batches came that do not tell their highest sequence id: see numbering.py."""
    backwards: Occurrences = field(default_factory=Occurrences)
    """SENDs whose sequence id is not above the highest, other than resends after a reconnect and chunks."""
    resent: Occurrences = field(default_factory=Occurrences)
    """SENDs of ids that an earlier session had sent, or the same session without a receipt."""
    resent_blind: Occurrences = field(default_factory=Occurrences)
    """Of these, those whose first SEND had no answer at all: whether it was stored, nobody has seen."""
    resent_with_receipt: Occurrences = field(default_factory=Occurrences)
    """Of these, those whose first SEND had a receipt that was in time: the client never saw it, or sends twice."""
    duplicates_refused: Occurrences = field(default_factory=Occurrences)
    """Receipts of -1:-1: broker deduplication dropped the message."""
    resends_refused: Occurrences = field(default_factory=Occurrences)
    """Of these, those of resends, byte for byte: what deduplication is for. The others are other messages under ids
    that were used before."""
    duplicates_stored: Occurrences = field(default_factory=Occurrences)
    """Resent SENDs that were given a second message id: the message is in the topic twice."""
    chunks_resent: Occurrences = field(default_factory=Occurrences)
    """Chunks (uuid, chunk_id) sent more than once."""
    clock_skew_ms: tuple[int, int, int] = (0, 0, 0)
    """Least, greatest and last difference of the capture's time of SEND less publish_time, milliseconds; of those
    SENDs that are no resends."""
    skewed: Occurrences = field(default_factory=Occurrences)
    """SENDs whose publish_time is later than the capture's, or more than ten seconds earlier."""
    doubts: set[str] = field(default_factory=set)
