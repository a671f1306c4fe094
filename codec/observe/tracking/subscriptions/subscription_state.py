"""Internal state of a subscription besides its record: attached consumers, acknowledged positions, and pending acks.

Rules of this file
1. The state follows the broker's cursor (ManagedCursorImpl): all entries up to `mark_delete` and the later positions in
   `acked` are acknowledged. `mark_delete` is None until a frame shows the cursor's position.
2. `pending_acks` contains the entries that were delivered and not acknowledged, by position, for all consumers. If the
   broker takes a delivery back (its consumer left, or the cursor was rewound), the entry remains with `held` 0 until it
   is redelivered.
3. A topic contains its subscriptions and a subscription refers to its topic, as in the broker. The types that refer to
   each other (here, topic_state, key_order, ack_effects, redelivery) are imported for annotations only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
    from pcli.codec.observe.tracking.records.lifecycle import Delivery
    from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord
    from pcli.codec.observe.tracking.subscriptions.ack_effects import TransactionAck
    from pcli.codec.observe.tracking.subscriptions.key_order import KeyOrder
    from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState

INDIVIDUAL: Final = frozenset({"Shared", "Key_Shared"})
"""Subscription types with individual acks and a count of unacked messages (Subscription.isIndividualAckMode)."""

MAX_ACKED: Final = 200_000
"""Maximum number of acknowledged positions after the mark-delete position, per subscription."""

MAX_DONE: Final = 2_000
"""Minimum number of acknowledged entries whose ACKs are kept, to recognize a redelivery after the ACK."""


_MAX_REVISABLE: Final = 10_000
"""Maximum number of redeliveries that are kept to correct their causes later."""

MAX_ENDS: Final = 256
"""Maximum number of ends of sessions that are kept, to find the cause of a redelivery after the ACK."""


@dataclass(slots=True, eq=False, repr=False)
class AttachedConsumer:
    """A consumer on one connection."""

    record: ConsumerRecord
    subscription: SubscriptionState
    stream: int
    id: int
    ended: bool = False
    """Whether the consumer is closed."""
    ready: bool = False
    """Whether the consumer is attached, according to the capture."""
    least_timeout: int = 0
    """Minimum ack timeout of the consumer's client library, in ns."""
    timeouts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Minimum and maximum age of messages at possible ack timeouts of the consumer, by redelivery count."""
    timeouts_since_taken: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The same from the time at which a sequential application has taken the message."""
    acks_each_message: bool = False
    """Whether the client sends one ACK for each message of a batch, without its index."""
    acked_frame: int = 0
    """The latest delivery to the consumer that was acknowledged."""
    expired: list[Delivery] = field(default_factory=list)
    """Deliveries in the last REDELIVER, if an ack timeout may be its cause."""
    epoch: tuple[int, int] = (-1, 0)
    """The highest consumer epoch in a REDELIVER, and the frame. The broker sent messages with a lower epoch before
    it received this REDELIVER, and sends them again.
    """
    able_entries_out: int = 0
    """Number of entries delivered by the subscription at the last delivery to this consumer. If it then had no
    permits: the maximum number that the broker sent before it received the FLOW.
    """


