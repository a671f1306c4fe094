"""Records of producers and consumers across reconnects. The module contains only data.

Rules of this file
1. On any connection, a producer is identified by topic and name, and a consumer is identified by topic, subscription
   and name. If PRODUCER or SUBSCRIBE is not in the capture, the name is unknown, and the record is identified by
   connection and id and has the doubt "start".
2. A Session is the time on one connection. Ended sessions are counted by their end; the last session is kept.
3. Permits and unacked messages are counted in messages, as in the broker (Consumer.java), and restart in each session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pcli.codec.observe.tracking.records.counters import Occurrences, StateDuration

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord

MAX_SESSIONS: Final = 16


@dataclass(slots=True)
class Session:
    """A producer or consumer on one connection."""

    stream: int
    """``tcp.stream``."""
    id: int
    """producer_id or consumer_id."""
    number: int
    """Frame of PRODUCER or SUBSCRIBE; 0 if not captured."""
    began_ns: int
    """Time of that frame, or of the first frame of the session if it was not captured."""
    ready_ns: int = -1
    """Time of the successful response, or -1."""
    ready_frame: int = 0
    ended_ns: int = -1
    ended_frame: int = 0
    """Frame of the CLOSE, or the last frame of the connection; 0 while the session is open."""
    end: str = ""
    """A key of ENDS; empty while the session is open."""


@dataclass(slots=True)
class IndexAcks:
    """The messages of a batch that a consumer has acknowledged one by one."""

    left: int
    """The messages without an ACK, as bits."""
    time_ns: int
    frame: int
    """The first ACK."""
    request: int = 0
    """The last request for redelivery of the batch after the first ACK, or 0."""


@dataclass(slots=True)
class PermitLedger:
    """The permits of a consumer's current session, as the broker counts them, and the faults found."""

    known: bool = False
    """Whether SUBSCRIBE and a FLOW before the first MESSAGE were captured. If not, the balance is only relative."""
    balance: int = 0
    flowed: int = 0
    """Sum of messagePermits of all FLOWs."""
    delivered: int = 0
    """Messages that use permits: the batch size without the messages that the ack set excludes; a chunk counts as one
    message."""
    queue: int = 0
    """The receiver queue size: the permits in the first FLOW of the session, or about 1 if that size is 0. A queue of 1
    that doubles after it was used grows on purpose (autoScaledReceiverQueueSize)."""
    scaled: bool = False
    """Whether the queue can grow: its first size was 1."""
    grown_at: int = 0
    """`delivered` when the queue last grew."""
    last_flow_ns: int = -1
    last_flow_frame: int = 0
    flows: int = 0
    """Number of FLOWs."""
    able_ns: int = -1
    """Time at which the balance last rose above 0."""
    lowest: int = 0
    lowest_frame: int = 0
    overshoot: Occurrences = field(default_factory=Occurrences)
    """Batches larger than the remaining permits: normal, because the broker sends entries whole."""
    exhausted: StateDuration = field(default_factory=StateDuration)
    """Periods with a balance of 0 or less, including the time from SUBSCRIBE to the first FLOW."""
    before_flow_ns: int = -1
    """Duration from SUBSCRIBE to the first FLOW, which `exhausted` includes; -1 if unknown or if there was no FLOW
    yet."""
    doubled: Occurrences = field(default_factory=Occurrences)
    """FLOWs after which the balance is too high for the size of the queue and the deliveries."""
    surplus: int = 0
    """Maximum by which the balance exceeded the size of the queue plus the excluded messages."""
    short: Occurrences = field(default_factory=Occurrences)
    """Later FLOWs after which more than half of the queue is still missing (Shared, Key_Shared, with a queue of more
    than one): queue − balance − unacked messages. Clients normally send one FLOW for all the permits that they can
    return.
    """
    corrupt: Occurrences = field(default_factory=Occurrences)
    """MESSAGE frames with a wrong checksum; the count is the number of their messages (permits, PIP-491)."""
    corrupt_returned: int = 0
    """Permits returned for those messages, according to the FLOWs."""
    excluded: int = 0
    """Messages of batches that were acknowledged before the batch was sent. They use no permits, but a client that
    counts discarded messages returns permits for them.
    """
    unspent: int = 0
    """Permits of the FLOWs since the last MESSAGE, included in the balance. If the consumer is blocked on unacked
    messages, the broker has parked them and adds them when the block ends.
    """
    points: list[tuple[int, int, int]] = field(default_factory=list)
    """Balance over time for a chart: (time ns, frame, balance), thinned out evenly to at most 512 points."""
    stride: int = 1
    """Number of balance changes per point."""
    changes: int = 0
    """Number of balance changes."""