@dataclass(slots=True, eq=False, repr=False)
class SubscriptionState:
    """State of a subscription."""

    topic: TopicState
    record: SubscriptionRecord
    individual: bool = field(init=False)
    """Whether messages are acknowledged individually and unacked messages are counted."""
    attached: list[AttachedConsumer] = field(default_factory=list)
    """Attached consumers."""
    attached_frame: int = 0
    """The frame since which consumers are attached without interruption: the cursor was not reset."""
    unidentified: bool = False
    """Whether the SUBSCRIBE is missing. If it is, the tracker has assigned the name of the subscription."""
    resumed: bool = False
    """Whether a consumer subscribed again that had subscribed before the capture."""
    opened: bool = False
    """Whether a SUBSCRIBE succeeded; before that the subscription may not exist."""
    since_ns: int = -1
    """Time at which the subscription's first consumer attached."""
    known_ns: int = -1
    """The response after which every stored entry is after the cursor: to the first SUBSCRIBE, or to a SEEK."""
    first_certain: Position | None = None
    """The first entry whose SEND follows `known_ns`, while the position of the cursor is unknown."""
    mark_delete: Position | None = None
    acked: set[Position] = field(default_factory=set)
    ack_frames: dict[Position, int] = field(default_factory=dict)
    """Frames of the last acknowledgements of whole entries; at least MAX_DONE are kept."""
    pending_acks: dict[Position, Delivery] = field(default_factory=dict)
    newest: Position = (-1, -1)
    """The entry that was last added to `pending_acks`."""
    sorted: bool = True
    """Whether `pending_acks` is known to be in the order of positions."""
    ack_sets: dict[Position, int] = field(default_factory=dict)
    """Unacknowledged messages of partly acknowledged batches, as bits, according to the cursor."""
    sought: bool = False
    """Whether the cursor was reset by a SEEK or by an administrator. This removes the ack sets of the cursor, so
    that `ack_sets` contains all of them."""
    pending_sets: dict[Position, int] = field(default_factory=dict)
    """Messages of batches that are neither acknowledged nor pending in a transaction, as bits, if the cursor has a
    different ack set: on Shared and Key_Shared subscriptions of topics with transactions, the broker also records
    acknowledgements in PendingAckHandle."""
    read_position: Position = (-1, -1)
    """The last position that the dispatcher has read."""
    last_ns: int = -1
    """Time of the last delivery, or the later time from which the next delivery was possible."""
    returned_ns: int = -1
    """Time at which a delivery was last taken back."""
    reset: tuple[int, str, int] = (0, "", 0)
    """Frame of the last cursor reset, its cause (a key of topic_records.AGAIN), and the frame that caused it."""
    session_ends: deque[tuple[ConsumerRecord, str, int]] = field(default_factory=lambda: deque(maxlen=MAX_ENDS))
    """Ends of sessions: the consumer, the reason (a key of topic_records.AGAIN), and the frame."""
    revisable: deque[tuple[ConsumerRecord, str, Delivery, int]] = field(
        default_factory=lambda: deque(maxlen=_MAX_REVISABLE)
    )
    """Redeliveries whose cause a later frame can disprove: the consumer that held the entry, the entry, the
    redelivery, its messages."""
    ambiguous_acks: bool = False
    """Whether an ACK of an attached consumer contained several ack sets of the same batch: the broker's count then
    depends on its threads.
    """
    had_consumer: bool = False
    """Whether the subscription has had a consumer since the last load of the topic. If not, it has no type in the
    broker."""
    lowest: Position = (1 << 62, 0)
    highest: Position = (-1, -1)
    """Entries between `lowest` and `highest` were delivered or skipped before the last reset."""
    open_seeks: dict[int, tuple[Position, int] | None] = field(default_factory=dict)
    """SEEKs without a response: frame to position and ack set of the batch (-1 for all), or None for a SEEK by
    time."""
    transaction_acks: dict[tuple[int, int], list[TransactionAck]] = field(default_factory=dict)
    """Acknowledgements in open transactions."""
    aborting: dict[tuple[int, int], int] = field(default_factory=dict)
    """Open transactions whose abort was requested, with the frame of the request."""
    selective: bool = False
    """Whether the subscription skips entries without acknowledging them: it reads only some keys, or a compacted
    topic."""
    rewound_from: Position = (-1, -1)
    """Entries up to this position were acknowledged before the cursor moved back."""
    current_second: tuple[int, int] = (0, 0)
    """The current second of the capture, and the number of redeliveries in it."""
    possibly_evicted: Position = (-1, -1)
    """Lifecycles up to this position may have left memory before the subscription existed, so an unknown entry in
    this range is not a marker.
    """
    rewound: bool = False
    """Whether reading restarts at the mark-delete position, so that the oldest unacknowledged entry is next."""
    starts_at_next: bool = False
    """Whether the subscription begins with the next stored entry."""
    base: int = 0
    snapshot: int = 0
    """`delivered` at the last load of the topic, and at the last close by the broker."""
    keys: KeyOrder | None = None

    def __post_init__(self) -> None:
        self.individual = self.record.type in INDIVIDUAL

    @property
    def in_order(self) -> bool:
        """Return whether the first deliveries of entries, except delayed entries, are in order."""
        return self.record.type != "Key_Shared" or (len(self.attached) < 2 and self.record.key_shared_mode != "STICKY")

    def is_acked(self, at: Position) -> bool:
        """Return whether the entry is acknowledged; False if the mark-delete position is unknown."""
        return (self.mark_delete is not None and at <= self.mark_delete) or at in self.acked

    def ack(self, at: Position) -> None:
        """Acknowledge a whole entry."""
        if self.ack_sets:
            self.ack_sets.pop(at, None)
        mark, acked = self.mark_delete, self.acked
        if mark is not None:
            if at <= mark:
                return
            if at[1] - mark[1] == 1 and at[0] == mark[0] and not acked:
                self.mark_delete = at
                return
        acked.add(at)
        if (mark is not None and at[1] - mark[1] <= 1) or len(acked) > MAX_ACKED:
            self.advance()

    def skips(self, at: Position) -> bool:
        """Return whether the dispatcher acknowledges the entry without delivery: a marker, or an aborted message.

        An unknown entry is treated as a marker, unless the subscription is selective.
        """
        topic = self.topic
        return (
            at in topic.aborted
            or at in topic.markers
            or (at > self.possibly_evicted and at not in topic.lifecycles and not self.selective)
        )

    def ahead(self, before: Position) -> Iterable[Position]:
        """Return the positions from the read or mark-delete position up to another position, both excluded.

        Return no positions if there are too many for `TopicState.budget`. The state of these entries is then unknown.
        """
        start = (
            self.read_position
            if self.mark_delete is None or self.read_position > self.mark_delete
            else self.mark_delete
        )
        if not self.topic.budget.take(self.topic.count(start, before)):
            self.record.doubts.add("evicted")
            return ()
        return self.topic.between(start, before)

    def note_done(self, at: Position, frame: int) -> None:
        """Record the frame of an acknowledgement."""
        done = self.ack_frames
        done[at] = frame
        if len(done) > 2 * MAX_DONE:  # all at once: finding the first key of a dict is slow after many deletions
            self.ack_frames = dict(islice(done.items(), MAX_DONE, None))

    def advance(self) -> None:
        """Advance the mark-delete position past acknowledged entries."""
        mark, acked = self.mark_delete, self.acked
        if mark is None or not acked:
            return
        while acked and ((at := (mark[0], mark[1] + 1)) in acked or (at := self.topic.following(mark) or at) in acked):
            acked.remove(at)
            mark = at
        self.mark_delete = mark
        if len(acked) > MAX_ACKED:
            # Later counts would be wrong.
            self.acked.clear()
            self.record.doubts.add("evicted")

    def move(self, to: Position) -> None:
        """Acknowledge all entries up to a position."""
        if self.mark_delete is None or to > self.mark_delete:
            self.mark_delete = to
            if self.acked:
                self.acked = {at for at in self.acked if at > to}
            if self.ack_sets:
                self.ack_sets = {at: bits for at, bits in self.ack_sets.items() if at > to}
            self.advance()

    @property
    def after(self) -> Position | None:
        """Return a position that is not before the cursor; no entry after it was ever acknowledged outside the capture.

        It is the mark-delete position or, if that is unknown, the position before `first_certain`.
        """
        first = self.first_certain
        return self.mark_delete or (None if first is None else (first[0], first[1] - 1))

    def stored(self, at: Position, sent_ns: int) -> None:
        """Record an entry with a receipt; ``sent_ns`` is the time of its SEND, or -1."""
        if self.mark_delete is None and self.first_certain is None and sent_ns > self.known_ns >= 0:
            self.first_certain = at
            if self.starts_at_next:
                self.starts_at_next = False
                self.mark_delete = self.read_position = (at[0], at[1] - 1)

    def reset_to(self, mark: Position | None, time_ns: int) -> None:
        """Set the cursor: no entry after the position is acknowledged. ``time_ns`` is that of the response."""
        self.mark_delete = mark
        self.first_certain, self.known_ns = None, time_ns
        self.possibly_evicted = self.topic.last
        self.acked.clear()
        self.ack_sets.clear()
        self.read_position = (-1, -1) if mark is None else mark