@dataclass(slots=True, eq=False)
class ConsumerRecord:
    """A consumer of a subscription."""

    topic: str
    subscription_name: str
    name: str
    """The name in SUBSCRIBE. It is empty if SUBSCRIBE has none, because brokers do not name consumers."""
    type: str
    """The subscription type: Exclusive, Shared, Failover or Key_Shared; empty if unknown."""
    subscription: SubscriptionRecord | None
    system: bool = False
    priority: int = 0
    durable: bool = True
    """Whether the subscription is durable. Subscriptions of readers are not durable."""
    start_id: tuple[int, int] | None = None
    """start_message_id of the last SUBSCRIBE. It applies to a new non-durable subscription; -1:-1 means earliest."""
    initial_position: str = ""
    """Latest or Earliest: the position at which a new subscription starts."""
    connections: list[tuple[int, int]] = field(default_factory=list)
    """The first frame and the connection of the last sessions, at most MAX_SESSIONS."""
    rollback_seconds: int = 0
    """start_message_rollback_duration_sec."""
    read_compacted: bool = False
    key_ranges: tuple[tuple[int, int], ...] = ()
    """Ranges of a STICKY consumer, inclusive."""
    allow_out_of_order: bool = False
    session: Session | None = None
    """The current or last session."""
    sessions: int = 0
    first_ns: int = 0
    last_ns: int = 0
    ends: dict[str, Occurrences] = field(default_factory=dict)
    """Ends of sessions, by key of ENDS."""
    double_subscribe: Occurrences = field(default_factory=Occurrences)
    """SUBSCRIBEs with the id of a consumer that is open on the same connection."""
    refused: dict[str, Occurrences] = field(default_factory=dict)
    """SUBSCRIBEs answered with an error, by ServerError; the sample is the message."""
    permits: PermitLedger = field(default_factory=PermitLedger)
    active: bool | None = None
    """Value of the last ACTIVE_CONSUMER_CHANGE; None if there was none."""
    active_frame: int = 0
    active_ns: int = -1
    unacked: int = 0
    """Number of unacknowledged messages of the consumer (Shared, Key_Shared): unackedMessages in the broker's
    statistics."""
    blocked: StateDuration = field(default_factory=StateDuration)
    """Periods in which unacked messages seem to block the consumer: their number has reached the highest number at
    which deliveries stopped before, or the limit in the settings. See dispatch_stalls.py.
    """
    blocked_at: int = 0
    """Number of unacked messages at the start of the block; 0 if there was none."""
    silent: StateDuration = field(default_factory=StateDuration)
    """Periods in which the consumer has permits, is not blocked, and receives none of the available entries."""
    behind_transaction: StateDuration = field(default_factory=StateDuration)
    """Periods in which the consumer has permits, but the entries for it follow the first message of an open
    transaction; the first frame is the receipt of such an entry."""
    transaction: str = ""
    """The transaction of the last of these periods: ``0:3``."""
    received: int = 0
    """msgOutCounter of the current session: messages, including all messages in a batch."""
    received_entries: int = 0
    bytes_out: int = 0
    last_message_ns: int = -1
    last_message_frame: int = 0
    acked: int = 0
    """Messages acknowledged by frames of this consumer."""
    last_ack_ns: int = -1
    last_ack_frame: int = 0
    acks_unanswered: Occurrences = field(default_factory=Occurrences)
    """ACKs with a request id but without an ACK_RESPONSE at the end of the consumer, its connection or the capture."""
    acks_failed: dict[str, Occurrences] = field(default_factory=dict)
    """ACK_RESPONSEs with an error, by error."""
    acked_but_back: dict[str, Occurrences] = field(default_factory=dict)
    """Messages redelivered after an ACK that covers them, by cause of the redelivery (a key of AGAIN), except after
    cursor resets."""
    validation: dict[str, Occurrences] = field(default_factory=dict)
    """Messages that the consumer discarded, by the validation_error of their ACKs (ChecksumMismatch, …)."""
    asked_again: Occurrences = field(default_factory=Occurrences)
    """REDELIVERs with ids; the count is the number of ids."""
    asked_all: Occurrences = field(default_factory=Occurrences)
    """REDELIVERs without ids."""
    asked_all_ages: list[int] = field(default_factory=list)
    """Age in ns of the youngest message that the consumer held at such a REDELIVER; at most 64."""
    hold_ages: list[int] = field(default_factory=list)
    """Ages in ns of first deliveries when a REDELIVER contained their ids; at most 64."""
    ack_ages: Occurrences = field(default_factory=Occurrences)
    """Acknowledged entries; `ack_age_max_ns` is the longest time from MESSAGE to ACK."""
    ack_age_max_ns: int = 0
    ack_age_total_ns: int = 0
    acked_twice: Occurrences = field(default_factory=Occurrences)
    """Entries redelivered after an ack timeout and then acknowledged once for each of the two deliveries."""
    never_acked: Occurrences = field(default_factory=Occurrences)
    """Messages that were unacknowledged at the end of the last session or of the capture, in the order of delivery.
    This is not a sum over sessions. The sample is the id of the oldest message.
    """
    never_acked_oldest_ns: int = 0
    """Delivery time of the oldest of these messages."""
    never_acked_requested_ns: int = 0
    """If the consumer had requested all of these messages before: the minimum age at these requests; otherwise 0."""
    whole_batches_again: Occurrences = field(default_factory=Occurrences)
    """Batches redelivered in full after a REDELIVER with their id: see the rule whole-batches-again."""
    index_acks: dict[tuple[int, int], IndexAcks] = field(default_factory=dict)
    """Batches, by ledger and entry, of which the consumer acknowledges the messages one by one without ack sets."""
    acked_with_batch: Occurrences = field(default_factory=Occurrences)
    """Messages that were never acknowledged themselves, but whose batch an ACK of another message has acknowledged. The
    frames are that ACK and the last request for redelivery of the batch (see index_acks.py)."""
    asked_with_batch: Occurrences = field(default_factory=Occurrences)
    """Batches of these messages whose redelivery the consumer has requested, without effect."""
    ack_sets: bool = False
    """Whether an ACK or a MESSAGE had an ack set: batch index acknowledgements are enabled."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class ProducerRecord:
    """A producer of a topic."""

    topic: str
    name: str
    """The requested name, or the name that the broker assigned."""
    topic_record: TopicRecord | None
    system: bool = False
    access_mode: str = ""
    session: Session | None = None
    sessions: int = 0
    first_ns: int = 0
    last_ns: int = 0
    ends: dict[str, Occurrences] = field(default_factory=dict)
    """Ends of sessions, by key of ENDS."""
    refused: dict[str, Occurrences] = field(default_factory=dict)
    """PRODUCERs answered with an error, by ServerError."""
    waiting: StateDuration = field(default_factory=StateDuration)
    """Periods from a PRODUCER_SUCCESS with producer_ready = false to the next PRODUCER_SUCCESS with true
    (WaitForExclusive)."""
    sent: int = 0
    """Messages, including all messages in a batch; a chunked message is counted at its last chunk."""
    sent_entries: int = 0
    """SEND frames, including resends and chunks."""
    receipts: int = 0
    open_sends: int = 0
    """SENDs of the current session without a response."""
    oldest_open_ns: int = -1
    oldest_open_frame: int = 0
    no_receipt: StateDuration = field(default_factory=StateDuration)
    """Periods of a second or longer with open SENDs and no receipt. They start at the oldest open SEND or at the last
    receipt, whichever is later.
    """
    unreceipted: Occurrences = field(default_factory=Occurrences)
    """SENDs without a response at the end of their connection or producer."""
    lost: Occurrences = field(default_factory=Occurrences)
    """Number of these SENDs that were never resent, according to the capture. See producer_registry.py."""
    heard_ns: int = -1
    """Time of the broker's last frame of any type on the connection of the current session; -1 if none."""
    heard_frame: int = 0
    send_errors: dict[str, Occurrences] = field(default_factory=dict)
    """SEND_ERRORs by ServerError; the sample is the message."""
    out_of_order: Occurrences = field(default_factory=Occurrences)
    """Receipts that preceded the receipt of an earlier SEND in the session."""
    skipped: Occurrences = field(default_factory=Occurrences)
    """SENDs without a response at the end of their session although a later SEND has a receipt, with the frame of that
    receipt."""
    unexpected: Occurrences = field(default_factory=Occurrences)
    """Receipts for a sequence id without an open SEND."""
    gaps: Occurrences = field(default_factory=Occurrences)
    """SENDs whose sequence id does not directly follow the highest id so far. For a batch, the highest id in the batch
    is used."""
    ids_vague: bool = False
    """Whether batches have no highest sequence id: see sequence_ids.py."""
    backwards: Occurrences = field(default_factory=Occurrences)
    """SENDs whose sequence id is not above the highest id, except resends after a reconnect, and chunks."""
    resent: Occurrences = field(default_factory=Occurrences)
    """SENDs of ids that an earlier session sent, or that this session sent without a receipt."""
    resent_blind: Occurrences = field(default_factory=Occurrences)
    """Resent messages whose first SEND has no response. They may nevertheless have been stored."""
    resent_with_receipt: Occurrences = field(default_factory=Occurrences)
    """Resends whose first SEND has a receipt: the client did not receive the receipt, or sends messages twice."""
    resends_refused: Occurrences = field(default_factory=Occurrences)
    """Messages of identical resends with the receipt -1:-1, which deduplication is intended to drop."""
    reuses_refused: Occurrences = field(default_factory=Occurrences)
    """New messages with used ids and the receipt -1:-1."""
    duplicates_stored: Occurrences = field(default_factory=Occurrences)
    """Messages of resends that were stored with a second id: the topic contains them twice."""
    duplicates_delivered: Occurrences = field(default_factory=Occurrences)
    """Messages in `resent_blind` whose first copy was delivered: the topic contains them twice. The frames are those of
    the delivery and of the receipt for the resend; the sample contains both ids. See unreceipted_entries.py."""
    restart_duplicates: Occurrences = field(default_factory=Occurrences)
    """Stored messages with the content of messages that an earlier producer stored before it lost its connection. The
    frames are those of both SENDs; the sample contains both ids. See repeated_contents.py."""
    restart_duplicates_blind: Occurrences = field(default_factory=Occurrences)
    """Such messages whose first SEND has no response; the sample is the id of the second entry."""
    restart_of: str = ""
    """Name of the earlier producer; empty if there is none."""
    restart_end: tuple[str, int] = ("", 0)
    """How the session of the earlier producer ended: a key of ENDS, and its last frame."""
    on_segment: bool = False
    """Whether it is a producer of a V5 client although its topic is unknown: an entry has an entry hash, which a client
    omits if the segment has one entry bucket, or the name is that of a producer on a segment."""
    sent_on_child: Occurrences = field(default_factory=Occurrences)
    """Messages without a receipt that the client sent again to another segment after this segment was sealed. The
    frames are those of both SENDs. See segment_resends.py."""
    stored_on_child: Occurrences = field(default_factory=Occurrences)
    """Such messages whose first SEND was stored: the scalable topic contains them twice."""
    chunks_resent: Occurrences = field(default_factory=Occurrences)
    """Chunks (uuid, chunk_id) that were sent more than once."""
    clock_skew_ms: tuple[int, int, int] = (0, 0, 0)
    """Minimum, maximum and last difference between the capture's time of SEND and publish_time, in ms, without resends.
    """
    skewed: Occurrences = field(default_factory=Occurrences)
    """SENDs whose publish_time is later than the capture's time, or more than ten seconds earlier."""
    doubts: set[str] = field(default_factory=set)
